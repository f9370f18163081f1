"""The texts and the plot that the demo's page adds to its run."""

from __future__ import annotations

from ..app.view import RunView
from ..base.verdict import Score
from ..report.figures import draw_points
from ..report.page import PageOptions
from .edits import DEMO

_OUTSIDE = "core.psnr.source.outside"
_INSIDE = "core.aligned_psnr.target.inside"


def page_content(view: RunView) -> PageOptions:
    """Make the texts of the page, and a plot of preservation against success of the edit."""
    points: dict[str, list[tuple[float, float]]] = {}
    for row in view.rows():
        x, y = row.outcomes[_OUTSIDE], row.outcomes[_INSIDE]
        if isinstance(x, Score) and isinstance(y, Score):
            points.setdefault(row.model, []).append((x.value, y.value))
    svg = draw_points(
        points,
        "preserved outside the mask: PSNR against the source, dB",
        "achieved inside the mask: aligned PSNR against the target, dB",
    )
    words = DEMO["page"]
    introduction = [(part["heading"], part["text"]) for part in words["introduction"]]
    return PageOptions("editjudge demo", introduction=introduction, figures={words["plot"]: svg})
