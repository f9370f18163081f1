"""What makes two runs differ: each cause alone, and all of them together, with known shares."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from editjudge.app.judgement_import import import_judgements
from editjudge.app.run_difference import CAUSES, RunDifference, explain_difference
from editjudge.app.view import RunView
from editjudge.base.errors import ConfigError
from editjudge.base.verdict import Score
from editjudge.cli import root

from ...small_data import PSNR, make_spec, save_picture, stored_run, write_items

REPLY = 'Good. {"score": %d}'


def store(folder: Path, name: str, records: Iterable[tuple[str, float | None, str]]) -> Path:
    """A run of released scores and replies, by item."""
    lines = [{"item": i, "model": "ours", "score": score, "reply": reply} for i, score, reply in records]
    file = folder / f"{name}.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)))
    import_judgements([file], folder / name, scale=(0, 10))
    return folder / name


def explain(one: Path, other: Path, **matches: str) -> RunDifference:
    with RunView(one) as first, RunView(other) as second:
        found = explain_difference(first, second, {f"imported.{n}": f"imported.{m}" for n, m in matches.items()})
    (difference,) = [each for each in found if each.dimension == "imported.score"]
    assert sum(difference.parts.values()) == pytest.approx(difference.second - difference.first)
    return difference


SAME = [(str(n), float(n), REPLY % n) for n in range(4)]


@pytest.mark.parametrize(
    ("records", "parts", "edits"),
    [
        ([*SAME, ("4", 9.0, "x")], {"items": 15 / 5 - 6 / 4}, {"items": 1, "reading": 4}),
        ([*SAME[:3], ("3", 9.0, REPLY % 9)], {"judge": 6 / 4}, {"judge": 1, "reading": 3}),
        ([*SAME[:3], ("3", 9.0, REPLY % 3)], {"reading": 6 / 4}, {"reading": 4}),
        ([*SAME[1:], ("0", None, REPLY % 0)], {"failures": 6 / 3 - 6 / 4}, {"failures": 1, "reading": 3}),
        (
            [("1", 2.0, REPLY % 1), ("2", 5.0, "other"), ("3", None, "no"), ("0", None, "no"), ("5", 9.0, "x")],
            {"reading": 1 / 2, "judge": 3 / 2, "failures": 0, "items": 0},
            {"reading": 1, "judge": 1, "failures": 1, "items": 2},
        ),
    ],
    ids=["items", "judge", "reading", "failures", "all"],
)
def test_each_cause(tmp_path: Path, records: Any, parts: Mapping[str, float], edits: Mapping[str, int]) -> None:
    found = explain(store(tmp_path, "one", SAME), store(tmp_path, "other", records))
    if len(parts) == 1:
        assert found.parts == pytest.approx(dict.fromkeys(CAUSES, 0.0) | parts)
    else:
        # The means of the first: 1.5; without its failure 2; in common 1.5. Of the second: 16 / 3; in common 3.5.
        assert found.parts == pytest.approx(
            {"mean": 0, "failures": 0.5, "items": 16 / 3 - 3.5 - 0.5, "reading": 0.5, "judge": 1.5}
        )
    assert found.edits == dict.fromkeys(CAUSES[1:], 0) | edits


def test_another_mean_and_other_settings(tmp_path: Path) -> None:
    """A table that pools two outputs of an item has another mean than the first output alone."""
    save_picture(tmp_path / "s.png")
    write_items(tmp_path, [{}, {}])
    for name, models in (("one", ("ours",)), ("other", ("ours", "ours@2"))):
        with stored_run(tmp_path / name, make_spec(tmp_path, models)) as keep:
            for item, model in ((item, model) for item in "01" for model in models):
                keep(item, model, {PSNR: Score(value=30.0 if model == "ours" else 20.0)})
    with RunView(tmp_path / "one") as first, RunView(tmp_path / "other") as second:
        (found,) = explain_difference(first, second)
        assert found.parts == dict.fromkeys(CAUSES, 0.0) | {"mean": -5.0}
        assert not found.causes


def test_the_command(tmp_path: Path) -> None:
    one, other = store(tmp_path, "one", SAME), store(tmp_path, "other", [*SAME[:3], ("3", 9.0, "no")])
    done = CliRunner().invoke(root.commands["diff"], [str(one), str(other)])
    assert not done.exception, done.output
    assert "+1.5 (1)" in done.stdout
    assert "imported.score" in done.stdout
    readings = ["--match", "imported.score=imported.score.reread", "--json"]
    (found, *_) = json.loads(CliRunner().invoke(root.commands["diff"], [str(one), str(one), *readings]).stdout)
    assert (found["second_dimension"], found["edits"]["reading"]) == ("imported.score.reread", 4)
    with RunView(one) as first, RunView(other) as second, pytest.raises(ConfigError, match="name it: --match"):
        explain_difference(first, second, dict.fromkeys(["imported.score", "imported.score.reread"], "x"))
