"""What the dimensions share, what switches change, and how prompts begin."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from editjudge.base.images import load_image
from editjudge.benchmarks.dimension import Dimension, Reading
from editjudge.benchmarks.i2i.taxonomy import TEXT
from editjudge.benchmarks.registry import load_benchmark
from editjudge.panel.prompt import PictureCache
from editjudge.prompts import Template, get_template
from editjudge.scorers.judge_scorer import JUDGE, JudgeScorer
from editjudge.scorers.region_similarity import RegionSimilarity
from editjudge.scorers.vqa import FiveLevel

from ..signing import signature_of

I2I = load_benchmark("i2i")
USUAL: Mapping[str, Dimension] = {d.id: d for d in I2I.dimensions}
SWITCHES = [one.name for one in I2I.switches.list_switches()]
ACCURACIES = (
    "object_manipulation_accuracy",
    "local_attribute_accuracy",
    "action_state_change_accuracy",
    "spatial_accuracy",
)
REGIONS = {
    "i2i.se.subject_identity_fidelity",
    "i2i.me.non_edited_element_fidelity",
    "i2i.me.subject_consistency",
    "i2i.me.detail_fidelity",
}
CHANGED = {
    "transfer_yes_no": {"i2i.me.cross_source_transfer"},
    "consistency_levels": {"i2i.me.inter_subject_consistency"},
    "inverted_elements": {"i2i.me.non_edited_element_fidelity"},
    "me_editing_artifacts": {"i2i.me.editing_artifacts"},
    "found_only": REGIONS,
    "own_question": {f"i2i.se.{name}" for name in ACCURACIES} | {"i2i.me.spatial_accuracy"},
    "lmm_baseline": set(USUAL)
    - {name for name in USUAL if name.endswith(".lost")}
    - {
        f"i2i.{track}.{name}"
        for track, name in (
            ("se", "blending_naturalness"),
            ("me", "blending_naturalness"),
            ("se", "instruction_following"),
            ("me", "instruction_following"),
            ("se", "editing_artifacts"),
        )
    },
}
YES_NO = {
    "i2i.me.spatial_accuracy",
    *(f"i2i.{track}.world_knowledge_reasoning" for track in ("se", "me")),
    *(f"i2i.se.{name}" for name in ACCURACIES),
}
CHANGED |= {
    "unnormalised": YES_NO,
    "edited_in_commands": REGIONS | {f"{name}.lost" for name in REGIONS},
}
CHANGED["inverted_elements"] |= {"i2i.me.non_edited_element_fidelity.lost"}


def reading(name: str) -> Reading:
    how = USUAL[name].how
    assert isinstance(how, Reading)
    return how


def templates() -> dict[str, Template]:
    """All that any rules use."""
    each = (I2I.rules(), *(I2I.rules(None, [switch]) for switch in SWITCHES))
    found = [
        one
        for rules in each
        for d in rules.dimensions
        for r in d.readings
        if isinstance(r.scorer, JudgeScorer)
        for one in r.scorer.templates
    ]
    return {one.name: one for one in found}


def test_the_four_accuracies_are_one_call() -> None:
    scorers = {reading(f"i2i.se.{name}").scorer for name in ACCURACIES}
    assert scorers == {reading("i2i.me.spatial_accuracy").scorer}
    (scorer,) = scorers
    assert isinstance(scorer, JudgeScorer)
    told = {USUAL[f"i2i.se.{name}"].asks for name in ACCURACIES}
    assert told == {scorer.template.asks}, "what is said to be asked is what is asked"


def test_each_accuracy_can_be_asked_by_itself() -> None:
    known = {d.id: d for d in I2I.rules(None, ["own_question"]).dimensions}
    own = [known[f"i2i.se.{name}"] for name in ACCURACIES]
    words = [
        r.scorer.template for d in own for r in d.readings if isinstance(r.scorer, JudgeScorer)
    ]
    assert [one.name for one in words] == [f"i2i/{name}" for name in ACCURACIES]
    assert [d.asks for d in own] == [one.asks for one in words]
    assert len({one.user for one in words}) == 4
    assert known["i2i.me.spatial_accuracy"].how == known["i2i.se.spatial_accuracy"].how


def test_the_baseline_is_five_levels_alone() -> None:
    """Section 4.3: one general method for all 30, and no specialist."""
    rules = I2I.rules(None, ["lmm_baseline", "me_editing_artifacts"])
    assert len(rules.dimensions) == 31
    for one in rules.dimensions:
        (reading,) = one.readings
        assert isinstance(reading.scorer, FiveLevel)
        assert one.roles == (JUDGE,)
        assert one.range == (0, 1)
    for name, usual in (("world_knowledge_reasoning", "hint"), (TEXT, "target_text")):
        (one,) = (d for d in rules.dimensions if d.id == f"i2i.se.{name}")
        assert one.needs == {usual}


def test_subjects_and_details_have_prompts_of_their_own() -> None:
    one, other = (
        reading(f"i2i.me.{name}").scorer for name in ("subject_consistency", "detail_fidelity")
    )
    assert isinstance(one, RegionSimilarity)
    assert isinstance(other, RegionSimilarity)
    assert one.prompt != other.prompt
    regions = [
        d.how.scorer
        for d in USUAL.values()
        if isinstance(d.how, Reading)
        and isinstance(d.how.scorer, RegionSimilarity)
        and d.how.field != "lost"
    ]
    assert len(regions) == 5
    assert [r.prompt for r in regions if r.inverted] == ["i2i/edited_region"]
    # What depends on an item alone must not show what was made of it.
    assert [r.prompt for r in regions if "edited" in r.template.fields] == ["i2i/edited_region"]


def test_what_is_looked_for_in_two_images_is_named_for_each_alone() -> None:
    """A phrase goes to the segmenter as it is, on the source and on the edited image."""
    for name in ("source_subjects", "source_details", "preserved_subjects"):
        words = get_template(f"i2i/{name}").user
        assert "must be able to outline it" in words
        assert "by neither" in words
        assert "the number of an image" in words


def test_an_extraction_with_a_lost_subject_is_another_number() -> None:
    """So it is where its subjects are named otherwise, and where P(Yes) is not normalised."""
    name = "i2i.me.subject_extraction_composition"
    signed = [
        str(signature_of(known[name], known, {}))
        for on in ((), ("found_only",), ("edited_in_commands",), ("unnormalised",))
        for known in [{d.id: d for d in I2I.rules(None, on).dimensions}]
    ]
    assert len(set(signed)) == 4


def test_who_names_subjects_and_details_may_see_the_edit() -> None:
    """Appendix F shows it to all of them; then the same for every model is none of them."""
    known = {d.id: d for d in I2I.rules(None, ["edited_in_commands"]).dimensions}
    for name in REGIONS:
        usual, how = reading(name).scorer, known[name].how
        assert isinstance(how, Reading)
        scorer = how.scorer
        assert isinstance(usual, RegionSimilarity)
        assert isinstance(scorer, RegionSimilarity)
        assert scorer.template.fields == ("sources", "edited", "instruction")
        assert usual.template.fields == ("sources", "instruction")
        assert scorer.template.contract == usual.template.contract
        assert "not seen the result" in usual.template.user
        assert "not seen the result" not in scorer.template.user


def test_the_list_says_by_which_equation_and_that_yes_is_normalised() -> None:
    for on, text in (((), "eq. 4, normalised over Yes and No"), (("unnormalised",), "eq. 4")):
        known = {d.id: d for d in I2I.rules(None, on).dimensions}
        assert all(known[name].source.endswith(f"; {text}") for name in YES_NO)
        assert all(known[name].variant != "vqa.2level" for name in YES_NO) == bool(on)
        levels = known["i2i.se.blending_naturalness"]
        assert levels.how == USUAL[levels.id].how, "the softmax of eq. 1 is over its five levels"
        assert levels.source.endswith("; eq. 1")


@pytest.mark.parametrize("switch", SWITCHES)
def test_a_switch_changes_what_it_names(switch: str) -> None:
    rules = I2I.rules(None, [switch])
    assert rules.protocol == f"i2i.paper.3+{switch}"
    changed = set()
    for one in rules.dimensions:
        usual = USUAL.get(one.id)
        same = usual is not None and str(one.signature({})) == str(usual.signature({}))
        # What is derived names its protocol, whatever the switch.
        if not same and (isinstance(one.how, Reading) or switch == "lmm_baseline"):
            changed.add(one.id)
    assert changed == CHANGED[switch]
    tables = {column.id for column in rules.columns}
    assert ("i2i.me.editing_artifacts" in tables) == (switch == "me_editing_artifacts")


def test_every_template_is_used() -> None:
    from editjudge.prompts import load_templates as known

    ours = {name for name in known() if name.startswith("i2i/")}
    assert ours == {name for name in templates() if name.startswith("i2i/")}


def test_prompts_about_one_edit_begin_alike() -> None:
    picture = PictureCache(1024).prepare(load_image(np.zeros((8, 8, 3), np.uint8)))
    shown = {
        "sources": (("Source image", picture),),
        "edited": (("Edited image", picture),),
    }
    texts = dict.fromkeys(("instruction", "hint", "question", "target_text"), "x")
    used = templates().values()
    both = [one for one in used if {"sources", "edited"} <= set(one.fields)]
    assert len(both) >= 10
    assert len({one.make_prompt(shown | texts).prefix for one in both}) == 1
    assert {one.system for one in used} == {get_template("core/question").system}
