"""Which items belong together."""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Iterable, Mapping


class Linking:
    """Numbers items so that those which share any part, directly or through others, are alike.

    An item takes four bytes, and so does each part that came before; items come in order.
    """

    def __init__(self) -> None:
        self._above = array("I")
        self._first: dict[Hashable, int] = {}

    def add(self, parts: Iterable[Hashable]) -> None:
        """Add an item; one without any part is alike to none."""
        number = len(self._above)
        self._above.append(number)
        for part in parts:
            other = self._top(self._first.setdefault(part, number))
            own = self._top(number)
            self._above[max(own, other)] = min(own, other)

    def clusters(self) -> array[int]:
        """The number of each item's cluster, from 0 in order of first appearance."""
        numbers: dict[int, int] = {}
        tops = map(self._top, range(len(self._above)))
        return array("I", (numbers.setdefault(top, len(numbers)) for top in tops))

    def _top(self, number: int) -> int:
        above = self._above
        while (upper := above[number]) != number:
            above[number] = above[upper]
            number = upper
        return number


def linked(parts: Mapping[str, Iterable[Hashable]]) -> dict[str, int]:
    """Number items so that those which share any part, directly or through others, are alike.

    Args:
        parts: What each item is made of; one without any is alike to none.

    Returns:
        By item, the number of its cluster.
    """
    linking = Linking()
    for of in parts.values():
        linking.add(of)
    return dict(zip(parts, linking.clusters(), strict=True))
