"""The figures of papers, drawn from a run's table or from what a paper prints."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count, cycle
from textwrap import wrap
from types import MappingProxyType
from typing import Any, Literal, TypeAlias, TypeVar

from ..base.errors import MissingExtra
from ..benchmarks.column import Column
from ..benchmarks.figures import Figure, Kind, Panel
from .numbers import arrow

_T = TypeVar("_T")
Form: TypeAlias = Literal["svg", "pdf", "png"]
Numbers: TypeAlias = Mapping[str, Mapping[str, float | None]]
"""By model and column id."""
Intervals: TypeAlias = Mapping[str, Mapping[str, tuple[float, float]]]
"""Ends by model and column id, where there are any."""

# Told apart by people who see few colours (Okabe and Ito, 2008), and by line and marker besides.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C6D31")
_LINE = ("color", "marker", "linestyle", "fillstyle")
_FILLED = 4
"""Models up to which a radar is filled: more would only be murky."""
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
_ROUNDS = (
    ("-", "full", ""),
    ("--", "none", "///"),
    ("-.", "full", "..."),
    (":", "none", "xxx"),
    ("-", "none", "---"),
    ("--", "full", "+++"),
    ("-.", "none", "|||"),
    (":", "full", "\\\\\\"),
)
"""Line, marker and hatch of each time that the colours come again."""
LOOKS = len(_COLOURS) * len(_ROUNDS)
"""Models that a figure tells apart; after them looks come again."""
_WIDTH = 5.2
_SMALL = (3.4, 2.6)
"""Width and height of each of many small panels."""
_LONGEST = 48
"""Characters of a name in the legend; a paper's rows with their judge have as many."""
_LETTERS, _HANDLE = 14, 6
"""Letters on an inch of the legend, and those whose place a line or a marker takes."""
_DOTS = 200
_STEPS = 20
"""Of shares from 0 to 1."""
_STYLE: Any = {
    "font.size": 9,
    "hatch.linewidth": 0.6,
    "pdf.fonttype": 42,
    "svg.fonttype": "none",  # text stays text: small, and found by a search
    "svg.hashsalt": "editjudge",  # ids of elements are the same every time
    "text.parse_math": False,  # a model may be called $x$
}
_FEWEST: Mapping[Kind, int] = {"radar": 3, "scatter": 2}
"""Axes that a panel must have numbers on."""
_WRAPPED = 14


def drawn(figure: Figure, columns: Sequence[Column], numbers: Numbers) -> tuple[Panel, ...]:
    """The panels that have something to show: a radar of three axes, otherwise one number."""
    fewest = _FEWEST.get(figure.kind, 1)
    return tuple(p for p in figure.panels if len(_with_numbers(p, columns, numbers)) >= fewest)


def shown(figure: Figure, columns: Sequence[Column], numbers: Numbers) -> tuple[Column, ...]:
    """The columns of which the figure shows a number, each once."""
    panels = drawn(figure, columns, numbers)
    return tuple({c.id: c for p in panels for c in _with_numbers(p, columns, numbers)}.values())


def draw(
    figure: Figure,
    columns: Sequence[Column],
    numbers: Numbers,
    form: Form,
    warning: str = "",
    intervals: Intervals = MappingProxyType({}),
) -> bytes:
    """Draw a figure; the same bytes for the same numbers.

    A number that is not there leaves a gap: no line goes through it and no bar stands for it.

    Args:
        columns: Those of the table; what has no number of any model is left out, but a turn
            before the last that has one keeps its place.
        numbers: In the order of the legend.
        warning: Written across the top, for what is no result.
        intervals: Drawn in `means`.

    Raises:
        MissingExtra: matplotlib is not installed.
        ValueError: no panel has anything to show; see `drawn`.
    """
    panels = drawn(figure, columns, numbers)
    if not panels:
        raise ValueError("nothing to draw")
    small = figure.kind == "means"
    across = min(3 if small else 2, len(panels))
    down = math.ceil(len(panels) / across)
    wide = 2 if figure.kind == "tasks" and across == 1 else 1
    width, height = _SMALL if small else (_WIDTH * wide, 4.2)
    projection = {"projection": "polar"} if figure.kind == "radar" else {}
    with _canvas(width * across, height * down + 0.3) as canvas:
        for place, panel in enumerate(panels, 1):
            axes: Any = canvas.add_subplot(down, across, place, **projection)
            held = _shown(figure, panel, columns, numbers)
            if small:
                _means(axes, held[0], numbers, intervals)
            else:
                _DRAWN[figure.kind](axes, figure, held, numbers)
            axes.set_title(panel.title, fontsize=10, pad=14 if figure.kind == "radar" else 6)
        _legend(canvas, list(numbers))
        if warning:
            canvas.suptitle(warning, color="#b00020", fontsize=10)
        return _saved(canvas, form)


def draw_masks(shares: Sequence[float], form: Form, printed: float | None = None) -> bytes:
    """Draw how many items have a mask of which size, in steps of a twentieth of the picture.

    Args:
        shares: Of the picture, 0..1; at least one.
        printed: Where the paper says that most are below, marked.

    Raises:
        MissingExtra: matplotlib is not installed.
    """
    with _canvas(_WIDTH, 3.4) as canvas:
        axes = canvas.add_subplot()
        steps = [step / _STEPS for step in range(_STEPS + 1)]
        axes.hist(shares, bins=steps, color=_COLOURS[0], edgecolor="white")
        if printed is not None:
            axes.axvline(printed, color=_COLOURS[1], linestyle="--", linewidth=1.2)
            label = f"† most below {printed:.0%}"
            at = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points"}
            axes.annotate(label, (printed, 0.95), (4, 0), color=_COLOURS[1], **at)
        axes.set_xlim(0, 1)
        axes.set_xlabel(f"share of the picture that the mask covers ({len(shares):,} masks)")
        axes.set_ylabel("items")
        _plain(axes)
        return _saved(canvas, form)


def draw_points(
    points: Mapping[str, Sequence[tuple[float, float]]], x_label: str, y_label: str
) -> str:
    """Draw points of several models, as an `<svg>` element.

    Raises:
        MissingExtra: matplotlib is not installed.
    """
    with _canvas(_WIDTH * 1.2, 4.2) as canvas:
        axes = canvas.add_subplot()
        for label, style, pairs in _each(points):
            x, y = zip(*pairs, strict=True) if pairs else ((), ())
            axes.scatter(x, y, s=34, label=label, c=style["color"], marker=style["marker"])
        axes.set_xlabel(x_label)
        axes.set_ylabel(y_label)
        _plain(axes)
        _legend(canvas, list(points))
        return svg_element(_saved(canvas, "svg"))


def svg_element(svg: bytes) -> str:
    """A figure within a page, where the XML declaration and document type have no place."""
    text = svg.decode()
    return text[text.index("<svg") :]


@contextmanager
def _canvas(width: float, height: float) -> Iterator[Any]:
    """A figure of matplotlib in our style.

    Raises:
        MissingExtra: it is not installed.
    """
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure as Canvas
    except ImportError as error:
        raise MissingExtra("figures", "demo") from error
    with rc_context(_STYLE):
        yield Canvas(figsize=(width, height), layout="constrained")


def _saved(canvas: Any, form: Form) -> bytes:
    out = io.BytesIO()
    # What would say when it was drawn.
    nothing = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": None}[form]
    canvas.savefig(out, format=form, dpi=_DOTS, metadata=nothing, bbox_inches="tight")
    return out.getvalue()


def _legend(canvas: Any, models: Sequence[str]) -> None:
    """Of the models of all panels, in the order of the table, below the picture.

    What is saved is as large as the picture and the legend together.
    """
    handles: dict[str, Any] = {}
    for axes in canvas.axes:
        some, labels = axes.get_legend_handles_labels()
        handles |= dict(zip(labels, some, strict=True))
    names = {
        label: name
        for number, name in enumerate(_shortened(models))
        if (label := _label(number)) in handles
    }
    longest = max(map(len, names.values()), default=1)
    columns = int(canvas.get_figwidth() * _LETTERS / (longest + _HANDLE))
    legend = canvas.legend(
        [handles[label] for label in names],
        list(names),
        loc="upper center",
        bbox_to_anchor=(0.5, 0),
        ncols=max(1, min(4, len(names), columns)),
        frameon=False,
    )
    # Names that begin with `_` would be left out if they were labels.
    for text, name in zip(legend.get_texts(), names.values(), strict=True):
        text.set_text(name)


def _shortened(names: Sequence[str]) -> list[str]:
    """Long names without their middle, of which more stays where two would be the same."""
    for most in count(_LONGEST):
        short = [_without_middle(name, most) for name in names]
        if len(set(short)) == len(names):
            break
    return short


def _without_middle(name: str, most: int) -> str:
    if len(name) <= most:
        return name
    return f"{name[: most // 2]}…{name[len(name) - (most - most // 2 - 1) :]}"


def _label(number: int) -> str:
    """What a model is called until the legend is there, which leaves out what begins with `_`."""
    return f"model {number}"


def _shown(
    figure: Figure, panel: Panel, columns: Sequence[Column], numbers: Numbers
) -> list[Column]:
    """What the panel has a place for: of turns also those without numbers before the last."""
    held = _with_numbers(panel, columns, numbers)
    if figure.kind != "turns":
        return held
    meant = panel.of(columns)
    return list(meant[: meant.index(held[-1]) + 1])


def _with_numbers(panel: Panel, columns: Sequence[Column], numbers: Numbers) -> list[Column]:
    rows = numbers.values()
    return [c for c in panel.of(columns) if any(row.get(c.id) is not None for row in rows)]


def _radar(axes: Any, figure: Figure, columns: Sequence[Column], numbers: Numbers) -> None:
    angles = [2 * math.pi * index / len(columns) for index in range(len(columns))]
    for label, style, row in _each(numbers):
        values = [
            _share(c, row.get(c.id), numbers) if figure.relative else _or_nan(row.get(c.id))
            for c in columns
        ]
        if all(map(math.isnan, values)):
            continue
        closed = [*values, values[0]]
        line = {name: style[name] for name in _LINE}
        axes.plot([*angles, angles[0]], closed, label=label, linewidth=1.4, markersize=3, **line)
        if len(numbers) <= _FILLED and not any(map(math.isnan, values)):
            axes.fill([*angles, angles[0]], closed, color=style["color"], alpha=0.08)
    names = [_wrapped(figure.name(column)) for column in columns]
    if figure.relative:
        names = [
            f"{name} {arrow(c.higher_is_better)}" for name, c in zip(names, columns, strict=True)
        ]
        axes.set_ylim(-0.15, 1.05)
        axes.set_yticks([0, 0.5, 1], ["worst", "", "best"], fontsize=7, color="#555555")
    else:
        axes.set_ylim(0, figure.top)
        axes.tick_params(axis="y", labelsize=7, labelcolor="#555555")
    axes.set_xticks(angles, names, fontsize=7 if len(columns) > 12 else 8)
    axes.set_theta_offset(math.pi / 2)
    axes.set_theta_direction(-1)
    axes.tick_params(axis="x", pad=10)
    axes.grid(alpha=0.35)
    axes.spines["polar"].set_alpha(0.3)


def _tasks(axes: Any, figure: Figure, columns: Sequence[Column], numbers: Numbers) -> None:
    room = 0.82 / len(numbers)
    for index, (label, style, row) in enumerate(_each(numbers)):
        places = [place - 0.41 + room * (index + 0.5) for place in range(len(columns))]
        values = [_or_nan(row.get(column.id)) for column in columns]
        axes.bar(places, values, room * 0.92, label=label, color=style["color"], **_hatched(style))
        there = [p for p, value in zip(places, values, strict=True) if not math.isnan(value)]
        half = room * 0.46
        # A foot, over the axis: a bar of 0 is seen, one that is not there has none.
        axes.hlines(
            [0] * len(there),
            [place - half for place in there],
            [place + half for place in there],
            colors=style["color"],
            linewidth=3,
            clip_on=False,
            zorder=3,
        )
    slanted = len(columns) > 5
    axes.set_xticks(
        range(len(columns)),
        [figure.name(column) if slanted else _wrapped(figure.name(column)) for column in columns],
        rotation=35 if slanted else 0,
        ha="right" if slanted else "center",
    )
    axes.set_ylim(0, figure.top)
    _plain(axes)


def _turns(axes: Any, figure: Figure, columns: Sequence[Column], numbers: Numbers) -> None:
    for label, style, row in _each(numbers):
        values = [_or_nan(row.get(column.id)) for column in columns]
        axes.plot(
            range(1, 1 + len(columns)),
            values,
            label=label,
            markersize=4,
            **{n: style[n] for n in _LINE},
        )
    axes.set_xticks(range(1, 1 + len(columns)))
    axes.set_xlabel("turn")
    axes.set_ylabel(f"{columns[0].title} {arrow(columns[0].higher_is_better)}")
    _plain(axes)


def _scatter(axes: Any, figure: Figure, columns: Sequence[Column], numbers: Numbers) -> None:
    x, y = columns[:2]
    for label, style, row in _each(numbers):
        if row.get(x.id) is None or row.get(y.id) is None:
            continue
        inside = style["color"] if style["fillstyle"] == "full" else "none"
        axes.scatter(
            [row[x.id]],
            [row[y.id]],
            s=42,
            label=label,
            marker=style["marker"],
            edgecolors=style["color"],
            facecolors=inside,
        )
    axes.set_xlabel(f"{x.group}: {x.title} {arrow(x.higher_is_better)}")
    axes.set_ylabel(f"{y.group}: {y.title} {arrow(y.higher_is_better)}")
    _plain(axes)


def _means(axes: Any, column: Column, numbers: Numbers, intervals: Intervals) -> None:
    """A point for each model, with its interval; the axis begins where the numbers do."""
    for place, (model, (label, style, row)) in enumerate(zip(numbers, _each(numbers), strict=True)):
        if row.get(column.id) is None:
            continue
        look = {name: style[name] for name in _LINE if name != "linestyle"}
        axes.plot([place], [row[column.id]], label=label, markersize=5, linestyle="", **look)
        if ends := intervals.get(model, {}).get(column.id):
            axes.vlines([place], *ends, colors=style["color"], linewidth=1.4)
    axes.set_xlim(-0.6, len(numbers) - 0.4)
    axes.set_xticks([])
    axes.ticklabel_format(axis="y", useOffset=False)
    axes.set_ylabel("higher is better" if column.higher_is_better else "lower is better")
    _plain(axes)


def _plain(axes: Any) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25, axis="y")
    axes.set_axisbelow(True)


def _each(numbers: Mapping[str, _T]) -> Iterator[tuple[str, dict[str, str], _T]]:
    """The models with how each is drawn."""
    for number, (style, row) in enumerate(zip(cycle(_styles()), numbers.values(), strict=False)):
        yield _label(number), style, row


def _styles() -> Iterator[dict[str, str]]:
    """Of the models, one after the other.

    A colour comes again with another marker, and another line or filling, and another hatch:
    lines, points and bars are each told apart by what they have of it.
    """
    for again, look in enumerate(_ROUNDS):
        markers = (*_MARKERS[again:], *_MARKERS[:again])
        for colour, marker in zip(_COLOURS, markers, strict=True):
            names = ("color", "marker", "linestyle", "fillstyle", "hatch")
            yield dict(zip(names, (colour, marker, *look), strict=True))


def _hatched(style: Mapping[str, str]) -> dict[str, str]:
    return {"hatch": style["hatch"], "edgecolor": "white"} if style["hatch"] else {}


def _share(column: Column, value: float | None, numbers: Numbers) -> float:
    """How far a number is from the worst model's to the best one's, 0..1; 1 where all are equal."""
    values = [v for row in numbers.values() if (v := row.get(column.id)) is not None]
    if value is None or not values:
        return math.nan
    low, high = min(values), max(values)
    if low == high:
        return 1.0
    share = (value - low) / (high - low)
    return share if column.higher_is_better else 1 - share


def _or_nan(value: float | None) -> float:
    return math.nan if value is None else value


def _wrapped(text: str) -> str:
    """On several lines where it is long."""
    return "\n".join(wrap(text.replace("_", " "), _WRAPPED, break_long_words=False))


_DRAWN: Mapping[Kind, Callable[[Any, Figure, Sequence[Column], Numbers], None]] = {
    "radar": _radar,
    "tasks": _tasks,
    "turns": _turns,
    "scatter": _scatter,
}
