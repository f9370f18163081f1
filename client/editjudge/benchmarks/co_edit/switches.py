"""What can be left out of Co-EditEval, and what its paper leaves open."""

from __future__ import annotations

from dataclasses import dataclass

from ..switches import Switches, switch


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
    shifted_cosines: bool = switch(
        "a cosine counts as 10 (1 + cos) / 2 instead of 10 max(0, cos)",
        "not in the paper, which gives no mapping",
    )
    exponential_distances: bool = switch(
        "a distance counts as 10 exp(-d) instead of 10 (1 - min(1, d))",
        "not in the paper, which gives no mapping",
    )
    pooled_regions: bool = switch(
        "a region is averaged over, instead of blacking out all else",
        "not in the paper, which leaves it open",
    )
