"""Items that share a part belong together, directly or through others."""

from __future__ import annotations

from editjudge.stats.clusters import link_clusters


def test_items_that_share_any_part_are_one_cluster() -> None:
    numbers = link_clusters(["12", "34", "23", "5", "5", "", ""])
    together: dict[int, list[str]] = {}
    for item, number in zip("abcdefg", numbers, strict=True):
        together.setdefault(number, []).append(item)
    assert sorted(together.values()) == [["a", "b", "c"], ["d", "e"], ["f"], ["g"]]


def test_nothing_of_nothing() -> None:
    assert not link_clusters([])
