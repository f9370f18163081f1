"""Where the paper of I2I-Bench says two things, or leaves one open."""

from __future__ import annotations

from dataclasses import dataclass

from ..switches import Switches, switch


@dataclass(frozen=True, slots=True)
class I2iSwitches(Switches):
    """None is on in the protocol `paper`."""

    transfer_yes_no: bool = switch(
        "cross-source transfer is one question with yes or no, not a list of them",
        "appendix C.3.4, dimension 1",
    )
    consistency_levels: bool = switch(
        "inter-subject consistency is one of five levels, not a list of questions",
        "appendix C.3.4, dimension 2",
    )
    inverted_elements: bool = switch(
        "non-edited elements of several images: what lies outside of them is compared",
        "section 3.2.2",
    )
    me_editing_artifacts: bool = switch(
        "editing artifacts are judged and tabled for multi-image editing too",
        "appendix F.2.1",
    )
    found_only: bool = switch(
        "an edit that lost a subject or detail of its source has no number, instead of 0 for it",
        "not in the paper, which says nothing of regions that are not found",
    )
    own_question: bool = switch(
        "each of the four accuracies is asked by a question of its own, not by the one of all",
        "section 3.2.1 and appendix C.3.2",
    )
    lmm_baseline: bool = switch(
        "every dimension is one question on five levels, without specialists: the ablation",
        "section 4.3 and table 3 (LMM-Baseline)",
    )
