"""Outputs on the square canvas that a source was pasted onto (Co-EditBench, appendix C.1)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from ...base.images import load_image
from ...base.item import Edit
from ...base.signature import implementation
from ...scorers.rubric import Rubric


@implementation(1)
def off_canvas(edit: Edit) -> Edit:
    """An edit without the canvas: cut to the aspect ratio of its source, about the middle.

    GPT-4o took squares of 1024x1024, so a source was scaled to fit one, pasted onto a white one,
    and the output cut to the source's aspect ratio. The paper does not say where on the canvas a
    source stood; here in the middle. An output that is no square, or whose source is one, or
    that has several sources, stands as it is.
    """
    source, output = edit.item.source, edit.output
    side, height = output.size
    if source is None or side != height or source.size[0] == source.size[1]:
        return edit
    width, height = (max(1, round(side * part / max(source.size))) for part in source.size)
    left, top = (side - width) // 2, (side - height) // 2
    cut = output.rgb[top : top + height, left : left + width]
    return replace(edit, image=load_image(cut, output.name))


@dataclass(frozen=True)
class OffCanvasRubric(Rubric):
    """A rubric whose judge sees the edit without its canvas; see `off_canvas`."""

    name: ClassVar[str] = "rubric_off_canvas"

    @property
    def computes(self) -> bool:
        """It cuts pictures."""
        return True

    def shown(self, edit: Edit) -> Edit:
        """The edit without its canvas."""
        return off_canvas(edit)
