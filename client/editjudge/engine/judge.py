"""Judging one edit: the planned calls run side by side, then outcomes are derived from them."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from ..base.config import Settings
from ..base.errors import Abstention, ConfigError, EditjudgeError, ServiceError, StoreError
from ..base.identity import Identities, ServiceName, untrained_services
from ..base.images import MAX_PIXELS
from ..base.item import Edit, Missing
from ..base.signature import Signature
from ..base.text import shorten_list
from ..base.verdict import (
    Failure,
    NoScore,
    NotApplicable,
    Outcome,
    Score,
    Verdicts,
    add_calls,
    make_failure,
    make_no_score,
)
from ..benchmarks.dimension import Dimension
from ..benchmarks.registry import select_among
from ..panel import Panel
from ..panel.budget import Budget
from ..panel.calls import CallRecord, CallStore
from ..panel.context import CallContext, CallLog
from ..scorers.scorer import Scorer
from .outcomes import Circumstances, find_pending_fields, sort_by_dependency

if TYPE_CHECKING:
    from ..panel.judge import Judge

_AT_ONCE = 64
"""How many scorers of one edit are asked side by side; each has its prompt in memory."""
WaitForIdentities: TypeAlias = Callable[[], Awaitable[None]]
"""A function that waits until the identities of the services are known and stored.

Calls may be made before, but nothing is signed. Where a judge could not tell its identity at first,
its later answer is stored when the session ends.
"""


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
        edit: What was judged.
        dimensions: By id, with range, direction and unit of each value.
        outcomes: By dimension id, in the order in which they were requested.
        signatures: What each outcome depends on, by dimension id.
        services: Identities of the available services.
        untrained_ids: Dimensions judged with random weights: their values are no results.
        usage: Calls made now, tokens and cost of the judges for this edit, by name.
        errors: The errors behind failures, by dimension id.
        replies: The records of the calls that outcomes rest on, by key, where they were looked up
            (`Client.score`); a run stores them beside the verdicts.
        versions: Versions of the packages that made it; None for those of this process.
        seconds: How long each scorer took; empty where another process judged.
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
    seconds: Mapping[Scorer, float] = field(default_factory=dict, compare=False)

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
        if not isinstance(name, str):
            raise KeyError(name)
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


def plan_calls(edit: Edit, dimensions: Iterable[Dimension], reasons: Mapping[str, str]) -> dict[Scorer, frozenset[str]]:
    """Plan the calls for one edit: the fields to compute, by scorer; equal scorers are one.

    Args:
        dimensions: In order, see `sort_by_dependency`.
        reasons: By dimension id, why its own readings cannot be made.
    """
    dimensions = tuple(dimensions)
    plan = Circumstances(edit.item, missing=missing_of(edit), why_not_served=reasons).decide(dimensions)
    return find_pending_fields(dimensions, plan)


def missing_of(edit: Edit) -> Missing | None:
    """Return why there is no output, possibly without a reason; None where there is an output."""
    return None if edit.image else edit.missing or Missing("absent", "")


async def judge(
    edit: Edit,
    dimensions: Iterable[Dimension],
    dimensions_by_id: Mapping[str, Dimension],
    panel: Panel,
    signatures: Signatures | None = None,
    wait_for_identities: WaitForIdentities | None = None,
) -> Judgement:
    """Judge one edit on the given dimensions.

    A failing service costs the dimensions that read it, never the others; so does a scorer that
    raises an error. Where a service becomes another model meanwhile, its dimensions fail: no number
    is signed with a model that may not have made it.

    Args:
        dimensions_by_id: All dimensions, for what the given ones derive from.
        signatures: The signatures of these dimensions; by default they are made here.
        wait_for_identities: Awaited before anything is signed.
    """
    requests = tuple(dimensions)
    dimensions_by_id = {**dimensions_by_id, **{d.id: d for d in requests}}
    signatures = signatures or Signatures(dimensions_by_id)
    sequence = sort_by_dependency(requests, dimensions_by_id)
    before = panel.identities()
    reasons = explain_unserved(sequence, panel)
    calls = plan_calls(edit, sequence, reasons)
    scorers = list(calls)
    errors: dict[Scorer, ServiceError] = {}

    notes = CallLog()
    noting = panel.with_context(panel.context.with_log(notes))

    places = asyncio.Semaphore(_AT_ONCE)
    seconds: dict[Scorer, float] = {}

    async def call(scorer: Scorer) -> Verdicts:
        async with places:
            began = time.monotonic()
            verdicts = await _call(scorer, edit, noting, calls[scorer], errors)
            seconds[scorer] = time.monotonic() - began
            return verdicts

    results = await asyncio.gather(*map(call, scorers))
    if wait_for_identities is not None:
        await wait_for_identities()
    readings = dict(zip(scorers, results, strict=True))
    decided_outcomes = Circumstances(
        edit.item, missing=missing_of(edit), why_not_served=reasons, readings=readings
    ).decide(sequence)
    identities = panel.identities()
    outcomes = _fail_changed(decided_outcomes, dimensions_by_id, _find_changed(before, identities))
    random = set(untrained_services(identities))
    return Judgement(
        edit=edit,
        dimensions={d.id: d for d in requests},
        outcomes={d.id: outcomes[d.id] for d in requests},
        signatures=signatures.of(requests, identities),
        services=identities,
        untrained_ids=frozenset(d.id for d in requests if random and roles_of(d, dimensions_by_id) & random),
        usage=notes.usage,
        errors={
            d.id: error
            for d in requests
            if isinstance(outcomes[d.id], Failure)
            for error in [_find_error(d, dimensions_by_id, errors)]
            if error is not None
        },
        seconds=seconds,
    )


def _find_changed(before: Identities, after: Identities) -> set[ServiceName]:
    """Return the services whose model changed, went away or appeared.

    Facts learned by calling a model, such as how it takes choices, do not make it another one.
    """
    return {
        role
        for role in {*before, *after}
        if role not in before or role not in after or not before[role].may_be(after[role])
    }


def _fail_changed(
    outcomes: Mapping[str, Outcome], by_id: Mapping[str, Dimension], changed_services: set[ServiceName]
) -> Mapping[str, Outcome]:
    """Turn outcomes into failures where a service changed: nobody knows which of its models answered."""
    new_outcomes = dict(outcomes)
    for name, outcome in outcomes.items():
        roles = roles_of(by_id[name], by_id) & changed_services
        if roles and isinstance(outcome, Score | NoScore | NotApplicable):
            role_names = ", ".join(sorted(map(str, roles)))
            error = f"{role_names}: the model changed or disappeared while this edit was judged"
            new_outcomes[name] = Failure(error=error, retryable=True)
    return new_outcomes


class Signatures:
    """Signatures of dimensions, with those of what they derive from.

    Each is made once while the services stay the same: it takes a millisecond, and a run needs it
    for every edit. Several threads may use the object.

    Args:
        dimensions_by_id: All dimensions.
    """

    def __init__(self, dimensions_by_id: Mapping[str, Dimension]) -> None:
        self.dimensions_by_id = dimensions_by_id
        self._latest: tuple[Identities, dict[str, Signature]] = {}, {}

    def of(self, dimensions: Iterable[Dimension], identities: Identities) -> dict[str, Signature]:
        """Return the signatures of dimensions with these services, by dimension id."""
        before, signatures = self._latest
        if identities != before:
            # Two threads that make one make the same.
            before, signatures = self._latest = dict(identities), {}
        return {each.id: self._make_signature(each, before, signatures) for each in dimensions}

    def _make_signature(self, dimension: Dimension, identities: Identities, cache: dict[str, Signature]) -> Signature:
        if dimension.id not in cache:
            operands = ((name, self.dimensions_by_id[name]) for name in dimension.operands)
            parts = {name: self._make_signature(part, identities, cache) for name, part in operands}
            cache[dimension.id] = dimension.signature(identities, parts)
        return cache[dimension.id]


def _find_error(
    dimension: Dimension, by_id: Mapping[str, Dimension], errors: Mapping[Scorer, ServiceError]
) -> ServiceError | None:
    """Return the first error of the scorers of a dimension and of its operands."""
    for reading in dimension.readings:
        if reading.scorer in errors:
            return errors[reading.scorer]
    of_parts = (_find_error(by_id[part], by_id, errors) for part in dimension.operands)
    return next((error for error in of_parts if error is not None), None)


def roles_of(dimension: Dimension, by_id: Mapping[str, Dimension]) -> set[ServiceName]:
    """Return the services that a dimension and its operands call."""
    return set(dimension.roles).union(*(roles_of(by_id[one], by_id) for one in dimension.operands))


def computes_pixels(dimension: Dimension, by_id: Mapping[str, Dimension]) -> bool:
    """Return whether a dimension, or one of its operands, computes on pixels here."""
    parts = sort_by_dependency([dimension], by_id)
    return any(reading.scorer.reads_pixels for part in parts for reading in part.readings)


def find_lazy_limit(judges: Iterable[Judge], *, reads_pixels: bool) -> int:
    """Return the most pixels of a picture that stays encoded, see `load_image`; 0 for none.

    A picture that fits the limit of every judge is resized for none of them.

    Args:
        judges: The judges that see the picture.
        reads_pixels: Whether any dimension computes on pixels.
    """
    limits = (each.endpoint.max_pixels for each in judges)
    return 0 if reads_pixels else min(limits, default=MAX_PIXELS)


async def _call(
    scorer: Scorer, edit: Edit, panel: Panel, fields: frozenset[str], errors: dict[Scorer, ServiceError]
) -> Verdicts:
    log = CallLog()
    try:
        noting = panel.with_context(panel.context.with_log(log))
        verdicts = await scorer.score(edit, noting, fields)
        # An outcome without a number names its own calls.
        extra = {name: log.specialist_calls for name in fields if isinstance(verdicts[name], Score)}
        return {name: add_calls(verdicts[name], extra.get(name, ())) for name in fields}
    except Abstention as abstention:
        # A later session asks for all replies again, not only for those that could not be read.
        return dict.fromkeys(fields, add_calls(make_no_score(abstention), log.judge_calls))
    except (ConfigError, StoreError):
        raise
    except EditjudgeError as error:  # a service failed, or what it reads of this edit cannot be used
        if isinstance(error, ServiceError):
            errors[scorer] = error
        return dict.fromkeys(fields, make_failure(error))
    except Exception as error:  # noqa: BLE001 - a defect of one scorer
        trouble = f"{scorer.name}: {type(error).__name__}: {error}"
        return dict.fromkeys(fields, Failure(error=trouble))


def explain_unserved(dimensions: Iterable[Dimension], panel: Panel, *, is_local: bool = True) -> dict[str, str]:
    """Explain, by dimension id, why its own readings cannot be made.

    Args:
        is_local: Whether this machine computes on pixels.
    """
    names = panel.service_names
    absent: dict[str, list[str]] = {}
    for dimension in dimensions:
        why = [f"{role}: {panel.why_not(role)}" for role in dimension.roles if role not in names]
        absent[dimension.id] = [*why, dimension.unavailable_reason] if is_local else why
    return {name: "; ".join(filter(None, why)) for name, why in absent.items() if any(why)}


@dataclass(frozen=True, slots=True)
class Judges:
    """The services that judge edits, and the function that calls them.

    Attributes:
        panel: The services that judge: which there are, and what they are.
        judge: Judges one edit, as the function `judge` does with a panel.
        is_local: Whether this process judges the edits, so that it decodes their pictures.
    """

    panel: Panel
    judge: Callable[..., Awaitable[Judgement]]
    is_local: bool = True


def make_judges(panel: Panel) -> Judges:
    """Make judges that call the services of a panel from this process."""
    return Judges(panel, partial(judge, panel=panel))


OpenJudges: TypeAlias = Callable[[Settings, CallStore, Budget], AbstractAsyncContextManager[Judges]]
"""A function that opens the judges of a session by settings, call store and budget."""


@contextlib.asynccontextmanager
async def open_local_judges(settings: Settings, calls: CallStore, budget: Budget) -> AsyncIterator[Judges]:
    """Open judges with the services of the settings; an `OpenJudges`."""
    async with Panel(settings, ledger=calls) as panel:
        yield make_judges(panel.with_context(CallContext(budget)))
