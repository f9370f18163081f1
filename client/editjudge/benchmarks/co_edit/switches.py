"""What can be left out of Co-EditEval, and what its paper leaves open."""

from __future__ import annotations

from dataclasses import dataclass

from ..switches import Switches, switch

_OPEN = "not in the paper, which leaves it open"


@dataclass(frozen=True, slots=True)
class CoEditSwitches(Switches):
    """The first two are on in the protocol `paper`."""

    specialists: bool = switch(
        "CLIP, DINO and LPIPS take part; off, the composites are the reasoning's alone",
        "appendix C.2 (w/o TME)",
    )
    reasoning: bool = switch(
        "the scores of the two calls take part; off, the composites are the specialists' alone, "
        "and nothing caps them",
        "section 3.3; the paper's w/o CoT is plain_questions",
    )
    plain_questions: bool = switch(
        "the two calls ask for the scores without inspection points and steps",
        "appendix C.2 (w/o CoT)",
    )
    uniform_weights: bool = switch(
        "every part of every composite has weight 1",
        "appendix C.2 (weight=1.0)",
    )
    padded_canvas: bool = switch(
        "square outputs to sources that are none are cut to the source's aspect ratio, as from "
        "the canvas that the source was pasted onto",
        "appendix C.1 (GPT-4o)",
    )
    shifted_cosines: bool = switch(
        "a cosine counts as 10 (1 + cos) / 2 instead of 10 max(0, cos)",
        "not in the paper, which gives no mapping",
    )
    exponential_distances: bool = switch(
        "a distance counts as 10 exp(-d) instead of 10 (1 - min(1, d))",
        "not in the paper, which gives no mapping",
    )
    subject_in_place: bool = switch(
        "a subject is compared where it stands with all else black, instead of cropped",
        _OPEN,
    )
    pooled_features: bool = switch(
        "features are averaged over the subject's patches, instead of those of its picture",
        _OPEN,
    )
    segmented_anew: bool = switch(
        "a segmenter finds the subject in the edit by the item's `subject_name`, instead of the "
        "mask laid over both; a lost one counts 0",
        _OPEN,
    )
    whole_frame: bool = switch(
        "distances are averaged over the whole frame, instead of over what is kept",
        _OPEN,
    )
    blacked_out: bool = switch(
        "what is edited is black in both pictures, instead of the source's pixels",
        _OPEN,
    )
