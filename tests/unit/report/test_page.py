"""The page as HTML: what it may do, and that what comes from elsewhere stays text."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from editjudge.report.page import Mode, build_security_policy, dump_script_json, render_page

ANY_TEXT = st.text(st.characters(), max_size=40)  # lone surrogates too
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | ANY_TEXT,
    lambda some: st.lists(some, max_size=3) | st.dictionaries(ANY_TEXT, some, max_size=3),
    max_leaves=8,
)
REPORT: dict[str, Any] = {
    "title": "</title><script>alert(1)</script>",
    "warnings": ["<img src=x onerror=alert(1)>"],
    "tables": [],
    "models": [],
}


class Elements(HTMLParser):
    """The scripts and styles of a page with what they hold, and all attributes."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.held: list[tuple[str, dict[str, str | None], str]] = []
        self.attributes: list[tuple[str, str, str | None]] = []
        self._open: tuple[str, dict[str, str | None]] | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += [(tag, name, value) for name, value in attrs]
        if tag in {"script", "style"}:
            self._open = tag, dict(attrs)
            self.held.append((*self._open, ""))

    def handle_data(self, data: str) -> None:
        if self._open:
            self.held[-1] = (*self._open, self.held[-1][2] + data)

    def handle_endtag(self, tag: str) -> None:
        if self._open and tag == self._open[0]:
            self._open = None


def elements(html: str) -> Elements:
    parsed = Elements()
    parsed.feed(html)
    return parsed


@given(ANY_JSON)
def test_json_in_a_script_is_the_same_json(value: Any) -> None:
    text = dump_script_json(value)
    assert not set(text) & set("<>&\u2028\u2029")
    text.encode("utf-8")
    assert json.loads(text) == value


def test_what_is_no_number_in_json_is_told_in_words() -> None:
    told = json.loads(dump_script_json({"a": [float("nan"), float("-inf")]}))
    assert told == {"a": ["NaN", "-Infinity"]}


@pytest.mark.parametrize("mode", ["file", "folder"])
def test_a_page_may_run_its_own_script_alone(mode: Mode) -> None:
    html = render_page(REPORT, {"items": {}}, mode=mode)
    policy = build_security_policy(mode)
    held = {tag: text for tag, has, text in elements(html).held if "type" not in has}
    assert [*held] == ["style", "script"]
    assert len(re.findall(r"<style|<script>", html)) == 2, "what is hashed is one of each"
    for tag, text in held.items():
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    assert "unsafe" not in policy
    assert policy.startswith("default-src 'none'; ")
    assert 'http-equiv="Content-Security-Policy" content="' in html


def test_a_page_loads_nothing_and_has_no_handlers() -> None:
    pictures = {"0f": "data:image/webp;base64,AA=="}
    html = render_page(REPORT, {"items": {}}, {"detail-0": {}}, pictures)
    for tag, name, value in elements(html).attributes:
        assert not name.startswith("on"), (tag, name)
        assert name != "style", tag
        if name in {"src", "href"}:
            assert (value or "").startswith(("#", "data:")), (tag, value)


def test_what_comes_from_elsewhere_stays_text() -> None:
    nasty = "</script><!--<script>alert(1)//"
    details = {"detail-0": {"texts": [nasty]}}
    html = render_page(REPORT, {"items": {"instruction": [nasty]}}, details)
    assert nasty not in html
    assert "<img src=x" not in html
    kinds = [has.get("type") for tag, has, _ in elements(html).held if tag == "script"]
    assert kinds == ["application/json"] * 3 + [None]
    (edits,) = [t for _, a, t in elements(html).held if a.get("id") == "data-edits"]
    assert json.loads(edits)["items"]["instruction"] == [nasty]
