"""What is made of what judges and segmenters say."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import numpy as np
import pytest

from editjudge.answers.json_object import normalise_key
from editjudge.answers.questions import MultipleChoiceQuestion, QuestionAnswer, QuestionAnswers
from editjudge.answers.texts import Option
from editjudge.base.errors import BadReply
from editjudge.base.images import load_image, load_mask
from editjudge.base.item import Item
from editjudge.benchmarks.co_edit.taxonomy import EDIT_TYPES as CO_EDIT_TYPES
from editjudge.benchmarks.co_edit.taxonomy import GLOBAL, TYPES
from editjudge.benchmarks.i2i.taxonomy import CATEGORIES
from editjudge.benchmarks.items import Line
from editjudge.benchmarks.omni_iie.taxonomy import SCALES
from editjudge.benchmarks.registry import load_dimensions
from editjudge.prepare.items import TASKS, Draft, Entry
from editjudge.prepare.makers import FACTS, choose_template, instructions, masks, questions
from editjudge.prompts import get_template
from editjudge.prompts.custom_templates import load_custom_templates
from editjudge.scorers.vqa import FactCheck

from ...encoded_pictures import encode
from ...fakes.transport import OneJudge, read_prompt

WIDTH, HEIGHT = 12, 8
SOURCE = load_image(np.full((HEIGHT, WIDTH, 3), 90, np.uint8))
LEFT = np.arange(WIDTH)[None].repeat(HEIGHT, 0) < 3
TOP = np.arange(HEIGHT)[:, None].repeat(WIDTH, 1) < 2


def png(mask: np.ndarray) -> bytes:
    return encode(mask.astype(np.uint8) * 255)


class Panel(OneJudge):
    """A judge that says one thing, and a segmenter that knows some phrases in each picture.

    Args:
        after: What it says where the target is shown too.
        there: Masks of the target, at the size of the source.
    """

    def __init__(self, said: Any, *, after: Any = None, there: Any = None, **masks: Any) -> None:
        both = {"commands": after}
        super().__init__(lambda prompt: json.dumps(both if "Target image" in read_prompt(prompt) else said))
        self.masks = {"source": masks, "target": there or {}}
        self.asked: list[tuple[str, str, str]] = []

    async def call(self, service: str, inputs: Any, parameters: Any) -> dict[str, Any]:
        assert service == "segmenter.sa2va"
        side = "source" if inputs["IMAGE"] == SOURCE.encoded_bytes else "target"
        phrase = inputs["PROMPT"].decode()
        self.asked.append((side, phrase, parameters["select"]))
        mask = self.masks[side].get(phrase)
        if mask is not None and side == "target":
            mask = mask.repeat(2, 0).repeat(2, 1)
        return {"MASK": b"" if mask is None else png(mask), "SCORE": np.zeros(1, np.float32)}


def item(task: str = "", name: str = "1") -> Item:
    return Item(name, "make it red", (SOURCE,), task=task)


async def draw(panel: Panel, target: Any = None, select: Any = None) -> Any:
    one = Item("1", "swap the cup for a lamp", (SOURCE,), target=target)
    return await masks("segmenter.sa2va", select).make(one, panel)


def region(made: Entry) -> np.ndarray:
    return load_mask(made.mask or b"").region


@pytest.mark.parametrize(
    ("scope", "phrases", "due"),
    [
        ("objects", ["left", "top"], LEFT | TOP),
        ("objects", ["left", "nowhere"], LEFT),
        ("surroundings", ["left", "top"], ~(LEFT | TOP)),
        ("whole", [], np.ones_like(LEFT)),
    ],
)
async def test_the_mask_is_what_may_change(scope: str, phrases: list[str], due: Any) -> None:
    panel = Panel({"scope": scope, "phrases": phrases}, left=LEFT, top=TOP)
    made = await draw(panel)
    assert made.status == "made"
    line = Line(id="1", instruction="x", source="a", mask="m", mask_shows=made.mask_shows)
    assert line.mask_shows == ("kept" if scope == "surroundings" else "edited")
    shown = region(made)
    assert np.array_equal(shown if line.mask_shows == "edited" else ~shown, due)
    if phrases:
        assert shown[:, :3].all(), "white is what was named"
    assert made.phrases == tuple(phrase for phrase in phrases if phrase != "nowhere")
    told = dict(made.notes)
    assert told["share of the image"] == f"{due.mean():.1%}"
    assert told.get("not found") == ("nowhere" if "nowhere" in phrases else None)


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ({"scope": "objects", "phrases": ["x", "y"]}, "nothing was found of: x, y"),
        ({"scope": "objects", "phrases": ["black"]}, "nothing was found of: black"),
        ({"scope": "surroundings", "phrases": ["x"]}, "nothing was found of: x"),
        ({"scope": "surroundings", "phrases": ["all"]}, "nothing is left around: all"),
    ],
)
async def test_where_nothing_is_found_there_is_no_mask(said: Any, reason: str) -> None:
    made = await draw(Panel(said, all=np.ones_like(LEFT), black=np.zeros_like(LEFT)))
    assert (made.status, made.reason, made.mask) == ("not_found", reason, None)
    assert dict(made.notes)["named"] == ", ".join(said["phrases"])


TARGET = load_image(np.full((HEIGHT * 2, WIDTH * 2, 3), 140, np.uint8))
RIGHT = np.arange(WIDTH)[None].repeat(HEIGHT, 0) >= 8


CUP = {"scope": "objects", "phrases": ["cup"]}


@pytest.mark.parametrize(
    ("after", "there", "due"),
    [
        (["lamp"], {"lamp": RIGHT}, LEFT | RIGHT),
        (["lamp", "shade"], {"lamp": RIGHT, "shade": TOP}, LEFT | RIGHT | TOP),
        (["lamp"], {}, LEFT),  # the segmenter misses it
        ([], {}, LEFT),  # the cup was taken away
    ],
)
async def test_where_there_is_a_target_both_are_united(
    after: list[str], there: dict[str, np.ndarray], due: np.ndarray
) -> None:
    panel = Panel(CUP, after=after, there=there, cup=LEFT)
    made = await draw(panel, TARGET)
    assert np.array_equal(region(made), due)
    in_target = [("target", phrase, "all") for phrase in after]
    assert panel.asked == [("source", "cup", "all"), *in_target]
    notes = dict(made.notes)
    assert notes["named in the source"] == "cup"
    assert notes.get("named in the target", "") == ", ".join(after)
    assert notes.get("not found in the target", "") == ("lamp" if after and not there else "")
    assert len(panel.transport.asked[1].pictures) == 2, "the source beside the target"


async def test_what_is_kept_is_kept_in_both() -> None:
    kept = {"scope": "surroundings", "phrases": ["cup"]}
    wide = np.arange(WIDTH)[None].repeat(HEIGHT, 0) < 5
    panel = Panel(kept, after=["nobody asks"], there={"cup": LEFT | RIGHT}, cup=wide)
    made = await draw(panel, TARGET)
    assert made.mask_shows == "kept"
    assert np.array_equal(region(made), LEFT)
    assert len(panel.transport.asked) == 1


async def test_what_is_only_in_the_target_is_enough() -> None:
    made = await draw(Panel(CUP, after=["lamp"], there={"lamp": RIGHT}), TARGET)
    assert made.status == "made"
    assert np.array_equal(region(made), RIGHT)
    nowhere = await draw(Panel(CUP, after=["lamp"]), TARGET)
    assert (nowhere.status, nowhere.reason) == ("not_found", "nothing was found of: cup, lamp")


async def test_of_a_change_of_the_whole_nothing_is_looked_for() -> None:
    panel = Panel({"scope": "whole", "phrases": []}, after=[])
    assert region(await draw(panel, TARGET)).all()
    assert len(panel.transport.asked) == 1


async def test_no_mask_fits_two_pictures_of_other_shapes() -> None:
    panel = Panel(CUP, after=["lamp"], there={"lamp": RIGHT}, cup=LEFT)
    made = await draw(panel, load_image(np.zeros((HEIGHT * 2, WIDTH, 3), np.uint8)))
    reason = "no mask fits both its source and its target (12x8 and 12x16)"
    assert (made.status, made.reason) == ("unsuited", reason)
    assert not panel.transport.asked


SELECTED = [(None, None, "best"), (None, TARGET, "all"), ("all", None, "all")]


@pytest.mark.parametrize(("select", "target", "due"), [*SELECTED, ("best", TARGET, "best")])
async def test_which_finds_are_taken_where_nobody_says(select: Any, target: Any, due: str) -> None:
    """The best of GIE-Bench, section 3.3; all of Omni IIE Bench's released masks."""
    panel = Panel(CUP, after=["lamp"], there={"lamp": RIGHT}, cup=LEFT)
    await draw(panel, target, select)
    assert {select for _, _, select in panel.asked} == {due}


async def test_a_mask_of_another_picture_is_a_bad_reply() -> None:
    with pytest.raises(BadReply, match="8x8"):
        await draw(Panel({"scope": "objects", "phrases": ["x"]}, x=np.ones((8, 8), bool)))


def test_some_items_need_no_mask() -> None:
    finder = masks("segmenter.sa2va")
    assert find(finder, source="a", mask="m").status == "had"
    assert find(finder, sources=["a", "b"]).status == "unsuited"
    assert find(finder, sources=["a"]) is None


def find(maker: Any, instruction: str = "x", **line: Any) -> Any:
    """What an item gets without work, if it does."""
    made = Draft.model_validate({"id": "1", "instruction": instruction} | line)
    return maker.find_entry_without_work(made)


@pytest.mark.parametrize("kind", TYPES)
def test_an_edit_of_the_whole_image_needs_no_mask(kind: str) -> None:
    due = Entry("unsuited", f"{kind} is of the whole image, so it needs no mask")
    finder = masks("segmenter.sa2va")
    assert find(finder, source="a", type=kind) == (due if kind in GLOBAL else None)
    assert find(finder, source="a", type=[kind]) is None, "what is no text is not looked at"


CHOICE = {"question": "Which?", "answer": "red", "wrong": ["blue", "green", "grey"]}


async def test_right_answers_stand_in_all_places_and_always_in_the_same() -> None:
    writer = questions("choice")
    places: Counter[int] = Counter()
    for number in range(60):
        asked = item(name=str(number))
        first, again = [await writer.make(asked, Panel(CHOICE)) for _ in range(2)]
        (question,) = first.questions
        assert again.questions == (question,)
        assert Option(question.options).parse(question.answer) == "red"
        assert question.options[-1] == MultipleChoiceQuestion().cannot_tell
        places[question.options.index("red")] += 1
    assert set(places) == {0, 1, 2, 3}
    assert min(places.values()) > 60 / 4 / 3


RELEASED = [
    "Add Object", "Attribute Change", "Background Change", "Color Change", "Layout Modification",
    "Object Replacement", "Remove Object", "Scene Change", "Size Change", "Textual Edit",
]  # fmt: skip


def test_every_edit_type_has_its_template() -> None:
    names = {choose_template("choice", task) for task in RELEASED}
    assert len(names) == 9, "scene and background are one type"
    assert choose_template("choice") not in names
    for name in {*names, *(choose_template("choice", task) for task in TASKS)}:
        assert get_template(name).contract == MultipleChoiceQuestion()


@pytest.mark.parametrize(
    ("task", "words"),
    [
        ("Remove Object", "taken away"),
        ("remove_object", "taken away"),
        ("Textual Change", "Writing in the image"),
        ("Scene/Background Change", "the season"),
        ("colour-change", "another colour"),
        ("", "matters most"),
        ("make it pop", "matters most"),
    ],
)
async def test_the_task_chooses_how_it_is_asked_for(task: str, words: str) -> None:
    panel = Panel(CHOICE)
    await questions("choice").make(item(task), panel)
    (prompt,) = panel.transport.asked
    assert words in read_prompt(prompt)
    assert "make it red" in read_prompt(prompt)
    assert len(prompt.pictures) == 1


def test_pairs_are_written_by_the_prompts_of_a_run() -> None:
    """Else what is reviewed is not what a run without them would ask."""
    checks = [reading.scorer for one in load_dimensions().values() for reading in one.readings
              if isinstance(reading.scorer, FactCheck)]  # fmt: skip
    assert {one.pairs_prompt for one in checks} == {FACTS}
    assert isinstance(get_template(FACTS).contract, QuestionAnswers)


async def test_facts_are_written_from_the_instruction_alone() -> None:
    panel = Panel({"pairs": [{"question": "Is it red?", "answer": "yes"}]})
    made = await questions("facts").make(item("Add Object"), panel)
    assert made.questions == (QuestionAnswer("Is it red?", "yes"),)
    (prompt,) = panel.transport.asked
    assert prompt.pictures == ()


async def test_ones_own_words_are_asked() -> None:
    text = 'user = "{sources}{instruction} Mine?"'
    custom = load_custom_templates({"prepare/choice.toml": text, "prepare/targets.toml": text})
    panel = Panel({"scope": "whole", "phrases": []})
    await masks("segmenter.sa2va", "best", custom).make(item(), panel)
    assert "Mine?" in read_prompt(panel.transport.asked[0])
    assert questions("choice", custom) != questions("choice")
    assert get_template("prepare/choice", custom).origin == "custom"
    assert get_template("prepare/choice_size_change", custom).origin == "own"


@pytest.mark.parametrize(
    ("task", "words"),
    [
        ("Remove Object", "taken out of the picture"),
        ("background change", "what lies behind"),
        ("attribute change", "an expression, a material, a state."),
        ("make it pop", "make it pop"),
        (" ", "Any that suits the picture"),
    ],
)
async def test_instructions_are_written_from_the_picture_alone(task: str, words: str) -> None:
    panel = Panel({"instruction": " Take away \n the red cup. "})
    blank_one = Item("1", "", (SOURCE,), task=task)
    made = await instructions().make(blank_one, panel)
    assert (made.status, made.instruction) == ("made", "Take away the red cup.")
    (prompt,) = panel.transport.asked
    assert words in read_prompt(prompt)
    assert len(prompt.pictures) == 1


def test_questions_that_are_there_are_kept() -> None:
    had = [{"question": "Is it red?", "answer": "yes"}]
    for kind in ("choice", "facts"):
        assert find(questions(kind), source="a", questions=had) == Entry("had")
        assert find(questions(kind), source="a") is None


def test_an_instruction_that_is_there_is_kept() -> None:
    assert find(instructions(), source="a") == Entry("had")
    assert find(instructions(), " ", source="a") is None
    assert find(instructions(), "", sources=["a", "b"]).status == "unsuited"
    assert find(instructions(), "", sources=["a", "b"], task="Basic Combination") is None
    assert find(instructions(), "", source="a", task="basic_combination").status == "unsuited"


def test_every_type_of_the_papers_has_words_of_its_own() -> None:
    """No item of a declared type is asked for an edit of another one."""
    kinds = [*CO_EDIT_TYPES, *CATEGORIES["se"], *CATEGORIES["me"], *SCALES]
    assert all(normalise_key(kind) in TASKS for kind in kinds)
    titles = [*CO_EDIT_TYPES.values(), *CATEGORIES["se"].values(), *CATEGORIES["me"].values()]
    assert all(normalise_key(title) in TASKS for title in titles)
    assert {kind for kind in kinds if find(instructions(), "", source="a", task=kind)} == {*CATEGORIES["me"]}


async def test_a_question_says_whether_it_compares() -> None:
    compares = CHOICE | {"question": "Was the cup removed?"}
    for said, due in ((CHOICE, False), (compares, True)):
        made = await questions("choice").make(item(), Panel(said))
        assert made.questions[0].compares is due
        shown = "with its source" if due else "alone"
        assert dict(made.notes) == {"the edited image is shown": shown}
