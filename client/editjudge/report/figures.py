"""Draws the figures of papers, from a run's table or from the numbers that a paper prints."""

import io
import math
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count, cycle
from pathlib import Path
from textwrap import fill, wrap
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar

import numpy as np

from ..base.errors import MissingExtra
from ..base.text import cut_middle
from ..benchmarks.column import Column
from ..benchmarks.figures import Figure, FigurePanel, Kind
from ..benchmarks.published_tables import list_printed_values
from ..stats.clusters import Floats
from .numbers import direction_arrow

_T = TypeVar("_T")
Format: TypeAlias = Literal["svg", "pdf", "png"]
Columns: TypeAlias = Sequence[Column]
Numbers: TypeAlias = Mapping[str, Mapping[str, float | None]]
"""Numbers by model and column id."""

_FORMS = Path(__file__).parent / "forms"
_LOOKS = tomllib.loads((_FORMS / "looks.toml").read_text("utf-8"))
_COLOURS: list[str] = _LOOKS["colours"]
MAX_LOOKS = len(_COLOURS) * len(_LOOKS["rounds"])
"""Most models that a figure can tell apart; further models repeat the looks."""
_LINE = ("color", "marker", "linestyle", "fillstyle")
_MAX_AREAS = 4
"""Most models in a radar chart with filled areas."""
_WIDTH = 5.2
_LONGEST = 48
"""Most characters of a name in the legend, enough for a paper's row with its judge."""
_LETTERS, _HANDLE = 14, 6
"""Letters per inch of the legend, and the letters that a line or marker takes up."""
_LINE_CHARS = 14
_CHARS = 12
"""Letters per inch of a label below an axis."""
_SMALL: Mapping[str, Any] = {"fontsize": 8, "color": "#555555"}


def drawable_panels(figure: Figure, columns: Columns, numbers: Numbers) -> tuple[FigurePanel, ...]:
    """Return the panels with enough numbers: three axes for a radar, one number otherwise."""
    fewest = _KINDS[figure.kind].fewest
    return tuple(panel for panel in figure.panels if len(_numbered_columns(panel, columns, numbers)) >= fewest)


def drawable_columns(figure: Figure, columns: Columns, numbers: Numbers) -> tuple[Column, ...]:
    """Return the columns of which the figure shows a number, without duplicates."""
    panels = drawable_panels(figure, columns, numbers)
    return tuple({c.id: c for p in panels for c in _numbered_columns(p, columns, numbers)}.values())


def draw_figure(
    figure: Figure, columns: Columns, numbers: Numbers, form: Format, warning: str = "", note: str = ""
) -> bytes:
    """Draw a figure; equal numbers give equal bytes.

    A missing number leaves a gap in lines and bars.

    Args:
        columns: Columns of the table. Those without any number are left out, except for turns
            before the last one with a number.
        numbers: Numbers by model, in the order of the legend, and column id.
        warning: Written across the top where the numbers are no result.
        note: Written below, after what the scale of the axes is.

    Returns:
        The picture; empty if no panel has enough numbers, see `drawable_panels`.

    Raises:
        MissingExtra: matplotlib is not installed.
    """
    panels = drawable_panels(figure, columns, numbers)
    if not panels:
        return b""
    kind = _KINDS[figure.kind]
    across = min(kind.across, len(panels))
    down = math.ceil(len(panels) / across)
    wide = 2 if figure.kind == "tasks" and across == 1 else 1
    width, height = kind.size
    with _make_canvas(width * wide * across, height * down + 0.3) as canvas:
        for place, panel in enumerate(panels, 1):
            axes: Any = canvas.add_subplot(down, across, place, projection=kind.projection)
            panel_columns = _panel_columns(figure.kind, panel, columns, numbers)
            rows = [[row.get(column.id) for column in panel_columns] for row in numbers.values()]
            values = np.array(rows, dtype=np.float64)  # models x columns; NaN without a number
            kind.draw(axes, figure, panel_columns, values)
            title = _fit(axes, panel.title, 1.1)
            axes.set_title(title, fontsize=10, pad=kind.pad)
        _add_legend(canvas, list(numbers))
        lines = [_describe_scale(figure), note]
        wide = int(canvas.get_figwidth() * _LETTERS)
        if text := "\n".join(fill(line, wide) for line in lines if line):
            canvas.supxlabel(text, **_SMALL)
        if warning:
            canvas.suptitle(fill(warning, wide), color="#b00020", fontsize=10)
        return _save_figure(canvas, form)


def _describe_scale(figure: Figure) -> str:
    """Say between which ends the axes go, where no axis has numbers of its own."""
    if figure.relative:
        ends = "inner ring to outer ring" if figure.kind == "radar" else "0 to 1"
        return f"{ends}: worst to best of the paper's numbers and those drawn, as below each name"
    if figure.kind == "radar" and figure.top is not None:
        return f"each axis goes from 0 at the centre to {figure.top:g} at the rim"
    return ""


def _fit(axes: Any, text: str, letters: float = 1.0) -> str:
    """Break a text into lines as wide as its panel."""
    panel = axes.figure.get_figwidth() / axes.get_gridspec().ncols
    return fill(text, int(panel * _CHARS * letters))


def extract_svg_element(svg: bytes) -> str:
    """Return the `<svg>` element alone, without XML declaration and document type."""
    text = svg.decode()
    return text[text.index("<svg") :]


@contextmanager
def _make_canvas(width: float, height: float) -> Iterator[Any]:
    """Make a figure of matplotlib in our style.

    Raises:
        MissingExtra: matplotlib is not installed.
    """
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure as Canvas
    except ImportError as error:
        raise MissingExtra("figures", "demo") from error
    with rc_context(fname=_FORMS / "figures.mplstyle"):
        yield Canvas(figsize=(width, height))


def _save_figure(canvas: Any, form: Format) -> bytes:
    out = io.BytesIO()
    # Metadata would contain the time of drawing.
    nothing = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": None}[form]
    canvas.savefig(out, format=form, metadata=nothing)
    return out.getvalue()


def _add_legend(canvas: Any, models: Sequence[str]) -> None:
    """Add a legend of the models of all panels below the picture, in the order of the table."""
    handles: dict[str, Any] = {}
    for axes in canvas.axes:
        some, labels = axes.get_legend_handles_labels()
        handles |= dict(zip(labels, some, strict=True))
    names = {
        label: name for number, name in enumerate(_shorten_names(models)) if (label := _model_label(number)) in handles
    }
    longest = max(map(len, names.values()), default=1)
    columns = int(canvas.get_figwidth() * _LETTERS / (longest + _HANDLE))
    legend = canvas.legend(
        [handles[label] for label in names],
        list(names),
        loc="upper center",
        bbox_to_anchor=(0.5, 0),
        ncols=max(1, min(4, len(names), columns)),
    )
    # Names are set as texts, since matplotlib leaves out labels that begin with `_`.
    for text, name in zip(legend.get_texts(), names.values(), strict=True):
        text.set_text(name)


def _shorten_names(names: Sequence[str]) -> list[str]:
    """Cut the middle out of long names, as far as the names stay different."""
    for most in count(_LONGEST):
        short = [cut_middle(name, most) for name in names]
        if len(set(short)) == len(names):
            break
    return short


def _model_label(number: int) -> str:
    """Return the label of a model until the legend replaces it by the model's name."""
    return f"model {number}"


def _panel_columns(kind: str, panel: FigurePanel, columns: Columns, numbers: Numbers) -> Columns:
    """Return the columns of a panel with numbers; of turns also earlier ones without."""
    drawn_columns = _numbered_columns(panel, columns, numbers)
    if kind != "turns":
        return drawn_columns
    columns = panel.select_columns(columns)
    return columns[: columns.index(drawn_columns[-1]) + 1]


def _numbered_columns(panel: FigurePanel, columns: Columns, numbers: Numbers) -> list[Column]:
    ids = {name for row in numbers.values() for name, value in row.items() if value is not None}
    return [column for column in panel.select_columns(columns) if column.id in ids]


def _draw_radar(axes: Any, figure: Figure, columns: Columns, values: Floats) -> None:
    angles = np.linspace(0, 2 * math.pi, len(columns), endpoint=False)
    texts = (figure.name(column).replace("_", " ") for column in columns)
    names = ["\n".join(wrap(text, _LINE_CHARS, break_long_words=False)) for text in texts]
    if figure.relative:
        values, names = _scale_columns(columns, values, names)
        axes.set_ylim(-0.15, 1.05)
        axes.set_yticks([0, 0.5, 1], [""] * 3)
    else:
        axes.set_ylim(min(0.0, np.nanmin(values)), figure.top)
        axes.tick_params(axis="y", labelsize=7, labelcolor="#555555")
        axes.set_rlabel_position(180 / len(columns))
        low, high = axes.get_ylim()
        axes.set_yticks([each for each in axes.get_yticks() if low < each < high])
    for label, style, row in _rows_with_numbers(values):
        line = {name: style[name] for name in _LINE}
        outline = [*angles, 0.0], [*row, row[0]]
        axes.plot(*outline, label=label, linewidth=1.4, markersize=3, **line)
        if len(values) <= _MAX_AREAS and not np.isnan(row).any():
            axes.fill(*outline, color=style["color"], alpha=0.08)
    axes.set_xticks(angles, names, fontsize=7 if len(columns) > 12 else 8)
    axes.set_theta_offset(math.pi / 2)
    axes.set_theta_direction(-1)
    axes.tick_params(axis="x", pad=4)
    for label, angle in zip(axes.get_xticklabels(), angles, strict=True):
        # Labels begin where their axis ends, so that they grow away from the others.
        across, up = math.sin(angle), math.cos(angle)
        label.set_ha("center" if abs(across) < 0.1 else "left" if across > 0 else "right")
        label.set_va("center" if abs(up) < 0.9 else "bottom" if up > 0 else "top")
    axes.grid(alpha=0.35)
    axes.spines["polar"].set_alpha(0.3)


def _draw_tasks(axes: Any, figure: Figure, columns: Columns, values: Floats) -> None:
    names = [figure.name(column) for column in columns]
    if figure.relative:
        values, names = _scale_columns(columns, values, names)
    rows = _rows_with_numbers(values)
    room = 0.82 / len(rows)
    half = room * 0.46
    for index, (label, style, row) in enumerate(rows):
        places = np.arange(len(columns)) - 0.41 + room * (index + 0.5)
        # The edge has the colour of the hatch; a line along it would cover a narrow bar.
        look = {"hatch": style["hatch"], "edgecolor": "white", "linewidth": 0}
        axes.bar(places, row, 2 * half, label=label, facecolor=style["color"], **look)
        there = places[~np.isnan(row)]
        # A foot on the axis makes a bar of 0 visible; a missing number has none.
        foot = {"colors": style["color"], "linewidth": 3, "clip_on": False, "zorder": 3}
        axes.hlines(np.zeros(len(there)), there - half, there + half, **foot)
    _name_columns(axes, names)
    low = np.nanmin(values, initial=0.0)
    axes.set_ylim(low, 1.0 if figure.relative else figure.top)


def _name_columns(axes: Any, names: Sequence[str]) -> None:
    """Name the places on the horizontal axis, aslant where the names are too wide."""
    panel = axes.figure.get_figwidth() / axes.get_gridspec().ncols
    room = max(1, int(panel * _CHARS / len(names)))
    lines = [[part for line in name.split("\n") for part in wrap(line, room, break_long_words=False)] for name in names]
    if max(len(line) for of_name in lines for line in of_name) <= room:
        axes.set_xticks(range(len(names)), ["\n".join(of_name) for of_name in lines])
    else:
        look = {"rotation": 35, "ha": "right", "rotation_mode": "anchor"}
        axes.set_xticks(range(len(names)), names, **look)


def _plot_rows(axes: Any, places: range, values: Floats) -> None:
    """Draw a line for each model that has any number."""
    for label, style, row in _rows_with_numbers(values):
        look = {name: style[name] for name in _LINE}
        axes.plot(places, row, label=label, markersize=4, **look)


def _draw_lines(axes: Any, figure: Figure, columns: Columns, values: Floats) -> None:
    _plot_rows(axes, range(len(columns)), values)
    _name_columns(axes, [figure.name(column) for column in columns])
    axes.set_xlim(-0.4, len(columns) - 0.6)
    axes.set_ylim(np.nanmin(values, initial=0.0), figure.top)


def _draw_turns(axes: Any, _: Figure, columns: Columns, values: Floats) -> None:
    turns = range(1, 1 + len(columns))
    _plot_rows(axes, turns, values)
    axes.set_xticks(turns)
    axes.set_xlabel("turn")
    axes.set_ylabel(f"{columns[0].title} {direction_arrow(columns[0].higher_is_better)}")


def _draw_scatter(axes: Any, _: Figure, columns: Columns, values: Floats) -> None:
    x, y = columns[:2]
    for label, style, row in _with_styles(values):
        if np.isnan(row[:2]).any():
            continue
        inside = style["color"] if style["fillstyle"] == "full" else "none"
        look = {"marker": style["marker"], "edgecolors": style["color"], "facecolors": inside}
        axes.scatter(row[:1], row[1:2], s=42, label=label, **look)
    for put, of in ((axes.set_xlabel, x), (axes.set_ylabel, y)):
        title = ": ".join(filter(None, (of.group, of.title)))
        put(_fit(axes, f"{title} {direction_arrow(of.higher_is_better)}"))


def _rows_with_numbers(values: Floats) -> list[tuple[str, dict[str, str], Floats]]:
    """Return the label, the style and the numbers of each model that has any."""
    return [each for each in _with_styles(values) if not np.isnan(each[2]).all()]


def _with_styles(of_models: Iterable[_T]) -> Iterator[tuple[str, dict[str, str], _T]]:
    """Yield the label, the style and the element of each model."""
    for number, (style, each) in enumerate(zip(cycle(_styles()), of_models, strict=False)):
        yield _model_label(number), style, each


def _styles() -> Iterator[dict[str, str]]:
    """Yield the styles of the models.

    A colour that comes again has another marker, line or filling, and hatch, so that lines, points
    and bars all stay distinguishable.
    """
    for again, look in enumerate(_LOOKS["rounds"]):
        markers = _LOOKS["markers"][again:] + _LOOKS["markers"][:again]
        for colour, marker in zip(_COLOURS, markers, strict=True):
            yield {"color": colour, "marker": marker, **look}


def _scale_columns(columns: Columns, values: Floats, names: Sequence[str]) -> tuple[Floats, list[str]]:
    """Scale each column from the worst number (0) to the best (1).

    The ends are those of the paper's numbers and of the models together: of a few models alone
    they would show any difference, however small, as one between worst and best.

    Returns:
        The scaled numbers, 1 where all are equal, and the names with the ends.
    """
    shares, labels = np.full_like(values, np.nan), []
    for place, (column, name) in enumerate(zip(columns, names, strict=True)):
        of_models = values[:, place]
        ends = (*list_printed_values(column.id), np.nanmin(of_models), np.nanmax(of_models))
        worst, best = sorted((min(ends), max(ends)), reverse=not column.higher_is_better)
        span = best - worst
        there = ~np.isnan(of_models)
        shares[there, place] = (of_models[there] - worst) / span if span else 1.0
        arrow = direction_arrow(column.higher_is_better)
        labels.append(f"{name} {arrow}\n{worst:.4g} to {best:.4g}")
    return shares, labels


class _Drawing(NamedTuple):
    """How to draw figures of a kind.

    Attributes:
        draw: Draws a panel from axes, figure, columns and numbers (models x columns).
        fewest: Fewest columns with numbers that a panel needs.
        across: Most panels side by side.
        size: Width and height of a panel in inches.
        pad: Distance between a panel and its title in points.
    """

    draw: Callable[[Any, Figure, Columns, Floats], None]
    fewest: int = 1
    across: int = 2
    size: tuple[float, float] = (_WIDTH, 4.2)
    pad: float = 6
    projection: str | None = None


_KINDS: Mapping[Kind, _Drawing] = {
    "radar": _Drawing(_draw_radar, fewest=3, pad=14, projection="polar"),
    "tasks": _Drawing(_draw_tasks),
    "lines": _Drawing(_draw_lines, fewest=2, across=4, size=(3.2, 3.0)),
    "turns": _Drawing(_draw_turns),
    "scatter": _Drawing(_draw_scatter, fewest=2),
}
