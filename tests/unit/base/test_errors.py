"""How a missing extra is installed: from where this copy came."""

from __future__ import annotations

import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest

from editjudge.base import errors
from editjudge.base.errors import MissingExtra

ORIGINS = tomllib.loads(Path(__file__).with_name("origins.toml").read_text("utf-8"))


@pytest.mark.parametrize("origin", ORIGINS)
def test_an_extra_is_installed_from_where_the_package_came(origin: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stored = ORIGINS[origin].get("stored")
    found = SimpleNamespace(read_text=lambda _: stored)
    monkeypatch.setattr(errors, "distribution", lambda _: found)
    assert MissingExtra("the demo set", "demo").fix == f"run: {ORIGINS[origin]['command']}"
