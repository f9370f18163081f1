"""Judging one edit: the planned calls, side by side, then what is derived from them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ..dimension import Derived, Dimension, Part, Reading, Scorer
from ..errors import Abstained, ConfigError, EditjudgeError, ServiceError, StoreError
from ..item import Edit
from ..panel import Panel
from ..signature import Signature, untrained
from ..verdict import (
    Failed,
    MissingOutput,
    NotApplicable,
    NotServed,
    Outcome,
    Pending,
    Scored,
    Unscored,
    Verdict,
    failed,
    unscored,
)
from .plan import make_plan


@dataclass(frozen=True, slots=True)
class Judgement:
    """One edit, judged.

    Attributes:
        outcomes: By dimension id, in the order asked for.
        signatures: Of each outcome, by dimension id.
        services: Identity of the services that were at hand.
        untrained: Dimensions judged with random weights: their values are no results.
        usage: What generalists took for this edit: calls made now, tokens, cost.
        errors: What stands behind the failed ones, by dimension id.
    """

    edit: Edit
    dimensions: Mapping[str, Dimension]
    outcomes: Mapping[str, Outcome]
    signatures: Mapping[str, Signature]
    services: Mapping[str, str] = field(default_factory=dict)
    untrained: frozenset[str] = frozenset()
    usage: Mapping[str, float] = field(default_factory=dict)
    errors: Mapping[str, ServiceError] = field(default_factory=dict)

    @property
    def failed(self) -> bool:
        """Whether a service failed on any dimension."""
        return any(isinstance(outcome, Failed) for outcome in self.outcomes.values())


async def judge(
    edit: Edit,
    dimensions: Iterable[Dimension],
    known: Mapping[str, Dimension],
    panel: Panel,
) -> Judgement:
    """Judge one edit on the given dimensions.

    A failing service costs the dimensions that read it, never the others; so does a scorer that
    trips over an edit.

    Args:
        known: All dimensions by id, for what the given ones derive from.
    """
    asked = tuple(dimensions)
    known = {**known, **{d.id: d for d in asked}}
    plan = make_plan(edit, asked, known, panel.served)
    scorers = list(plan.calls)
    errors: dict[Scorer, ServiceError] = {}
    results = await asyncio.gather(
        *(_call(scorer, edit, panel, plan.calls[scorer], errors) for scorer in scorers)
    )
    readings = dict(zip(scorers, results, strict=True))
    outcomes: dict[str, Outcome] = {
        name: _explained(skip, known[name], panel) for name, skip in plan.skips.items()
    }
    for dimension in plan.dimensions:
        outcomes[dimension.id] = _within(dimension, _outcome(dimension, readings, outcomes))
    identities = panel.identities()
    random = set(untrained(identities))
    return Judgement(
        edit=edit,
        dimensions={d.id: d for d in asked},
        outcomes={d.id: outcomes[d.id] for d in asked},
        signatures={d.id: signature_of(d, known, identities) for d in asked},
        services=identities,
        untrained=frozenset(d.id for d in asked if roles_of(d, known) & random),
        usage=_usage(readings),
        errors={
            d.id: error
            for d in asked
            if isinstance(outcomes[d.id], Failed)
            for error in [_error(d, known, errors)]
            if error is not None
        },
    )


def signature_of(
    dimension: Dimension, known: Mapping[str, Dimension], identities: Mapping[str, str]
) -> Signature:
    """A dimension's signature, with those of the dimensions it derives from."""
    parts = [signature_of(known[part], known, identities).digest for part in dimension.parts]
    return dimension.signature(identities) | {"parts": "+".join(parts)}


def _usage(readings: Mapping[Scorer, Mapping[str, Verdict]]) -> dict[str, float]:
    """What all scorers' calls to generalists took; the fields of one scorer share its calls."""
    total: dict[str, float] = {}
    for verdicts in readings.values():
        evidence = getattr(next(iter(verdicts.values()), None), "evidence", {})
        for name, value in evidence.get("usage", {}).items():
            if value is not None:
                total[name] = total.get(name, 0) + value
    return total


def _error(
    dimension: Dimension, known: Mapping[str, Dimension], errors: Mapping[Scorer, ServiceError]
) -> ServiceError | None:
    """The first error among what a dimension reads, itself or through what it derives from."""
    for reading in dimension.readings:
        if reading.scorer in errors:
            return errors[reading.scorer]
    found = (_error(known[part], known, errors) for part in dimension.parts)
    return next((error for error in found if error is not None), None)


def roles_of(dimension: Dimension, known: Mapping[str, Dimension]) -> set[str]:
    """The services that a dimension calls, itself or through what it derives from."""
    return set(dimension.roles).union(*(roles_of(known[part], known) for part in dimension.parts))


async def _call(
    scorer: Scorer,
    edit: Edit,
    panel: Panel,
    wanted: frozenset[str],
    errors: dict[Scorer, ServiceError],
) -> Mapping[str, Verdict]:
    try:
        found = await scorer.score(edit, panel, wanted)
        return {name: found[name] for name in wanted}
    except Abstained as abstained:
        return dict.fromkeys(wanted, unscored(abstained))
    except ServiceError as error:
        errors[scorer] = error
        return dict.fromkeys(wanted, failed(error))
    except (ConfigError, StoreError):
        raise
    except EditjudgeError as error:  # what it reads of this edit cannot be used
        return dict.fromkeys(wanted, failed(error))
    except Exception as error:  # noqa: BLE001 - a defect of one scorer
        said = f"{scorer.name}: {type(error).__name__}: {error}"
        return dict.fromkeys(wanted, Failed(error=said))


def _explained(skip: Outcome, dimension: Dimension, panel: Panel) -> Outcome:
    if not isinstance(skip, NotServed):
        return skip
    absent = [role for role in dimension.roles if role not in panel.served]
    return NotServed(reason="; ".join(f"{role}: {panel.why_not(role)}" for role in absent))


def _outcome(
    dimension: Dimension,
    readings: Mapping[Scorer, Mapping[str, Verdict]],
    outcomes: Mapping[str, Outcome],
) -> Outcome:
    def of(part: Part) -> Outcome:
        if isinstance(part, Reading):
            return readings[part.scorer][part.field]
        return outcomes[part]

    if isinstance(dimension.how, Reading):
        return of(dimension.how)
    parts = {name: of(part) for name, part in dimension.how.of.items()}
    outcome = derive(dimension.how, parts)
    read = [name for name, part in dimension.how.of.items() if isinstance(part, Reading)]
    return _with_readings(outcome, {name: parts[name] for name in read})


def _with_readings(outcome: Outcome, readings: Mapping[str, Outcome]) -> Outcome:
    """With what its own readings rest on, which no other verdict keeps."""
    seen = {name: one.evidence for name, one in readings.items() if isinstance(one, Scored)}
    if not isinstance(outcome, Scored) or not seen:
        return outcome
    kept = {name: without_calls(one) for name, one in seen.items()}
    return outcome.model_copy(update={"evidence": {**outcome.evidence, "readings": kept}})


def without_calls(evidence: Mapping[str, object]) -> dict[str, object]:
    """Evidence without how many calls were made just now: stored replies give the same."""
    usage = evidence.get("usage")
    if not isinstance(usage, dict):
        return dict(evidence)
    return {**evidence, "usage": {name: one for name, one in usage.items() if name != "calls"}}


def derive(how: Derived, parts: Mapping[str, Outcome]) -> Outcome:
    """The first part without a number decides; those that do not apply drop out.

    Args:
        parts: Outcomes by name.
    """
    applying = {n: p for n, p in parts.items() if not isinstance(p, NotApplicable)}
    absent = [name for name in parts if name not in applying]
    if not applying or (how.complete and absent):
        return NotApplicable(reason=f"{', '.join(absent)} not applicable")
    for kind in (NotServed, Failed, Unscored, MissingOutput, Pending):
        for name, part in applying.items():
            if isinstance(part, kind):
                return _because(name, part)
    values = {n: p.value for n, p in applying.items() if isinstance(p, Scored)}
    imputed = any(p.imputed for p in applying.values() if isinstance(p, Scored))
    return Scored(value=how.fn(values), evidence={"parts": dict(values)}, imputed=imputed)


def _because(name: str, part: Outcome) -> Outcome:
    field_name = "error" if isinstance(part, Failed) else "reason"
    return part.model_copy(update={field_name: f"{name}: {getattr(part, field_name)}"})


def _within(dimension: Dimension, outcome: Outcome) -> Outcome:
    """A value outside the declared range is a defect of ours, never a score."""
    low, high = dimension.range
    if isinstance(outcome, Scored) and not low <= outcome.value <= high:
        return Failed(error=f"{dimension.id}: {outcome.value} is outside {low:g}..{high:g}")
    return outcome
