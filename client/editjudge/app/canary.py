"""`editjudge canary`: are the judges what they were when they were first asked?"""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Self

from filelock import FileLock
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from ..base.config import Settings, load_settings
from ..base.errors import ConfigError, ServiceError, StoreError
from ..base.identity import Identities, ServiceName
from ..base.local_stack import private, private_state_dir, state_dir
from ..base.strict import Strict
from ..canary.comparison import Measurement, State, detect_drift, noise_unit
from ..canary.edits import canary_digest, known_places, measure
from ..panel import Panel
from ..panel.budget import Budget
from ..panel.context import CallContext
from ..panel.generalist import Generalist
from .client import add_local_stack

BASELINE_ROUNDS = 3
_NOT_CHECKED = "not checked: editjudge canary"


class CanaryCheck(BaseModel):
    """What is remembered of a judge.

    Attributes:
        when: ISO 8601, UTC, of the last look.
        state: What it found.
        why: The same in one line.
        tau: Agreement with the known order; None where no pair has two scores.
        asked: Digest of the canaries and the words in which it was asked.
        unit: By how much a score changes where one reply does; see `unit_of`.
        first: The first look, which later ones are compared with: each canary at least twice.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    when: str
    state: State
    why: str
    tau: float | None
    asked: str
    unit: float
    first: Measurement

    def __str__(self) -> str:
        tau = "" if self.tau is None else f", order: tau {self.tau:.2f}"
        return f"checked {self.when[:10]}: {self.why}{tau}"


_CHECKS = TypeAdapter(dict[str, CanaryCheck])
"""By the judge's identity."""


class CanaryScore(Strict):
    """What a judge says of one canary.

    Attributes:
        place: Its known place in its scene, from 1, the best; equal ones are not compared.
        before: Mean of the first look, from 1 to 5; null where it has none.
        sd: Sample standard deviation of its repeats; null with fewer than two.
        now: Mean of this look; null where it could not be read.
        failure: Why it could not; empty where it could.
    """

    canary: str
    place: int
    before: float | None
    sd: float | None
    now: float | None
    failure: str


class CanaryResult(Strict):
    """`canary --json`: a judge, asked just now.

    Attributes:
        service: `generalist.<name>`.
        identity: Empty where it could not be asked.
        state: `steady`; `shifted` beyond its own noise; `disordered`: it cannot order them;
            `unchecked`.
        why: In one line.
        shift: Mean difference to the first look, in levels of 1 to 5; null where unchecked.
        allowed: How large it may be by the judge's own noise.
        changed: How many canaries have another score.
        tau: Agreement with the known order, from -1 to 1.
        first: This was its first look, with which later ones are compared.
        since: When the first look was; null where there is none.
        calls: That were made.
        cost: Of these; null without a price.
    """

    service: str
    identity: str = ""
    state: State
    why: str
    shift: float | None = None
    allowed: float | None = None
    changed: int = 0
    tau: float | None = None
    first: bool = False
    since: str | None = None
    calls: int = 0
    cost: float | None = None
    canaries: tuple[CanaryScore, ...] = ()

    @classmethod
    def unchecked(cls, service: str, why: str) -> Self:
        """A judge that could not be asked."""
        return cls(service=service, state="unchecked", why=f"not checked: {why}")


def checks_file(settings: Settings) -> Path:
    """Where checks are remembered: beside the ledger, without one in the user's state folder."""
    if settings.ledger is not None:
        return settings.ledger.with_name(f"{settings.ledger.name}.canaries.json")
    return state_dir() / "canaries.json"


def last_checks_line(*identities: Identities, settings: Settings | None = None) -> str:
    """In one line, how the judges among services were when they were last checked.

    Args:
        identities: Of the services of each run.
        settings: Where checks are remembered; by default those of this process.

    Returns:
        Empty where no judge is among them.
    """
    each = chain.from_iterable(of.items() for of in identities)
    judges = dict.fromkeys((name.variant, str(one)) for name, one in each if name.is_generalist)
    if not judges:
        return ""
    known = _read(checks_file(settings or load_settings()))
    told = [(name, str(known.get(judge, _NOT_CHECKED))) for name, judge in judges]
    if len({line for _, line in told}) == 1:
        return f"judge{'s' * (len(told) > 1)} {told[0][1]}"
    return "judges: " + "; ".join(f"{name} {line}" for name, line in told)


def check_canaries(
    settings: Settings, judges: Iterable[str] = (), repeats: int = 1, *, anew: bool = False
) -> tuple[CanaryResult, ...]:
    """Ask judges about the canaries, compare each with its first look, and remember the result.

    Args:
        judges: Names of generalists; all that are configured without.
        repeats: How often each canary is asked; the first look asks three times at least.
        anew: Have this be the first look, whatever there was.

    Raises:
        ConfigError: a judge is not configured, or none is.
        StoreError: the file of checks cannot be used.
    """
    at_hand = add_local_stack(settings)
    names = tuple(judges) or tuple(at_hand.generalists)
    if unknown := [name for name in names if name not in at_hand.generalists]:
        known = ", ".join(at_hand.generalists) or "none is"
        raise ConfigError(f"no generalist {unknown[0]} is configured", f"configured: {known}")
    if not names:
        raise ConfigError(
            "no generalist is configured", "give --generalist URL, or see docs/configuration.md"
        )
    chosen: Mapping[str, object] = {
        "endpoints": {},
        "generalists": {name: at_hand.generalists[name] for name in names},
    }
    file = checks_file(settings)
    before = {} if anew else _read(file)
    only = at_hand.model_copy(update=chosen)
    examined, checks = asyncio.run(_examined(only, before, repeats))
    _remember(file, checks)
    return examined


async def _examined(
    settings: Settings, before: Mapping[str, CanaryCheck], repeats: int
) -> tuple[tuple[CanaryResult, ...], dict[str, CanaryCheck]]:
    examined: list[CanaryResult] = []
    checks: dict[str, CanaryCheck] = {}
    budget = Budget(settings.max_cost)
    async with Panel(settings).with_context(CallContext(budget)) as panel:
        for name in map(ServiceName.generalist, settings.generalists):
            if name not in panel.generalists:
                examined.append(CanaryResult.unchecked(name, panel.why_not(name)))
                continue
            judge, check = await _asked(panel.generalist(name), before, repeats, budget)
            examined.append(judge)
            if check is not None:
                checks[judge.identity] = check
    return tuple(examined), checks


async def _asked(
    generalist: Generalist, before: Mapping[str, CanaryCheck], repeats: int, budget: Budget
) -> tuple[CanaryResult, CanaryCheck | None]:
    name, calls, spent = generalist.name, budget.calls, budget.cost
    try:
        method = await generalist.method()  # part of its identity
    except ServiceError as error:
        return CanaryResult.unchecked(name, str(error)), None
    identity = str(generalist.identity)
    known = before.get(identity)
    if known is not None and known.asked != canary_digest():
        known = None
    seen = await measure(generalist, repeats if known else max(repeats, BASELINE_ROUNDS))
    if known is not None:
        unit, first = known.unit, known.first
    else:
        endpoint = generalist.endpoint
        unit = noise_unit(method, endpoint.temperature, endpoint.samples)
        first = _first_look(seen)
    finding = detect_drift(first, seen, known_places(), unit)
    unusable = known is None and finding.state == "unchecked"
    examined = CanaryResult(
        service=name,
        identity=identity,
        **finding._asdict(),
        first=known is None,
        since=None if unusable else first.when,
        calls=budget.calls - calls,
        cost=budget.cost - spent if generalist.endpoint.price else None,
        canaries=tuple(_scores(None if unusable else first, seen)),
    )
    if unusable:
        return examined, None
    why = "first look" if known is None and finding.state == "steady" else finding.why
    return examined, CanaryCheck(
        when=seen.when,
        state=finding.state,
        why=why,
        tau=finding.tau,
        asked=canary_digest(),
        unit=unit,
        first=first,
    )


def _first_look(seen: Measurement) -> Measurement:
    """A look without the canaries that could not be read twice: these tell no noise."""
    scores = {name: each for name, each in seen.scores.items() if len(each) > 1}
    return seen.model_copy(update={"scores": scores})


def _scores(first: Measurement | None, now: Measurement) -> Iterable[CanaryScore]:
    before = first.scores if first else {}
    for name, (_, place) in known_places().items():
        yield CanaryScore(
            canary=name,
            place=place,
            before=_mean(before.get(name, ())),
            sd=_deviation(before.get(name, ())),
            now=_mean(now.scores.get(name, ())),
            failure="" if name in now.scores else now.failures.get(name, ""),
        )


def _mean(scores: Sequence[float]) -> float | None:
    return statistics.fmean(scores) if scores else None


def _deviation(scores: Sequence[float]) -> float | None:
    return statistics.stdev(scores) if len(scores) > 1 else None


def _read(file: Path) -> dict[str, CanaryCheck]:
    try:
        return _CHECKS.validate_json(file.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValidationError) as error:
        raise StoreError(f"{file}: {type(error).__name__}: {error}", "remove it") from error


def _remember(file: Path, checks: Mapping[str, CanaryCheck]) -> None:
    """Add to what is remembered; the file is whole at every moment."""
    if not checks:
        return
    if file.parent == state_dir():
        private_state_dir()
    written = file.with_name(f"{file.name}.new")
    try:
        with FileLock(f"{file}.lock", mode=0o600):
            told = _CHECKS.dump_json({**_read(file), **checks}, indent=1)
            with open(written, "wb", opener=private) as out:
                out.write(told)
            written.replace(file)
    except OSError as error:
        raise StoreError(f"{file}: {error}", "free space, or choose another ledger") from error
