"""The adaptive concurrency limit: how many calls a server gets at once."""

_ROUND = 32
"""Answers that raise the limit by one, or as many as the limit where that is fewer. So overload of
fewer than one call in 32 (3 %) does not hold the limit down."""


class AdaptiveLimit:
    """Finds how many calls a server can take at once, and counts the calls in flight.

    - Each overload lowers the limit by one. A rare overload costs little, and a full server gets as
      many calls fewer as it had no room for.
    - An episode of overload takes away at most half of the limit. It begins with the first overload
      of a call that began after the previous episode had begun.
    - The limit grows only while it is used up: every 32 answers raise it by one, or as many answers
      as the limit, if that is smaller.

    It has no clock: callers pass the time, in seconds.

    Args:
        most: Upper bound of the limit, where it starts.

    Attributes:
        size: The limit now, in calls.
        in_flight: Calls that have begun and not ended.
    """

    def __init__(self, most: int) -> None:
        self.size = most
        self.in_flight = 0
        self._most = most
        self._answered_in_round = 0
        self._before = self.size
        self._places_taken = 0
        self._episode = self._full = float("-inf")

    @property
    def has_room(self) -> bool:
        """Whether one more call may begin."""
        return self.in_flight < self.size

    def begin(self, now: float) -> None:
        """Count a call that begins."""
        self._count(now, +1)

    def end(self, now: float) -> None:
        """Count a call that ends."""
        self._count(now, -1)

    def on_answer(self, began: float) -> None:
        """Raise the limit after an answer, if the limit was used up since the call began.

        Call it before the call's `end`.

        Args:
            began: When the call began.
        """
        if began > self._full:
            return
        self._answered_in_round += 1
        if self._answered_in_round >= min(self.size, _ROUND):
            self._answered_in_round = 0
            self.size = min(self.size + 1, self._most)

    def on_overload(self, began: float, now: float) -> None:
        """Lower the limit by one, unless this episode took half of it already.

        Args:
            began: When the call began.
            now: The time now.
        """
        if began >= self._episode:
            self._episode, self._before, self._places_taken = now, self.size, 0
        if self._places_taken >= self._before // 2:
            return
        self._places_taken += 1
        self.size = max(1, self.size - 1)

    def _count(self, now: float, change: int) -> None:
        if self.in_flight + max(change, 0) >= self.size:
            self._full = now
        self.in_flight += change
