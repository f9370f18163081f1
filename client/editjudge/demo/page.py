"""What the demo's page shows and says besides its run."""

from __future__ import annotations

from ..app.view import RunView
from ..base.verdict import Scored
from ..report.figures import draw_points
from ..report.page import About

_OUTSIDE = "core.psnr.source.outside"
_INSIDE = "core.aligned_psnr.target.inside"
COLUMNS = (
    _OUTSIDE,
    "core.ssim.source.outside",
    "core.ssim.source.whole",
    _INSIDE,
    "core.text_content_accuracy",
    "core.quality.piqe",
)
"""The columns of the demo's table."""
_PLOT = "One point per edit and editor. Only up and to the right is a good edit."
_INTRODUCTION = (
    (
        "",
        (
            "Photographs that ship inside scikit-image, edited on the spot. Each edit was made by "
            "three editors whose quality is known, because we wrote them: exact does what was "
            "asked and nothing else, damaged does what was asked and spoils the rest (colour "
            "shift, blur, a shift of the whole picture), no_edit returns the source. All three "
            "end in JPEG noise. Every number comes from the pixels or from a service behind a "
            "real Triton server."
        ),
    ),
    (
        "Why no single preservation number can rank them",
        (
            "Preservation compares the result with the source. By that measure the editor that "
            "did nothing is as good as the exact one outside the mask, and over the whole image "
            "it is the best of the three: a higher number for ignoring the instruction. Whether "
            "the edit was made is seen only inside the mask, against a target, after the picture "
            "has been aligned, and there the damaged editor beats the one that did nothing. Both "
            "are needed, and only a synthetic set has a target to measure the second one with. "
            "Real instructions have many right answers and no target, which is why published "
            "protocols ask a multimodal LLM whether the instruction was followed, and keep pixel "
            "measures for what must stay."
        ),
    ),
)


def about(view: RunView) -> About:
    """The words of the page, and a plot of what is kept against what is done."""
    points: dict[str, list[tuple[float, float]]] = {}
    for row in view.rows():
        x, y = row.outcomes[_OUTSIDE], row.outcomes[_INSIDE]
        if isinstance(x, Scored) and isinstance(y, Scored):
            points.setdefault(row.model, []).append((x.value, y.value))
    svg = draw_points(
        points,
        "kept outside the mask: PSNR against the source, dB",
        "met inside the mask: aligned PSNR, target, dB",
    )
    return About("editjudge demo", introduction=_INTRODUCTION, figures={_PLOT: svg})
