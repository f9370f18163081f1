"""Lines of `items.jsonl`: what is read of them, and what is refused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from editjudge.base.errors import InputError
from editjudge.base.item import Item
from editjudge.benchmarks.co_edit import BENCHMARK
from editjudge.benchmarks.co_edit.dataset import CoEditData, CoEditLine
from editjudge.benchmarks.co_edit.taxonomy import EDIT_TYPES, LOCAL, MUST_SAY, SUBJECT_REGION
from editjudge.engine.outcomes import Circumstances

from .items import WIDTH, line, write_data


def read(folder: Path, **given: Any) -> Item:
    data = CoEditData(write_data(folder, [line(**given)]))
    (ref,) = data.check_items()
    item, outline = data.load(ref), data.outline(ref)
    assert (item.task, item.extra) == (outline.task, outline.extra)
    return item


def test_there_are_sixteen_types() -> None:
    assert len(EDIT_TYPES) == 16
    assert len(LOCAL) == 13


@pytest.mark.parametrize(
    ("given", "region"),
    [
        ({}, "inside"),
        ({"mask_shows": "kept"}, "outside"),
        ({"edit_type": "portrait_editing"}, "inside"),
        ({"edit_type": "background_editing", "mask_shows": "kept", "subject": True}, "outside"),
        ({"edit_type": "background_editing", "mask_shows": "kept"}, None),
        # Whatever is white: where the background is edited, the subject is not the background.
        ({"edit_type": "background_editing", "mask_shows": "edited", "subject": True}, "outside"),
        ({"edit_type": "subject_extract", "mask_shows": "kept", "subject": True}, "outside"),
        ({"edit_type": "subject_extract", "mask_shows": "edited"}, None),
        ({"subject": False}, None),
        ({"edit_type": "motion_editing"}, None),
        ({"edit_type": "motion_editing", "subject": True}, "inside"),
        ({"edit_type": "style_editing", "mask": None, "subject": True}, "whole"),
        ({"edit_type": "in_context", "mask": None, "subject": True}, "whole"),
        ({"edit_type": "in_context", "subject": True}, "inside"),
        ({"edit_type": "in_context", "mask": None}, None),
    ],
)
def test_where_the_subject_is(tmp_path: Path, given: dict[str, Any], region: str | None) -> None:
    assert read(tmp_path, **given).extra.get(SUBJECT_REGION) == region


def test_the_mask_is_white_where_the_edit_is(tmp_path: Path) -> None:
    edited = read(tmp_path).mask
    kept = read(tmp_path, mask_shows="kept").mask
    assert edited is not None
    assert kept is not None
    assert edited.region[:, : WIDTH // 3].all()
    assert not edited.region[:, WIDTH // 3 :].any()
    assert (kept.region == ~edited.region).all()


def test_what_else_a_line_holds(tmp_path: Path) -> None:
    item = read(tmp_path, extra={"split": 3, SUBJECT_REGION: "mine"}, subject=False)
    assert item.task == "subject_customization"
    assert item.extra == {"split": 3}
    several = {"source": None, "sources": ["source.png", "other.png"], "mask": None}
    assert len(read(tmp_path, edit_type="in_context", **several).sources) == 2


TWO = ["source.png", "other.png"]
BAD: dict[str, tuple[Any, str]] = {
    "unknown type": (line("colour"), "type: 'colour' is no type of edit; there is background_"),
    "a title": (line("Text Editing"), "is no type of edit; did you mean text_editing?"),
    "a slip": (line("subject_ad"), "did you mean subject_add?"),
    "no type": ({k: v for k, v in line().items() if k != "type"}, "type: is missing"),
    "as a task": (line(task="text_editing"), "the type of the edit is called `type` here"),
    "no mask": (
        line("text_editing", mask=None),
        "mask: text_editing changes a part of the image, say which (`editjudge prepare masks`",
    ),
    "two sources": (line("style_editing", source=None, sources=TWO), "has one source, not 2"),
    "whose subject": (
        line("in_context", source=None, sources=TWO, mask=None, subject=True),
        "subject: identity is compared with one source, not 2",
    ),
    "no subject": (line(subject="dog"), "subject: must be true or false"),
    "polarity": (line(mask_shows="black"), "mask_shows: must be 'edited' or 'kept'"),
    "a background": (
        line("background_editing"),
        "mask_shows: of background_editing say whether white in the mask is what is edited ('ed",
    ),
    "an extract": (line("subject_extract"), " is what is edited ('edited') or the object that is kept ('kept')"),
    "a customization": (
        line(mask_shows=None),
        "mask_shows: of subject_customization say whether white in the mask is what is edited",
    ),
    "no source": (line(source=None), "either `source` or `sources`"),
    "unknown field": (line(kind="x"), "kind: no such field"),
    "an id twice": (line(id="first"), "the id 'first' is already used by line 1"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_line_is_named_with_its_fix(tmp_path: Path, name: str) -> None:
    bad, said = BAD[name]
    data = CoEditData(write_data(tmp_path, [line(id="first"), bad]))
    with pytest.raises(InputError) as raised:
        list(data.check_items())
    text = str(raised.value)
    assert len(text.splitlines()) == 2, text
    assert "line 2: " in text
    assert said in text


def test_what_is_not_there_costs_only_what_reads_it(tmp_path: Path) -> None:
    data = CoEditData(write_data(tmp_path, [line(mask="nowhere.png"), line(id="2", instruction=" ")]))
    without, silent = (data.load(ref) for ref in data.check_items())

    def find_unscored(item: Item) -> set[str]:
        outcomes = Circumstances(item).decide(BENCHMARK.rules().dimensions)
        return {name for name, outcome in outcomes.items() if outcome.status == "unscored"}

    assert "nowhere.png" in without.flaws["mask"].reason
    assert "co_edit.visual_naturalness" not in find_unscored(without)
    assert "co_edit.clip.subject" in find_unscored(without), "no whole image in its place"
    assert "co_edit.editing_accuracy" in find_unscored(silent)
    assert "co_edit.clip.subject" not in find_unscored(silent)


@pytest.mark.parametrize("edit_type", sorted(LOCAL))
def test_local_edits_need_a_mask(tmp_path: Path, edit_type: str) -> None:
    with pytest.raises(InputError, match=f"mask: {edit_type} changes a part"):
        read(tmp_path, edit_type=edit_type, mask=None)
    shows = {"mask_shows": "edited"} if edit_type in MUST_SAY else {}
    assert read(tmp_path, edit_type=edit_type, **shows).mask is not None


def test_global_edits_need_none(tmp_path: Path) -> None:
    for edit_type in sorted(set(EDIT_TYPES) - LOCAL):
        assert read(tmp_path, edit_type=edit_type, mask=None).mask is None


def test_the_lines_of_the_manual_are_right() -> None:
    page = Path(__file__).parents[4] / "docs" / "howto" / "benchmarks" / "co_edit.md"
    (block,) = re.findall(r"^```json\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE)
    lines = [CoEditLine.model_validate_json(one) for one in block.splitlines()]
    assert [one.has_subject for one in lines] == [True, True, False, False]
    for name in EDIT_TYPES:
        assert f"`{name}`" in page.read_text()
