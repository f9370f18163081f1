"""Judging one edit: the planned calls, side by side, then what is derived from them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
)
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

from ..base.config import Settings
from ..base.errors import Abstained, ConfigError, EditjudgeError, ServiceError, StoreError
from ..base.identity import Identities, ServiceName, untrained_services
from ..base.item import Edit, Missing
from ..base.signature import Signature
from ..base.text import shorten_list
from ..base.verdict import (
    Failure,
    NoScore,
    NotApplicable,
    Outcome,
    Score,
    Verdict,
    add_calls,
    make_failure,
    make_no_score,
)
from ..benchmarks.dimension import Dimension
from ..benchmarks.registry import select_among
from ..panel import Panel, PoolPolicy
from ..panel.budget import Budget
from ..panel.calls import CallRecord, CallStore
from ..panel.context import CallContext, CallLog
from ..scorers.scorer import Scorer
from .outcomes import decide_outcomes, find_pending_fields, sort_by_dependency

WaitForIdentities: TypeAlias = Callable[[], Awaitable[None]]
"""Waits until it is known, and kept, who judges: calls may be made before, nothing is signed.

Where a judge could not say it when asked first, what it says later is kept as the session ends.
"""


ReportProgress: TypeAlias = Callable[[float], None]
"""Told by which share, 0 to 1, more of an edit is answered."""


@dataclass(frozen=True, slots=True, repr=False)
class Judgement(Mapping[str, Outcome]):
    """The outcomes of one edit, by dimension.

    ```python
    judged = editjudge.score(source="a.png", edited="b.png", instruction="make the cup red")
    judged["psnr.source.whole"].value  # 17.25, or None where there is no number
    judged["psnr.source.whole"].reason  # why there is none
    ```

    It is a mapping from dimension id to outcome. A part of an id that means one dimension finds it
    too, as the option `-d` does. In a notebook it shows itself as a table.

    Attributes:
        outcomes: By dimension id, in the order in which they were requested.
        signatures: What each outcome depends on, by dimension id.
        services: Identities of the available services.
        untrained_ids: Dimensions judged with random weights: their values are no results.
        usage: Calls made now, tokens and cost of the judges for this edit; see `CallLog.usage`.
        errors: The errors behind failures, by dimension id.
        replies: The records of the calls that outcomes rest on, by key, where they were looked up
            (`Client.score`); a run stores them beside the verdicts.
        versions: Versions of the packages that made it; None for those of this process.
    """

    edit: Edit
    dimensions: Mapping[str, Dimension]
    outcomes: Mapping[str, Outcome]
    signatures: Mapping[str, Signature]
    services: Identities = field(default_factory=dict)
    untrained_ids: frozenset[str] = frozenset()
    usage: Mapping[str, float] = field(default_factory=dict)
    errors: Mapping[str, ServiceError] = field(default_factory=dict)
    replies: Mapping[str, CallRecord] = field(default_factory=dict)
    versions: str | None = None

    @property
    def has_failures(self) -> bool:
        """Whether a service failed on any dimension."""
        return any(isinstance(outcome, Failure) for outcome in self.outcomes.values())

    def __getitem__(self, name: str) -> Outcome:
        """Return the outcome of a dimension.

        Args:
            name: An id, or a part of one that means a single dimension.

        Raises:
            KeyError: no dimension here, or several, have this name; it names close ids.
        """
        if name in self.outcomes:
            return self.outcomes[name]
        try:
            ids = [d.id for d in select_among(self.dimensions.values(), [name])]
        except ConfigError as error:
            raise KeyError(f"{error}; it has {shorten_list(list(self.outcomes))}") from None
        if len(ids) > 1:
            raise KeyError(f"{name!r} means any of {', '.join(ids)}")
        return self.outcomes[ids[0]]

    def __iter__(self) -> Iterator[str]:
        return iter(self.outcomes)

    def __len__(self) -> int:
        return len(self.outcomes)

    def to_dict(self) -> dict[str, Any]:
        """Return the strict JSON form, as `editjudge score --json` prints it."""
        from .score_report import ScoreReport

        return ScoreReport.of(self).to_dict()

    def __repr__(self) -> str:
        lines = [f"Judgement of {self.edit.item.id!r}:"]
        width = max(map(len, self.outcomes), default=0)
        for name, outcome in self.outcomes.items():
            unit = self.dimensions[name].unit
            text = f"{outcome.status}: {outcome.reason}"
            if outcome.value is not None:
                text = f"{outcome.value:.6g} {unit}".rstrip()
            lines.append(f"  {name:<{width}}  {text}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        from ..report.numbers import build_verdict_table

        return build_verdict_table(self, with_skipped=True).to_html()


def plan_calls(
    edit: Edit, dimensions: Iterable[Dimension], unserved: Mapping[str, str]
) -> dict[Scorer, frozenset[str]]:
    """What to call for one edit: the fields to compute by scorer; equal scorers are one.

    Args:
        dimensions: In order, see `sort_by_dependency`.
        unserved: By dimension id, why its own readings cannot be made.
    """
    dimensions = tuple(dimensions)
    outcomes = decide_outcomes(
        dimensions, edit.item, missing=missing_of(edit), why_not_served=unserved
    )
    return find_pending_fields(dimensions, outcomes)


def missing_of(edit: Edit) -> Missing | None:
    """Why there is no output, possibly without a reason; None where there is one."""
    return None if edit.image else edit.missing or Missing("absent", "")


async def judge(
    edit: Edit,
    dimensions: Iterable[Dimension],
    known: Mapping[str, Dimension],
    panel: Panel,
    signatures: Signatures | None = None,
    wait_for_identities: WaitForIdentities | None = None,
    report_progress: ReportProgress | None = None,
) -> Judgement:
    """Judge one edit on the given dimensions.

    A failing service costs the dimensions that read it, never the others; so does a scorer that
    trips over an edit. Where a service becomes another model meanwhile, what it judges has failed:
    no number is signed by a model that may not have made it.

    Args:
        known: All dimensions by id, for what the given ones derive from.
        signatures: Of these dimensions, made before; without, they are made anew.
        wait_for_identities: Waited for before anything is signed.
        report_progress: Told by which share, 0 to 1, more of the edit is answered.
    """
    asked = tuple(dimensions)
    known = {**known, **{d.id: d for d in asked}}
    signatures = signatures or Signatures(known)
    ordered = sort_by_dependency(asked, known)
    before = panel.identities()
    waiting = explain_unserved(ordered, panel)
    calls = plan_calls(edit, ordered, waiting)
    scorers = list(calls)
    errors: dict[Scorer, ServiceError] = {}

    slow, notes = _slowest(scorers), CallLog()
    noting = panel.with_context(panel.context.with_log(notes))

    async def call(scorer: Scorer) -> Mapping[str, Verdict]:
        verdicts = await _call(scorer, edit, noting, calls[scorer], errors)
        if report_progress is not None and scorer in slow:
            report_progress(1 / len(slow))
        return verdicts

    results = await asyncio.gather(*map(call, scorers))
    if wait_for_identities is not None:
        await wait_for_identities()
    readings = dict(zip(scorers, results, strict=True))
    folded = decide_outcomes(
        ordered, edit.item, missing=missing_of(edit), why_not_served=waiting, readings=readings
    )
    identities = panel.identities()
    outcomes = _of_one_panel(folded, known, _others(before, identities))
    random = set(untrained_services(identities))
    return Judgement(
        edit=edit,
        dimensions={d.id: d for d in asked},
        outcomes={d.id: outcomes[d.id] for d in asked},
        signatures=signatures.of(asked, identities),
        services=identities,
        untrained_ids=frozenset(d.id for d in asked if random and roles_of(d, known) & random),
        usage=notes.usage,
        errors={
            d.id: error
            for d in asked
            if isinstance(outcomes[d.id], Failure)
            for error in [_error(d, known, errors)]
            if error is not None
        },
    )


def _others(before: Identities, after: Identities) -> set[ServiceName]:
    """The services behind which there is another model than before, or none any more, or now one.

    What is learned of a model by asking it, how it is asked for choices, makes it no other.
    """
    return {
        role
        for role in {*before, *after}
        if role not in before or role not in after or not before[role].may_be(after[role])
    }


def _of_one_panel(
    outcomes: Mapping[str, Outcome], known: Mapping[str, Dimension], others: set[ServiceName]
) -> Mapping[str, Outcome]:
    """The outcomes, failed where a service became another meanwhile: nobody knows which spoke."""
    if not others:
        return outcomes
    changed = dict(outcomes)
    for name, outcome in outcomes.items():
        roles = roles_of(known[name], known) & others
        if roles and isinstance(outcome, Score | NoScore | NotApplicable):
            named = ", ".join(sorted(map(str, roles)))
            error = f"{named}: became another model, or went, while this edit was judged"
            changed[name] = Failure(error=error, retryable=True)
    return changed


class Signatures:
    """Signatures of dimensions, with those of what they derive from.

    Each is made once while the services stay what they are: it takes a millisecond, and a run asks
    for it with every edit. Several threads may ask.

    Args:
        known: All dimensions by id.
    """

    def __init__(self, known: Mapping[str, Dimension]) -> None:
        self.known = known
        self._latest: tuple[Identities, dict[str, Signature]] = {}, {}

    def of(self, dimensions: Iterable[Dimension], identities: Identities) -> dict[str, Signature]:
        """By dimension id, with these services."""
        before, made = self._latest
        if identities != before:
            # Two threads that make one make it alike.
            before, made = self._latest = dict(identities), {}
        return {dimension.id: self._made(dimension, before, made) for dimension in dimensions}

    def _made(
        self, dimension: Dimension, identities: Identities, made: dict[str, Signature]
    ) -> Signature:
        if dimension.id not in made:
            operands = ((name, self.known[name]) for name in dimension.operands)
            parts = {name: self._made(part, identities, made) for name, part in operands}
            made[dimension.id] = dimension.signature(identities, parts)
        return made[dimension.id]


def _error(
    dimension: Dimension, known: Mapping[str, Dimension], errors: Mapping[Scorer, ServiceError]
) -> ServiceError | None:
    """The first error among what a dimension reads, itself or through what it derives from."""
    for reading in dimension.readings:
        if reading.scorer in errors:
            return errors[reading.scorer]
    of_parts = (_error(known[part], known, errors) for part in dimension.operands)
    return next((error for error in of_parts if error is not None), None)


def roles_of(dimension: Dimension, known: Mapping[str, Dimension]) -> set[ServiceName]:
    """The services that a dimension calls, itself or through what it derives from."""
    return set(dimension.roles).union(
        *(roles_of(known[part], known) for part in dimension.operands)
    )


def computes_pixels(dimension: Dimension, known: Mapping[str, Dimension]) -> bool:
    """Whether a dimension, or one that it derives from, works on pixels itself."""
    parts = (known[part] for part in dimension.operands)
    return any(reading.scorer.reads_pixels for reading in dimension.readings) or any(
        computes_pixels(part, known) for part in parts
    )


def _slowest(scorers: Collection[Scorer]) -> frozenset[Scorer]:
    """Those by which progress is told: that ask judges, else that ask services, else all."""
    asking_any = frozenset(scorer for scorer in scorers if scorer.roles)
    with_judges = frozenset(s for s in asking_any if any(r.is_judge for r in s.roles))
    return with_judges or asking_any or frozenset(scorers)


async def _call(
    scorer: Scorer,
    edit: Edit,
    panel: Panel,
    fields: frozenset[str],
    errors: dict[Scorer, ServiceError],
) -> Mapping[str, Verdict]:
    asked = CallLog()
    try:
        noting = panel.with_context(panel.context.with_log(asked))
        verdicts = await scorer.score(edit, noting, fields)
        return {name: _resting(verdicts[name], asked) for name in fields}
    except Abstained as abstained:
        # All that judges said is asked anew gather_all, not only what could not be read.
        return dict.fromkeys(fields, add_calls(make_no_score(abstained), asked.judge_calls))
    except ServiceError as error:
        errors[scorer] = error
        return dict.fromkeys(fields, make_failure(error))
    except (ConfigError, StoreError):
        raise
    except EditjudgeError as error:  # what it reads of this edit cannot be used
        return dict.fromkeys(fields, make_failure(error))
    except Exception as error:  # noqa: BLE001 - a defect of one scorer
        trouble = f"{scorer.name}: {type(error).__name__}: {error}"
        return dict.fromkeys(fields, Failure(error=trouble))


def _resting(verdict: Verdict, asked: CallLog) -> Verdict:
    """A number with what specialists said; what has none says itself which of it was no answer."""
    return add_calls(verdict, asked.specialist_calls) if isinstance(verdict, Score) else verdict


def explain_unserved(
    dimensions: Iterable[Dimension], panel: Panel, *, is_local: bool = True
) -> dict[str, str]:
    """By dimension, why its own readings cannot be made.

    Args:
        here: Whether it is this machine that computes on pixels.
    """
    served = panel.service_names
    absent: dict[str, list[str]] = {}
    for dimension in dimensions:
        why = [f"{role}: {panel.why_not(role)}" for role in dimension.roles if role not in served]
        absent[dimension.id] = [*why, dimension.unavailable_reason] if is_local else why
    return {name: "; ".join(filter(None, why)) for name, why in absent.items() if any(why)}


@dataclass(frozen=True, slots=True)
class Judges:
    """Who judges edits.

    Attributes:
        panel: The services that judge: which there are, and what they are.
        judge: Judges one edit, as the function `judge` does with a panel.
        here: Whether edits are judged in this process, so that it decodes their pictures.
    """

    panel: Panel
    judge: Callable[..., Awaitable[Judgement]]
    is_local: bool = True


def make_judges(panel: Panel) -> Judges:
    """Judges with services that are called from here."""
    return Judges(panel, partial(judge, panel=panel))


OpenJudges: TypeAlias = Callable[
    [Settings, CallStore, PoolPolicy, Budget], AbstractAsyncContextManager[Judges]
]
"""Opens the judges of a session: by its settings, with its store and budget."""


@contextlib.asynccontextmanager
async def open_local_judges(
    settings: Settings, calls: CallStore, policy: PoolPolicy, budget: Budget
) -> AsyncIterator[Judges]:
    """Judges with the services of the settings; an `Opened`."""
    async with Panel(settings, ledger=calls, policy=policy) as panel:
        yield make_judges(panel.with_context(CallContext(budget)))
