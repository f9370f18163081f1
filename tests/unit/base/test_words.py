"""Counts in sentences."""

from __future__ import annotations

from editjudge.base.words import counted


def test_one_is_not_several() -> None:
    assert [counted(n, "item") for n in (0, 1, 2, 1200)] == [
        "0 items",
        "1 item",
        "2 items",
        "1,200 items",
    ]
    assert counted(1, "entry is", "entries are") == "1 entry is"
    assert counted(3, "entry is", "entries are") == "3 entries are"
