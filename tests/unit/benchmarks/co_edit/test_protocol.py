"""Dimensions and columns of Co-EditEval against the paper, with replies that are set."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from editjudge.answers.scores import Scores
from editjudge.app.spec import RunSpec
from editjudge.base.errors import Abstention, ConfigError, Rejection, Unreachable
from editjudge.base.images import decode, load_image
from editjudge.base.item import Item, Missing
from editjudge.base.verdict import Failure, MissingOutput, NoScore, NotApplicable, NotServed, Outcome, Score
from editjudge.benchmarks.benchmark import Rules
from editjudge.benchmarks.co_edit import BENCHMARK
from editjudge.benchmarks.co_edit.dimensions import GROUPS
from editjudge.benchmarks.co_edit.taxonomy import EDIT_TYPES, GLOBAL
from editjudge.benchmarks.column import Row
from editjudge.benchmarks.tabulation import tabulate
from editjudge.cli.options import rules_from
from editjudge.engine.judge import judge
from editjudge.prompts import get_template

from ....fakes.transport import read_prompt
from .scripted_panel import (
    EDITING,
    GROUP_OF,
    LOOKS,
    MEASURED,
    SCORES,
    SEEN,
    Specialists,
    derive_all,
    edit,
    item,
    judge_item,
    list_requests,
    measure_mask,
    reply_with,
    rules,
    values,
)

HERE = Path(__file__).parent
PUBLISHED = list(csv.DictReader((HERE / "weights.csv").read_text().splitlines()))
TABLE_1 = list(csv.DictReader((HERE / "table1.csv").read_text().splitlines()))
EXACT = 1e-9


def mean(*parts: tuple[float, float]) -> float:
    """A weighted geometric mean of (score, weight), as equation 1 is printed."""
    return math.prod(score**weight for score, weight in parts) ** (1 / sum(w for _, w in parts))


# The parts of `SCORES` and `SEEN`, by hand.
COMPLETE = (8**1.0 * 6**0.2 * 9**0.4) ** (1 / 1.6)
LOOK = 7**0.3 * 8**0.3 * 9**0.2 * 10**0.2
KEPT = 9**0.4 * 7.5**0.6
SAME = (9 * 4) ** 0.5


def test_weights_are_the_published_ones() -> None:
    assert {row["metric"] for row in PUBLISHED} == set(GROUP_OF)
    assert len(GROUP_OF) == 11
    for row in PUBLISHED:
        metric = GROUPS[row["group"]]["metrics"][row["metric"]]
        assert metric["weight"] == float(row["metric_weight"])
        assert ("call" in metric) == (row["evaluator"] == "lmm")
        assert GROUPS[row["group"]]["weight"] == float(row["group_weight"])


async def test_equations() -> None:
    panel = Specialists()
    got = values(await judge_item(item(), panel))
    assert len(panel.transport.asked) == 2
    assert {name: got[name] for name in SCORES} == SCORES
    for name, value in SEEN.items():
        assert got[name] == pytest.approx(value, abs=EXACT)
    assert got["semantic_identity_preservation"] == pytest.approx(9, abs=EXACT)
    assert got["visual_identity_preservation"] == pytest.approx(4, abs=EXACT)
    assert got["non_edited_detail_preservation"] == pytest.approx(7.5, abs=EXACT)
    expected = {
        "edit_completeness": COMPLETE,
        "image_quality": LOOK,
        "non_edited_preservation": KEPT,
        "identity_preservation": SAME,
        "image_quality.capped": min(LOOK, COMPLETE),
        "non_edited_preservation.capped": min(KEPT, COMPLETE),
        "identity_preservation.capped": min(SAME, COMPLETE),
        "overall": COMPLETE**0.5 * min(LOOK, COMPLETE) ** 0.2 * min(KEPT, COMPLETE) ** 0.1 * min(SAME, COMPLETE) ** 0.2,
    }
    for name, value in expected.items():
        assert got[name] == pytest.approx(value, abs=EXACT), name
    assert KEPT > COMPLETE, "else no cap is tested"
    assert len(got) == len(rules().dimensions)


async def test_the_list_is_in_the_papers_order() -> None:
    """Eight scores that all differ: each must end up under its own name."""
    scores = dict(zip(EDITING + LOOKS, range(1, 9), strict=True))
    panel = Specialists(reply_with(scores))
    got = values(await judge_item(item(), panel))
    assert {name: got[name] for name in scores} == scores
    for prompt in panel.transport.asked:
        text = read_prompt(prompt)
        asked = LOOKS if "visual_naturalness" in text else EDITING
        places = [text.index(f"{n}. {name}") for n, name in enumerate(asked, 1)]
        assert places == sorted(places)
        assert "a list of exactly 4 values, each an integer from 0 to 10" in text
        order = ["Source image", "[source]", "Edited image", "[output]", "make it red"]
        places = [text.index(part) for part in order]
        assert places == sorted(places)
    both = "".join(map(read_prompt, panel.transport.asked)).lower()
    for point in ("people:", "objects:", "animals:", "text:", "naturalness:", "details:",
                  "artifacts:", "colour and light:"):  # fmt: skip
        assert f"- {point}" in both


# Regions


async def test_without_a_mask_the_whole_image_is_edited() -> None:
    panel = Specialists()
    got = await judge_item(item("style_editing", "whole", columns=None), panel)
    assert all("MASK" not in inputs for _, inputs, _ in panel.asked)
    for inputs in list_requests(panel, "clip.vit_b_32"):
        assert decode(inputs["IMAGE"])[0].shape == (16, 16, 3), "all of it in a square"
    for name in ("non_edited_preservation", "non_edited_preservation.capped", "lpips.kept",
                 "non_edited_semantic_preservation"):  # fmt: skip
        assert isinstance(got[name], NotApplicable), name
    expected = mean((COMPLETE, 0.5), (min(LOOK, COMPLETE), 0.2), (SAME, 0.2))
    assert values(got)["overall"] == pytest.approx(expected, abs=EXACT)


async def test_an_edit_of_another_shape_is_resized() -> None:
    panel = Specialists()
    other = replace(edit(item()), image=load_image(np.full((10, 10, 3), 90, np.uint8), "output"))
    known = {one.id: one for one in rules(["subject_in_place"]).dimensions}
    asked = [one for one in known.values() if one.id.endswith("subject")]
    done = await judge(other, asked, known, panel)  # type: ignore[arg-type]
    for one in done.outcomes.values():
        note = {"region": "inside", "resized": "10x10 to 12x8 (Lanczos)"}
        assert one.evidence == note  # type: ignore[union-attr]
    assert {decode(inputs["IMAGE"])[0].shape for _, inputs, _ in panel.asked} == {(8, 12, 3)}


# What does not apply


async def test_without_a_subject_the_weights_renormalise() -> None:
    panel = Specialists()
    got = await judge_item(item("text_editing", None), panel)
    assert isinstance(got["identity_preservation"], NotApplicable)
    assert isinstance(got["identity_preservation.capped"], NotApplicable)
    assert {service for service, _, _ in panel.asked} == {"lpips.vgg"}
    expected = mean((COMPLETE, 0.5), (min(LOOK, COMPLETE), 0.2), (min(KEPT, COMPLETE), 0.1))
    assert values(got)["overall"] == pytest.approx(expected, abs=EXACT)


@pytest.mark.parametrize("sources", [1, 2])
async def test_in_context_edits_have_nothing_kept(sources: int) -> None:
    got = await judge_item(item("in_context", None, columns=None, sources=sources))
    applying = {n for n, one in got.items() if not isinstance(one, NotApplicable)}
    assert not [n for n in applying if "preservation" in n]
    expected = mean((COMPLETE, 0.5), (min(LOOK, COMPLETE), 0.2))
    assert values(got)["overall"] == pytest.approx(expected, abs=EXACT)
    with_subject = await judge_item(item("in_context", "inside"))
    assert isinstance(with_subject["non_edited_preservation"], NotApplicable)
    assert values(with_subject)["identity_preservation"] == pytest.approx(SAME, abs=EXACT)


async def test_items_of_others_are_none_of_its_business() -> None:
    panel = Specialists()
    got = await judge_item(item("replace"), panel)
    assert {type(one) for one in got.values()} == {NotApplicable}
    assert panel.transport.asked == []
    assert panel.asked == []


async def test_what_does_not_apply_is_not_missing_either() -> None:
    """So that coverage counts only what was asked for."""
    for of, without, missing in (
        (item("style_editing", None, columns=None), (), {"edit_completeness", "overall"}),
        (item("style_editing", None, columns=None), ("reasoning",), set()),
        (item("text_editing", None), ("reasoning",), {"non_edited_preservation", "overall"}),
    ):
        asked = rules(without=without).dimensions
        known = {one.id: one for one in asked}
        lost = replace(edit(of), image=None, missing=Missing("absent", "no file"))
        done = await judge(lost, asked, known, Specialists())  # type: ignore[arg-type]
        found = {name for name, one in done.outcomes.items() if isinstance(one, MissingOutput)}
        shown = {"edit_completeness", "non_edited_preservation", "identity_preservation", "overall"}
        assert found & {f"co_edit.{name}" for name in shown} == {f"co_edit.{n}" for n in missing}


# What has no number


def unreadable(prompt: Any) -> str:
    return "8 of 10" if "visual_naturalness" in read_prompt(prompt) else reply_with()(prompt)


def off_the_scale(prompt: Any) -> str:
    return reply_with({**SCORES, "over_editing": 11})(prompt)


def five(prompt: Any) -> str:
    return '{"reasoning": "", "score": [1, 2, 3, 4, 5]}'


def refusing(prompt: Any) -> Any:
    if "visual_naturalness" in read_prompt(prompt):
        raise Abstention("refused", "blocked")
    return reply_with()(prompt)


LOST = Unreachable("gone", service="clip.vit_b_32")
WITHOUT: dict[str, tuple[Any, Any, type[Outcome], str, set[str]]] = {
    # panel, item, outcome, its kind, the groups that it leaves without a number
    "unreadable": (Specialists(unreadable), item(), NoScore, "unparsable", {"image_quality"}),
    "off the scale": (
        Specialists(off_the_scale),
        item(),
        NoScore,
        "unparsable",
        {"edit_completeness", "non_edited_preservation"},
    ),
    "too long a list": (
        Specialists(five),
        item(),
        NoScore,
        "unparsable",
        {"edit_completeness", "image_quality", "non_edited_preservation"},
    ),
    "refused": (Specialists(refusing), item(), NoScore, "refused", {"image_quality"}),
    "abstained": (
        Specialists(measured={**SEEN, "dino.subject": Abstention("abstained", "will not")}),
        item(),
        NoScore,
        "abstained",
        {"identity_preservation"},
    ),
    "empty mask": (
        Specialists(), item(columns=0), NoScore, "degenerate", {"identity_preservation"},
    ),
    "full mask": (
        Specialists(), item(columns=12), NoScore, "degenerate", {"non_edited_preservation"},
    ),
    "a lost service": (
        Specialists(measured={**SEEN, "clip.subject": LOST}),
        item(),
        Failure,
        "",
        {"identity_preservation"},
    ),
    "a refused input": (
        Specialists(measured={**SEEN, "lpips.kept": Rejection("no", service="lpips.vgg")}),
        item(),
        Failure,
        "",
        {"non_edited_preservation"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WITHOUT)
async def test_an_unscored_part_leaves_the_composite_unscored(name: str) -> None:
    panel, of, outcome, kind, groups = WITHOUT[name]
    got = await judge_item(of, panel)
    assert {g for g in GROUPS if not isinstance(got[g], Score)} == groups
    overall = got["overall"]
    assert isinstance(overall, outcome)
    assert getattr(overall, "kind", "") == kind


@pytest.mark.parametrize("task", sorted(GLOBAL))
@pytest.mark.parametrize("region", [None, "whole"])
async def test_a_full_mask_of_an_edit_of_the_whole_image_is_none(task: str, region: str | None) -> None:
    """What a judge or a person draws where all may change must not cost the item its number."""
    without = await judge_item(item(task, region, columns=None))
    full = await judge_item(item(task, region and "inside", columns=12))
    assert values(full) == pytest.approx(values(without))
    assert "overall" in values(full)
    kept = full["non_edited_preservation"]
    assert isinstance(kept, NotApplicable)
    assert kept.reason == "the mask selects the whole image, so no region is kept"
    part = values(await judge_item(item(task, None, columns=11)))
    assert "non_edited_preservation" in part, "of a part of the image the rest is kept"


async def test_a_zero_makes_its_group_and_the_overall_zero() -> None:
    for name in SCORES:
        got = values(await judge_item(item(), Specialists(reply_with({**SCORES, name: 0}))))
        group = GROUP_OF[name]
        assert (got[group], got["overall"]) == (0, 0), name
    opposite = Specialists(measured={**SEEN, "clip.subject": -0.5})
    assert values(await judge_item(item(), opposite))["identity_preservation"] == 0
    far = Specialists(measured={**SEEN, "lpips.kept": 1.5})
    assert values(await judge_item(item(), far))["non_edited_preservation"] == 0


# Switches


async def test_without_specialists() -> None:
    panel = Specialists()
    got = await judge_item(item(), panel, without=["specialists"])
    assert panel.asked == []
    assert set(got) & {*MEASURED, "identity_preservation", "non_edited_detail_preservation"} == set()
    assert values(got)["non_edited_preservation"] == pytest.approx(9, abs=EXACT)
    parts = (COMPLETE, 0.5), (min(LOOK, COMPLETE), 0.2), (min(9, COMPLETE), 0.1)
    assert values(got)["overall"] == pytest.approx(mean(*parts), abs=EXACT)


async def test_without_reasoning_nothing_caps() -> None:
    panel = Specialists()
    got = await judge_item(item(), panel, without=["reasoning"])
    assert panel.transport.asked == []
    assert not [name for name in got if name.endswith(".capped")]
    assert values(got)["non_edited_preservation"] == pytest.approx(7.5, abs=EXACT)
    assert values(got)["overall"] == pytest.approx(mean((7.5, 0.1), (SAME, 0.2)), abs=EXACT)
    nothing = await judge_item(item("style_editing", None, columns=None), without=["reasoning"])
    assert {type(one) for one in nothing.values()} == {NotApplicable}


@pytest.mark.parametrize("columns", [0, 4, 12])
async def test_without_specialists_nothing_looks_into_the_mask(columns: int) -> None:
    panel = Specialists()
    got = values(await judge_item(item(columns=columns), panel, without=["specialists"]))
    assert panel.asked == []
    assert got["non_edited_preservation"] == SCORES["non_edited_semantic_preservation"]


async def test_uniform_weights() -> None:
    got = values(await judge_item(item(), with_=["uniform_weights"]))
    complete, look = (8 * 6 * 9) ** (1 / 3), (7 * 8 * 9 * 10) ** 0.25
    kept, same = (9 * 7.5) ** 0.5, (9 * 4) ** 0.5
    capped = (min(one, complete) for one in (look, kept, same))
    assert got["edit_completeness"] == pytest.approx(complete, abs=EXACT)
    assert got["image_quality"] == pytest.approx(look, abs=EXACT)
    assert got["non_edited_preservation"] == pytest.approx(kept, abs=EXACT)
    assert got["overall"] == pytest.approx((complete * math.prod(capped)) ** 0.25, abs=EXACT)


PLAIN, UNIFORM = "co_edit.paper.3", "co_edit.paper.3+uniform_weights"


def make_rules(base: str, on: tuple[str, ...] = (), off: tuple[str, ...] = ()) -> Rules:
    """The rules for a run by the protocol `base` that options change."""
    spec = RunSpec(benchmark=BENCHMARK.name, data=Path(), protocol=base)
    return rules_from({"protocol": None, "with_": on, "without": off}, spec)


@pytest.mark.parametrize("base", ["", PLAIN, UNIFORM])
def test_weights_are_those_asked_for(base: str) -> None:
    """`base` is the protocol of a run that is summed up."""
    uniform = ("uniform_weights",)
    assert make_rules(base).protocol == (base or PLAIN)
    assert make_rules(base, on=uniform).protocol == UNIFORM
    assert make_rules(base, off=uniform).protocol == PLAIN
    with pytest.raises(ConfigError, match="uniform_weights is both turned on and off"):
        make_rules(base, on=uniform, off=uniform)


@pytest.mark.parametrize("in_place", [False, True])
async def test_pooled_features(in_place: bool) -> None:
    panel = Specialists()
    await judge_item(item(), panel, with_=["pooled_features", *["subject_in_place"] * in_place])
    rule = {service: parameters["region"] for service, _, parameters in panel.asked}
    assert rule == {"clip.vit_b_32": "pool", "features.dinov2": "pool", "lpips.vgg": "weight"}
    share = 4 / 12 if in_place else 4 * 8 / 10**2
    for inputs in list_requests(panel, "clip.vit_b_32"):
        assert measure_mask(inputs) == pytest.approx(share)


async def test_plain_questions() -> None:
    panel = Specialists()
    got = values(await judge_item(item(), panel, with_=["plain_questions"]))
    assert got["edit_completeness"] == pytest.approx(COMPLETE, abs=EXACT)
    assert len(panel.transport.asked) == 2
    assert all("step by step" not in read_prompt(prompt) for prompt in panel.transport.asked)
    for name in ("editing", "quality"):
        plain, full = get_template(f"co_edit/{name}_plain"), get_template(f"co_edit/{name}")
        assert isinstance(plain.contract, Scores)
        assert isinstance(full.contract, Scores)
        assert plain.contract.fields == full.contract.fields
        assert (plain.contract.reasoning, full.contract.reasoning) == (False, "before")
        assert "step by step" in full.user


# Columns


def row(of: Item, **given: float) -> Row:
    found: dict[str, Outcome] = {one.id: NotApplicable(reason="not set") for one in rules().dimensions}
    scored = {f"co_edit.{name}": Score(value=value) for name, value in given.items()}
    return Row(of, "m", found | scored)


@pytest.mark.parametrize("printed", TABLE_1, ids=lambda row: row["model"])
def test_table_1_is_before_the_cap(printed: Mapping[str, str]) -> None:
    """As AnyEdit's identity of 7.27 above its completeness of 2.25."""
    given = {name: float(value) for name, value in printed.items() if name != "model"}
    cells = tabulate(rules().columns, [row(item(), **given)])["m"]
    assert {name: cells[f"co_edit.{name}"].value for name in given} == given
    # Equations 1 to 3 are concave, so the printed mean lies below their value at the printed
    # means. That it does not lie far below shows the cap: without it, it would by up to 1.07.
    leaves = {n: given[g] for g, of in GROUPS.items() for n, m in of["metrics"].items() if "call" in m}
    kept, same = given["non_edited_preservation"] / 10, given["identity_preservation"] / 10
    measured = {"clip.subject": same, "dino.subject": same, "lpips.kept": 1 - kept}
    got = values(derive_all({**leaves, **measured}))
    assert given["overall"] <= got["overall"] <= given["overall"] + 0.36
    if printed["model"] == "AnyEdit":
        assert got["identity_preservation"] == pytest.approx(7.27)
        assert got["identity_preservation.capped"] == pytest.approx(2.25)


def test_there_is_no_overall_while_specialists_are_absent() -> None:
    """The overall of an edit without mask and subject rests on the judge alone."""
    absent: dict[str, Outcome] = {
        "co_edit.overall": NotServed(reason="lpips.vgg"),
        "co_edit.edit_completeness": Score(value=6),
    }
    plain = row(item("style_editing"), overall=6.95, edit_completeness=8)
    others = [replace(row(item()), outcomes=row(item()).outcomes | absent) for _ in range(3)]
    cells = tabulate(rules().columns, [plain, *others])["m"]
    overall = cells["co_edit.overall"]
    assert (overall.value, overall.reason) == (None, "not served: lpips.vgg")
    assert (overall.scored, overall.asked, overall.open_statuses) == (1, 4, {"not_served"})
    assert cells["co_edit.style_editing.overall"].value == 6.95, "of these nothing is awaited"
    assert cells["co_edit.subject_customization.overall"].value is None
    assert cells["co_edit.edit_completeness"].value == 6.5, "the judge's own stands"


def test_columns_by_type_and_apart_for_in_context() -> None:
    rows = [row(item(task), overall=n) for n, task in enumerate((*EDIT_TYPES, "in_context"))]
    rows[-1] = row(item("in_context"), overall=9, edit_completeness=8, image_quality=7)
    cells = tabulate(rules().columns, rows)["m"]
    for number, task in enumerate(EDIT_TYPES):
        assert cells[f"co_edit.{task}.overall"].value == number
    assert cells["co_edit.overall"].value == pytest.approx(7.5)
    assert cells["co_edit.overall"].asked == 16
    in_context = {n.rpartition(".")[2]: c.value for n, c in cells.items() if ".in_context." in n}
    assert in_context == {
        "overall": 9, "edit_completeness": 8, "image_quality": 7, "identity_preservation": None,
    }  # fmt: skip
    assert len(cells) == 5 + 11 + 16 + 4
