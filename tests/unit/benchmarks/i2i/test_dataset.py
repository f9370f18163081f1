"""Which lines of `items.jsonl` can be used, and what they are judged on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from editjudge.base.errors import InputError
from editjudge.base.item import Item
from editjudge.benchmarks.i2i.dataset import I2iData
from editjudge.benchmarks.i2i.dimensions import dimensions
from editjudge.benchmarks.i2i.switches import I2iSwitches
from editjudge.benchmarks.i2i.taxonomy import DIMENSIONS, TABLES

from ..kris.release import picture

ONE = {"id": "1", "instruction": "make it red", "task": "local_editing", "source": "a.png"}
TWO = {"id": "2", "instruction": "the dog beside the cat", "task": "basic_combination", "sources": ["a.png", "b.png"]}


def data(folder: Path, *lines: dict[str, Any]) -> I2iData:
    for seed, name in enumerate(("a.png", "b.png")):
        picture(folder / name, seed)
    file = folder / "items.jsonl"
    file.write_text("".join(json.dumps(one) + "\n" for one in lines))
    return I2iData(file)


def items(folder: Path, *lines: dict[str, Any]) -> list[Item]:
    found = data(folder, *lines)
    return [found.load(ref) for ref in found.check_items()]


def list_dimensions(item: Item, *on: str) -> set[str]:
    """Without the shares that are lost, which are asked where what they are of is."""
    found = {d.id for d in dimensions(I2iSwitches.turn_on(on)) if d.why_not_applicable(item) is None}
    lost = {name for name in found if name.endswith(".lost")}
    losable = {f"i2i.{track}.{name}" for track, t in TABLES.items() for name in t["losable"]}
    assert lost == {f"{name}.lost" for name in found & losable}
    return found - lost


def make_ids(track: str, *names: str) -> set[str]:
    return {f"i2i.{track}.{name}" for name in names}


SE = (
    "aesthetic_quality",
    "blending_naturalness",
    "editing_artifacts",
    "image_quality",
    "instruction_following",
    "non_edited_region_fidelity",
    "physical_plausibility",
)
ME = (
    "aesthetic_quality",
    "blending_naturalness",
    "composition_interaction",
    "detail_fidelity",
    "image_quality",
    "instruction_following",
    "non_edited_element_fidelity",
    "physical_plausibility",
    "subject_consistency",
    "subject_extraction_composition",
)


def test_by_default_what_every_prompt_of_the_paper_is_judged_on(tmp_path: Path) -> None:
    one, two, text, hint = items(
        tmp_path,
        ONE,
        TWO,
        ONE | {"id": "3", "task": "text_rendering", "target_text": "NEW"},
        TWO | {"id": "4", "task": "combination_reasoning", "hint": "a 7"},
    )
    assert list_dimensions(one) == make_ids("se", *SE)
    assert list_dimensions(two) == make_ids("me", *ME)
    assert list_dimensions(text) == make_ids("se", *SE, "text_content_style_accuracy")
    assert list_dimensions(hint) == make_ids("me", *ME, "world_knowledge_reasoning")


def test_named_dimensions_are_all_there_are(tmp_path: Path) -> None:
    (one,) = items(tmp_path, ONE | {"dimensions": ["spatial_accuracy", "image_quality"]})
    assert list_dimensions(one) == make_ids("se", "spatial_accuracy", "image_quality")
    full = ONE | {"dimensions": list(DIMENSIONS["se"]), "hint": "h", "target_text": "t"}
    (one,) = items(tmp_path, full | {"extra": {"mine": 1}})
    assert len(list_dimensions(one)) == 15
    assert one.extra["mine"] == 1


def test_items_of_others_are_none_of_its_business(tmp_path: Path) -> None:
    (one,) = items(tmp_path, ONE)
    other = Item("1", "x", one.sources, task="biology")
    assert list_dimensions(other) == set()
    assert list_dimensions(Item("1", "x", one.sources, task="local_editing")) == set()


BAD: list[tuple[dict[str, Any], str]] = [
    ({"task": None}, "task: must be text"),
    ({"task": "add"}, "no category is called 'add' (there is object_manipulation, "),
    ({"task": "basic_combination"}, "basic_combination is multi-image editing, and there is one"),
    (
        {"source": None, "sources": ["a.png", "b.png"]},
        "there are several source images; give another task (basic_combination, ",
    ),
    ({"dimensions": ["detail_fidelity"]}, "se has no 'detail_fidelity' (there is action_state_"),
    ({"dimensions": []}, "name at least one"),
    ({"extra": {"dimensions": ["image_quality"]}}, "`dimensions` is a field of its own"),
    ({"dimensions": ["image_quality"] * 2}, "none of them twice"),
    ({"dimensions": ["world_knowledge_reasoning"]}, "needs a `hint`"),
    ({"dimensions": ["text_content_style_accuracy"]}, "needs a `target_text`"),
    ({"dimension": ["image_quality"]}, "no such field; did you mean dimensions?"),
]


@pytest.mark.parametrize(("change", "said"), BAD)
def test_a_line_that_cannot_be_used(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    wrong = {k: v for k, v in (ONE | change).items() if v is not None or k == "task"}
    with pytest.raises(InputError) as caught:
        items(tmp_path, TWO, wrong)
    assert "1 line cannot be used:\n  line 2: " in str(caught.value)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("change", "field", "why"),
    [
        ({"target_text": "  "}, "target_text", "is blank"),
        ({"hint": " \n"}, "hint", "is blank"),
        ({"instruction": ""}, "instruction", "is blank"),
        ({"source": "c.png"}, "source", "no such file"),
    ],
)
def test_what_costs_only_the_dimensions_that_read_it(
    tmp_path: Path, change: dict[str, Any], field: str, why: str
) -> None:
    _, item = items(tmp_path, TWO, ONE | change)
    (name,) = item.flaws
    assert name == field
    assert why in item.flaws[field].reason
    lost = {
        d.id.rpartition(".")[2]
        for d in dimensions(I2iSwitches())
        if d.why_not_applicable(item) is None and d.find_flaw(item) is not None
    }
    there = list_dimensions(item) - {f"i2i.se.{name}" for name in lost}
    if field in {"target_text", "hint"}:
        assert lost & {"text_content_style_accuracy", "world_knowledge_reasoning"}
    assert "i2i.se.image_quality" in there


def test_what_only_a_switch_judges_is_noted(tmp_path: Path) -> None:
    named = {"dimensions": ["editing_artifacts"]}
    assert len(data(tmp_path, ONE | named, TWO).notes()) == 0
    (note,) = data(tmp_path, ONE | named, TWO | named).notes()
    assert note.startswith("1 item: names editing_artifacts, ")
    assert "`--with me_editing_artifacts`" in note
    (note,) = data(tmp_path, ONE | {"task": "x"}, TWO | named, TWO | named | {"id": "3"}).notes()
    assert note.startswith("2 items: name"), "also beside a line that cannot be used"
    # What the note says: without the switch nothing asks, and with it one dimension does.
    item = items(tmp_path, TWO | named)[0]
    assert list_dimensions(item) == set()
    assert list_dimensions(item, "me_editing_artifacts") == {"i2i.me.editing_artifacts"}


def test_a_task_is_due(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="task: is missing"):
        items(tmp_path, {k: v for k, v in ONE.items() if k != "task"})


@pytest.mark.parametrize(("task", "field"), [("text_rendering", "target_text"), ("world_knowledge_reasoning", "hint")])
def test_an_item_without_what_its_category_is_about_is_noted(tmp_path: Path, task: str, field: str) -> None:
    about = ONE | {"task": task}
    (note,) = data(tmp_path, about | {field: "SALE"}, about | {"id": "2"}).notes()
    assert note.startswith(f"1 item: {task} without a {field}, so not judged on ")
    assert note.endswith("(2)")
    chosen = about | {"dimensions": ["image_quality"]}
    assert not data(tmp_path, chosen).notes(), "its own choice"
