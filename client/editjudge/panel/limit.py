"""How many calls a server gets at once."""

from __future__ import annotations


class AdaptiveLimit:
    """Finds how many calls a server takes at once, and counts those in flight.

    The limit doubles per round of calls that were answered, and after the first overload grows
    by one per round; it grows only while all of it is used. Overload halves it, once per
    episode: calls that began before the cut do not cut again.

    It has no clock: callers give the times, in seconds.

    Args:
        most: The limit's upper bound; the lower bound is 1.
        start: The limit at first.

    Attributes:
        size: The limit now, in calls.
        in_flight: Calls that have begun and not ended.
    """

    def __init__(self, most: int, start: int) -> None:
        self.size = min(start, most)
        self.in_flight = 0
        self._most = most
        self._doubling = True
        self._answered_in_round = 0
        self._cut = self._full = float("-inf")
        self._busy = self._counted = 0.0

    @property
    def free(self) -> bool:
        """Whether one more call fits in."""
        return self.in_flight < self.size

    def begin(self, now: float) -> None:
        """Count a call that begins."""
        self._count(now, +1)

    def end(self, now: float) -> None:
        """Count a call that ends."""
        self._count(now, -1)

    def busy_seconds(self, now: float) -> float:
        """Seconds of all calls together until now."""
        self._count(now, 0)
        return self._busy

    def answered(self, began: float) -> None:
        """Grow after an answer, if the call began in a full house and after the latest cut.

        Call it before the call's `end`.
        """
        if not self._cut <= began <= self._full:
            return
        self._answered_in_round += 1
        if self._doubling or self._answered_in_round >= self.size:
            self._answered_in_round = 0
            self.size = min(self.size + 1, self._most)

    def overloaded(self, began: float, now: float) -> None:
        """Halve the limit, unless the call began before the latest cut."""
        self._doubling = False
        if began >= self._cut:
            self._cut = now
            self._answered_in_round = 0
            self.size = max(1, self.size // 2)

    def _count(self, now: float, change: int) -> None:
        self._busy += self.in_flight * (now - self._counted)
        self._counted = now
        if self.in_flight + max(change, 0) >= self.size:
            self._full = now
        self.in_flight += change
