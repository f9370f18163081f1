"""`editjudge plot`: the figures of a benchmark's paper, from a run."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from ..app.results import Results, read_published
from ..base.errors import ConfigError
from ..base.output_files import check_overwrite, write_output
from ..base.terminal import print_notice, print_text
from ..base.text import shorten_list
from ..benchmarks.figures import Figure, Kind, load_figures
from ..report.figures import MAX_LOOKS, Format, Numbers, draw_figure, drawable_columns, drawable_panels
from ..report.numbers import untrained_warning
from ..report.summary import select_columns
from .options import open_run


def plot_command(
    run: Path, figure: Kind | None, model: tuple[str, ...], format_: Format, out: Path | None, *, published: bool
) -> None:
    """Draw the figures of a run, each into a file of its own."""
    with open_run(run) as view:
        results = view.results()
    folder = out or run / "figures"
    selection = _select_figures(results, figure)
    numbers = _collect_numbers(results, model, with_paper=published)
    if len(numbers) > MAX_LOOKS:
        print_notice(f"{len(numbers)} models share {MAX_LOOKS} colours and markers; choose some with --model")
    warning = untrained_warning(results.untrained)
    count = 0
    for number, each in enumerate(selection, 1):
        if content := _draw_figure(each, results, numbers, format_, warning):
            file = folder / f"{results.benchmark.name}-{number}-{each.kind}.{format_}"
            check_overwrite(file, _is_figure, "former figure of editjudge")
            write_output(file, content)
            count += 1
            print_text(f"{file}: {each.kind}, {each.source}")
            print_notice(*_describe_coverage(results, each, numbers))
    if results.checks:
        print_notice(results.checks)
    if not count:
        raise ConfigError(f"{run}: no figure has any numbers yet", "see: editjudge summary")


def _select_figures(results: Results, kind: Kind | None) -> list[Figure]:
    """Select the figures of the benchmark's paper."""
    name = results.benchmark.name
    figures = load_figures(name)
    matching = [figure for figure in figures if kind in {None, figure.kind}]
    if not matching:
        kinds = ", ".join(sorted({figure.kind for figure in figures}))
        fix = f"it has {kinds}" if kinds else "it is of no paper: see editjudge report"
        raise ConfigError(f"{name} has no figure {kind or ''}".rstrip(), fix)
    return matching


def _draw_figure(figure: Figure, results: Results, numbers: Numbers, form: Format, warning: str) -> bytes:
    """Draw a figure; empty if it has no numbers."""
    panels = drawable_panels(figure, results.columns, numbers)
    if sparse := [panel.title or "a panel" for panel in figure.panels if panel not in panels]:
        where = f" for {shorten_list(sparse)}" if panels else ""
        print_notice(f"{figure.kind}, {figure.source}: too few numbers{where}")
    return draw_figure(figure, results.columns, numbers, form, warning, results.checks)


def _collect_numbers(
    results: Results, models: tuple[str, ...], *, with_paper: bool
) -> dict[str, Mapping[str, float | None]]:
    """Collect the rows of the run, then those that the paper prints."""
    _, names = select_columns(results, (), models)
    rows: dict[str, Mapping[str, float | None]] = {
        name: {column: cell.value for column, cell in results.models[name].items()} for name in names
    }
    tables = read_published(results).tables if with_paper else ()
    for table in tables:
        # Rows of metrics without a judge join those of the first judge.
        usual = table.judge in {tables[0].judge, "none"}
        for model, row in table.models.items():
            label = f"† {model}" if usual else f"† {model}, by {table.judge}"
            rows[label] = {**row, **rows.get(label, {})}
    return rows


def _describe_coverage(results: Results, figure: Figure, numbers: Numbers) -> Iterator[str]:
    """Report the coverage of models whose scores are incomplete, which a figure does not show."""
    columns = drawable_columns(figure, results.columns, numbers)
    for model in numbers:
        cells = [results.models[model][c.id] for c in columns if model in results.models]
        score_count = sum(cell.scored for cell in cells)
        verdict_count = sum(cell.asked for cell in cells)
        if score_count < verdict_count:
            yield f"  {model}: {score_count:,} of {verdict_count:,} verdicts have a score"


def _is_figure(file: Path) -> bool:
    """Whether a file is one of our figures: all formats name Matplotlib."""
    return b"Matplotlib" in file.read_bytes()
