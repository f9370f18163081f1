"""`editjudge summary`, `show` and `export`: read the results of a stored run."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from json import dumps
from pathlib import Path
from typing import Any

from ..app.anchor import anchor_models
from ..app.export import Format, export
from ..app.pair_ranking import rank_pairs
from ..app.results import PublishedNumbers, Results, read_published
from ..app.verdicts import Question, Row, ShownEdit, ShownItem
from ..app.view import RunView
from ..base.console import make_console
from ..base.errors import ConfigError, EditjudgeError
from ..base.terminal import print_notice, print_text
from ..base.text import format_count, group_by_key
from ..report.numbers import explain_signs, untrained_warning
from ..report.summary import (
    build_ranking_table,
    build_results_tables,
    describe_comparability,
    describe_counting,
    describe_judges,
    drop_empty_columns,
    format_results,
    list_interval_reasons,
    list_reasons,
    narrow_results,
)
from ..report.table import Table, TextFormat
from .options import open_run, parse_pairs, rules_from
from .output import print_json, print_tables
from .ratings import print_anchor


def summary_command(
    run: Path,
    single_image: tuple[str, ...],
    dimension: tuple[str, ...],
    model: tuple[str, ...],
    format_: TextFormat | None,
    anchor: Path | None,
    *,
    published: bool,
    count_missing: bool,
    common: bool,
    each_round: bool,
    unserved: bool,
    json: bool,
    **options: Any,
) -> None:
    """Show a run as the table of its benchmark's paper."""
    if format_ and (json or published or each_round or unserved or anchor):
        others = "--json, --published, --each-round, --unserved and --anchor"
        raise ConfigError(f"--format excludes {others}", "leave one out")
    with open_run(run) as view:
        rules = rules_from(options, view.spec)
        results = view.results(single_image, rules, count_missing=count_missing, common=common)
        reasons = _waiting_reasons(view, results) if unserved else None
        people_anchor = anchor_models(view, anchor, dimension, model) if anchor else None
        pairs = () if format_ else rank_pairs(view)
    results = narrow_results(results, dimension, model)
    if format_:
        print_text(format_results(results, format_).rstrip("\n"))
        return
    paper = read_published(results) if published else None
    if json:
        print_json(replace(results, published=paper, unserved=reasons, anchor=people_anchor, pairs=pairs))
    else:
        _print_summary(results, paper, run, each_round=each_round)
        print_text(*(f"- {reason}: {', '.join(names)}" for reason, names in (reasons or {}).items()))
        print_tables(map(build_ranking_table, pairs))
        if people_anchor:
            print_anchor(people_anchor)
        if results.checks:
            print_text(results.checks)


def _waiting_reasons(view: RunView, results: Results) -> dict[str, list[str]]:
    """Map each reason for which a model is missing to the applicable dimensions."""
    cells = results.models.values()
    applicable = {
        name for column in results.columns if any(row[column.id].asked for row in cells) for name in column.dimensions
    }
    reasons = view.unserved_reasons().items()
    return group_by_key((reason, name) for name, reason in reasons if name in applicable)


def _print_summary(results: Results, paper: PublishedNumbers | None, run: Path, *, each_round: bool) -> None:
    """Print the table, with a heading above it and the missing numbers below it."""
    _print_heading(results)
    show = partial(
        build_results_tables,
        cells=results.models,
        judges=results.judges,
        width=make_console().width,
        decimals=results.benchmark.decimals,
        each_round=each_round,
    )
    columns_with_numbers, left_out = drop_empty_columns(results.columns, results.models, run)
    if paper is not None:
        _print_published(paper, show)
    elif columns_with_numbers:
        print_tables(show(columns_with_numbers))
    columns = paper.shared_columns if paper else columns_with_numbers
    of_table = (row[column.id] for row in results.models.values() for column in columns)
    print_text(
        *explain_signs(of_table),
        *list_reasons(columns, results.models),
        *list_interval_reasons(columns, results.models),
        *(() if paper else left_out),
        *describe_counting(results),
    )


def _print_heading(results: Results) -> None:
    title, table = results.benchmark.title, results.benchmark.table
    about = [title, table, results.protocol, format_count(results.items, "item")]
    if results.prompts:
        about.append(f"prompts: {results.prompts}")
    services = (f"{role}: {identity}" for role, identity in results.services.items())
    print_text(", ".join(filter(None, about)), describe_judges(results), *services)
    if warning := untrained_warning(results.untrained):
        print_text(warning, fg="red", bold=True)


def _print_published(paper: PublishedNumbers, show: Callable[..., Iterable[Table]]) -> None:
    """Print each table of the paper beside the run, then what is comparable."""
    for table in paper.tables:
        note = f" ({table.note})" if table.note else ""
        print_text(f"† published: {paper.title}, {table.source}, judge: {table.judge}{note}")
        rows = {f"† {model}": row for model, row in table.models.items()}
        print_tables(show(paper.columns_of(table), paper_rows=rows))
    print_text(*describe_comparability(paper))


def show_command(
    run: Path, edit: str, dimension: tuple[str, ...], model: str | None, *, json: bool, **options: Any
) -> None:
    """Show one edit of a run, with every verdict, its evidence and replies."""
    with open_run(run, options) as view:
        shows = view.match_ids(dimension).__contains__ if dimension else lambda _: True
        of_item = [each for each in view.edits(model) if each.item == edit]
        edits = tuple(ShownEdit.of(view, e, shows) for e in of_item)
        if not edits:
            by_model = f" of {model}" if model else ""
            has = ", ".join(view.header.outputs)
            raise ConfigError(f"{run} has no edit {edit!r}{by_model}", f"its models: {has}")
        listing = _add_data(view, edit, edits, shows)
    if json:
        print_json(listing)
        return
    if listing.instruction is not None:
        print_text(f"{edit}: {listing.instruction}")
    for each in listing.edits:
        print_text(f"\n{each.model}  {each.output or each.missing}", bold=True)
        for verdict in each.verdicts:
            _print_verdict(verdict, listing.questions)
    for name, why in listing.not_served.items():
        print_text(f"\n  {name}: not served\n    {why}")
    for name, why in listing.spoilt.items():
        print_text(f"\n  {name}: unscored (flaw of the data)\n    {why}")


def _add_data(view: RunView, edit: str, edits: tuple[ShownEdit, ...], shows: Callable[[str], bool]) -> ShownItem:
    """Add the item's instruction and files, if the data still exists."""
    instruction: str | None = None
    files: tuple[Path, ...] = ()
    with suppress(EditjudgeError, ValueError):
        if (item := view.item(edit)) is not None:
            instruction, files = item.instruction, view.pictures(edit).files
    spoilt = view.flawed_outcomes(edit).get(edit, {})
    return ShownItem(
        item=edit,
        instruction=instruction,
        files=files,
        edits=edits,
        not_served={n: why for n, why in view.unserved_reasons_of(edit).items() if shows(n)},
        spoilt={name: one.reason for name, one in spoilt.items() if shows(name)},
        questions={
            call.call: question
            for each in edits
            for verdict in each.verdicts
            for call in verdict.calls or ()
            if (question := Question.of(view, call))
        },
    )


def _print_verdict(verdict: Row, questions: Mapping[str, Question]) -> None:
    value = f"{verdict.value:.6g}" if verdict.value is not None else None
    kind = f" ({verdict.kind})" if verdict.kind else ""
    print_text(f"\n  {verdict.dimension}: {value or f'{verdict.status}{kind}'}")
    if verdict.reason:
        print_text(f"    {verdict.reason}")
    for name, evidence in (verdict.evidence or {}).items():
        text = evidence if isinstance(evidence, str) else dumps(evidence, indent=2)
        _print_block(name, text)
    for call in verdict.calls or ():
        if question := questions.get(call.call):
            _print_question(question)
        words = call.reply.get("text") if isinstance(call.reply, dict) else None
        text = words if isinstance(words, str) and words else dumps(call.reply, indent=2)
        _print_block(f"{call.model or call.judge} replied", text)
    print_text(f"    {verdict.signature}", f"    made with {verdict.versions}", dim=True)


def _print_question(question: Question) -> None:
    """Print a question as it was sent; pictures are marked by their names and sizes."""
    parts = "".join(
        f"[picture {part['name']}, {'x'.join(map(str, part['size']))}]\n"  # type: ignore[arg-type]
        if "image" in part
        else str(part["text"])
        for part in question.parts
    )
    if question.system:
        _print_block(f"{question.judge} was told", question.system)
    _print_block(f"{question.judge} was asked", parts)
    _print_block("in the form", dumps(question.form))


def _print_block(title: str, text: str) -> None:
    print_text(f"    {title}: " + text.replace("\n", "\n    "))


def export_command(
    run: Path,
    format_: Format,
    out: Path | None,
    dimension: tuple[str, ...],
    url: tuple[str, ...],
    where: tuple[str, ...],
    *,
    wide: bool,
    pictures: bool,
    pairs: bool,
    **options: Any,
) -> None:
    """Write the verdicts of a run to a file."""
    tasks = format_ == "label-studio"
    file = out or run / ("tasks.json" if tasks else f"{'edits' if wide else 'verdicts'}.{format_}")
    urls = parse_pairs("--url", url)
    with open_run(run, options) as view:
        forms = {"wide": wide, "pictures": pictures, "pairs": pairs}
        count = export(view, file, format_, dimensions=dimension, urls=urls, where=where, **forms)
        if reason := view.missing_data_reason:
            print_notice(f"the file lacks dimensions with a flaw of the data: {reason}")
    print_text(f"{file}: {format_count(count, 'task' if tasks else 'row')}")
    if tasks:
        print_text(f"{file.with_suffix('.xml')}: the labelling configuration for them")
    if tasks and not url:
        print_notice(
            "the tasks refer to pictures as files of the machine of Label Studio: start it with "
            "LABEL_STUDIO_LOCAL_FILES_SERVING_ENABLED=true and "
            "LABEL_STUDIO_LOCAL_FILES_DOCUMENT_ROOT=/, or give --url FOLDER=URL"
        )
