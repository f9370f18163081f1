"""The order in which the work of several teams gets places: by the time that each has used."""

from collections import OrderedDict
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")

TEAM: ContextVar[str] = ContextVar("team", default="")
"""The team on whose behalf the current task or thread works; the Judge service sets it, and in a
process of one team it is empty."""
_WEIGHT = 0.25
"""The part that the last turn has in the mean of a team's turns."""


@dataclass(frozen=True, eq=False, slots=True)
class Turn:
    """One place in use, from `FairQueue.begin` to `FairQueue.end`."""

    team: str
    began: float
    charge: float


class _Account(Generic[T]):
    """What one team has used, and what of it waits.

    Attributes:
        mean: Seconds that its turns take. A turn is charged with it from its beginning, so that
            turns that begin together are not all free.
        seconds: For how long it has had places, all of them added up; turns that have ended alone.
        turns: Those that have not.
        began: The sum of the moments at which these began.
        row: Its items that wait.
    """

    def __init__(self, mean: float) -> None:
        self.mean = mean
        self.seconds = 0.0
        self.turns: set[Turn] = set()
        self.began = 0.0
        self.row: OrderedDict[T, None] = OrderedDict()

    def sum(self, now: float) -> float:
        """Its seconds, with what turns that have not ended took so far, or are expected to take if that is more."""
        return self.seconds + sum(max(now - turn.began, turn.charge) for turn in self.turns)

    def sum_until(self, now: float) -> float:
        """Its seconds, with what turns that have not ended took so far."""
        return self.seconds + len(self.turns) * now - self.began


class FairQueue(Generic[T]):
    """A queue for equal places, such as calls at a server, at which teams take turns.

    Start-time fair queueing (Goyal, Vin, Cheng 1997) for places that cannot be taken back: each
    team has an account of the seconds for which it has had places, and the next place goes to the
    waiting team with the least. Teams that always wait thus get equal parts of the places' time,
    whatever a turn takes, and how many wait in a team's row makes no difference. Within a team the
    order is that of arrival, and a team alone has an ordinary queue.

    A team that begins to wait has at least as much on its account as the one whose turn began last had used by then,
    so time in which it asked for nothing is no credit, and leaving saves no debt. What turns are expected to take does
    not count there: they may end sooner.

    Not safe for threads. It counts places and does not bound them.

    Args:
        now: A clock, in seconds.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._accounts: dict[str, _Account[T]] = {}
        self._level = 0.0
        self._mean = 0.0

    def __len__(self) -> int:
        return sum(len(account.row) for account in self._accounts.values())

    def push(self, team: str, item: T) -> None:
        """Add an item at the end of its team's row."""
        self._raise(team).row[item] = None

    def remove(self, team: str, item: T) -> None:
        """Remove an item, if it still waits."""
        if team in self._accounts:
            self._accounts[team].row.pop(item, None)

    def pop(self, *, may_share: bool = True) -> tuple[str, T] | None:
        """Remove the item whose turn is next; gives its team too, or None where none waits.

        Args:
            may_share: Whether the turn may be that of a team which has a place now.
        """
        now = self._now()
        sums = {
            team: account.sum(now)
            for team, account in self._accounts.items()
            if account.row and (may_share or not account.turns)
        }
        if not sums:
            return None
        team = min(sums, key=sums.__getitem__)
        self._level = self._accounts[team].sum_until(now)
        return team, self._accounts[team].row.popitem(last=False)[0]

    def begin(self, team: str) -> Turn:
        """Begin a turn, of what `pop` gave or of what did not have to wait."""
        account, now = self._raise(team), self._now()
        self._level = max(self._level, account.sum_until(now))
        turn = Turn(team, now, account.mean)
        account.turns.add(turn)
        account.began += now
        return turn

    def end(self, turn: Turn) -> None:
        """End a turn, and drop accounts that `_raise` makes anew; all once nobody has a place."""
        account, length = self._accounts[turn.team], self._now() - turn.began
        account.turns.remove(turn)
        account.began = account.began - turn.began if account.turns else 0.0
        account.seconds += length
        account.mean += _WEIGHT * (length - account.mean)
        self._mean += _WEIGHT * (length - self._mean)
        busy = {team for team, each in self._accounts.items() if each.turns or each.row}
        for team in [*self._accounts.keys() - busy]:
            if not busy or self._accounts[team].seconds <= self._level:
                del self._accounts[team]

    def _raise(self, team: str) -> _Account[T]:
        """The account of a team that begins to wait: at least at the level."""
        account = self._accounts.setdefault(team, _Account(self._mean))
        # `sum` adds up all turns and is never less, so it is not needed where this is the level already.
        if not account.row and account.sum_until(now := self._now()) < self._level:
            account.seconds += max(0.0, self._level - account.sum(now))
        return account
