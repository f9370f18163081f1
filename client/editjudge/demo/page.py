"""What the demo's page shows and says besides its run."""

from __future__ import annotations

from ..app.view import RunView
from ..base.verdict import Score
from ..report.figures import draw_points
from ..report.page import PageOptions
from .edits import DEMO

_OUTSIDE = "core.psnr.source.outside"
_INSIDE = "core.aligned_psnr.target.inside"


def page_content(view: RunView) -> PageOptions:
    """The words of the page, and a plot of what is kept against what is done."""
    points: dict[str, list[tuple[float, float]]] = {}
    for row in view.rows():
        x, y = row.outcomes[_OUTSIDE], row.outcomes[_INSIDE]
        if isinstance(x, Score) and isinstance(y, Score):
            points.setdefault(row.model, []).append((x.value, y.value))
    svg = draw_points(
        points,
        "kept outside the mask: PSNR against the source, dB",
        "met inside the mask: aligned PSNR, target, dB",
    )
    words = DEMO["page"]
    introduction = [(part["heading"], part["text"]) for part in words["introduction"]]
    return PageOptions("editjudge demo", introduction=introduction, figures={words["plot"]: svg})
