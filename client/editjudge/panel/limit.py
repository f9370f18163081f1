"""How many calls a server gets at once."""

from __future__ import annotations

_ROUND = 32
"""Answers that make the limit grow by one, or all of it where that is fewer. So overload that meets
fewer than one call in 32 (3 %) does not keep the limit down."""
_RARE = 8
"""Overload that meets more than one call in 8 in a round is no longer rare."""


class AdaptiveLimit:
    """Finds how many calls a server takes at once, and counts those in flight.

    Every answer lets it grow by one until overload is no longer rare, every round of answers from
    then on; it grows only while all of it is used. Every overload takes one place away, so that a
    rare one costs little, and a server that is full gets as many calls fewer as it had no room
    for: at most half of them per episode. An episode begins with the first overload of a call that
    began after the beginning of the latest one.

    It has no clock: callers give the times, in seconds.

    Args:
        most: The limit's upper bound.
        start: The limit at first.
        least: The limit's lower bound.

    Attributes:
        size: The limit now, in calls.
        in_flight: Calls that have begun and not ended.
    """

    def __init__(self, most: int, start: int, least: int = 1) -> None:
        self.size = min(max(start, least), most)
        self.in_flight = 0
        self._most = most
        self._least = min(least, most)
        self._doubling = True
        self._answered_in_round = self._round = self._overloaded_in_round = 0
        self._before = self.size
        self._taken = 0
        self._episode = self._full = float("-inf")
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
        """Grow after an answer, if the call began in a full house.

        Call it before the call's `end`.
        """
        self._round += 1
        if self._round >= self.size:
            self._round = self._overloaded_in_round = 0
        if began > self._full:
            return
        self._answered_in_round += 1
        if self._doubling or self._answered_in_round >= min(self.size, _ROUND):
            self._answered_in_round = 0
            self.size = min(self.size + 1, self._most)

    def overloaded(self, began: float, now: float) -> None:
        """Take a place away, unless half of them are gone in this episode.

        Args:
            began: When the call began.
        """
        self._overloaded_in_round += 1
        if self._overloaded_in_round > max(1, self.size // _RARE):
            self._doubling = False
            self._answered_in_round = 0
        if began >= self._episode:
            self._episode, self._before, self._taken = now, self.size, 0
        if self._taken >= self._before // 2:
            return
        self._taken += 1
        self.size = max(self._least, self.size - 1)

    def _count(self, now: float, change: int) -> None:
        self._busy += self.in_flight * (now - self._counted)
        self._counted = now
        if self.in_flight + max(change, 0) >= self.size:
            self._full = now
        self.in_flight += change
