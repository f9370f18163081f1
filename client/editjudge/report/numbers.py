"""Formats numbers, intervals and outcomes as text."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from ..base.text import format_count, group_by_key
from ..base.verdict import Failure, MissingOutput, NoScore, NotApplicable, NotServed, Outcome, Score
from ..stats.clusters import LEVEL
from .table import Head, Lead, Number, Row, Table

if TYPE_CHECKING:  # a score of pixels needs no comparison of runs
    from ..app.model_scores import Noise
    from ..benchmarks.cell import Cell, Interval
    from ..benchmarks.dimension import Dimension
    from ..engine.judge import Judgement
    from ..stats.agreement import Figure

_SMALLEST = 6
"""Most decimals of half an interval before it is written with an exponent."""
_SKIPPED_OUTCOMES = (NotApplicable, NotServed, MissingOutput)
_NOTE = Head("note", fold=True)
_STYLES = {"scored": "", "unscored": "yellow", "failed": "bold red"}


def direction_arrow(higher_is_better: bool) -> str:
    """Return the arrow by which papers print the direction of a metric."""
    return "↑" if higher_is_better else "↓"


def format_figure(figure: Figure, form: str = ".3f") -> str:
    """Write a figure with its interval; "-" where it has no value."""
    if figure.value is None:
        return "-"
    if figure.low is None or figure.high is None:
        return f"{figure.value:{form}}"
    return f"{figure.value:{form}} [{figure.low:{form}}, {figure.high:{form}}]"


def format_value(value: float, dimension: Dimension) -> str:
    """Format a value: two decimals with a unit, four significant digits without one."""
    return f"{value:.2f} {dimension.unit}" if dimension.unit else f"{value:.4g}"


def build_verdict_table(judgement: Judgement, *, with_skipped: bool = False) -> Table:
    """Build the table of one judged edit, with a row for each dimension.

    Args:
        with_skipped: Also show the dimensions that were not judged, each with the reason.
    """
    return Table(
        (Head("dimension"), Head("value", right=True), *map(Head, ("range", "")), _NOTE),
        [
            _verdict_row(judgement, name, outcome)
            for name, outcome in judgement.outcomes.items()
            if with_skipped or not isinstance(outcome, _SKIPPED_OUTCOMES)
        ],
    )


def _verdict_row(judgement: Judgement, name: str, outcome: Outcome) -> Row:
    dimension = judgement.dimensions[name]
    low, high = dimension.range
    value = "-" if outcome.value is None else format_value(outcome.value, dimension)
    untrained_note = "UNTRAINED weights, not a result" * (name in judgement.untrained_ids)
    notes = "; ".join(filter(None, [untrained_note, describe_outcome(outcome)]))
    direction = direction_arrow(dimension.higher_is_better)
    style = _STYLES.get(outcome.status, "dim")
    return Row((name, value, f"{low:g}..{high:g}", direction, notes), style)


def describe_judge_use(judgement: Judgement) -> list[str]:
    """Return lines that say whose prompts the judge was asked, and what it used."""
    names_by = group_by_key(
        (judgement.dimensions[name].prompt_origins, name)
        for name, outcome in judgement.outcomes.items()
        if not isinstance(outcome, _SKIPPED_OUTCOMES)
    )
    lines = [f"prompts in {words} words: {', '.join(of)}" for words, of in names_by.items() if words]
    usage = judgement.usage
    if usage and not usage["calls"]:
        lines.append("the judge was not called: stored replies were used, at no cost")
    elif usage:
        # Tokens are those of stored replies too; the cost is what was paid now.
        cost = {"cost": usage.get("spent", 0.0)} if "cost" in usage else {}
        lines.append(f"the judge took {format_usage({**usage, **cost})}")
    return lines


def untrained_warning(services: Iterable[str]) -> str:
    """Name the services with random weights; empty where there are none."""
    names = ", ".join(services)
    return f"UNTRAINED weights, not a result: {names}" if names else ""


def format_usage(usage: Mapping[str, float]) -> str:
    """Describe calls, cost and tokens; `known` counts stored replies, which cost nothing now."""
    prompt, from_cache = usage.get("prompt_tokens", 0), usage.get("cached_tokens", 0)
    hits = f" ({usage['known']:,.0f} stored, free)" if usage.get("known") else ""
    parts = (
        format_count(round(usage.get("calls", 0)), "call") + hits,
        f"cost {usage['cost']:.4g}" if "cost" in usage else "",
        f"{prompt:,.0f} prompt tokens" + (f" ({from_cache / prompt:.0%} cached)" if prompt else ""),
        f"{usage.get('completion_tokens', 0):,.0f} generated",
    )
    return ", ".join(filter(None, parts))


def describe_skipped(judgement: Judgement, *, in_full: bool) -> Iterator[str]:
    """Describe the dimensions that were not judged: with each reason, or their numbers alone."""
    skipped_outcomes = {n: o for n, o in judgement.outcomes.items() if isinstance(o, _SKIPPED_OUTCOMES)}
    if skipped_outcomes and not in_full:
        unserved_count = sum(isinstance(one, NotServed) for one in skipped_outcomes.values())
        counts = (
            (len(skipped_outcomes) - unserved_count, "need an input that was not given"),
            (unserved_count, "need models that are not served"),
        )
        parts = ", ".join(f"{count:,} {why}" for count, why in counts if count)
        yield f"other dimensions: {parts}; --json names each with its reason"
        return
    reasons = group_by_key((outcome.reason, name) for name, outcome in skipped_outcomes.items())
    for reason, names in reasons.items():
        yield f"not judged, {reason}: {', '.join(names)}"


def describe_outcome(outcome: Outcome) -> str:
    """Describe an outcome beyond its value: notes of a score, or why there is none."""
    match outcome:
        case Score(evidence=evidence):
            parts = ["capped: images are (nearly) identical"] if evidence.get("capped") else []
            parts += [str(evidence["resized"])] if "resized" in evidence else []
            parts += [f"read {evidence['read']!r}"] if "read" in evidence else []
            return "; ".join(parts)
        case NoScore(kind=kind, reason=reason):
            return f"unscored ({kind}): {reason}"
        case Failure(error=error):
            return f"failed: {error}"
    return outcome.reason


def find_best(texts: Sequence[str], values: Sequence[float | None], *, higher_is_better: bool) -> list[int]:
    """Find the best numbers of a column: one, or several that are printed alike.

    A column has no best if it has a single number, or if all are printed alike.

    Args:
        texts: The numbers as printed.
        values: The numbers; None where there is none.

    Returns:
        The places of the best numbers.
    """
    numbers = {text: n for text, n in zip(texts, values, strict=True) if n is not None}
    if len(numbers) < 2:
        return []
    best = (max if higher_is_better else min)(numbers, key=numbers.__getitem__)
    return [place for place, text in enumerate(texts) if text == best]


def format_cell(cell: Cell, decimals: int | None = None, lead: Lead = "") -> Number:
    """Format a mean with its uncertainty and its coverage, which is `scored/asked`.

    Args:
        decimals: Decimals to print; None for four significant digits.
        lead: Whether it is the best number of its column; see `Number`.
    """
    coverage = f"{cell.scored}/{cell.asked}"
    footnote = ""
    if cell.asked and cell.scored != cell.asked:
        footnote = f"{cell.scored:,} of {cell.asked:,} edits have a number"
    if cell.value is None:
        return Number("-", "", "", cell.reason if decimals is None else coverage, footnote)
    value = format_number(cell.value, decimals)
    return Number(value, lead, format_uncertainty(cell, decimals), coverage, footnote)


def explain_leads(numbers: Iterable[tuple[Number, Cell]]) -> Iterator[str]:
    """Explain how the best numbers of a table are marked, one line for each mark that occurs."""
    pairs = [(number.lead, cell.interval) for number, cell in numbers]
    if sources := [of.clusters for lead, of in pairs if lead == "sure" and of]:
        yield (
            f"bold: significantly better than every other model (p < {LEVEL:g}, adjusted"
            f" for the models, not for the columns), though"
            f" {describe_unseen(min(sources))}"
        )
    if any(lead == "best" for lead, _ in pairs):
        yield "italic: the best number, but not shown to be significantly better than every other"


def describe_unseen(sources: int) -> str:
    """Say how much a comparison over so many sources can overlook."""
    from ..stats.paired_comparison import largest_unseen_share

    share = largest_unseen_share(sources)
    count = format_count(sources, "source")
    return f"a loss on up to {100 * share:.3g} % of sources could be unseen ({count})"


def describe_noise(dimension: str, models: Sequence[str], noise: Sequence[Noise]) -> Iterator[str]:
    """Describe how far scores of one item lie apart by chance, a line for each model where it is known."""
    for model, of in zip(models, noise, strict=True):
        sds = {"outputs": of.editor, "rounds of the judge": of.judge}
        if parts := [f"{value:.3g} between {what}" for what, value in sds.items() if value is not None]:
            yield f"{dimension}: noise of {model} on one item (sd): {', '.join(parts)}"


def choose_decimals(cells: Iterable[Cell]) -> int:
    """Choose the decimals of a column that no paper prints.

    The largest number gets four significant digits, and no half of an interval rounds to zero.
    """
    with_value = [cell for cell in cells if cell.value is not None]
    largest = max((abs(cell.value) for cell in with_value if cell.value), default=1.0)
    halves = (cell.interval.half_width for cell in with_value if cell.interval)
    least = min((half for half in halves if half), default=math.inf)
    first = 0 if math.isinf(least) else _first_decimal(least)
    return max(0, 3 + _first_decimal(largest), first if first <= _SMALLEST else 0)


def format_number(value: float, decimals: int | None) -> str:
    """Format a number to `decimals` decimals; None for four significant digits."""
    if decimals is None:
        return f"{value:.4g}"
    # Adding 0 makes a plain zero of a negative one.
    return f"{round(value, decimals) + 0.0:.{decimals}f}"


def format_uncertainty(cell: Cell, decimals: int | None = None) -> str:
    """Format what follows a mean: the ends of its interval, its spread over rounds, and signs.

    `*2` says that a rule set two of its values, `^3` that three values are capped, `~` that the
    mean rests on other items than those that all models share; see `explain_signs`.
    """
    form = ".2g" if decimals is None else f".{decimals}f"
    return "".join(
        (
            _format_ends(cell, decimals),
            "" if cell.sd is None else f" sd {cell.sd:{form}}",
            f" *{cell.imputed}" if cell.imputed else "",
            f" ^{cell.capped}" if cell.capped else "",
            " ~" if cell.other_items else "",
        )
    )


def _format_ends(cell: Cell, decimals: int | None) -> str:
    """Format how far the ends of a mean's interval are from it."""
    interval = cell.interval
    if cell.value is None or interval is None or interval.low is None or interval.high is None:
        return ""
    up, down = interval.high - cell.value, cell.value - interval.low
    above, below = (format_half_width(d, decimals) if d > 0 else "0" for d in (up, down))
    return f" ±{above}" if above == below else f" +{above}/-{below}"


def format_interval(of: Interval | None) -> str:
    """Format the ends of an interval with enough digits to tell them apart; empty where there is none."""
    if of is None or of.low is None or of.high is None:
        return ""
    low, high = of.low, of.high
    first = _first_decimal((high - low) / 2)
    if first > _SMALLEST:
        places = max(0, first + 1 - _first_decimal(max(abs(low), abs(high))))
        return f"{low:.{places}e} \u2013 {high:.{places}e}"
    places = max(0, first + 1)
    return f"{format_number(low, places)} \u2013 {format_number(high, places)}"


def _first_decimal(number: float) -> int:
    """Return the decimal place of the first digit that is not 0: 1 for tenths, 0 for ones."""
    return -math.floor(math.log10(number))


def format_half_width(half: float, decimals: int | None = None) -> str:
    """Format half of an interval; as it is more than 0, it is never printed as 0.

    Args:
        decimals: Decimals of the number before it; None for two significant digits.
    """
    first = _first_decimal(half)
    if first > _SMALLEST:
        return f"{half:.1e}"
    return format_number(half, max(0, first + 1) if decimals is None else max(decimals, first))


def format_pending_warning(edits: int) -> str:
    """Warn that a run is not finished.

    Args:
        edits: Number of pending edits, summed over models.
    """
    return f"the run is not finished: at least {format_count(edits, 'edit')} pending"


def explain_signs(cells: Iterable[Cell], *, fix: bool = True) -> Iterator[str]:
    """Explain the signs that occur in these cells, one line for each sign.

    Args:
        fix: Also name the option that avoids it.
    """
    with_value = [cell for cell in cells if cell.value is not None]
    intervals = "".join(_format_ends(cell, None) for cell in with_value)
    signs = {
        "±: half of the 95 % interval, clustered by source picture": "±" in intervals,
        "+a/-b: how far the ends of the 95 % interval are, clustered by source picture": "/" in intervals,
        "sd: standard deviation over rounds": any(cell.sd is not None for cell in with_value),
        "*n: imputed: a rule of the benchmark set n of these numbers, no judge did": any(c.imputed for c in with_value),
        "^n: n of these numbers are capped: the pictures are (nearly) identical": any(c.capped for c in with_value),
        f"~: some of its items have no number from another model{': see --common' * fix}": any(
            cell.other_items for cell in with_value
        ),
    }
    yield from (text for text, is_used in signs.items() if is_used)
