"""Canaries at both ends of a session."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping

from ...base.digest import content_digest
from ...base.errors import StoreError
from ...base.identity import ServiceName
from ...panel import Panel
from ...panel.calls import CallStore
from ...panel.generalist import Generalist
from ..judge import Settled
from ..plan import in_order
from ..runplan import RunPlan
from .asking import canaries, canary_calls, canary_set, look, now
from .comparing import Baseline, CanarySession, Finding, Look, compared, unit_of

LEAST = 200
"""Verdicts that a judge is still to give for canaries to be worth their calls: at most 40 the first
time, 20 later."""
BASELINE_ROUNDS = 3
AT_ONCE = 2
"""Canaries in flight while edits are judged: an endpoint takes few calls at first, and the first
edits are what is waited for."""
FACT = "canary of"
"""How the names of a run's facts begin that hold a `CanarySession`."""


def due(plan: RunPlan) -> tuple[ServiceName, ...]:
    """The judges that are worth watching in a session: those with `LEAST` verdicts left to give.

    What is derived is not counted, but the parts that it is made of, whether they are asked for or
    not.
    """
    order = plan.order
    left: Counter[ServiceName] = Counter()
    for dimension in in_order(order.dimensions, order.known):
        names = order.above[dimension.id] | {dimension.id}
        for row in plan.counts.values():
            todo = max(row[name]["todo"] for name in names if name in row)
            left.update({role: todo for role in dimension.roles if role.is_generalist})
    return tuple(sorted(role for role, count in left.items() if count >= LEAST))


def places() -> dict[str, tuple[str, int]]:
    """By canary its scene and its place in it."""
    return {canary.name: (canary.scene, canary.place) for canary in canaries()}


def baseline_fact(judge: str) -> str:
    """The name under which a ledger knows the baseline of a judge with today's canaries.

    Args:
        judge: Its identity.
    """
    return f"canary baseline, {content_digest(f'{canary_set()} {judge}'.encode())}"


async def baseline_of(generalist: Generalist, calls: CallStore) -> Baseline | None:
    """The baseline of a judge, where there is one."""
    known = await calls.fact(baseline_fact(str(generalist.identity)))
    return None if known is None else Baseline.model_validate_json(known)


async def keep_baseline(generalist: Generalist, calls: CallStore, first: Look) -> Baseline | None:
    """Have a look be what a judge is compared with from now on.

    Returns:
        It; None, and nothing is kept, where less than half of the canaries could be read twice: of
        the others it tells no noise, and they are left out.
    """
    scores = {name: each for name, each in first.scores.items() if len(each) > 1}
    if 2 * len(scores) < len(canaries()):
        return None
    endpoint = generalist.endpoint
    unit = unit_of(await generalist.method(), endpoint.temperature, endpoint.repeats)
    judge = str(generalist.identity)
    baseline = Baseline(
        judge=judge, asked=canary_set(), unit=unit, look=first.model_copy(update={"scores": scores})
    )
    await calls.keep_fact(baseline_fact(judge), baseline.model_dump_json())
    return baseline


class CanaryWatch:
    """Asks judges about the canaries beside the first and the last edits of a session.

    The first look at a judge is its baseline: the run's own, or that of the ledger, which other
    runs have left. What a look costs is the session's; nothing that goes wrong with it ends a
    session but a store that cannot be written.

    Args:
        calls: Of the run, and the ledger beside it: for baselines.
        own: Of the run alone: for calls and what they told.
        say: Told at once what is wrong.
    """

    def __init__(
        self,
        panel: Panel,
        judges: tuple[ServiceName, ...],
        calls: CallStore,
        own: CallStore,
        say: Callable[[str], None],
    ) -> None:
        self._generalists = {n: g for n, g in panel.generalists.items() if n in judges}
        self._calls = calls
        self._own = own
        self._say = say
        self._fact = {name: f"{FACT} {name}, {secrets.token_hex(8)}" for name in judges}
        self.sessions: Mapping[ServiceName, CanarySession] = {
            name: CanarySession(service=name, began=now("milliseconds"), places=places())
            for name in self._generalists
        }
        self._beginning: asyncio.Task[None] | None = None
        self._ending: asyncio.Task[None] | None = None
        self._room = asyncio.Semaphore(AT_ONCE)

    def begin(self, settled: Settled) -> None:
        """Ask, beside all that is asked from now on.

        A first look is what all later ones are compared with: were it spread over a session, a
        shift in this session would be taken for its noise. So all of it is asked at once, and
        other looks a few calls at a time.

        Args:
            settled: Waited for: a judge is known by its identity.
        """

        async def begun() -> None:
            await settled()
            await self._each(self._begin_of, self._generalists)

        self._beginning = asyncio.create_task(begun())

    def winding_down(self, left: int) -> None:
        """Ask again beside the last edits, where no call of theirs waits for a place for it.

        Waiting for the last answer would make a session longer by a call. Were more than a
        roomful of calls still to come, a shift that they meet would not be seen.

        Args:
            left: Verdicts that are still to come.
        """
        judges = self._generalists.values()
        if all(left + canary_calls(each.endpoint, 1) <= _places(each) for each in judges):
            self._last()

    def _last(self) -> None:
        async def ended(beginning: asyncio.Task[None]) -> None:
            await beginning
            await self._each(self._end_of, self._generalists)

        if self._beginning is None or self._ending is not None:
            return
        for _ in range(BASELINE_ROUNDS * len(canaries())):
            self._room.release()  # no other call waits for a place any more
        self._ending = asyncio.create_task(ended(self._beginning))

    async def end(self, *, ask: bool) -> None:
        """Wait until all is asked, or give it up.

        Args:
            ask: False where nothing is to be asked any more: it ended before all was judged.
        """
        if ask:
            self._last()
        for task in (self._ending, self._beginning):
            if task is None:
                continue
            if ask:
                await task
            else:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task

    async def _each(
        self, ask: Callable[[ServiceName], Awaitable[None]], names: Iterable[ServiceName]
    ) -> None:
        async def guarded(name: ServiceName) -> None:
            try:
                await ask(name)
            except StoreError:
                raise
            except Exception as error:  # noqa: BLE001 - a canary must not end what it watches
                self._say(f"{name}: not watched by canaries: {type(error).__name__}: {error}")

        await asyncio.gather(*map(guarded, names))

    async def _begin_of(self, name: ServiceName) -> None:
        generalist = self._generalists[name]
        await self._keep(name)
        known = await baseline_of(generalist, self._calls)
        rounds = BASELINE_ROUNDS if known is None else 1
        room = None if known is None else self._room
        start = await look(generalist, self._own, rounds, room)
        if known is None:
            known = await keep_baseline(generalist, self._calls, start)
        if known is None:
            why = next(iter(start.failures.values()), "no reply")
            self._say(f"{name}: not watched by canaries: {why}")
            return
        await self._keep(name, baseline=known, start=start)
        self._tell(name, compared(known, start, places()))

    async def _end_of(self, name: ServiceName) -> None:
        baseline = self.sessions[name].baseline
        if baseline is None:
            return
        replicas = self._generalists[name].replicas
        if all(replica.gauge().open for replica in replicas):
            return  # it cannot be reached, and was waited for long enough
        last = await look(self._generalists[name], self._own, 1)
        await self._keep(name, end=last)
        start, finding = self.sessions[name].findings[0], compared(baseline, last, places())
        if finding.state != start.state or finding.state == "shifted":
            self._tell(name, finding)

    async def _keep(self, name: ServiceName, **more: object) -> None:
        session = self.sessions[name].model_copy(update=more)
        self.sessions = {**self.sessions, name: session}
        await self._own.keep_fact(self._fact[name], session.model_dump_json())

    def _tell(self, name: ServiceName, finding: Finding) -> None:
        if finding.state != "steady":
            self._say(f"{name}: {finding.why} (canary)")


def _places(judge: Generalist) -> int:
    """How many calls it takes at once, of all its servers that can be reached."""
    gauges = (replica.gauge() for replica in judge.replicas)
    return sum(gauge.limit for gauge in gauges if not gauge.open)
