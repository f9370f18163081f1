"""`editjudge compare`: test whether one model under test is better than another."""

import contextlib
import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from ..app.anchor import anchor_difference
from ..app.comparison import DimensionComparison, ModelComparison, ModelPlace, Ranking, compare_models, rank_models
from ..app.run_difference import CAUSES, explain_difference
from ..app.view import RunView
from ..base.errors import ConfigError
from ..base.terminal import print_notice, print_text
from ..base.text import format_count, group_by_key, shorten_list
from ..report.numbers import describe_noise, describe_unseen, direction_arrow, format_pending_warning, untrained_warning
from ..report.table import Head, Row, Table
from ..stats.clusters import FEW_DIFFER, LEVEL
from ..stats.paired_comparison import smallest_p
from .options import open_run, parse_pairs
from .output import print_json, print_tables
from .ratings import print_anchor

_MAX_ENTRIES = 3


def compare_command(
    run: Path,
    models: tuple[str, ...],
    other: Path | None,
    dimension: tuple[str, ...],
    anchor: Path | None,
    *,
    json: bool,
) -> None:
    """Compare two models, or rank all models of a run."""
    if len(models) not in {0, 2}:
        count_text = format_count(len(models), "model was named", "models were named")
        raise ConfigError(count_text, "name two models, or none to rank all")
    if not models and (other or anchor):
        raise ConfigError("--other and --anchor need two models", "name them: RUN A B")
    with contextlib.ExitStack() as stack:
        view = stack.enter_context(open_run(run))
        if not models:
            _print_ranking(view, dimension, as_json=json)
            return
        second = stack.enter_context(open_run(other)) if other else view
        sides = (view, models[0]), (second, models[1])
        result = compare_models(*sides, dimension)
        if anchor:
            result = result.model_copy(update={"anchor": anchor_difference(*sides, anchor, dimension)})
    if json:
        print_json(result)
    else:
        _print_comparison(result)
        if result.anchor:
            print_anchor(result.anchor, is_difference=True)
        if result.checks:
            print_text(result.checks)


def diff_command(first: Path, second: Path, match: tuple[str, ...], *, json: bool) -> None:
    """Explain why the numbers of two runs differ."""
    with open_run(first) as one, open_run(second) as other:
        result = explain_difference(one, other, parse_pairs("--match", match, "DIMENSION=DIMENSION"))
    if json:
        print_json(result)
        return
    heads = [Head(name, right=True) for name in ("first", "second", "difference", *CAUSES)]
    rows = []
    for each in result:
        totals = f"{each.first:.4g}", f"{each.second:.4g}", f"{each.second - each.first:+.3g}"
        parts = (f"{each.parts[cause]:+.3g} ({count:,})" for cause, count in each.edits.items())
        rows.append(Row((each.model, each.dimension, *totals, f"{each.parts['mean']:+.3g}", *parts)))
    print_tables([Table([Head("model"), Head("dimension", fold=True), *heads], rows, notes=["in brackets: edits"])])
    for cause, names in group_by_key((cause, each.dimension) for each in result for cause in each.causes).items():
        print_text(f"{cause} ({shorten_list(sorted({*names}))})")


def _print_ranking(view: RunView, dimensions: tuple[str, ...], *, as_json: bool) -> None:
    ranking = rank_models(view, dimensions)
    if as_json:
        print_json(ranking)
        return
    if warning := untrained_warning(ranking.untrained):
        print_text(warning, fg="red", bold=True)
    print_tables([_ranking_table(ranking.dimensions, list(view.header.models))])
    print_text("(1-2): the possible places; models without a significant difference share them")
    if sources := [each.sources for each in ranking.dimensions if each.sources]:
        print_text(f"{describe_unseen(min(sources))}, also where places differ")
    if ranking.checks:
        print_text(ranking.checks)


def _ranking_table(rankings: Iterable[Ranking], models: list[str]) -> Table:
    rows = []
    for each in rankings:
        cells = [_place_text(each.models.get(model)) for model in models]
        counts = f"{each.edits:,}/{each.items:,}"
        rows.append(Row((_title(each), *cells, counts)))
    numbers = (Head(name, right=True) for name in (*models, "edits"))
    heads = (Head("dimension", fold=True), *numbers)
    return Table(heads, rows)


def _title(row: Ranking | DimensionComparison) -> str:
    return f"{row.dimension} {direction_arrow(row.higher_is_better)}"


def _place_text(place: ModelPlace | None) -> str:
    if place is None:
        return "-"
    first, last = place.first_place, place.last_place
    return f"{place.mean:.4g} ({first})" if first == last else f"{place.mean:.4g} ({first}-{last})"


def _print_comparison(result: ModelComparison) -> None:
    heading = f"{result.second} (B) against {result.first} (A)"
    items = format_count(result.items, "item")
    if result.other_items:
        items += f"; {format_count(result.other_items, 'item differs', 'items differ')} in the runs"
    print_text(f"{heading}, {items}")
    if warning := untrained_warning(result.untrained):
        print_text(warning, fg="red", bold=True)
    # Without any figure, a row repeats what the lines below say of edits that were left out.
    rows = [each for each in result.dimensions if each.figures] or result.dimensions
    print_tables([_comparison_table(rows, result.items)])
    print_text(*describe_comparison(result))
    print_notice("next: editjudge show RUN ITEM, one edit with all its verdicts and replies")


def _comparison_table(dimensions: Iterable[DimensionComparison], items: int) -> Table:
    figures = ("A", "B", "B - A [95 %]", "p (Holm)", "B wins/ties/loses", "detects ≥", "edits")
    numbers = (Head(name, right=True) for name in figures)
    heads = (Head("dimension", fold=True), *numbers, Head("better"))
    names = {"first": "A", "second": "B", "": "-"}
    rows = [Row((_title(e), *_cells(e, items), names[e.better])) for e in dimensions]
    return Table(heads, rows)


def _cells(row: DimensionComparison, items: int) -> Iterator[str]:
    figures = row.figures
    if figures is None:
        yield from ("-", "-", "-", "-", "-", "-", f"0/{items:,}")
        return
    yield f"{figures.first:.4g}" + "*" * bool(row.imputed_first)
    yield f"{figures.second:.4g}" + "*" * bool(row.imputed_second)
    ends = figures.interval
    yield f"{figures.difference:+.4g}" + (f" [{ends.low:+.4g}, {ends.high:+.4g}]" if ends else "")
    yield "-" if row.p_holm is None else f"{row.p_holm:.2g}"
    yield f"{figures.wins}/{figures.ties}/{figures.losses}"
    yield "-" if row.detectable is None else f"{row.detectable:.2g}"
    yield f"{figures.edits:,}/{items:,}"


def describe_comparison(comparison: ModelComparison) -> Iterator[str]:
    """Describe what the table does not show, a line each."""
    if comparison.pending:
        yield format_pending_warning(comparison.pending)
    comparisons = [each for each in comparison.dimensions if each.figures]
    winners = [each for each in comparisons if each.better]
    for each in winners:
        yield _describe_winner(comparison, each)
    if comparisons and not winners:
        dimensions = format_count(len(comparisons), "dimension")
        yield f"no significant difference (p below {LEVEL:g}, adjusted for {dimensions})"
    rows_with_p = [each for each in comparisons if each.p_holm is not None]
    level = LEVEL / max(1, len(rows_with_p))
    small = [e for e in rows_with_p if e.figures and smallest_p(e.figures.sources) >= level]
    if small:
        yield (
            f"too few source pictures for a significant result on {_name_first(small)}: judge"
            " more, or compare fewer dimensions (-d)"
        )
    unsure = group_by_key((_explain_no_claim(each), each) for each in comparisons)
    yield from (f"no claim on {_name_first(of)}: {why}" for why, of in unsure.items() if why)
    yield from _describe_left_out(comparison.dimensions)
    for each in comparison.dimensions:
        yield from _describe_signatures(each)
        yield from describe_noise(each.dimension, (comparison.first, comparison.second), each.noise)
    for each in winners[:_MAX_ENTRIES]:
        most = (f"{e.item} ({e.first:.4g} → {e.second:.4g})" for e in each.furthest[:_MAX_ENTRIES])
        yield f"{each.dimension}: largest differences A → B: {', '.join(most)}"
    if any(each.imputed_first or each.imputed_second for each in comparison.dimensions):
        yield "* imputed: some of these numbers come from a rule of the benchmark, not from a judge"


def _explain_no_claim(row: DimensionComparison) -> str:
    """Explain why an interval is missing or open, so that no model is called better."""
    if row.better or row.figures is None:
        return ""
    first, ends = row.figures.interval, row.figures.bootstrap
    if first is None or ends is None:
        return row.figures.reason * (row.p_holm is None)
    if ends.low is None or ends.high is None:
        return FEW_DIFFER
    if first.low <= 0 <= first.high or not ends.low <= 0 <= ends.high:
        return ""
    return f"by the bootstrap the interval is [{ends.low:+.4g}, {ends.high:+.4g}]"


def _describe_left_out(rows: Iterable[DimensionComparison]) -> Iterator[str]:
    """List the edits that no figure includes, a line for each combination of counts."""
    by_counts = group_by_key(((e.only_first, e.only_second, e.neither), e) for e in rows)
    words = "scored for A only", "scored for B only", "scored for neither"
    for counts, those in by_counts.items():
        parts = [f"{count:,} {word}" for count, word in zip(counts, words, strict=True) if count]
        if parts:
            yield f"edits left out: {', '.join(parts)} ({_name_first(those)})"


def _name_first(rows: Sequence[DimensionComparison]) -> str:
    """Name the first three dimensions, and count the others."""
    return shorten_list([each.dimension for each in rows])


def _describe_winner(comparison: ModelComparison, on: DimensionComparison) -> str:
    """Say in a sentence which model is better, and by how much."""
    assert on.figures is not None  # noqa: S101 - a model is better only where both were compared
    difference, interval = on.figures.difference, on.figures.interval
    winner, loser = comparison.second, comparison.first
    if on.better == "first":
        winner, loser = loser, winner
    sign = math.copysign(1, difference)
    ends = sorted((sign * interval.low, sign * interval.high)) if interval else []
    between = f" [{ends[0]:.3g}, {ends[1]:.3g}]" if ends else " by every source"
    unit = f" {on.unit}" * bool(on.unit)
    by = f"{abs(difference):.3g}{unit}{between}"
    unseen = describe_unseen(on.figures.sources)
    return f"{winner} beats {loser} by {by} on {on.dimension}; {unseen}"


def _describe_signatures(row: DimensionComparison) -> Iterator[str]:
    name = row.dimension
    if row.signed_otherwise:
        edits, causes = format_count(row.signed_otherwise, "edit"), "; ".join(map(str, row.causes))
        yield f"{name}: {edits} left out, since A and B were judged differently: {causes}"
