"""`editjudge canary`: check whether judges have changed since their baseline."""

import asyncio
import statistics
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Self

from filelock import FileLock
from pydantic import TypeAdapter, ValidationError

from ..base.config import Settings, load_settings
from ..base.errors import ConfigError, ServiceError, StoreError
from ..base.identity import Identities, ServiceName
from ..base.local_stack import private, private_state_dir, state_dir
from ..base.output_files import write_atomically
from ..base.parse import describe_failure
from ..base.strict import FrozenModel, Strict
from ..benchmarks.cell import standard_deviation
from ..canary.comparison import Measurement, State, detect_drift, noise_unit
from ..canary.edits import canary_digest, known_places, measure
from ..panel import Panel
from ..panel.budget import Budget
from ..panel.context import CallContext
from ..panel.judge import Judge
from .client import add_local_stack

BASELINE_ROUNDS = 3
_NOT_CHECKED_YET = "not checked: editjudge canary"


class CanaryCheck(FrozenModel):
    """The stored result of the last check of a judge, with its baseline.

    Attributes:
        when: Time of the last check; ISO 8601, UTC.
        state: Result of the last check.
        why: The result in one line.
        tau: Agreement with the known order; None if no pair has two scores.
        asked: Digest of the canaries and of the prompt.
        unit: How much a score changes if one reply changes; see `noise_unit`.
        first: The baseline; each of its canaries has at least two scores.
    """

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
"""Stored checks by the identity of the judge."""


class CanaryScore(Strict):
    """The scores of one canary.

    Attributes:
        canary: Name of the canary.
        place: Known place in its scene, from 1, the best; canaries of equal place are not compared.
        before: Mean score in the baseline, from 1 to 5; null if it has none.
        sd: Sample standard deviation of the repeats in the baseline; null with fewer than two.
        now: Mean score in this check; null if no reply could be read.
        failure: Why no reply could be read; otherwise empty.
    """

    canary: str
    place: int
    before: float | None
    sd: float | None
    now: float | None
    failure: str


class CanaryResult(Strict):
    """An entry of `canary --json`: the result of checking one judge.

    Attributes:
        canaries: The scores of each canary; empty if unchecked.
        service: `generalist.<name>`.
        identity: Empty if the judge could not be reached.
        state: `steady`, `shifted` (by more than its own noise), `disordered` (it cannot order the
            canaries) or `unchecked`.
        why: The result in one line.
        shift: Mean difference from the baseline, on the scale 1 to 5; null if unchecked.
        allowed: The largest shift that the judge's own noise explains.
        changed: Number of canaries whose score differs from the baseline.
        tau: Agreement with the known order, from -1 to 1.
        first: Whether this check is the baseline.
        other: The identity that the last baseline of this model was of, if it was another one: of
            another server or other settings. Nothing compares this baseline with that one.
        since: Time of the baseline; null if there is none.
        calls: Number of calls that were made.
        cost: Cost of these calls; null if no price is configured.
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
    other: str = ""
    since: str | None = None
    calls: int = 0
    cost: float | None = None
    canaries: tuple[CanaryScore, ...] = ()

    @classmethod
    def not_checked(cls, service: str, why: str) -> Self:
        """Make the result of a judge that could not be reached."""
        return cls(service=service, state="unchecked", why=f"not checked: {why}")


def checks_file(settings: Settings) -> Path:
    """The file that stores checks: beside the file of the ledger, or in the user's state folder."""
    if isinstance(settings.ledger, Path):
        return settings.ledger.with_name(f"{settings.ledger.name}.canaries.json")
    return state_dir() / "canaries.json"


def last_checks_line(*identities: Identities, settings: Settings | None = None) -> str:
    """Describe in one line the last checks of the judges among some services.

    Args:
        identities: The identities of the services of each run.
        settings: Name the file of checks; by default the settings of this process.

    Returns:
        The line; empty if no judge is among the services.
    """
    checks = read_last_checks(*identities, settings=settings)
    lines = [(name, _NOT_CHECKED_YET if check is None else str(check)) for name, check in checks]
    if not lines:
        return ""
    if len({line for _, line in lines}) == 1:
        return f"judge{'s' * (len(lines) > 1)} {lines[0][1]}"
    return "judges: " + "; ".join(f"{name} {line}" for name, line in lines)


def read_last_checks(*identities: Identities, settings: Settings | None = None) -> list[tuple[str, CanaryCheck | None]]:
    """Read the last check of each judge among some services, with the judge's name.

    Args:
        identities: See `last_checks_line`.
        settings: See `last_checks_line`.
    """
    each = chain.from_iterable(of.items() for of in identities)
    judges = dict.fromkeys((name.variant, str(one)) for name, one in each if name.is_judge)
    if not judges:
        return []
    checks = _read_checks(checks_file(settings or load_settings()))
    return [(name, checks.get(judge)) for name, judge in judges]


def check_canaries(
    settings: Settings, judges: Iterable[str] = (), repeats: int = 1, *, new_baseline: bool = False
) -> tuple[CanaryResult, ...]:
    """Let judges rate the canaries, compare each judge with its baseline, and store the result.

    Args:
        judges: Names of judges; by default all that are configured.
        repeats: Ratings per canary; a baseline takes at least three.
        new_baseline: Replace existing baselines by this check.

    Raises:
        ConfigError: a judge is not configured, or none is.
        StoreError: the file of checks cannot be read or written.
    """
    available = add_local_stack(settings)
    names = tuple(judges) or tuple(available.judges)
    if unknown := [name for name in names if name not in available.judges]:
        names_text = ", ".join(available.judges) or "none is"
        raise ConfigError(f"no judge {unknown[0]} is configured", f"configured: {names_text}")
    if not names:
        raise ConfigError("no judge is configured", "give --judge URL, or see docs/howto/configuration.md")
    judges_only: Mapping[str, object] = {"endpoints": {}, "judges": {name: available.judges[name] for name in names}}
    file = checks_file(settings)
    baselines = {} if new_baseline else _read_checks(file)
    judge_settings = available.model_copy(update=judges_only)
    results, checks = asyncio.run(_check_each(judge_settings, baselines, repeats))
    _store_checks(file, checks)
    return results


async def _check_each(
    settings: Settings, baselines: Mapping[str, CanaryCheck], repeats: int
) -> tuple[tuple[CanaryResult, ...], dict[str, CanaryCheck]]:
    results: list[CanaryResult] = []
    checks: dict[str, CanaryCheck] = {}
    budget = Budget(settings.max_cost)
    async with Panel(settings).with_context(CallContext(budget)) as panel:
        for name in map(ServiceName.judge, settings.judges):
            if name not in panel.judges:
                results.append(CanaryResult.not_checked(name, panel.why_not(name)))
                continue
            judge, check = await _check_judge(panel.judge(name), baselines, repeats, budget)
            results.append(judge)
            if check is not None:
                checks[judge.identity] = check
    return tuple(results), checks


async def _check_judge(
    judge: Judge, baselines: Mapping[str, CanaryCheck], repeats: int, budget: Budget
) -> tuple[CanaryResult, CanaryCheck | None]:
    name, calls_before, cost_before = judge.name, budget.calls, budget.cost
    try:
        method = await judge.find_choice_method()  # part of its identity
    except ServiceError as error:
        return CanaryResult.not_checked(name, str(error)), None
    identity = str(judge.identity)
    check = baselines.get(identity)
    if check is not None and check.asked != canary_digest():
        check = None
    measurement = await measure(judge, repeats if check else max(repeats, BASELINE_ROUNDS))
    if check is not None:
        unit, baseline = check.unit, check.first
    else:
        endpoint = judge.endpoint
        unit = noise_unit(method, endpoint.samples, is_greedy=endpoint.is_greedy)
        baseline = _make_baseline(measurement)
    others = [(each.when, of) for of, each in baselines.items() if of.partition("(")[0] == judge.identity.name]
    other = "" if identity in baselines else max(others, default=("", ""))[1]
    drift = detect_drift(baseline, measurement, known_places(), unit)
    is_unusable = check is None and drift.state == "unchecked"
    result = CanaryResult(
        service=name,
        identity=identity,
        **drift._asdict(),
        first=check is None,
        other=other,
        since=None if is_unusable else baseline.when,
        calls=budget.calls - calls_before,
        cost=budget.cost - cost_before if judge.endpoint.price else None,
        canaries=tuple(_compare_scores(None if is_unusable else baseline, measurement)),
    )
    if is_unusable:
        return result, None
    why = drift.why
    if check is None and drift.state == "steady":
        why = "new baseline, the last one was of another server or setting" if other else "baseline"
    return result, CanaryCheck(
        when=measurement.when,
        state=drift.state,
        why=why,
        tau=drift.tau,
        asked=canary_digest(),
        unit=unit,
        first=baseline,
    )


def _make_baseline(measurement: Measurement) -> Measurement:
    """Drop the canaries with fewer than two scores, which show no noise."""
    scores = {name: each for name, each in measurement.scores.items() if len(each) > 1}
    return measurement.model_copy(update={"scores": scores})


def _compare_scores(baseline: Measurement | None, now: Measurement) -> Iterable[CanaryScore]:
    before = baseline.scores if baseline else {}
    for name, (_, place) in known_places().items():
        scores = before.get(name, ())
        yield CanaryScore(
            canary=name,
            place=place,
            before=_mean(scores),
            sd=standard_deviation(scores),
            now=_mean(now.scores.get(name, ())),
            failure="" if name in now.scores else now.failures.get(name, ""),
        )


def _mean(scores: Sequence[float]) -> float | None:
    return statistics.fmean(scores) if scores else None


def _read_checks(file: Path) -> dict[str, CanaryCheck]:
    try:
        return _CHECKS.validate_json(file.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValidationError) as error:
        raise StoreError(f"{file} cannot be read: {describe_failure(error)}", "remove it") from error


def _store_checks(file: Path, checks: Mapping[str, CanaryCheck]) -> None:
    """Add checks to the file, which is replaced atomically."""
    if not checks:
        return
    if file.parent == state_dir():
        private_state_dir()
    try:
        with FileLock(f"{file}.lock", mode=0o600):
            text = _CHECKS.dump_json({**_read_checks(file), **checks}, indent=1)
            with write_atomically(file) as partial, open(partial, "wb", opener=private) as out:
                out.write(text)
    except OSError as error:
        raise StoreError(f"{file}: {error.strerror}", "free space, or choose another ledger") from error
