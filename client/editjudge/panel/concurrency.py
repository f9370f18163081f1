"""How many calls a server gets at once."""

from __future__ import annotations

_ROUND = 32
"""Answers that make the limit grow by one, or all of it where that is fewer. So overload that meets
fewer than one call in 32 (3 %) does not keep the limit down."""
_RARE = 8
"""Trouble that meets more than one call in 8 is no longer rare."""


class FailureRate:
    """Whether what goes wrong with calls is rare.

    Each trouble weighs as much as `_RARE` answers, which take its weight away again. It is rare
    while what is left of it weighs no more than two troubles do, or than the calls of a full house.
    No more than twice that is remembered, so that a long outage is soon forgotten.
    """

    def __init__(self) -> None:
        self._weight = 0

    def add_failure(self, size: int) -> None:
        """A call met it.

        Args:
            size: The limit now.
        """
        self._weight = min(self._weight + _RARE, 2 * _least_weight(size))

    def add_answer(self) -> None:
        """A call did not."""
        self._weight = max(0, self._weight - 1)

    def is_rare(self, size: int) -> bool:
        """Whether it is.

        Args:
            size: The limit now.
        """
        return self._weight <= _least_weight(size)


def _least_weight(size: int) -> int:
    """What may be left of trouble that is rare."""
    return max(2 * _RARE, size)


class AdaptiveLimit:
    """Finds how many calls a server takes at once, and counts those in flight.

    Every overload takes one place away, so that a rare one costs little, and a server that is full
    gets as many calls fewer as it had no room for: at most half of them per episode. An episode
    begins with the first overload of a call that began after the beginning of the latest one. Every
    answer gives a place back while overload is rare (see `Trouble`), every round of answers once it
    was not; it grows only while all of it is used.

    It has no clock: callers give the times, in seconds.

    Args:
        most: The limit's upper bound, and the limit at first.

    Attributes:
        size: The limit now, in calls.
        in_flight: Calls that have begun and not ended.
        met: Whether the server was found to take no more: overload was not rare.
    """

    def __init__(self, most: int) -> None:
        self.size = most
        self.in_flight = 0
        self._most = most
        self.is_saturated = False
        self._overload = FailureRate()
        self._answered_in_round = 0
        self._before = self.size
        self._places_taken = 0
        self._episode = self._full = float("-inf")
        self._busy = self._counted_until = 0.0

    @property
    def has_room(self) -> bool:
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

    def on_answer(self, began: float) -> None:
        """Grow after an answer, if the call began in a full house.

        Call it before the call's `end`.
        """
        self._overload.add_answer()
        if began > self._full:
            return
        self._answered_in_round += 1
        if not self.is_saturated or self._answered_in_round >= min(self.size, _ROUND):
            self._answered_in_round = 0
            self.size = min(self.size + 1, self._most)

    def on_overload(self, began: float, now: float) -> None:
        """Take a place away, unless half of them are gone in this episode.

        Args:
            began: When the call began.
        """
        self._overload.add_failure(self.size)
        if not self._overload.is_rare(self.size):
            self.is_saturated = True
            self._answered_in_round = 0
        if began >= self._episode:
            self._episode, self._before, self._places_taken = now, self.size, 0
        if self._places_taken >= self._before // 2:
            return
        self._places_taken += 1
        self.size = max(1, self.size - 1)

    def _count(self, now: float, change: int) -> None:
        self._busy += self.in_flight * (now - self._counted_until)
        self._counted_until = now
        if self.in_flight + max(change, 0) >= self.size:
            self._full = now
        self.in_flight += change
