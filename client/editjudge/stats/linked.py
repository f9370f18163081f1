"""Which items belong together."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping


def linked(parts: Mapping[str, Iterable[Hashable]]) -> dict[str, int]:
    """Number items so that those which share any part, directly or through others, are alike.

    Args:
        parts: What each item is made of; one without any is alike to none.

    Returns:
        By item, the number of its cluster.
    """
    above: dict[Hashable, Hashable] = {}

    def top(node: Hashable) -> Hashable:
        while (upper := above.setdefault(node, node)) != node:
            above[node] = above[upper]
            node = upper
        return node

    for item, of in parts.items():
        for part in of:
            above[top(("part", part))] = top(("item", item))
    numbers: dict[Hashable, int] = {}
    return {item: numbers.setdefault(top(("item", item)), len(numbers)) for item in parts}
