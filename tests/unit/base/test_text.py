"""Counts in sentences."""

from __future__ import annotations

import pytest

from editjudge.base.text import format_count, shorten_list


def test_one_is_not_several() -> None:
    counts = [format_count(n, "item") for n in (0, 1, 2, 1200)]
    assert counts == ["0 items", "1 item", "2 items", "1,200 items"]
    assert format_count(1, "entry is", "entries are") == "1 entry is"
    assert format_count(3, "entry is", "entries are") == "3 entries are"


@pytest.mark.parametrize(
    ("count", "text"), [(0, ""), (1, "0"), (3, "0, 1, 2"), (4, "0, 1, 2 and 1 more"), (1003, "0, 1, 2 and 1,000 more")]
)
def test_the_first_of_some_names(count: int, text: str) -> None:
    assert shorten_list([str(number) for number in range(count)]) == text
