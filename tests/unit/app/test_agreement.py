"""Judges with each other and with their own rounds, on made runs, against scipy and by hand."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from editjudge.app.agreement import AgreementRow, compare_judges
from editjudge.app.view import RunView
from editjudge.base.errors import ConfigError
from editjudge.base.verdict import Outcome, Score

from ...small_data import make_spec, save_picture, stored_run, write_items

ARTIFACTS = "core.editing_artifacts"
IMPUTED = Score(value=1, imputed=True)


def make_run(folder: Path, **said: Sequence[Sequence[float | Outcome]]) -> Path:
    """Store a run from what each judge said in each of its rounds of each edit."""
    count, rounds = len(next(iter(said.values()))[0]), len(next(iter(said.values())))
    save_picture(folder / "s.png")
    write_items(folder, [{} for _ in range(count)])
    for item in range(count):
        save_picture(folder / "ours" / f"{item}.png")
    spec = make_spec(folder, dimensions=(ARTIFACTS,), judges=tuple(said), rounds=rounds)
    with stored_run(folder / "run", spec) as keep:
        for item in range(count):
            verdicts = {
                f"{ARTIFACTS}@{judge}.{number}": one[item]
                for judge, each in said.items()
                for number, one in enumerate(each, 1)
            }
            scores = {name: one if isinstance(one, Outcome) else Score(value=one) for name, one in verdicts.items()}
            keep(str(item), "ours", scores)
    return folder / "run"


def compare(*runs: Path) -> dict[str, AgreementRow]:
    with ExitStack() as stack:
        result = compare_judges([stack.enter_context(RunView(run)) for run in runs])
    (table,) = result.tables
    return {row.who: row for row in table.rows}


def values(row: AgreementRow) -> dict[str, Any]:
    return {name: of.value for name, of in row.figures.items()}


def test_levels_are_those_of_scipy(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    x = rng.integers(0, 5, 30) / 4
    y = np.clip(x + rng.integers(-1, 2, 30) / 4, 0, 1)
    found = values(compare(make_run(tmp_path, one=[x.tolist()], two=[y.tolist()]))["one, two"])
    assert found == pytest.approx(
        {
            "pearson": stats.pearsonr(x, y).statistic,
            "spearman": stats.spearmanr(x, y).statistic,
            "kendall": stats.kendalltau(x, y).statistic,
            "mae": np.abs(x - y).mean(),
        }
    )


def test_answers_of_two_values_and_rounds_by_hand(tmp_path: Path) -> None:
    one = ((1, 1, 0, 0, 1, 0), (1, 1, 0, 0, 0, 0))
    two = ((1, 0, 0, 0, 1, 1), (1, 0, 0, 0, 1, 1))
    rows = compare(make_run(tmp_path, one=one, two=two))
    # 4 of 6 alike in the first round, 3 in the second; 5 and 6 of 12 times yes, so by chance half.
    assert values(rows["one, two"]) == pytest.approx({"equal": 7 / 12, "kappa": (7 / 12 - 0.5) / 0.5})
    assert rows["one, two"].records == 6
    assert values(rows["one, its rounds"]) == pytest.approx({"always_equal": 5 / 6, "deviation": 0.5**0.5 / 6})
    assert values(rows["two, its rounds"]) == {"always_equal": 1.0, "deviation": 0.0}


def test_what_a_rule_put_in_was_said_by_nobody(tmp_path: Path) -> None:
    rows = compare(make_run(tmp_path, one=((0.5, IMPUTED),), two=((0.25, 0.25),)))
    assert rows["one, two"].records == 1
    assert rows["one, two"].figures["spearman"].reason == "fewer than two values"


def test_judges_of_two_runs(tmp_path: Path) -> None:
    first = make_run(tmp_path / "a", one=((0, 0.5, 1, 0.25),))
    second = make_run(tmp_path / "b", one=((0, 0.5, 1, 0.25),), two=((1, 0.5, 0, 0.25),))
    (second.parent / "run").rename(second.parent / "other")
    rows = compare(first, second.parent / "other")
    assert set(rows) == {"run, other: one", "run, other: two", "other: one, other: two"}
    assert values(rows["run, other: one"])["spearman"] == pytest.approx(1)
    assert values(rows["run, other: two"])["spearman"] == pytest.approx(-0.8)


def test_one_judge_with_one_round_has_nothing_beside_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nothing to compare"):
        compare(make_run(tmp_path, one=((0, 1),)))
