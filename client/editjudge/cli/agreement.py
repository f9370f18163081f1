"""`editjudge agreement`: how far judges agree, with people and with each other."""

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, cast, get_args

from ..answers.scores import ScoreField
from ..app.agreement import Agreement, AgreementTable, compare_judges
from ..app.human_agreement import ChosenThreshold, Threshold, measure_agreement
from ..app.judgement_import import import_judgements
from ..app.ratings import read_ratings
from ..app.studies import STUDIES, measure_study
from ..base.errors import ConfigError
from ..base.terminal import print_notice, print_text
from ..base.text import format_count
from ..report.agreement_page import write_agreement
from ..report.numbers import format_figure
from ..report.table import Head, Row, Table
from .options import open_run, parse_outputs, parse_pairs
from .output import print_json, print_tables

_SHOWN_PROBLEMS = 3


def agreement_command(
    runs: tuple[Path, ...], human: tuple[Path, ...], match: tuple[str, ...], out: Path | None, *, json: bool, **how: Any
) -> None:
    """Compare the judges of runs, and stored ones, with people or with each other."""
    how["matches"] = {name: there.split(",") for name, there in parse_pairs("--match", match).items()}
    how["threshold"] = _parse_threshold(how["threshold"])
    paper, weights = STUDIES.get(how.pop("study") or ""), how.pop("weights")
    if (paper or weights) and not human:
        raise ConfigError("--study and --weights compare judges with people", "name their answers: --human FILE")
    with ExitStack() as stack:
        views = [stack.enter_context(open_run(run)) for run in runs]
        if human:
            people = read_ratings(human, paper.words if paper else {})
            how["survey"] = weights and read_ratings([weights], defaults={"item": "survey", "model": "survey"})
            measure = partial(measure_study, study=paper) if paper else measure_agreement
            result = measure(views, people, **how)
        else:
            result = compare_judges(views)
        if out:
            write_agreement(result, views, out)
    print_agreement(result, json=json)


def print_agreement(result: Agreement, *, json: bool) -> None:
    """Print how far judges agree, or what a reward follows."""
    if json:
        print_json(result)
        return
    print_tables(_agreement_table(table) for table in result.tables)
    print_tables(_category_table(table) for table in result.tables if table.categories)
    print_tables(_strength_table(table) for table in result.tables if table.strengths)
    print_text(*(each.sentence for each in result.differences), *result.sentences)
    for raters in result.raters:
        alphas = ", ".join(f"{level} {format_figure(figure)}" for level, figure in raters.alpha.items())
        count = format_count(raters.raters, "rater")
        print_text(f"{raters.dimension or 'people'}: {count}, Krippendorff's alpha: {alphas}")
    print_notice(*result.notes)
    _print_problems(result.problems)


def _print_problems(problems: Sequence[str]) -> None:
    if problems:
        count = format_count(len(problems), "record is", "records are")
        print_notice(f"{count} left out: {'; '.join(problems[:_SHOWN_PROBLEMS])}")


def import_command(
    files: tuple[Path, ...], as_: Path, scale: str | None, data: Path | None, outputs: tuple[str, ...], *, json: bool
) -> None:
    """Make a run of the judgements of others."""
    ends = _parse_scale(scale) if scale else None
    result = import_judgements(files, as_, scale=ends, data=data, outputs=parse_outputs(outputs))
    if json:
        print_json(result)
        return
    _print_problems(result.problems)
    counts = ", ".join(f"{name} {format_count(n, 'score')}" for name, n in result.scores.items())
    replies = format_count(result.replies, "reply", "replies")
    print_text(f"{as_}: {result.judge}, {format_count(result.edits, 'edit')}: {counts}")
    print_text(f"of {replies} our reader reads {result.differ:,} otherwise than was released")


def _parse_scale(text: str) -> tuple[float, float]:
    try:
        low, high = map(float, text.split(":"))
        ScoreField("score", low, high, integer=False)
    except ValueError:
        raise ConfigError(f"--scale {text!r} is not LOW:HIGH", "give two numbers, the lower one first") from None
    return low, high


def _parse_threshold(text: str) -> Threshold:
    if text in get_args(ChosenThreshold):
        return cast(ChosenThreshold, text)
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise ConfigError(f"--threshold {text!r} is no number from 0", "or cross-validated, or best")
    return value


def _agreement_table(table: AgreementTable) -> Table:
    names = dict.fromkeys(name for row in table.rows for name in row.figures)
    heads = [Head("", fold=True), *(Head(name.replace("_", " "), right=True) for name in names)]
    rows = []
    for row in table.rows:
        share = "" if row.coverage is None else f" ({row.coverage:.0%})"
        texts = [format_figure(row.figures[name]) if name in row.figures else "" for name in names]
        style = "" if row.kind == "judge" else "dim"
        rows.append(Row((row.who, *texts, f"{row.records:,}{share}"), style))
    reasons = (e.reason for row in table.rows for e in row.figures.values())
    sources = format_count(table.sources, "source")
    title = f"{table.dimension or 'all'}: {format_count(table.records, table.unit)}, {sources}"
    return Table((*heads, Head(f"{table.unit}s", right=True)), rows, title, notes=_notes(reasons))


def _category_table(table: AgreementTable) -> Table:
    judges = [*table.categories]
    names = sorted({name for of in table.categories.values() for name in of})
    rows = [
        Row((name, *(format_figure(of[name]) if name in of else "" for of in table.categories.values())))
        for name in names
    ]
    reasons = (figure.reason for of in table.categories.values() for figure in of.values())
    heads = (Head("category", fold=True), *(Head(judge, right=True) for judge in judges))
    return Table(heads, rows, f"{table.dimension or 'all'}: {table.main} by category", notes=_notes(reasons))


def _strength_table(table: AgreementTable) -> Table:
    by_strength = sorted(table.strengths.items(), key=lambda pair: -(pair[1].value or 0.0))
    heads = (Head("model"), Head("strength by people (Elo)", right=True))
    rows = [Row((model, format_figure(of, ".0f"))) for model, of in by_strength]
    notes = _notes(of.reason for of in table.strengths.values())
    return Table(heads, rows, f"{table.dimension or 'all'}: Bradley-Terry", notes=notes)


def _notes(reasons: Iterable[str]) -> list[str]:
    return [f"-, or no interval: {reason}" for reason in dict.fromkeys(reasons) if reason]
