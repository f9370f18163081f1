"""One session of a run: what is left is planned, judged and kept, until it is done or ended."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias

from ..config import Settings
from ..errors import ConfigError, ServiceError
from ..panel import Panel
from .progress import Progress, took
from .scheduler import Ended, Scheduler, jobs
from .store import RunHeader, RunStore
from .work import Order, Survey, Work

HowEnded: TypeAlias = "Ended | Literal['interrupted']"
_WAIT_FOR_CALLS = 10.0
"""Seconds after an interruption until the process ends whatever still hangs."""


class Watcher(Protocol):
    """Who shows how far a session is."""

    every: float

    def started(self, progress: Progress, panel: Panel | None) -> None:
        """Judging begins."""

    def tick(self) -> None:
        """Called every `every` seconds."""

    def say(self, line: str) -> None:
        """Something people should know."""


@dataclass
class Finished:
    """A session that is over.

    Attributes:
        ended: Why.
        work: What was planned.
        progress: How far it came.
        signatures: Of today, by dimension.
        not_served: Why dimensions were not judged: each reason with the dimensions.
        usage: What generalists took.
    """

    ended: HowEnded
    work: Work
    progress: Progress
    signatures: Mapping[str, str]
    not_served: Mapping[str, list[str]] = field(default_factory=dict)
    usage: Mapping[str, float] = field(default_factory=dict)


def header_of(order: Order, settings: Settings) -> RunHeader:
    """What a run is about, as far as it is known before its first call."""
    return RunHeader(
        benchmark=order.dataset.name,
        protocol=order.protocol,
        data=str(order.dataset.path),
        data_digest=order.dataset.digest,
        outputs={model: str(folder.resolve()) for model, folder in order.outputs.items()},
        dimensions=tuple(d.id for d in order.dimensions),
        roots=dict(getattr(order.dataset, "roots", {})),
        judges=order.replicas.judges,
        repeats=order.replicas.repeats,
        settings=asking(settings),
    )


def planned(
    survey: Survey,
    store: RunStore,
    identities: Mapping[str, str],
    served: frozenset[str] | None = None,
) -> Work:
    """What is left to do of a run; see `Survey.work`."""
    facts = {model: store.ledger.fact(_checked(model)) for model in survey.order.outputs}
    checked = {model: float(fact) for model, fact in facts.items() if fact}
    return survey.work(store, identities, served, checked)


def asking(settings: Settings) -> dict[str, Any]:
    """The settings that decide which judge answers, and how it is asked; without secrets."""
    kept = {"url", "model", "max_pixels", "max_tokens", "temperature", "seed", "repeats"}
    kept |= {"logprobs"}
    return {
        "endpoints": [endpoint.url for endpoint in settings.endpoints.values()],
        "generalists": {
            name: one.model_dump(mode="json", include=kept)
            for name, one in settings.generalists.items()
        },
    }


def _asked_otherwise(before: Mapping[str, Any], now: Mapping[str, Any]) -> frozenset[str]:
    """The generalists that have other settings now: what was said before is not theirs."""
    old, new = before.get("generalists", {}), now["generalists"]
    return frozenset(f"generalist.{name}" for name in new if new[name] != old.get(name))


class Session:
    """A session of a run.

    Args:
        survey: The items, looked at.
        store: An open run.
        watcher: Who is told how far it is.

    Attributes:
        settings: Where services are and how they are asked.
    """

    def __init__(
        self, survey: Survey, store: RunStore, settings: Settings, watcher: Watcher
    ) -> None:
        self.order: Order = survey.order
        self._survey = survey
        self._store = store
        self.settings = settings
        self._asking = asking(settings)
        self._watcher = watcher
        self._looked = 0.0

    def left(self, before: RunHeader | None) -> Work:
        """What is left to do if the services are those of the last session.

        Args:
            before: The header as the last session left it; None at the beginning.
        """
        self._looked = time.time()
        same = before is not None and before.settings == self._asking
        return planned(self._survey, self._store, before.identities if before and same else {})

    def nothing_left(self, work: Work) -> Finished:
        """The end of a session that found all done: no service is asked for anything."""
        self._keep_outputs(work)
        progress = self._progress(work, work.signatures)
        return Finished("done", work, progress, work.signatures)

    def judge(self, left: Work, fail_on_error: float | None = None) -> Finished:
        """Judge what is left, until it is done, ended or interrupted (SIGINT, SIGTERM).

        The first signal cancels what is in flight; the second ends the process at once.

        Args:
            left: From `left`; planned anew where the services are not what they were.

        Raises:
            ConfigError: a service cannot be used as it is configured.
            StoreError: the run cannot be written any more.
        """
        return asyncio.run(self._judge(left, fail_on_error))

    async def _judge(self, left: Work, fail_on_error: float | None) -> Finished:
        judging = asyncio.ensure_future(self._judged(left, fail_on_error))
        with _signals(judging):
            try:
                return await judging
            except BaseExceptionGroup as several:
                raise _first(several) from several

    async def _judged(self, left: Work, fail_on_error: float | None) -> Finished:
        panel = Panel(self.settings, ledger=self._store.ledger, patience=self.settings.patience)
        spent, dearest = self._store.ledger.costs
        panel.budget.goes_on(spent, dearest)
        async with panel:
            await _settled(panel)
            header = self._store.header
            others = _asked_otherwise(header.settings, self._asking)
            known = {r: one for r, one in header.identities.items() if r not in others}
            identities = {**known, **panel.identities()}
            work = left
            if left.signatures != self.order.signatures(identities) or left.roles - panel.served:
                work = planned(self._survey, self._store, identities, panel.served)
            self._tell_changes(header, panel, work)
            self._check_judges(work, panel)
            needed = self.order.roles(d.id for d in self.order.dimensions)
            absent = {role: panel.why_not(role) for role in needed - identities.keys()}
            now = {"identities": identities, "not_served": absent, "settings": self._asking}
            self._store.amend(header.model_copy(update=now))
            self._keep_outputs(work)
            signatures = work.signatures
            progress = self._progress(work, signatures)
            progress.spent_before = spent
            self._watcher.started(progress, panel)
            scheduler = Scheduler(
                self.order,
                panel,
                self._store,
                progress,
                in_flight=_in_flight(work, self.settings),
                fail_on_error=fail_on_error,
                say=self._watcher.say,
            )
            ended: HowEnded
            async with _ticking(self._watcher):
                try:
                    ended = await scheduler.run(jobs(work))
                except asyncio.CancelledError:
                    ended = "interrupted"
            reasons = self._not_served(work, panel)
            return Finished(ended, work, progress, signatures, reasons, took(panel, progress))

    def _keep_outputs(self, work: Work) -> None:
        """Note what was found of the outputs; what is not touched from now on is known."""
        with self._store.database.transaction():
            for item, model, digest in work.changed:
                self._store.edit_id(item, model, digest)
            for item, model, reason in work.absent:
                self._store.edit_id(item, model, None, reason)
            for model in self.order.outputs:
                self._store.ledger.keep_fact(_checked(model), repr(self._looked))

    def _progress(self, work: Work, signatures: Mapping[str, str]) -> Progress:
        standing: dict[str, dict[str, int]] = {}
        for model, row in self._store.counts(signatures).items():
            for name, counts in row.items() if model in work.todo else ():
                one = standing.setdefault(name, {})
                for status, number in counts.items():
                    one[status] = one.get(status, 0) + number
        return Progress.of(work, standing)

    def _tell_changes(self, header: RunHeader, panel: Panel, work: Work) -> None:
        for role, identity in panel.identities().items():
            before = header.identities.get(role)
            if before is not None and before != identity:
                self._watcher.say(
                    f"{role} is another one than before: what it judged is done again"
                )
        if work.changed:
            item, model, _ = work.changed[0]
            count = len(work.changed)
            self._watcher.say(
                f"{count:,} outputs are others than last time, and are judged anew"
                f" (first: {item} of {model})"
            )

    def _check_judges(self, work: Work, panel: Panel) -> None:
        """A judge that was asked for and cannot be used ends the run; a specialist does not."""
        for name in self.settings.generalists:
            role = f"generalist.{name}"
            if role not in panel.served and role in self.order.roles(_unserved(work)):
                raise ConfigError(
                    f"{role} cannot be used: {panel.why_not(role)}",
                    "mend that; editjudge doctor checks it",
                )

    def _not_served(self, work: Work, panel: Panel) -> dict[str, list[str]]:
        """The dimensions that wait for a service, by the reason, which names the services."""
        roles: dict[str, set[str]] = {}
        waiting: dict[str, dict[str, None]] = {}
        for name in _unserved(work):
            for role in sorted(self.order.roles([name]) - panel.served):
                why = panel.why_not(role)
                roles.setdefault(why, set()).add(role)
                waiting.setdefault(why, {})[name] = None
        return {
            f"{', '.join(sorted(roles[why]))}: {why}": [*names] for why, names in waiting.items()
        }


def _unserved(work: Work) -> list[str]:
    """Dimensions of which some edits wait for a service."""
    names = (d.id for d in work.order.dimensions)
    return [n for n in names if any(row[n]["not_served"] for row in work.counts.values())]


def _in_flight(work: Work, settings: Settings) -> int:
    """Enough that no endpoint waits for images to be decoded."""
    decoding = 2 * (os.cpu_count() or 1)
    return decoding + (settings.concurrency if work.roles else 0)


async def _settled(panel: Panel) -> None:
    """Find out how generalists answer choices now: it is part of their identity."""
    for generalist in panel.generalists.values():
        with contextlib.suppress(ServiceError):  # the calls will say it
            await generalist.method()


@contextlib.asynccontextmanager
async def _ticking(watcher: Watcher) -> AsyncIterator[None]:
    async def tick() -> None:
        while True:
            await asyncio.sleep(watcher.every)
            watcher.tick()

    task = asyncio.create_task(tick())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


@contextlib.contextmanager
def _signals(judging: asyncio.Future[Any]) -> Iterator[None]:
    """SIGINT and SIGTERM cancel the judging; the second of them ends the process."""
    loop = asyncio.get_running_loop()
    seen = 0

    def interrupt() -> None:
        nonlocal seen
        seen += 1
        if seen > 1:
            os._exit(130)
        judging.cancel()
        loop.call_later(_WAIT_FOR_CALLS, os._exit, 130)

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    # Not in a thread, and not on Windows, where asyncio.run itself sees to SIGINT.
    with contextlib.suppress(NotImplementedError, ValueError, RuntimeError):
        for number in before:
            loop.add_signal_handler(number, interrupt)
    try:
        yield
    finally:
        with contextlib.suppress(NotImplementedError, ValueError, RuntimeError):
            for number, handler in before.items():
                loop.remove_signal_handler(number)
                signal.signal(number, handler)


def _checked(model: str) -> str:
    return f"outputs of {model} looked at"


def _first(several: BaseExceptionGroup[BaseException]) -> BaseException:
    one = several.exceptions[0]
    return _first(one) if isinstance(one, BaseExceptionGroup) else one
