"""`editjudge ratings draw`: draw edits for people to rate; and what ratings anchor, as a table."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ..app.rating_sample import choose_dimensions, count_needed, draw_sample, write_sample
from ..base.errors import ConfigError
from ..base.terminal import print_notice, print_text
from ..base.text import format_count, group_by_key
from ..report.numbers import format_figure
from ..report.table import Head, Row, Table
from ..stats.anchor import Anchor, AnchoredMean, AnchorRow
from .options import open_run
from .output import print_json, print_tables

_GAIN = 1.05
"""Below this a judge is worth nothing: the error of the estimate hides so small a gain."""


def draw_command(
    run: Path,
    dimension: tuple[str, ...],
    per: int | None,
    width: float | None,
    seed: int,
    out: Path | None,
    *,
    by_task: bool,
    json: bool,
) -> None:
    """Draw edits of a run for people to rate, or say how many are needed."""
    if (per is None) == (width is None):
        raise ConfigError("give either --per or --width", "--per N draws items; --width W counts how many are needed")
    with open_run(run) as view:
        dimensions = choose_dimensions(view, dimension)
        if per is None:
            _print_needs(count_needed(view, dimensions, width or 0.0), as_json=json)
            return
        strata = draw_sample(view, dimensions, per, seed, by_task=by_task)
        file = out or run / "sample.csv"
        edits = write_sample(file, view, dimensions, strata, seed)
    if json:
        print_json(strata)
        return
    for each in strata:
        print_text(f"{each.name or 'drawn'}: {len(each.sample)} of {format_count(each.items, 'item')}")
    print_text(f"{file}: {format_count(edits, 'edit')}, drawn with seed {seed}")
    print_notice("rate all of them, then: editjudge summary RUN --anchor FILE")


def _print_needs(needs: Mapping[str, Mapping[str, int | None]], *, as_json: bool) -> None:
    if as_json:
        print_json(needs)
        return
    names = ("people alone", "a judge of correlation .5", "of .8")
    heads = (Head("items to rate", fold=True), *(Head(each, right=True) for each in names))
    rows = [Row((name, *(n or "more than all" for n in of.values()))) for name, of in needs.items()]
    note = "assumed: people use the judge's scale, and vary as much as it does" if rows else "no scores yet"
    print_tables([Table(heads, rows, notes=[note])])


def print_anchor(anchor: Anchor, *, is_difference: bool = False) -> None:
    """Print what people's ratings make of the judge's numbers, and what the judge was worth."""
    names = ("judge", "people alone [95 %]", "anchored [95 %]", "rated", "edits")
    heads = [Head("B - A" if is_difference else "model"), *(Head(each, right=True) for each in names)]
    for name, of in group_by_key((row.dimension, row) for row in anchor.rows).items():
        rows = [Row((row.model, *_cells(row.figures))) for row in of]
        title = f"{name}, anchored to people"
        print_tables([Table([*heads, Head("the judge is", fold=True)], rows, title, notes=[*_notes(of)])])
    print_text(*anchor.notes)


def _cells(figures: AnchoredMean | None) -> Sequence[str]:
    if figures is None:
        return ("-", "-", "-", "-", "-", "")
    judge = "-" if figures.judge is None else f"{figures.judge:.4g}"
    texts = (format_figure(each, ".4g") for each in (figures.people, figures.estimate))
    return (judge, *texts, f"{figures.ratings:,}", f"{figures.edits:,}", describe_worth(figures.worth))


def describe_worth(worth: float | None) -> str:
    """Say in words what a judge was worth beside the ratings."""
    if worth is None:
        return "-"
    return f"as good as {worth:.1f} times your ratings" if worth >= _GAIN else "no help: it adds nothing"


def _notes(rows: Sequence[AnchorRow]) -> Iterator[str]:
    for row in rows:
        if row.missing_ratings:
            count = format_count(row.missing_ratings, "edit")
            why = "" if row.figures else ": rate these too, since they are seldom missing by chance"
            yield f"{row.model}: {count} of the sample without a rating{why}"
        if row.figures and row.figures.estimate.reason:
            yield f"{row.model}: no interval: {row.figures.estimate.reason}"
        if row.figures and (missing := row.figures.edits - row.figures.scores):
            yield f"{row.model}: {format_count(missing, 'edit')} without a score: only people's ratings stand for them"
