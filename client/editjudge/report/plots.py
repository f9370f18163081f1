"""Plots as SVG text, for the report."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence

from ..base.errors import MissingExtra

_COLOURS = ("#3a5bc7", "#d6632a", "#7d8590", "#2e8b57", "#9a4fb5")
_MARKERS = ("o", "s", "^", "D", "v")


def scatter(series: Mapping[str, Sequence[tuple[float, float]]], x_label: str, y_label: str) -> str:
    """A scatter plot with one colour and marker per series.

    Returns:
        An `<svg>` element, the same text for the same numbers.

    Raises:
        MissingExtra: matplotlib is not installed.
    """
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtra("plots", "demo") from error
    # Text stays text (small, selectable); the salt makes element ids reproducible.
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "editjudge", "font.size": 10}):
        figure = Figure(figsize=(6.2, 4.2), layout="constrained")
        axes = figure.add_subplot()
        for index, (name, points) in enumerate(series.items()):
            x, y = zip(*points, strict=True) if points else ((), ())
            axes.scatter(
                x,
                y,
                s=34,
                c=_COLOURS[index % len(_COLOURS)],
                marker=_MARKERS[index % len(_MARKERS)],
                label=name,
                alpha=0.85,
            )
        axes.set_xlabel(x_label)
        axes.set_ylabel(y_label)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25)
        axes.legend(frameon=False)
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    text = buffer.getvalue()
    # Inside a page the XML declaration and document type have no place.
    return text[text.index("<svg") :]
