"""Items that share a part belong together, directly or through others."""

from __future__ import annotations

from editjudge.stats import linked


def test_items_that_share_any_part_are_one_cluster() -> None:
    numbers = linked({"a": "12", "b": "34", "c": "23", "d": "5", "e": "5", "f": "", "g": ""})
    together: dict[int, list[str]] = {}
    for item, number in numbers.items():
        together.setdefault(number, []).append(item)
    assert sorted(together.values()) == [["a", "b", "c"], ["d", "e"], ["f"], ["g"]]


def test_nothing_of_nothing() -> None:
    assert linked({}) == {}
