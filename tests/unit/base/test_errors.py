"""How a missing extra is installed: from where this copy came."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from editjudge.base import errors
from editjudge.base.errors import MissingExtra

ORIGINS = {
    "an index": (None, 'pip install "editjudge[demo]"'),
    "a checkout": (
        '{"url": "file:///my%20work/here", "dir_info": {"editable": true}}',
        'pip install -e "/my work/here[demo]"',
    ),
    "a folder": (
        '{"url": "file:///work/here", "dir_info": {}}',
        'pip install "editjudge[demo] @ file:///work/here"',
    ),
    "a wheel": (
        '{"url": "file:///w/editjudge-1-py3-none-any.whl", "archive_info": {"hash": "sha256=0"}}',
        'pip install "editjudge[demo] @ file:///w/editjudge-1-py3-none-any.whl"',
    ),
    "a repository": (
        '{"url": "https://h/e.git", "vcs_info": {"vcs": "git", "commit_id": "0"}}',
        'pip install "editjudge[demo] @ git+https://h/e.git"',
    ),
}


@pytest.mark.parametrize("origin", ORIGINS)
def test_an_extra_is_installed_from_where_the_package_came(
    origin: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, command = ORIGINS[origin]
    monkeypatch.setattr(errors, "distribution", lambda _: SimpleNamespace(read_text=lambda _: text))
    assert MissingExtra("the demo set", "demo").fix == f"run: {command}"
