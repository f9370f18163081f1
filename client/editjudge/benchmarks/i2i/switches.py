"""Where the paper of I2I-Bench says two things, or leaves one open."""

from ..switches import Switches, switch


class I2iSwitches(Switches, use_attribute_docstrings=True):
    """None is on in the protocol `paper`."""

    transfer_yes_no: bool = switch("appendix C.3.4, dimension 1")
    """cross-source transfer is one question with yes or no, not a list of them"""
    consistency_levels: bool = switch("appendix C.3.4, dimension 2")
    """inter-subject consistency is one of five levels, not a list of questions"""
    inverted_elements: bool = switch("section 3.2.2")
    """non-edited elements of several images: what lies outside of them is compared"""
    me_editing_artifacts: bool = switch("appendix F.2.1")
    """editing artifacts are judged and tabled for multi-image editing too"""
    found_only: bool = switch("not in the paper, which says nothing of regions that are not found")
    """an edit that lost a subject or detail of its source has no number, instead of 0 for it"""
    own_question: bool = switch("section 3.2.1 and appendix C.3.2")
    """each of the four accuracies is asked by a question of its own, not by the one of all"""
    unnormalised: bool = switch("eq. 4")
    """the score of a question with yes or no is P(Yes), not P(Yes) / (P(Yes) + P(No))"""
    edited_in_commands: bool = switch("appendix F.1.2 (14), F.2.1 (9) and F.2.2 (3)")
    """who names subjects and details sees the edited image too, so each model has its own"""
    lmm_baseline: bool = switch("section 4.3 and table 3 (LMM-Baseline)")
    """every dimension is one question on five levels, without specialists: the ablation"""
