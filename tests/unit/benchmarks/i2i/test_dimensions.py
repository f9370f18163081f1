"""How prompts begin, and who may see the edit; what dimensions are is in `tests/golden/rules`."""

from __future__ import annotations

import numpy as np

from editjudge.base.images import load_image
from editjudge.benchmarks.registry import load_benchmark
from editjudge.panel.prompt import PictureCache
from editjudge.prompts import Template, get_template, load_templates
from editjudge.scorers.judge_scorer import JudgeScorer
from editjudge.scorers.region_similarity import RegionSimilarity

I2I = load_benchmark("i2i")
SWITCHES = [one.name for one in I2I.switches.list_switches()]


def scorers(*rules: object) -> list[JudgeScorer]:
    """Those that ask a judge, by each of these switches."""
    each = (I2I.rules(None, on) for on in rules)  # type: ignore[arg-type]
    found = (r.scorer for one in each for d in one.dimensions for r in d.readings)
    return [one for one in found if isinstance(one, JudgeScorer)]


def templates() -> dict[str, Template]:
    """All that any rules use."""
    every = scorers((), *([switch] for switch in SWITCHES))
    return {one.name: one for scorer in every for one in scorer.templates}


def test_what_depends_on_an_item_alone_does_not_show_what_was_made_of_it() -> None:
    """Then it is asked once for all models; appendix F shows the edit, by a switch."""
    for on, alone in (((), True), (["edited_in_commands"], False)):
        regions = [one for one in scorers(on) if isinstance(one, RegionSimilarity)]
        unseen = [one for one in regions if "edited" not in one.template.fields]
        assert {one.prompt for one in regions if one.inverted} == {"i2i/edited_region"}
        assert bool(unseen) is alone
        assert all("not seen the result" in one.template.user for one in unseen)


def test_every_template_is_used() -> None:
    ours = {name for name in load_templates() if name.startswith("i2i/")}
    assert ours == {name for name in templates() if name.startswith("i2i/")}


def test_prompts_about_one_edit_begin_alike() -> None:
    picture = PictureCache(1024).prepare(load_image(np.zeros((8, 8, 3), np.uint8)))
    shown = {"sources": (("Source image", picture),), "edited": (("Edited image", picture),)}
    texts = dict.fromkeys(("instruction", "hint", "question", "target_text"), "x")
    used = templates().values()
    both = [one for one in used if {"sources", "edited"} <= set(one.fields)]
    assert len(both) >= 10
    assert len({one.make_prompt(shown | texts).prefix for one in both}) == 1
    assert {one.system for one in used} == {get_template("core/question").system}
