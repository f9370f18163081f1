"""Whether what was not to be edited is as it was."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ...base.errors import Abstained
from ...base.images import decode, load_image, load_mask
from ...base.item import Edit
from ...base.threads import in_thread
from ...base.verdict import Scored, Verdict
from ...scorers.regions import comparable, fitted, png_of
from ...scorers.scorer import ServiceScorer
from .canvas import off_canvas

if TYPE_CHECKING:
    from ...panel import Panel


@dataclass(frozen=True)
class KeptDistance(ServiceScorer):
    """LPIPS of source and edit where nothing was to be edited (Co-EditBench, appendix B.3).

    Field `kept`, 0 or more, lower is better, 0 for equal pictures. In the edited part both
    pictures show the source, so the network sees no edge there and nothing that differs, and
    the distances are averaged over what is kept alone: the size of the mask changes neither. An
    edited image of another size is first resized to the source's (Lanczos). Where nothing is
    kept it is `degenerate`.

    Attributes:
        service: Of the role `lpips`.
        blacked_out: In the edited part both pictures are black instead.
        whole_frame: Averaged over the whole frame: the edited part counts as equal, so the
            larger the mask, the smaller the distance.
        padded_canvas: See `off_canvas`.
    """

    name: ClassVar[str] = "kept_distance"

    blacked_out: bool = field(default=False, kw_only=True)
    whole_frame: bool = field(default=False, kw_only=True)
    padded_canvas: bool = field(default=False, kw_only=True)

    def rests_on(self, field: str) -> tuple[Callable[..., object], ...]:
        """What brings both to one size, the mask of what is kept, and the canvas that is undone."""
        undone = (off_canvas,) if self.padded_canvas else ()
        return (decode, fitted, load_mask, *undone)

    async def score(
        self, edit: Edit, panel: Panel, fields: frozenset[str]
    ) -> Mapping[str, Verdict]:
        """One call."""
        inputs, note = await in_thread(self._inputs, edit)
        reply = await panel.call(self.service, inputs, {"region": "weight"})
        return {"kept": Scored(value=float(np.asarray(reply["DISTANCE"])[0]), evidence=note)}

    def _inputs(self, edit: Edit) -> tuple[dict[str, bytes], dict[str, Any]]:
        if self.padded_canvas:
            edit = off_canvas(edit)
        source = edit.item.source
        if source is None:
            raise ValueError(f"{edit.item.id} has no single source")
        kept = comparable(edit, "outside", source.size)
        if kept is None:
            raise Abstained("degenerate", "there is no mask")
        pixels, note = fitted(edit.output, source)
        shown = kept[..., None]
        if self.blacked_out:
            reference = load_image(np.where(shown, source.rgb, np.uint8(0)), source.name)
        else:
            reference = source
        edited = load_image(
            np.where(shown, pixels, np.uint8(0) if self.blacked_out else source.rgb),
            edit.output.name,
        )
        inputs = {"IMAGE_A": reference.encoded, "IMAGE_B": edited.encoded}
        return inputs | ({} if self.whole_frame else {"MASK": png_of(kept)}), note
