"""What our templates say: of all that they show, of nothing else, and of every criterion."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from editjudge.benchmarks.registry import load_benchmark
from editjudge.prompts import Template, get_template, load_templates
from editjudge.scorers.judge_scorer import JudgeScorer

IMAGES = {
    "sources": r"source",
    "edited": r"edited image|this image|predicted frame|both images|edit A",
    "target": r"target image|edit B",
    "frames": r"frames of one sequence",
}
PAGE = Path(__file__).parents[3] / "design" / "prompts.md"


def is_baseline(name: str) -> bool:
    """Whether words are meant to be few: labels say what each image is."""
    return "/baseline_" in name or name.endswith("_simple")


def words(one: Template) -> str:
    """What a template says, without its fields."""
    return f"{one.system}\n{re.sub('{[a-z_]+}', '', one.user)}"


@pytest.mark.parametrize("name", load_templates())
def test_every_image_and_field_is_named(name: str) -> None:
    one = get_template(name)
    for field, named in IMAGES.items():
        # Beside an edited image that the question is about, its label says what a source is.
        beside = field == "sources" and "edited" in one.fields
        if field in one.fields and not beside and not is_baseline(name):
            assert re.search(named, words(one), re.IGNORECASE), field
    # A text from data stands between dashes, after what says what it is.
    for field in set(one.fields) - IMAGES.keys():
        assert re.search(rf"\w[^\n]*[:.]\n-----\n{{{field}}}\n-----", one.user), field


@pytest.mark.parametrize("name", load_templates())
def test_nothing_is_said_of_a_source_that_is_not_shown(name: str) -> None:
    one = get_template(name)
    if not {"sources", "frames"} & set(one.fields):
        assert not re.search(r"\bsource\b", words(one))


def several() -> set[str]:
    """Templates that are asked about items with several sources."""
    dimensions = [one for name in ("core", "i2i") for one in load_benchmark(name).dimensions]
    scorers = [r.scorer for d in dimensions if not d.id.startswith("i2i.se.") for r in d.readings]
    return {t.name for s in scorers if isinstance(s, JudgeScorer) for t in s.templates}


def test_of_several_sources_none_is_called_the_source() -> None:
    for name in several() - {"omni_iie/facts"}:
        assert not re.search(r"\bthe source\b(?! images)", words(get_template(name))), name


WORDS = tomllib.loads(Path(__file__).with_name("words.toml").read_text("utf-8"))


@pytest.mark.parametrize("name", WORDS)
def test_what_was_left_out_is_asked(name: str) -> None:
    text = words(get_template(name))
    assert [part for part in WORDS[name]["said"] if part not in text] == []
    assert not re.search(WORDS[name].get("unsaid", "^$"), text)


def test_several_regions_can_be_named() -> None:
    assert get_template("i2i/edited_region").contract.high > 1


def test_the_page_maps_every_prompt() -> None:
    folders = "|".join({name.partition("/")[0] for name in load_templates()})
    named = re.findall(rf"`((?:{folders})/[\w*]+)`", PAGE.read_text("utf-8"))
    mapped = {n for n in load_templates() for pattern in named if fnmatchcase(n, pattern)}
    assert mapped == load_templates().keys()
    assert [name for name in named if "*" not in name and name not in load_templates()] == []


def rows() -> Iterator[tuple[tuple[str, ...], str, list[str]]]:
    """The rows of the page: their templates, the criterion, and what they quote."""
    names: tuple[str, ...] = ()
    for line in PAGE.read_text("utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not line.startswith("|") or len(cells) != 3:
            continue
        names = tuple(re.findall(r"`(\w+/\w+)`", cells[0])) or names
        parts = (part for quote in re.findall(r'"([^"]+)"', cells[2]) for part in quote.split("…"))
        yield names, cells[1], [part.strip() for part in parts]


def list_quotes() -> list[tuple[tuple[str, ...], str]]:
    """What the page quotes, each with the templates of its row."""
    return [(names, part) for names, _, parts in rows() for part in parts]


def test_preservation_is_of_the_rest_alone() -> None:
    """What was asked for is settled and set aside before the rest is compared and rated."""
    template = get_template("core/preservation")
    assert set(template.fields) == {"sources", "edited", "instruction"}
    by_criterion = {
        criterion: [template.user.index(part) for part in parts]
        for names, criterion, parts in rows()
        if names == (template.name,)
    }

    def places(word: str) -> list[int]:
        return [place for text, of in by_criterion.items() if word in text for place in of]

    told = template.user.index("{instruction}")
    assert told < min(places("is ignored"))
    assert len(places("the change that was asked for is ignored")) == 2
    assert max(places("the change that was asked for is ignored")) < min(places("the rest:"))
    assert len(places("quality is ignored")) == 1
    assert max(places("ignored")) < min(places("five levels"))
    levels = re.findall(r"^- (\w+): (.+)$", template.user, re.MULTILINE)
    assert tuple(level for level, _ in levels) == template.choices
    for level, meaning in levels:
        assert not re.search("instruct|quality|natural", meaning), level
    assert template.choices == get_template("core/instruction_following").choices


def test_what_the_page_quotes_is_said() -> None:
    assert len(list_quotes()) > 90
    lacking = [
        (names, part)
        for names, part in list_quotes()
        if not any(part in words(get_template(name)) + get_template(name).answer for name in names)
    ]
    assert lacking == []
