"""What can be left out of Co-EditEval, and what its paper leaves open."""

from ..switches import Switches, switch

_OPEN = "not in the paper, which leaves it open"


class CoEditSwitches(Switches, use_attribute_docstrings=True):
    """The first two are on in the protocol `paper`."""

    specialists: bool = switch("appendix C.2 (w/o TME)")
    """CLIP, DINO and LPIPS take part; off, the composites are the reasoning's alone"""
    reasoning: bool = switch("section 3.3; the paper's w/o CoT is plain_questions")
    """the scores of the two calls take part; off, the composites are the specialists' alone, and
    nothing caps them"""
    plain_questions: bool = switch("appendix C.2 (w/o CoT)")
    """the two calls ask for the scores without inspection points and steps"""
    uniform_weights: bool = switch("appendix C.2 (weight=1.0)")
    """every part of every composite has weight 1"""
    padded_canvas: bool = switch("appendix C.1 (GPT-4o)")
    """square outputs to sources that are none are cut to the source's aspect ratio, as from the
    canvas that the source was pasted onto"""
    subject_in_place: bool = switch(_OPEN)
    """a subject is compared where it stands with all else black, instead of cropped"""
    pooled_features: bool = switch(_OPEN)
    """features are averaged over the subject's patches, instead of those of its picture"""
    whole_frame: bool = switch(_OPEN)
    """distances are averaged over the whole frame, instead of over what is kept"""
    blacked_out: bool = switch(_OPEN)
    """what is edited is black in both pictures, instead of the source's pixels"""
