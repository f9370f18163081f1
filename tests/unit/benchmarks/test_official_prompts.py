"""Prompts of the authors, which users import: when they are needed, and which are taken."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from editjudge.base.errors import ConfigError
from editjudge.base.item import Edit
from editjudge.base.prompt_releases import import_official_prompts, prompt_releases
from editjudge.benchmarks.registry import load_benchmark
from editjudge.prompts import load_templates
from editjudge.prompts.official_prompts import load_official_prompts

from ...fakes.transport import OneJudge
from .gie import stand_ins as gie
from .kris import stand_ins as kris

STAND_INS: dict[str, Any] = {"gie": gie, "kris": kris}
of_each = pytest.mark.parametrize("name", STAND_INS)


@of_each
async def test_nothing_needs_them_before_they_are_asked(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    STAND_INS[name].declare_stand_ins(monkeypatch, tmp_path)
    rules = load_benchmark(name).rules("official")
    asked = [one for one in rules.dimensions if one.roles == ("generalist.judge",)]
    assert asked
    for one in asked:
        with pytest.raises(ConfigError, match=f"editjudge prompts import {name} PATH"):
            one.signature({})
        with pytest.raises(ConfigError, match="not imported"):
            _ = one.prompt_origins
    assert all(str(one.signature({})) for one in rules.dimensions if one not in asked)
    without = load_benchmark(name).rules("official", (), ["original_prompts"])
    assert {d.prompt_origins for d in without.dimensions} == {"own", None}
    black, question = np.zeros((8, 8, 3), np.uint8), {"question": "?", "options": ["a", "b"]}
    edit = Edit.load(source=black, edited=black, instruction="x")
    item = replace(edit.item, questions=({**question, "answer": "a"},))
    panel, reading = OneJudge("4"), asked[0].readings[0]
    with pytest.raises(ConfigError, match="not imported"):
        await reading.scorer.score(replace(edit, item=item), panel, frozenset({reading.field}))  # type: ignore[arg-type]
    assert panel.transport.asked == []


@of_each
def test_whose_words(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    STAND_INS[name].import_stand_ins(monkeypatch, tmp_path)
    official = load_benchmark(name).rules("official").dimensions
    assert {d.prompt_origins for d in official} == {"original", None}
    for file in STAND_INS[name].TEXTS:
        (tmp_path / "kept" / name / file).write_text("You choose.")
    with pytest.raises(ConfigError, match="not imported"):
        official[0].signature({})


@of_each
def test_the_declared_texts_are_those_that_are_asked(name: str) -> None:
    by_ours = load_official_prompts(f"editjudge.benchmarks.{name}")
    files = {file for one in by_ours.values() for file in (one.file, one.system) if file}
    assert set(prompt_releases()[name].texts) == files == set(STAND_INS[name].TEXTS)
    ours = {one for one in load_templates() if one.startswith(f"{name}/")}
    # Of a picture alone the authors ask in other words, and simple questions are ours alone.
    assert set(by_ours) - {"kris/quality_alone"} == {n for n in ours if not n.endswith("_simple")}


def test_another_text_is_not_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    release = gie.declare_stand_ins(monkeypatch, tmp_path)
    changes = {"Pick.": "Pick!", "', '": "'; '", "{question}": "{answer}", "{{so}}": "so", "Braces": "braces"}
    for old, new in changes.items():
        assert gie.SCRIPT.count(old) == 1
        release.write_text(gie.SCRIPT.replace(old, new))
        with pytest.raises(ConfigError, match=r"_prompt\.txt as the authors published"):
            import_official_prompts("gie", release)
    release.write_text(gie.SCRIPT)
    assert import_official_prompts("gie", release) == dict.fromkeys(gie.TEXTS, release)
    kept = tmp_path / "kept" / "gie"
    assert {name: (kept / name).read_text() for name in gie.TEXTS} == gie.TEXTS
