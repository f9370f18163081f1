"""Rubrics of one's own: what one becomes, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from editjudge.base.errors import ConfigError
from editjudge.benchmarks.benchmark import Benchmark
from editjudge.benchmarks.registry import load_benchmark, select_dimensions
from editjudge.benchmarks.rubric_dimensions import make_rubric_dimensions
from editjudge.cli import root
from editjudge.prompts.custom_templates import load_custom_templates
from editjudge.prompts.rubrics import RubricTemplate, load_rubric_files, make_rubric

from ...fakes.transport import read_prompt

command = root.commands["prompts"]

LIGHT = """\
asks = "Does the light fit?"
criterion = "Look at {shadows}."
[scale]
1 = "pasted in"
5 = "as photographed"
"""


def make_template(text: str = LIGHT, name: str = "light") -> RubricTemplate:
    return make_rubric(f"rubric/{name}", text, f"{name}.toml")


def test_a_rubric_is_a_prompt_with_its_scale_and_reads_back_its_score() -> None:
    light = make_template()
    assert light.fields == ("sources", "edited", "instruction")
    said = read_prompt(light.make_prompt(dict.fromkeys(light.fields, "x")))
    scale = "- 5: as photographed\n- 1: pasted in"
    assert f"Does the light fit?\n\nLook at {{shadows}}.\n\n{scale}" in said
    assert light.contract.parse('{"reasoning": "r", "score": 5}').scores == {"score": 5.0}


def test_its_words_may_stand_before_the_pictures() -> None:
    first = make_template("rubric_first = true\n" + LIGHT)
    last = make_template()
    words = last.user.partition("-----\n{instruction}\n-----\n")[2]
    assert first.user.startswith(words)
    assert sorted(first.user.split()) == sorted(last.user.split())
    assert first.digest != last.digest


def test_its_dimension_has_the_scale_as_range_and_needs_what_it_shows() -> None:
    text = 'shows = ["edited", "target", "target_text"]\nhigher_is_better = false\n' + LIGHT
    (light,) = make_rubric_dimensions((make_template(text),))
    assert (light.id, light.range, light.higher_is_better) == ("rubric.light", (1, 5), False)
    assert light.needs == {"target", "target_text"}
    assert light.prompt_origins == "custom"


@pytest.mark.parametrize(
    ("before", "after"), [("fit?", "fit well?"), ("shadows", "colours"), ("pasted in", "wrong"), ("5 =", "7 =")]
)
def test_other_words_are_another_signature(before: str, after: str) -> None:
    (light,), (other,) = (
        make_rubric_dimensions((make_template(text),)) for text in (LIGHT, LIGHT.replace(before, after))
    )
    assert light.id == other.id
    assert light.signature({}).digest != other.signature({}).digest


@pytest.mark.parametrize("one", [load_benchmark("core"), load_benchmark("kris")], ids=lambda b: b.name)
def test_it_is_a_dimension_beside_those_of_any_benchmark(one: Benchmark) -> None:
    rules = one.rules()
    more = rules.with_templates(load_custom_templates({"rubric/light.toml": LIGHT}))
    assert {d.id for d in more.dimensions} - {d.id for d in rules.dimensions} == {"rubric.light"}
    for patterns in ((), ("rubric.light",), ("light",)):
        assert "rubric.light" in {d.id for d in select_dimensions(patterns, more)}
    ours = {d.id: replace(d) for d in more.dimensions}
    assert all(ours[d.id] == d for d in rules.dimensions), "ours stay as they are"


@pytest.mark.parametrize(
    ("change", "line", "told"),
    [
        (("asks =", "ask ="), 1, "ask: no such field; did you mean asks?"),
        (('"Does the light fit?"', "3"), 1, "asks: must be text"),
        (('"Does the light fit?"', '" "'), 1, "asks: must have at least 1 character"),
        (('"Does the light fit?"', '"a\\nb"'), 1, "several lines"),
        (("5 =", "best ="), 3, "best is no number of a scale"),
        (("5 =", '"5.5" ='), 3, "5.5 is no number"),
        (("5 =", "5000 ="), 3, "5000 is no number"),
        (('"as photographed"', "true"), 5, "scale.5: must be text"),
        (('5 = "as photographed"', ""), 3, "no two ends"),
        (("[scale]", 'shows = ["mask"]\n[scale]'), 3, "shows.0: must be 'sources'"),
        (("[scale]", 'shows = ["sources"]\n[scale]'), 3, "the edited image is not shown"),
        (("[scale]", "higher_is_better = 1\n[scale]"), 3, "must be true or false"),
    ],
)
def test_what_cannot_be_used_is_refused_by_its_line(change: tuple[str, str], line: int, told: str) -> None:
    with pytest.raises(ConfigError) as error:
        make_template(LIGHT.replace(*change))
    assert str(error.value).startswith(f"light.toml:{line}: ")
    assert told in str(error.value)
    assert "\n" not in str(error.value)


def test_what_has_no_line_is_refused_by_its_file(tmp_path: Path) -> None:
    for key in ("asks", "criterion"):
        with pytest.raises(ConfigError, match=f"light.toml: {key}: is missing"):
            make_template("\n".join(line for line in LIGHT.splitlines() if not line.startswith(key)))
    with pytest.raises(ConfigError, match="line 1"):
        make_template("asks =\n")
    with pytest.raises(ConfigError, match="no part of a dimension's name"):
        make_template(name="My Light")
    with pytest.raises(ConfigError, match="No such file"):
        load_rubric_files([tmp_path / "none.toml"])
    (tmp_path / "a").mkdir()
    for place in (tmp_path / "light.toml", tmp_path / "a" / "light.toml"):
        place.write_text(LIGHT)
    with pytest.raises(ConfigError, match="two rubrics are called light"):
        load_rubric_files([tmp_path / "light.toml", tmp_path / "a" / "light.toml"])
    (tmp_path / "long.toml").write_bytes(b"#" * 2_000_000)
    with pytest.raises(ConfigError, match="larger than 1 MiB"):
        load_rubric_files([tmp_path / "long.toml"])


def test_what_is_asked_is_shown(tmp_path: Path) -> None:
    file = tmp_path / "light.toml"
    file.write_text('shows = ["edited", "target"]\n' + LIGHT)
    shown = CliRunner().invoke(command, ["check", str(file)]).output
    assert "rubric.light  1..5, higher is better" in shown
    assert "[edited]\n[target]\nDoes the light fit?" in shown
