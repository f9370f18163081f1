"""`editjudge plot`: the figures of a benchmark's paper, or means with intervals, from a run."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from ..app.results import Results, read_published
from ..base.errors import ConfigError
from ..base.images import MAX_PIXELS
from ..base.output_files import check_overwrite, wrap_disk_errors, write_file
from ..base.terminal import print_notice, print_text
from ..base.text import shorten_list
from ..benchmarks.dataset import Dataset, ItemRef
from ..benchmarks.figures import Figure, Kind, load_figures, make_means_figure
from ..report.figures import (
    MAX_LOOKS,
    Format,
    Intervals,
    Numbers,
    draw_figure,
    draw_mask_sizes,
    drawable_columns,
    drawable_panels,
)
from ..report.numbers import untrained_warning
from ..report.summary import narrow_results, select_columns
from .options import open_run


def plot_command(
    run: Path,
    figure: Kind | None,
    dimension: tuple[str, ...],
    model: tuple[str, ...],
    format_: Format,
    out: Path | None,
    *,
    published: bool,
) -> None:
    """Draw the figures of a run, each into a file of its own."""
    with open_run(run) as view:
        results = view.results()
        dataset = view.resolved_spec.dataset
        has_data = not view.data_note
    folder = out or run / "figures"
    if dimension:
        results = narrow_results(results, dimension, model)
    selection = _select_figures(results, figure)
    numbers = _collect_numbers(results, model, with_paper=published)
    if len(numbers) > MAX_LOOKS:
        print_notice(
            f"{len(numbers)} models share {MAX_LOOKS} colours and markers; choose some with --model"
        )
    warning = untrained_warning(results.untrained)
    count = 0
    for number, each in enumerate(selection, 1):
        if each.kind == "masks" and not has_data:
            content = b""
            print_notice("masks: they are in the data, which is not here or is another revision")
        elif each.kind == "masks":
            content = _draw_masks(dataset, each, format_, paper=published)
        else:
            content = _draw_figure(each, results, numbers, format_, warning)
        if content:
            file = folder / f"{results.benchmark.name}-{number}-{each.kind}.{format_}"
            _write(file, content)
            count += 1
            print_text(f"{file}: {each.kind}, {each.source}")
            for line in _describe_coverage(results, each, numbers):
                print_notice(line)
    if results.checks:
        print_notice(results.checks)
    if not count:
        raise ConfigError(f"{run}: no figure has any numbers yet", "see: editjudge summary")


def _select_figures(results: Results, kind: Kind | None) -> list[Figure]:
    """Select the figures of the benchmark; means on request, or if it has no figures."""
    of_any = make_means_figure(results.columns)
    if kind == "means":
        return [of_any]
    name = results.benchmark.name
    own_figures = load_figures(name) or (of_any,)
    matching = [figure for figure in own_figures if kind in {None, figure.kind}]
    if not matching:
        kinds = ", ".join(sorted({figure.kind for figure in (*own_figures, of_any)}))
        raise ConfigError(f"{name} has no figure {kind}", f"it has {kinds}")
    return matching


def _draw_masks(dataset: Dataset, figure: Figure, form: Format, *, paper: bool) -> bytes:
    """Draw the figure of masks; empty if the data has no masks."""
    shares = mask_shares(dataset, figure)
    return draw_mask_sizes(shares, form, figure.printed_share if paper else None) if shares else b""


def _draw_figure(
    figure: Figure, results: Results, numbers: Numbers, form: Format, warning: str
) -> bytes:
    """Draw a figure; empty if it has no numbers."""
    panels = drawable_panels(figure, results.columns, numbers)
    if not panels:
        print_notice(f"{figure.kind}, {figure.source}: too few numbers")
        return b""
    if sparse := [panel.title or "a panel" for panel in figure.panels if panel not in panels]:
        print_notice(f"{figure.kind}, {figure.source}: too few numbers for {shorten_list(sparse)}")
    return draw_figure(
        figure, results.columns, numbers, form, warning, _intervals(results), results.checks
    )


def _intervals(results: Results) -> Intervals:
    return {
        model: {
            name: (cell.interval.low, cell.interval.high)
            for name, cell in row.items()
            if cell.interval and cell.interval.low is not None and cell.interval.high is not None
        }
        for model, row in results.models.items()
    }


def _collect_numbers(
    results: Results, models: tuple[str, ...], *, with_paper: bool
) -> dict[str, Mapping[str, float | None]]:
    """Collect the rows of the run, then those that the paper prints."""
    _, names = select_columns(results, (), models)
    rows: dict[str, Mapping[str, float | None]] = {
        name: {column: cell.value for column, cell in results.models[name].items()}
        for name in names
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


def _write(file: Path, content: bytes) -> None:
    check_overwrite(file, _is_figure, "former figure of editjudge")
    with wrap_disk_errors(file):
        write_file(file, content)


def _is_figure(file: Path) -> bool:
    """Whether a file is one of our figures: all formats name Matplotlib."""
    return b"Matplotlib" in file.read_bytes()


def mask_shares(dataset: Dataset, figure: Figure) -> dict[str, list[float]]:
    """The share of the picture that each readable mask selects, 0..1, by title of its panel."""
    shares: dict[str, list[float]] = {}
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for panel in figure.panels:
            refs = [
                ref
                for ref in dataset.items()
                if (item := dataset.outline(ref)).mask is not None
                and str(item.extra.get(figure.by, "")) in panel.columns
            ]
            each = pool.map(partial(_mask_share, dataset), refs)
            shares[panel.title] = [share for share in each if share is not None]
    return {title: some for title, some in shares.items() if some}


def _mask_share(dataset: Dataset, ref: ItemRef) -> float | None:
    mask = dataset.load(ref, max_lazy_pixels=MAX_PIXELS).mask
    return None if mask is None else float(mask.region.mean())
