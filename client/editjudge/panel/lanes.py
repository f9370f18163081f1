"""Calls to a service that one or several endpoints serve: which one gets them, and when."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, NoReturn, TypeVar

from ..errors import CostLimit, DeadlineExceeded, ServiceError, Unreachable, WrongModel
from .limits import AdaptiveLimit, Breaker, Gauge, Slot, first_free

E = TypeVar("E")
T = TypeVar("T")

_MUCH = 0.5
"""Of its limit: a preferred replica that is by more than this busier than another is left."""


class Lane(Generic[E]):
    """An endpoint with what regulates the calls to it.

    Args:
        url: Its address.
        target: What makes the calls.
        limit: With a breaker; its `observe` belongs into the target's `RetryPolicy`.
    """

    def __init__(self, url: str, target: E, limit: AdaptiveLimit) -> None:
        self.url = url
        self.target = target
        self.limit = limit
        self.breaker = limit.breaker = limit.breaker or Breaker()
        self.breaker.changed = limit.changed
        self.closed = False

    def close(self) -> None:
        """Let no further call begin; those that wait fail."""
        self.closed = True
        self.breaker.close()
        self.limit.send_away()

    def gauge(self) -> Gauge:
        """Its load now."""
        return self.limit.gauge()


class Lanes(Generic[E]):
    """The replicas of one service.

    A call goes to the replica with the smallest share of its limit in use, equals in turn. One
    that could not be reached is made again at another replica. Where there is none left, it
    waits for one to come back: `patience` seconds after that was lost, or not at all. With
    patience a call whose time was up is made once more: what it waited for may have been lost
    with its connection.

    Args:
        lanes: Not empty; a lane may belong to several services.
        patience: Seconds; 0 fails at once.
    """

    def __init__(self, lanes: Sequence[Lane[E]], patience: float = 0.0) -> None:
        self.lanes = tuple(lanes)
        self._patience = patience
        self._turn = 0

    @classmethod
    def of(cls, target: E, most: int) -> Lanes[E]:
        """A single endpoint."""
        url = str(getattr(target, "url", ""))
        return cls([Lane(url, target, AdaptiveLimit(most))])

    def only(self, lanes: Sequence[Lane[E]]) -> Lanes[E]:
        """Fewer of them."""
        return Lanes(lanes, self._patience)

    async def run(self, call: Callable[[E], Awaitable[T]], prefer: str = "") -> T:
        """Make a call at one of them.

        Args:
            call: Takes the endpoint's target.
            prefer: Calls with the same text go to the same replica, while it is reachable and
                not much busier than the others.

        Raises:
            ServiceError: of the call; of the latest one that reached none of them.
        """
        tried: set[Lane[E]] = set()
        since: float | None = None
        late = False
        while True:
            lane, slot = await self._place(prefer, tried)
            try:
                result = await call(lane.target)
            except (Unreachable, DeadlineExceeded) as error:
                since = _lost_since(error, slot) if since is None else since
                alone = not lane.breaker.lost(error, slot, since)
                lane.limit.release(slot, error)
                tried.add(lane)
                hopeless = late if isinstance(error, DeadlineExceeded) else alone
                if lane.closed or not self._again(error, lane, slot, tried, hopeless=hopeless):
                    raise
                late |= isinstance(error, DeadlineExceeded)
                if lane.breaker.open:
                    since, late = None, False
            except (asyncio.CancelledError, CostLimit, WrongModel):
                # None of them needs to have asked the endpoint.
                lane.limit.release(slot, answered=False)
                raise
            except BaseException as error:  # whatever it is, the place is given back
                lane.breaker.answered(slot)
                lane.limit.release(slot, error if isinstance(error, ServiceError) else None)
                raise
            else:
                lane.breaker.answered(slot)
                lane.limit.release(slot)
                return result

    def _again(
        self, error: ServiceError, lane: Lane[E], slot: Slot, tried: set[Lane[E]], *, hopeless: bool
    ) -> bool:
        """Whether a call that did not reach its endpoint is made again.

        Args:
            hopeless: What fails is this call: the endpoint answered others meanwhile, or its
                time was up before.
        """
        passing = isinstance(error, Unreachable)
        others = any(not one.breaker.open and one not in tried for one in self.lanes)
        if others and (passing or slot.probe):
            return True
        return self._patience > 0 and (lane.breaker.open or not hopeless)

    async def _place(self, prefer: str, tried: set[Lane[E]]) -> tuple[Lane[E], Slot]:
        while True:
            if any(lane.closed for lane in self.lanes):
                raise Unreachable("the panel is closed", service="")
            closed = [lane for lane in self.lanes if not lane.breaker.open]
            due = [one for one in self.lanes if one.breaker.probe_due and one not in tried]
            seconds = None
            if closed:
                untried = [lane for lane in closed if lane not in tried]
                ordered = due + self._ordered(untried or closed, prefer)
            else:
                seconds = self._left()
                if seconds <= 0 and not due:
                    self._give_up()
                tried.clear()
                ordered = list(self.lanes)
            slot = await first_free([lane.limit for lane in ordered], seconds)
            if slot is not None:
                return next(lane for lane in ordered if lane.limit is slot.limit), slot

    def _ordered(self, lanes: list[Lane[E]], prefer: str) -> list[Lane[E]]:
        if len(lanes) == 1:
            return lanes
        if prefer:
            best = max(lanes, key=lambda lane: _affinity(lane.url, prefer))
            if best.limit.share <= min(lane.limit.share for lane in lanes) + _MUCH:
                return [best]
        self._turn += 1
        turned = [lanes[(i + self._turn) % len(lanes)] for i in range(len(lanes))]
        return sorted(turned, key=lambda lane: lane.limit.share)

    def _left(self) -> float:
        """Seconds that calls may still wait for any of the endpoints, all of which are lost."""
        opened = max(lane.breaker.opened for lane in self.lanes)
        return opened + self._patience - asyncio.get_running_loop().time()

    def _give_up(self) -> NoReturn:
        lane = max(self.lanes, key=lambda one: one.breaker.opened)
        last = lane.breaker.last
        gone = asyncio.get_running_loop().time() - lane.breaker.opened
        raise Unreachable(
            f"{last.detail if last else 'unreachable'} (lost {gone:.0f} s ago, not back since)",
            service=last.service if last else "",
            endpoint=lane.url,
            model=last.model if last else "",
        ) from last


def _lost_since(error: ServiceError, slot: Slot) -> float:
    """When it began to show that a call does not reach its endpoint."""
    if isinstance(error, DeadlineExceeded):
        return slot.began
    return asyncio.get_running_loop().time() if error.since is None else error.since


def _affinity(url: str, prefix: str) -> bytes:
    """Rendezvous hashing: when a replica is gone, only its own prefixes move."""
    return hashlib.blake2b(f"{url}\n{prefix}".encode(), digest_size=8).digest()
