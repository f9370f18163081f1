"""Whether a candidate may replace its base: it may not be worse by more than a margin."""

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal, Self, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, Field

from ..base.errors import ConfigError
from ..base.parse import describe_failure
from ..base.strict import STRICT, Strict
from ..base.text import format_count
from ..benchmarks.registry import select_among
from ..stats.noninferiority import End, Gains, spend
from ..stats.paired_comparison import holm, largest_unseen_share
from .canary import read_last_checks
from .comparison import DimensionPairs, EditPair, find_untrained, pair_scores
from .model_scores import Noise
from .view import RunView

Answer: TypeAlias = Literal["fail", "cannot tell", "pass"]
_Side: TypeAlias = tuple[RunView, str]
_MAX_WORST = 10


class GateRules(Strict):
    """What a gate asks for; the contents of `gate.toml`.

    Attributes:
        margins: By id or pattern of dimensions, how much worse the candidate may be: a number in
            the dimension's unit, or a share of the base's mean as `2%`. Of several that match, the
            last one holds. A single `*` means the dimensions that have a score.
        coverage: The largest share of scored edits that only one of the two may have.
        unseen: The largest share of sources that could behave otherwise unseen, where a dimension
            has no bounds; 0.05 takes 60 sources.
    """

    model_config = ConfigDict(**STRICT, frozen=True, coerce_numbers_to_str=True)
    margins: dict[str, Annotated[str, Field(pattern=r"^[0-9]*\.?[0-9]+%?$")]] = Field(min_length=1)
    coverage: float = Field(default=0.02, ge=0, le=1)
    unseen: float = Field(default=0.05, gt=0, le=1)

    @classmethod
    def read(cls, file: Path | None, margins: Mapping[str, str]) -> Self:
        """Read a file; other margins replace those of the file.

        Raises:
            ConfigError: it is no such file, or a margin is none.
        """
        try:
            table = tomllib.loads(file.read_text("utf-8")) if file else {}
            return cls.model_validate(table | ({"margins": margins} if margins else {}))
        except ValueError as error:
            why = f"{file or 'margin'}: {describe_failure(error)}"
            raise ConfigError(why, "a margin is a number, or a share as 2%") from error


class DimensionGate(Strict):
    """The answer on one dimension.

    Attributes:
        answer: Whether the candidate passes on this dimension.
        margin: As the rules have it; `gain`, `low`, `high` and `elsewhere` are shares of the base's
            mean where it is a share.
        note: Why there is no answer, or what a pass leaves unseen.
        base: The base's mean over the edits on which both have a score.
        candidate: The candidate's mean over them.
        gain: How much better the candidate is; negative where it is worse.
        low: Limit of the gain from below: it is less with a chance of at most 5 %.
        high: Limit from above.
        edits: Number of edits on which both have a score.
        sources: Number of source pictures among these.
        sources_to_pass: About how many sources it takes to pass; None where the gain itself lies
            beyond the margin, and where there is an answer.
        noise: Of the base and of the candidate.
        elsewhere: How much larger the gain would be with the edits that one of the two has alone.
        worst: The edits on which the candidate loses most, at most ten.
    """

    dimension: str
    higher_is_better: bool
    margin: str
    answer: Answer
    note: str
    base: float
    candidate: float
    gain: float
    low: float
    high: float
    edits: int
    sources: int
    sources_to_pass: int | None
    noise: tuple[Noise, Noise]
    elsewhere: float
    worst: tuple[EditPair, ...]


class Gate(Strict):
    """`gate --json`.

    Attributes:
        base: Name of the model that is the base.
        candidate: Name of the model that is to pass.
        dimensions: The answer on each dimension.
        answer: `pass` where every dimension passes, `fail` where any fails, else `cannot tell`.
        why: Why there is no answer though the numbers have one: a judge was not checked.
    """

    base: str
    candidate: str
    answer: Answer
    why: str
    dimensions: tuple[DimensionGate, ...]


class PlanRow(Strict):
    """An entry of `gate --plan --json`: what a number of sources would show on one dimension.

    Attributes:
        margin: The loss that is tolerated, as the rules have it.
        sources: Number of source pictures.
        power: The chance that a candidate that is as good as the base passes.
        detectable: The loss of which four of five such candidates fail.
        calls: Number of calls to judge both models.
        cost: Their cost; None where no price is configured.
    """

    dimension: str
    margin: str
    sources: int
    power: float
    detectable: float
    calls: int
    cost: float | None


@dataclass(frozen=True)
class _Measure:
    """The gains on one dimension against its margin.

    Attributes:
        text: The margin as the rules have it.
        is_equal: For each item, whether both outputs have equal bytes.
        least: The smallest number of sources that can tell; 1 for a dimension with bounds.
    """

    pairs: DimensionPairs
    text: str
    is_equal: NDArray[np.bool_]
    least: int

    @property
    def is_relative(self) -> bool:
        return self.text.endswith("%")

    @property
    def margin(self) -> float:
        return float(self.text.rstrip("%")) / (100 if self.is_relative else 1)

    @cached_property
    def gains(self) -> Gains:
        """The gains by source; outputs of equal bytes are equal, whatever a judge says of them."""
        dimension, common = self.pairs.dimension, self.pairs.common
        base, candidate = self.pairs.first[common], self.pairs.second[common]
        return Gains.of(
            base,
            np.where(self.is_equal[common], base, candidate),
            self.pairs.of.clusters[common],
            dimension.range if self.least == 1 else None,
            higher_is_better=dimension.higher_is_better,
            is_relative=self.is_relative,
        )

    @cached_property
    def is_same(self) -> bool:
        """Whether all outputs have equal bytes."""
        return bool(self.is_equal[self.pairs.common].all())

    def p(self, end: End) -> float:
        """The p value of each answer; 1 where there are too few sources for one."""
        if self.is_same:
            return float(end == "high")
        return 1.0 if self.gains.sources < self.least else self.gains.p(self.margin, end)


def check_gate(
    base: _Side, candidate: _Side, rules: GateRules, *, look: tuple[int, int] = (1, 1), allow_unchecked: bool = False
) -> Gate:
    """Decide whether the candidate is worse than its base by more than the margins.

    Args:
        base: A run and the name of a model under test in it.
        candidate: The other model with its run, which may be the same object.
        look: If data grows, the number of this look, from 1, and of all planned looks; each spends a part of the
            error rate.
        allow_unchecked: Answer also where a judge was not checked after the runs.

    Raises:
        ConfigError: the two cannot be compared: an edit is not judged yet, a signature or the
            coverage differs, weights are untrained, or a judge failed its last check.
        InputError: the data of a run no longer exists.
    """
    measures = _measure(base, candidate, rules)
    why = _check_judges(base[0], candidate[0], [of.pairs.dimension.id for of in measures])
    level = spend(*look)
    fails = holm([of.p("high") for of in measures])
    rows = tuple(_decide(of, level, p) for of, p in zip(measures, fails, strict=True))
    answers = {row.answer for row in rows}
    # The first of these that any dimension has.
    answer: Answer = next(each for each in get_args(Answer) if each in answers)
    if why and not allow_unchecked:
        answer = "cannot tell"
    return Gate(
        base=base[1], candidate=candidate[1], answer=answer, why="" if allow_unchecked else why, dimensions=rows
    )


def plan_gate(base: _Side, candidate: _Side, rules: GateRules, sources: tuple[int, ...]) -> tuple[PlanRow, ...]:
    """Tell what numbers of sources would show, from a pilot; one more has a power of 80 %.

    Raises:
        ConfigError: see `check_gate`; or the pilot has one source.
        InputError: see `check_gate`.
    """
    measures = _measure(base, candidate, rules)
    pairs = measures[0].pairs.of
    if min(of.gains.sources for of in measures) < 2:
        raise ConfigError("a pilot of one source does not show how sources differ", "judge a few more")
    views = {id(view): view for view, _ in (base, candidate)}.values()
    edits = sum(edit.missing is None for view in views for edit in view.edits())
    calls, costs = (sum(each) for each in zip(*(view.calls[:2] for view in views), strict=True))
    outputs = sum(len(view.header.find_outputs(model)) for view, model in (base, candidate))
    edits_per_source = outputs * len(pairs.ids) / len(np.unique(pairs.clusters))
    rows = []
    for of in measures:
        sources_to_pass = of.gains.sources_for_power(of.margin, of.least)
        for count in sorted({*sources, *filter(None, [sources_to_pass])}):
            plan, scale = of.gains.plan(count, of.margin), count * edits_per_source / edits
            rows.append(
                PlanRow(
                    dimension=of.pairs.dimension.id,
                    margin=of.text,
                    sources=count,
                    power=plan.power if count >= of.least else 0.0,
                    detectable=plan.detectable,
                    calls=round(calls * scale),
                    cost=costs * scale or None,
                )
            )
    return tuple(rows)


def _measure(base: _Side, candidate: _Side, rules: GateRules) -> list[_Measure]:
    """Read what is compared; refuse what cannot be compared."""
    pairs = pair_scores(base, candidate)
    if services := find_untrained(base[0], candidate[0]):
        raise ConfigError(f"{services[0]} has random weights", "serve trained weights")
    if pairs.pending:
        count = format_count(pairs.pending, "edit is", "edits are")
        raise ConfigError(f"{count} not judged yet", "finish first: editjudge run")
    old, new = (_list_digests(side, pairs.ids) for side in (base, candidate))
    is_equal = np.array([a == b and "" not in a for a, b in zip(old, new, strict=True)], np.bool_)
    margins: dict[str, str] = {}
    for pattern, text in rules.margins.items():
        for dimension in select_among(pairs.dimensions, (pattern,)):
            if pattern != "*" or any(pairs.count_scores(dimension.id)):
                margins[dimension.id] = text
    measures = []
    for dimension in pairs.dimensions:
        if margin := margins.get(dimension.id):
            has_bounds = not (dimension.cap or dimension.worst_of)
            least = 1 if has_bounds else math.ceil(3 / rules.unseen)
            measure = _Measure(pairs.on(dimension), margin, is_equal, least)
            _check_measure(measure, rules.coverage)
            measures.append(measure)
    if not measures:
        raise ConfigError("no dimension has a score", "see: editjudge summary")
    return measures


def _list_digests(side: _Side, ids: list[str]) -> list[list[str]]:
    """List the digests of the outputs of each item; "" for one that is missing."""
    view, model = side
    outputs = [{e.item: e.digest or "" for e in view.edits(name)} for name in view.header.find_outputs(model)]
    return [sorted(of.get(item, "") for of in outputs) for item in ids]


def _check_measure(of: _Measure, coverage: float) -> None:
    name, common = of.pairs.dimension.id, len(of.pairs.common)
    if of.pairs.signed_otherwise:
        causes = "; ".join(map(str, of.pairs.causes))
        why = f"{name}: base and candidate were judged differently: {causes}"
        raise ConfigError(why, "judge both with the same judge")
    only = [count - common for count in of.pairs.of.count_scores(name)]
    if (share := sum(only) / (sum(only) + common) if common else 1.0) > coverage or not common:
        raise ConfigError(
            f"{name}: {share:.1%} of the scored edits have a score of one model alone ({only[0]:,}"
            f" of the base, {only[1]:,} of the candidate), more than {coverage:.1%}",
            "judge what is missing, or raise `coverage` in gate.toml",
        )
    is_positive = of.pairs.dimension.range[0] >= 0 and of.pairs.first[of.pairs.common].any()
    if of.is_relative and not is_positive:
        why = f"{name} may be below 0, or is 0 everywhere, so {of.text} of it means nothing"
        raise ConfigError(why, "give its margin as a number")


def _check_judges(base: RunView, candidate: RunView, dimensions: list[str]) -> str:
    """Say why the judges are not known to have stayed the same; empty where they are.

    Raises:
        ConfigError: a judge failed its last check.
    """
    roles = base.resolved_spec.roles(dimensions)
    views = (base,) if base is candidate else (base, candidate)
    identities = ({r: of for r, of in view.header.identities.items() if r in roles} for view in views)
    times = [view.calls[2] for view in views]
    for name, check in read_last_checks(*identities):
        if check is None:
            return f"{name} was never checked: editjudge canary"
        if check.state != "steady":
            raise ConfigError(f"{name} {check}", "judge both anew by one judge: docs/howto/canaries.md")
        if datetime.fromisoformat(check.when).timestamp() < int(max(times)):
            return f"the last check of {name} is older than the runs: editjudge canary"
        if datetime.fromisoformat(check.first.when).timestamp() > min(times):
            return f"{name} was first checked after a run, so nobody knows how it was before"
    return ""


def _decide(of: _Measure, level: float, p_fail: float) -> DimensionGate:
    """Give the answer on one dimension."""
    gains, common, dimension = of.gains, of.pairs.common, of.pairs.dimension
    answer: Answer = "pass" if of.p("low") <= level else "fail" if p_fail <= level else "cannot tell"
    sources_to_pass = gains.needed_sources(of.margin, level) if answer == "cannot tell" else None
    sources_to_pass = sources_to_pass and max(sources_to_pass, of.least)
    unseen = f"{100 * largest_unseen_share(gains.sources):.3g} % of {gains.sources:,} sources"
    note = f"a loss on up to {unseen} could be unseen" if of.least > 1 and not of.is_same else ""
    if sources_to_pass:
        note = f"it takes about {sources_to_pass:,} sources like these {gains.sources:,} to pass"
    elif answer == "cannot tell" and gains.sources < of.least:
        note = f"{gains.sources:,} sources are too few: a dimension without bounds takes {of.least:,} (`unseen`)"
    elif answer == "cannot tell":
        note = "the candidate is worse by more than the margin, but that may be chance"
    a, b = of.pairs.first, of.pairs.second
    sign = 1.0 if dimension.higher_is_better else -1.0
    losses = np.where(of.is_equal, 0.0, sign * (a - b))[common]
    scale = float(a[common].mean()) if of.is_relative else 1.0
    overall = sign * float(np.nanmean(b) - np.nanmean(a)) / scale
    most = [common[k] for k in np.argsort(-losses, kind="stable")[:_MAX_WORST] if losses[k] > 0]
    return DimensionGate(
        dimension=dimension.id,
        higher_is_better=dimension.higher_is_better,
        margin=of.text,
        answer=answer,
        note=note,
        base=float(a[common].mean()),
        candidate=float(b[common].mean()),
        gain=gains.value,
        low=0.0 if of.is_same else gains.limit(level),
        high=0.0 if of.is_same else gains.limit(level, "high"),
        edits=len(common),
        sources=gains.sources,
        sources_to_pass=sources_to_pass,
        noise=of.pairs.of.noise(dimension.id),
        elsewhere=overall - sign * float((b - a)[common].mean()) / scale if any(of.pairs.counts[:2]) else 0.0,
        worst=tuple(EditPair(item=of.pairs.of.ids[k], first=a[k], second=b[k]) for k in most),
    )
