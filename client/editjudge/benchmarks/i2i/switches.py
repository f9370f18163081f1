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
    lost_scores_zero: bool = switch(
        "a subject or detail found in its source and not in the edited image counts as 0",
        "not in the paper, which says nothing of regions that are not found",
    )
