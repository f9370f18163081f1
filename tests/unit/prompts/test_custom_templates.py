"""Templates of one's own: what is read of a folder, and what is refused."""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from editjudge import prompts
from editjudge.answers.scores import ScoreField, Scores
from editjudge.base.errors import ConfigError, TextError
from editjudge.base.images import load_image
from editjudge.benchmarks.registry import load_benchmark
from editjudge.cli import root
from editjudge.panel.prompt import Picture, PictureCache
from editjudge.prompts import MAX_PROMPT_CHARACTERS, get_template, load_templates
from editjudge.prompts.custom_templates import check_templates, load_custom_folder, load_custom_templates
from editjudge.prompts.prompt_files import load_prompt_files
from editjudge.scorers.judge_scorer import JudgeScorer

command = root.commands["prompts"]

PICTURE = PictureCache(1024 * 1024).prepare(load_image(np.zeros((8, 8, 3), np.uint8)))
LEVELS = '[answer]\nchoices = ["A", "B", "C"]\n'
QUALITY = 'user = "{edited}Rate it."\n'


def make_template(name: str, text: str, **more: str) -> Any:
    files = {f"{name}.toml": text, **{f"{n}/system.txt": t for n, t in more.items()}}
    (one,) = load_custom_templates(files, "mine")
    return one


def read_refusal(name: str, text: str) -> str:
    with pytest.raises(ConfigError) as error:
        make_template(name, text)
    told = str(error.value)
    assert "\n" not in told
    assert told.startswith(f"mine/{name}.toml")
    return told


def test_a_text_alone_replaces_ours() -> None:
    one = make_template("kris/quality", QUALITY)
    ours = get_template("kris/quality")
    assert (one.name, one.origin, one.contract) == (ours.name, "custom", ours.contract)
    assert one.digest != ours.digest
    # Nothing of ours is mixed in unseen, but how to answer, which is what is read.
    assert one.system == ""
    assert one.answer == ours.answer
    assert make_template("kris/quality", QUALITY, kris="You rate.\n").system == "You rate."
    assert make_template("kris/quality", f'system = "Mine."\n{QUALITY}', kris="You rate.").system == "Mine."


def test_every_template_can_be_replaced_by_its_own_words() -> None:
    for ours in load_templates().values():
        user = json.dumps(ours.user)
        absent = "".join(f"{name} = {json.dumps(text)}\n" for name, text in ours.absent)
        text = f"user = {user}\n" + (f"[absent]\n{absent}" if absent else "")
        if ours.labels:
            text += "[labels]\n" + "".join(f"{n} = {json.dumps(of)}\n" for n, of in asdict(ours.labels).items() if of)
        one = make_template(ours.name, text, **{ours.name.partition("/")[0]: ours.system})
        assert one.digest == ours.digest  # what is asked is the same, to the letter
        assert hash(one) is not None


def test_labels_and_form_in_the_text_are_to_the_letter() -> None:
    one = make_template(
        "kris/consistency",
        'user = "{sources}{edited}Told: {instruction} Say {{\\"reasoning\\": …}}"\n'
        '[labels]\nsource = "Image {n}:"\nedited = "Result:"\n'
        '[answer]\nin_text = true\ncontract = "scores"\n'
        'fields = [{ name = "consistency_score", low = 1, high = 5 }]\n',
    )
    assert one.answer == ""
    assert [one.label(kind, 2) for kind in ("source", "edited")] == ["Image {n}:", "Result:"]
    pictures = {"sources": (("Image 1:", PICTURE),), "edited": (("Result:", PICTURE),)}
    parts = one.make_prompt(pictures | {"instruction": "red"}).parts
    due = ["Image 1:", PICTURE, "Result:", PICTURE, "Told: ", "red", ' Say {"reasoning": …}']
    assert [part if isinstance(part, Picture) else part.text for part in parts] == due
    plain = make_template("kris/consistency", 'user = "{sources}{edited}Told: {instruction}"')
    last = plain.make_prompt(pictures | {"instruction": "red"}).parts[-1]
    assert last.text.endswith(plain.answer)


def test_a_scale_of_ones_own_is_brought_onto_ours() -> None:
    fields = 'fields = [{ name = "quality_score", low = 0, high = 10, integer = false }]'
    one = make_template("kris/quality", f'{QUALITY}[answer]\ncontract = "scores"\n{fields}\n')
    assert isinstance(one.contract, Scores)
    assert one.contract.fields == (ScoreField("quality_score", 0, 10, integer=False),)
    assert [one.rescale("quality_score", said) for said in (0, 5, 10)] == [1, 3, 5]
    assert get_template("kris/quality").rescale("quality_score", 4) == 4


def test_choices_count_in_even_steps_or_as_they_say() -> None:
    even = make_template("core/instruction_following", FOLLOWING + LEVELS)
    assert even.weights == {"A": 1, "B": 0.5, "C": 0}
    said = make_template("core/instruction_following", f"{FOLLOWING}{LEVELS}worth = [1, 0.2, 0]\n")
    assert said.weights == {"A": 1, "B": 0.2, "C": 0}
    assert said.digest != even.digest
    levels = get_template("core/instruction_following").weights
    assert [*levels.values()] == [1, 0.75, 0.5, 0.25, 0]
    assert get_template("core/question").weights == {"Yes": 1, "No": 0}


FOLLOWING = 'user = "{sources}{edited}{instruction}"\n'
REFUSED = tomllib.loads(Path(__file__).with_name("templates_refused.toml").read_text("utf-8"))


@pytest.mark.parametrize(("name", "case"), [(name, case) for name, cases in REFUSED.items() for case in cases])
def test_what_cannot_be_used_is_one_error(name: str, case: dict[str, str]) -> None:
    assert case["said"] in read_refusal(name, case["text"])


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("core/question", f"choices = {[f'{i:03}' for i in range(129)]}"),
        ("kris/quality", f"reasoning = {[f'r{i}' for i in range(129)]}"),
        ("core/physical_plausibility_questions", "high = 1_000_000_000"),
        ("omni_iie/facts", "count_high = 129"),
    ],
)
def test_a_reply_has_a_size(name: str, form: str) -> None:
    told = read_refusal(name, f"user = {json.dumps(get_template(name).user)}\n[answer]\n{form}")
    assert "[answer] has " in told
    assert told.endswith("128 are the most")


def test_a_long_file_is_no_prompt() -> None:
    assert "has 70,0" in read_refusal("kris/quality", QUALITY + "#" * 70_000)
    (told,) = check_templates({"kris/system.txt": "x" * 70_000}, "mine")
    assert str(told) == "mine/kris/system.txt has 70,000 characters; shorten it to 65,536 at most"


def test_the_length_of_a_prompt_is_known_before_it_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    one = make_template("core/instruction_following", FOLLOWING)
    pictures = dict.fromkeys(("sources", "edited"), (("label", PICTURE),))
    room = MAX_PROMPT_CHARACTERS - len(one.answer) - len("label") * 2
    assert one.make_prompt(pictures | {"instruction": "x" * room}).pictures
    monkeypatch.setattr(prompts, "_append_text", pytest.fail)
    with pytest.raises(TextError) as error:
        one.make_prompt(pictures | {"instruction": "x" * (room + 1)})
    assert error.value.name == "instruction"
    assert "262,145 characters; 262,144 are the most" in str(error.value)


def test_what_ours_shows_may_be_left_out_on_purpose() -> None:
    one = make_template("core/editing_artifacts", 'user = "{sources}{edited}How bad?"\nleaves_out = ["instruction"]')
    assert one.fields == ("sources", "edited")
    told = 'user = "{sources}{edited}{instruction}{hint}"\n[absent]\nhint = "none"'
    assert "hint" in make_template("kris/instruction", told).fields


def test_a_folder_holds_templates_alone(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such folder of prompts"):
        load_prompt_files(tmp_path / "absent")
    with pytest.raises(ConfigError, match="holds no template"):
        load_prompt_files(tmp_path)
    (tmp_path / "kris").mkdir()
    (tmp_path / "README.md").write_text("mine")
    (tmp_path / "kris" / "quality.toml").write_text(QUALITY)
    (tmp_path / "kris" / "system.txt").write_text("You rate.")
    assert list(load_prompt_files(tmp_path)) == ["kris/quality.toml", "kris/system.txt"]
    assert load_custom_folder(tmp_path)[0].system == "You rate."
    (tmp_path / "kris" / "quality.txt").write_text("x")
    with pytest.raises(ConfigError, match=r"quality\.txt is no template"):
        load_prompt_files(tmp_path)


def test_check_tells_of_every_file(tmp_path: Path) -> None:
    (tmp_path / "kris").mkdir()
    (tmp_path / "kris" / "quality.toml").write_text(QUALITY)
    done = CliRunner().invoke(command, ["check", str(tmp_path)], standalone_mode=False)
    assert done.return_value == 0
    assert "kris/quality" in done.output
    assert done.output.endswith("no problems found\n")
    (tmp_path / "kris" / "qality.toml").write_text(QUALITY)
    (tmp_path / "kris" / "consistency.toml").write_text(QUALITY)
    shown = [one.rpartition("/kris/")[2][:20] for one in problems(tmp_path)]
    assert shown == ["consistency.toml lac", "qality.toml: no prom"]
    (tmp_path / "kris" / "notes.txt").write_text("of mine")
    (tmp_path / "kris" / "viewpoint.toml").write_bytes(b'user = "\xff"')
    (tmp_path / "kris" / "system.txt").write_bytes(b"\xfe")
    everything = "\n".join(found := problems(tmp_path))
    assert len(found) == 5
    for part in ("notes.txt is no template", "viewpoint.toml cannot", "system.txt cannot"):
        assert part in everything


def problems(folder: Path) -> list[str]:
    """What `check` has against files beside a good one."""
    done = CliRunner().invoke(command, ["check", str(folder), "--json"], standalone_mode=False)
    assert done.return_value == 2
    told = json.loads(done.output)
    assert [one["name"] for one in told["templates"]] == ["kris/quality"]
    return told["problems"]


def test_the_pages_examples_can_be_used() -> None:
    page = (Path(__file__).parents[3] / "docs" / "howto" / "prompts.md").read_text("utf-8")
    files = dict(re.findall(r"```toml\n# mine/(\S+)\n(.*?)```", page, re.DOTALL))
    folders = {name.partition("/")[0] for name in files}
    assert folders >= {"kris", "core", "co_edit", "prepare", "omni_iie"}
    assert len(load_custom_templates(files)) == page.count("```toml") == len(files)
    # Every template that a protocol `paper` asks is named for whoever owns that paper's own.
    asked = list_asked("co_edit", "i2i", "kris", "omni_iie")
    assert sorted(name for name in asked if f"`{name}`" not in page) == []


def list_asked(*benchmarks: str) -> set[str]:
    """The templates that are asked by some benchmarks."""
    dimensions = [one for name in benchmarks for one in load_benchmark(name).dimensions]
    scorers = {reading.scorer for one in dimensions for reading in one.readings}
    return {t.name for s in scorers if isinstance(s, JudgeScorer) for t in s.templates}
