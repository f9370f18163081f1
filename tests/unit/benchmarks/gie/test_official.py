"""Official prompts in the protocol `official`: found, asked as released, and missed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from editjudge.base.errors import ConfigError
from editjudge.base.images import load_image
from editjudge.base.item import Edit, Item
from editjudge.base.prompt_releases import import_official_prompts, prompt_releases
from editjudge.base.verdict import NoScore, Outcome
from editjudge.benchmarks.gie import BENCHMARK
from editjudge.benchmarks.gie.dataset import GieData
from editjudge.panel.prompt import Prompt, Text
from editjudge.prompts import load_templates
from editjudge.prompts.official_prompts import load_official_prompts

from ....fakes.transport import seen
from .made import pixels, released
from .stand_ins import SCRIPT, TEXTS, declared, imported
from .test_protocol import ANSWER, Panel, judged, value

COMPARING = 1
BY_OURS = load_official_prompts("editjudge.benchmarks.gie")
PROMPTS = tuple(BY_OURS.values())


@pytest.fixture
def authors(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    imported(monkeypatch, tmp_path)


@pytest.fixture
def items(tmp_path: Path) -> Sequence[Item]:
    data = GieData(released(tmp_path / "data"))
    return [data.load(ref) for ref in data.items()]


async def asked(
    item: Item, protocol: str, reply: str = "The new one", **rules: Any
) -> tuple[Outcome, Prompt]:
    panel = Panel(reply)
    outcomes = await judged(item, pixels(50), protocol, panel, **rules)
    return outcomes[ANSWER], panel.transport.asked[0]


def shown(item: Item, prompt: Prompt) -> str:
    """What is asked, with the source's file under one name."""
    return seen(prompt).replace(item.sources[0].name, "source")


SOURCE, EDITED = "Original image:[source]", "Edited image:[image array]"


def said(item: Item, joined: str = ", ") -> str:
    """The stand-in as a judge gets it."""
    (question,) = item.questions
    options = joined.join(question["options"])
    return f"Asked: {question['question']}\n{{so}} of: {options}\nPick."


@pytest.mark.usefixtures("authors")
async def test_asked_as_released(items: Sequence[Item]) -> None:
    for item in (items[0], items[COMPARING], items[2]):
        _, prompt = await asked(item, "official")
        assert prompt.system == TEXTS["system_prompt.txt"]
        assert shown(item, prompt) == SOURCE + EDITED + said(item)
        data = [part.text for part in prompt.parts if isinstance(part, Text) and part.is_data]
        (question,) = item.questions
        assert data == [question["question"], ", ".join(question["options"])]


@pytest.mark.usefixtures("authors")
async def test_each_switch_keeps_to_itself(items: Sequence[Item]) -> None:
    """The prompt alone: the source where the question compares, options by lines, replies read."""
    for index, images in ((0, EDITED), (COMPARING, SOURCE + EDITED)):
        outcome, prompt = await asked(
            items[index], "paper", "the new one.", with_=["original_prompts"]
        )
        assert shown(items[index], prompt) == images + said(items[index], "\n")
        assert getattr(outcome, "value", None) == 1
    outcome, _ = await asked(items[0], "official", "the new one.")
    assert getattr(outcome, "value", None) == 0


@pytest.mark.usefixtures("authors")
async def test_our_own_words_stay(items: Sequence[Item]) -> None:
    rules = BENCHMARK.rules("official", (), ["original_prompts"])
    assert {d.prompt_origins for d in rules.dimensions} == {"own", None}
    _, prompt = await asked(items[0], "official", without=["original_prompts"])
    assert "You pick" not in prompt.system
    assert "Source image" in seen(prompt)


@pytest.mark.usefixtures("authors")
def test_whose_words(tmp_path: Path) -> None:
    official = BENCHMARK.rules("official").dimensions
    assert {d.prompt_origins for d in official} == {"original", None}
    (tmp_path / "kept" / "gie" / "system_prompt.txt").write_text("You choose.")
    with pytest.raises(ConfigError, match="not imported"):
        official[0].signature({})


async def test_nothing_is_asked_without_them(
    items: Sequence[Item], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    declared(monkeypatch, tmp_path)
    first, *others = BENCHMARK.rules("official").dimensions
    assert first.roles == ("generalist.judge",)
    for needed in (lambda: first.signature({}), lambda: first.prompt_origins):
        with pytest.raises(ConfigError, match="editjudge prompts import gie PATH"):
            needed()
    assert all(str(one.signature({})) for one in others), "only the question needs them"
    panel = Panel()
    scorer = first.readings[0].scorer
    edit = Edit(items[0], "m", load_image(pixels(50)))
    with pytest.raises(ConfigError, match="not imported"):
        await scorer.score(edit, panel, frozenset({"correct"}))  # type: ignore[arg-type]
    assert panel.transport.asked == []


def test_another_text_is_not_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    release = declared(monkeypatch, tmp_path)
    changes = {
        "Pick.": "Pick!",
        "', '": "'; '",
        "{question}": "{answer}",
        "{{so}}": "so",
        "Braces": "braces",
    }
    for old, new in changes.items():
        assert SCRIPT.count(old) == 1
        release.write_text(SCRIPT.replace(old, new))
        with pytest.raises(ConfigError, match=r"_prompt\.txt as the authors published"):
            import_official_prompts("gie", release)
    release.write_text(SCRIPT)
    assert import_official_prompts("gie", release) == dict.fromkeys(TEXTS, release)
    kept = tmp_path / "kept" / "gie"
    assert {name: (kept / name).read_text() for name in TEXTS} == TEXTS


def test_the_declared_texts_are_those_that_are_asked() -> None:
    texts = {file for one in PROMPTS for file in (one.file, one.system)}
    assert set(prompt_releases()["gie"].texts) == texts == set(TEXTS)
    assert set(BY_OURS) == {name for name in load_templates() if name.startswith("gie/")}


@pytest.mark.usefixtures("authors")
def test_all_that_shapes_the_question_is_in_its_digest() -> None:
    one = PROMPTS[1]
    other = [
        one,
        PROMPTS[0],
        replace(one, images_first=False),
        replace(one, system=""),
        replace(one, labels=replace(one.labels, source="Before:")),
    ]
    assert len({each.template.digest for each in other}) == len(other)


@pytest.mark.usefixtures("authors")
async def test_an_empty_reply_is_no_answer(items: Sequence[Item]) -> None:
    outcome, _ = await asked(items[0], "official", " ")
    assert isinstance(outcome, NoScore)
    assert outcome.kind == "unparsable"
    outcomes = await judged(items[0], pixels(50), "official", Panel("The new one\n"))
    assert value(outcomes, "functional_correctness") == 1
