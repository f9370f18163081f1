"""The pool of a service's replicas: chooses a replica for each call and repeats lost calls."""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, NoReturn, TypeVar

from ..base.errors import (
    CostLimit,
    DeadlineExceeded,
    NoConnection,
    OutOfTime,
    Overload,
    ServiceError,
    Unreachable,
    WrongModel,
)
from .context import DEFAULT_TERMS, AnyTerms
from .replica import DEFAULT_POLICY, Place, PoolPolicy, Replica, State, take_first_free
from .retry import read_clock

E = TypeVar("E")
T = TypeVar("T")


@dataclass(slots=True)
class _Losses(Generic[E]):
    """The failures of one call since it began, or since a server that it was sent to was lost.

    Attributes:
        tried_replicas: Servers that the call did not reach.
        since: When the first such failure began to show; None before.
        late: Whether the call's time was up once.
        full: When a server first had no room for it; None before.
        refusals: How often a server had no room for it.
    """

    tried_replicas: set[Replica[E]] = field(default_factory=set)
    since: float | None = None
    late: bool = False
    full: float | None = None
    refusals: int = 0


class EndpointPool(Generic[E]):
    """The replicas of one service.

    A call goes to the replica with the lowest utilisation; equal ones take turns. A call with a
    preference goes to the first replica of an order of its own that is not much busier than the
    mean (consistent hashing with bounded load). Every place that a call takes is released, whatever
    becomes of the call, cancellation included.

    A call that did not reach its replica is made again in these cases, otherwise it fails:

    - Another replica serves that the call has not tried. If the call's time was up, only a probe
      goes to another replica.
    - The replica was lost since the call began, and the pool has patience: the call waits for it,
      until `patience` seconds after the loss.
    - The call's time was up for the first time, and the pool has patience: what it waited for may
      have been lost with its connection.
    - The replica is to blame, and the pool has patience: it has answered no call that began after
      the loss began to show.
    - The call could not even connect, for `patience` seconds since that began.

    A call for which its replica had no room is made again, with patience, at growing intervals. It
    fails `patience` seconds after its first refusal, or after the replica was full for so long
    without a success, whichever comes first.

    Args:
        replicas: Not empty; a replica may belong to several pools.
    """

    def __init__(self, replicas: Sequence[Replica[E]], policy: PoolPolicy = DEFAULT_POLICY) -> None:
        self.replicas = tuple(replicas)
        self._policy = policy
        self._turn = 0

    async def run(self, call: Callable[[E], Awaitable[T]], prefer: str = "", terms: AnyTerms = DEFAULT_TERMS) -> T:
        """Make a call at one of the replicas.

        Args:
            call: Makes the call with the replica's client.
            prefer: Calls with the same text go to the same replica, while it serves and is not much
                busier than the others, then to the same next one; empty for no preference.
            terms: Terms of the callers.

        Raises:
            ServiceError: the error of the call, or the last one if it reached no replica.
        """
        losses: _Losses[E] = _Losses()
        while True:
            place = await self._take_place(prefer, losses.tried_replicas, terms)
            replica = place.replica
            try:
                result = await call(replica.target)
            except (Unreachable, DeadlineExceeded) as error:
                if not self._release_and_decide(place, error, losses):
                    raise
                replica.retry_count += 1
            except Overload as error:
                replica.release_after_answer(place, error)
                await self._wait_for_room(replica, error, losses)
                replica.retry_count += 1
            except (asyncio.CancelledError, CostLimit, OutOfTime, WrongModel):
                # None of them says anything of the server, or needs to have asked it.
                replica.release_inconclusive(place)
                raise
            except BaseException as error:  # whatever it is, the place is given back
                failure = error if isinstance(error, ServiceError) else None
                replica.release_after_answer(place, failure)
                raise
            else:
                replica.release_after_answer(place)
                return result

    def _release_and_decide(self, place: Place[E], error: Unreachable | DeadlineExceeded, losses: _Losses[E]) -> bool:
        """Release the place, note the loss and tell whether the call is made again."""
        replica = place.replica
        out_of_time = isinstance(error, DeadlineExceeded)
        shown_since = self._find_loss_start(error, place)
        if losses.since is None:
            losses.since = shown_since
        # That nobody is there is the server's doing, whatever became of the call before.
        alone = isinstance(error, NoConnection)
        is_blamed = replica.release_after_loss(place, error, shown_since if alone else losses.since)
        hopeless = losses.late if out_of_time else not (is_blamed or self._may_wait(error, losses))
        losses.tried_replicas.add(replica)
        losses.late |= out_of_time
        # A connection that died takes its calls along, though the server may be back by now.
        was_lost = replica.state.is_lost or place.began < replica.lost_at
        if was_lost:
            losses.since, losses.late = None, False
        if replica.state is State.SHUT_DOWN:
            return False
        if self._has_another(losses.tried_replicas) and (place.is_probe or not out_of_time):
            return True
        return self._policy.patience > 0 and (was_lost or not hopeless)

    def _may_wait(self, error: ServiceError, losses: _Losses[E]) -> bool:
        """Whether a call that never connected may go on, although later calls were answered."""
        since = read_clock() if losses.since is None else losses.since
        return isinstance(error, NoConnection) and read_clock() < since + self._policy.patience

    async def _wait_for_room(self, replica: Replica[E], error: Overload, losses: _Losses[E]) -> None:
        """Wait as long as the server asks or backoff says; raise its error if patience ends."""
        now = read_clock()
        losses.full = now if losses.full is None else losses.full
        losses.refusals += 1
        backoff = self._policy.first_pause * 2.0 ** min(losses.refusals - 1, 64)
        wait = max(error.retry_after or 0.0, min(backoff, self._policy.longest_pause))
        if now + wait >= min(losses.full, replica.full_since) + self._policy.patience:
            raise error
        await asyncio.sleep(wait)

    def _has_another(self, tried_replicas: set[Replica[E]]) -> bool:
        return any(replica not in tried_replicas and not replica.state.is_lost for replica in self.replicas)

    def _find_loss_start(self, error: ServiceError, place: Place[E]) -> float:
        """When it began to show that a call does not reach its server."""
        if isinstance(error, DeadlineExceeded):
            return place.began
        return read_clock() if error.since is None else error.since

    async def _take_place(self, prefer: str, avoid: set[Replica[E]], terms: AnyTerms) -> Place[E]:
        while True:
            if any(replica.state is State.SHUT_DOWN for replica in self.replicas):
                raise Unreachable("the panel is closed", service="")
            serving = [each for each in self.replicas if each.state is State.SERVING]
            due = [r for r in self.replicas if r.state is State.DUE and r not in avoid]
            seconds = None
            if serving:
                new_replicas = [replica for replica in serving if replica not in avoid]
                candidates = due + self._sort_by_load(new_replicas or serving, prefer)
            else:
                seconds = self._patience_left()
                if seconds <= 0 and not due:
                    self._give_up()
                avoid.clear()
                candidates = list(self.replicas)
            place = await take_first_free(candidates, seconds, urgent=terms.urgent)
            if place is not None:
                return place

    def _sort_by_load(self, replicas: list[Replica[E]], prefer: str) -> list[Replica[E]]:
        """The preferred replica alone, or without a preference all, the least busy first."""
        if len(replicas) == 1:
            return replicas
        if prefer:
            mean = sum(replica.utilisation for replica in replicas) / len(replicas)
            most = max(self._policy.preference, self._policy.balance * mean)
            light = [replica for replica in replicas if replica.utilisation <= most]
            return [max(light, key=lambda replica: _affinity(replica.url, prefer))]
        self._turn += 1
        rotation = [replicas[(i + self._turn) % len(replicas)] for i in range(len(replicas))]
        return sorted(rotation, key=lambda replica: replica.utilisation)

    def _patience_left(self) -> float:
        """Seconds that calls may still wait for the replicas, which are all lost."""
        latest = max(replica.lost_at for replica in self.replicas)
        return latest + self._policy.patience - read_clock()

    def _give_up(self) -> NoReturn:
        latest = max(self.replicas, key=lambda replica: replica.lost_at)
        last = latest.last_error
        seconds = read_clock() - latest.lost_at
        raise Unreachable(
            f"{last.detail if last else 'unreachable'} (lost {seconds:.0f} s ago, not back since)",
            service=last.service if last else "",
            endpoint=latest.url,
            model=last.model if last else "",
        ) from last


def _affinity(url: str, prefer: str) -> bytes:
    """Rank of a replica for calls with a preference (rendezvous hashing).

    When a replica is lost, only the calls that preferred it move to others.
    """
    return hashlib.blake2b(f"{url}\n{prefer}".encode(), digest_size=8).digest()
