"""What each judge and each round says, from made-up outcomes, and how it is shown."""

from __future__ import annotations

import io
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from editjudge.app.judge_spread import Cells, JudgeSpreadBuilder
from editjudge.base.verdict import Failure, NoScore, NotApplicable, Outcome, Score
from editjudge.benchmarks.cell import Cell
from editjudge.benchmarks.column import Column, Composite, Mean, PairedDifference, PooledMean, Row, WeightedMean
from editjudge.benchmarks.dimension import Dimension, Reading
from editjudge.benchmarks.fusion import min_max, product
from editjudge.benchmarks.rounds import JudgeRounds, make_rounds
from editjudge.benchmarks.tabulation import tabulate
from editjudge.engine.outcomes import derive
from editjudge.report.summary import build_results_tables
from editjudge.scorers.vqa import FiveLevel

from ...fakes.scorers import ScriptedScorer, edit

TWO = JudgeRounds(("one", "two"), 2)
KNOWN = {
    name: Dimension(name, "?", "-", how, (0, 9))
    for name, how in {
        "x.judged": Reading(FiveLevel("generalist.judge", "core/editing_artifacts"), "score"),
        "x.area": Reading(ScriptedScorer(key="area"), "value"),
    }.items()
}
LOST = Failure(error="lost")


def column(name: str, how: Any, title: str = "", group: str = "") -> Column:
    return Column(f"x.{name}", title or name, how, True, group=group)


MEAN = column("mean", Mean("x.judged"))
PLAIN = column("plain", Mean("x.area"))
WEIGHTED = column("weighted", Mean("x.judged", weighted_by="x.area"))
PAIRED = column("paired", PairedDifference("x.judged", lambda i: (i.task, "+" if i.id < "5" else "-")))
POOLED = column("pooled", PooledMean(min_max, "x.judged"))
BOTH = column("both", Composite(product, {"a": "x.mean", "b": "x.plain"}))
TOTAL = column("total", WeightedMean(("x.mean", "x.weighted"), count="asked"))
COLUMNS = (PLAIN, MEAN, WEIGHTED, PAIRED, POOLED, BOTH, TOTAL)


def make_cells(
    said: Mapping[str, Sequence[Sequence[float | Outcome]]],
    judge_rounds: JudgeRounds = TWO,
    columns: Sequence[Column] = (PLAIN, MEAN),
    models: str = "m",
) -> tuple[Mapping[str, Cells], dict[str, Any]]:
    """From each judge's rounds: the values of all edits; the edits go round the models."""
    known = make_rounds(KNOWN, judge_rounds)
    parts = [(r, said[r.judge][r.round - 1]) for r in judge_rounds.each_round]
    rows = []
    for i in range(len(parts[0][1])):
        outcomes: dict[str, Outcome] = {"x.area": Score(value=i + 1)}
        for judge_round, values in parts:
            one = values[i]
            found = one if isinstance(one, Outcome) else Score(value=one)
            outcomes[judge_round.dimension_id("x.judged")] = found
        how: Any = known["x.judged"].how
        outcomes["x.judged"] = derive(how, {name: outcomes[name] for name in how.of})
        item = edit(task="ab"[i % 2], item_id=str(i)).item
        rows.append(Row(item, models[i % len(models)], outcomes))
    cells = tabulate(columns, rows)
    spreading = JudgeSpreadBuilder(columns, judge_rounds, known)
    for row in rows:
        spreading.add(row)
    with_rounds, judges = spreading.build(cells)
    return judges, dict(with_rounds)


def values(cells: Any, name: str) -> tuple[Any, ...]:
    cell = cells["m"][name]
    return (cell.value, *cell.rounds)


def alone(found: Mapping[str, Cells], name: str, judge: str) -> tuple[Any, ...]:
    return values({"m": found["m"][judge]}, name)


SAID = {"one": ((1, 2, 3, 4), (1, 4, 3, 0)), "two": ((2, 2, 5, 9), (4, 4, 5, 9))}


def test_columns_are_made_anew_for_each_repeat() -> None:
    found, cells = make_cells(SAID, columns=COLUMNS)
    assert alone(found, "x.mean", "one") == (2.25, 2.5, 2)
    assert alone(found, "x.mean", "two") == (5, 4.5, 5.5)
    assert values(cells, "x.mean") == (3.625, 3.5, 3.75)
    assert cells["m"]["x.mean"].value == 3.625
    # Weights 1 to 4.
    assert alone(found, "x.weighted", "one")[1:] == (3, (1 + 8 + 9) / 10)
    assert alone(found, "x.both", "one")[1:] == (2.5 * 2.5, 2 * 2.5)
    assert alone(found, "x.total", "one")[1:] == ((2.5 + 3) / 2, (2 + 1.8) / 2)
    assert cells["m"]["x.plain"].rounds == (), "no judge has a part in it"
    assert set(found["m"]["one"]) == {c.id for c in COLUMNS} - {"x.plain"}
    assert found["m"]["one"]["x.mean"].sd == pytest.approx(statistics.stdev([2.5, 2]))


def test_pairs_are_those_of_one_repeat() -> None:
    said = {"one": ((1, 2, 3, 4, 5, 6, 7, 8),)}
    how = PairedDifference("x.judged", lambda i: (str(int(i.id) % 4), "+" if int(i.id) < 4 else "-"))
    once = JudgeRounds(("one",), 1)
    found, cells = make_cells(said, once, [column("p", how)])
    assert found == {}, "one judge, once, stands in the table"
    assert cells["m"]["x.p"].value == -4
    twice = {"one": (said["one"][0], (1, 2, 3, 4, 1, 2, 3, 4))}
    found, _ = make_cells(twice, JudgeRounds(("one",), 2), [column("p", how)])
    assert alone(found, "x.p", "one") == (-2, -4, 0)


def test_a_pool_is_that_of_one_repeat() -> None:
    said = {"one": ((0, 9, 3, 6), (0, 6, 6, 6))}
    found, _ = make_cells(said, JudgeRounds(("one",), 2), [POOLED], models="mn")
    # m has the edits 0 and 2: (0 + 3/9) / 2, then (0 + 6/6) / 2; together 0 and 4.5 of 7.5.
    assert alone(found, "x.pooled", "one") == pytest.approx((0.3, 1 / 6, 0.5))
    constant = {"one": ((0, 9), (3, 3))}
    found, _ = make_cells(constant, JudgeRounds(("one",), 2), [POOLED])
    cell = found["m"]["one"]["x.pooled"]
    assert cell.rounds[1] is None
    assert cell.sd is None


LEVEL = st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0])
REFUSED = NoScore(kind="refused", reason="no")
ROUND = st.lists(LEVEL | st.sampled_from([LOST, REFUSED]), min_size=5, max_size=5)
ALL = st.fixed_dictionaries({name: st.tuples(ROUND, ROUND) for name in ("one", "two")})


@given(ALL)
@settings(deadline=None)
def test_a_mean_is_the_mean_of_its_repeats_and_covers_no_more_than_them(said: Any) -> None:
    found, cells = make_cells(said)
    for judge in ("", "one", "two"):
        value, *rounds = alone(found, "x.mean", judge) if judge else values(cells, "x.mean")
        if value is None:
            assert rounds == [None, None]
        else:
            assert value == pytest.approx(statistics.fmean(rounds))
    together = cells["m"]["x.mean"]
    for judge in ("one", "two"):
        assert found["m"][judge]["x.mean"].scored >= together.scored
        assert found["m"][judge]["x.mean"].asked == 5
    if together.scored == 5:
        each = [alone(found, "x.mean", judge)[0] for judge in ("one", "two")]
        assert together.value == pytest.approx(statistics.fmean(each))


def test_what_a_rule_put_in_was_said_by_nobody() -> None:
    rule = Score(value=1, imputed=True)
    _, cells = make_cells({"one": ((3, rule),), "two": ((5, rule),)}, JudgeRounds(("one", "two")))
    assert cells["m"]["x.mean"].scored == 2


def test_where_one_judge_finds_nothing_to_ask_the_other_counts() -> None:
    nothing = NotApplicable(reason="no subject")
    found, cells = make_cells({"one": ((3, nothing),), "two": ((5, 8),)}, JudgeRounds(("one", "two")))
    assert cells["m"]["x.mean"].value == 6
    assert found["m"]["one"]["x.mean"].asked == 1


def print_tables(tables: Any, width: int) -> list[str]:
    out = io.StringIO()
    for table in tables:
        Console(file=out, width=width).print(table.to_terminal())
    return out.getvalue().splitlines()


@pytest.mark.parametrize("width", [100, 200])
@pytest.mark.parametrize("group", ["", "A group of columns"])
@pytest.mark.parametrize("models", ["m", "mnopqrstu"])
def test_no_number_is_cut_however_narrow(width: int, group: str, models: str) -> None:
    columns = [column(f"c{i}", Mean("x.judged"), f"instruction following {i}", group) for i in range(7)]
    said = {judge: tuple(tuple(v) * 9 for v in rounds) for judge, rounds in SAID.items()}
    found, cells = make_cells(said, columns=columns, models=models)
    lines = print_tables(build_results_tables(columns, cells, found, width), width)
    assert max(map(len, lines)) <= width
    text = "\n".join(lines)
    assert "…" not in text
    each = len(said["one"][0]) // len(models)
    assert text.count(f" ({each}/{each})") == 7 * 3 * len(models)
    assert text.count(" sd ") == 7 * 3 * len(models)


def test_the_rows_of_one_judge_follow_the_one_of_all() -> None:
    found, cells = make_cells(SAID)
    rows = [line.split("│")[1:-1] for line in print_tables(build_results_tables([MEAN], cells, found), 200)]
    assert [[cell.rstrip() for cell in row] for row in rows if row] == [
        [" m", " 3.625 sd 0.18 (4/4)"],
        ["   one", "  2.25 sd 0.35 (4/4)"],
        ["   two", "     5 sd 0.71 (4/4)"],
    ]


def test_one_judge_is_the_ensemble() -> None:
    found, cells = make_cells({"one": SAID["one"]}, JudgeRounds(("one",), 2))
    text = "\n".join(print_tables(build_results_tables([PLAIN, MEAN], cells, found), 200))
    assert "2.25 sd 0.35 (4/4)" in text
    assert "2.5 (4/4)" in text
    assert "  one" not in text


@pytest.mark.parametrize(
    ("value", "decimals", "text"),
    [(-0.0004, 3, "0.000"), (-0.0004, 2, "0.00"), (0.1254, 3, "0.125"), (72.346, 2, "72.35")],
)
def test_grouped_numbers_are_as_the_paper_prints(value: float, decimals: int, text: str) -> None:
    columns = [column("c", Mean("x"), "shown", "A"), column("d", Mean("y"), "empty", "B")]
    cells = {"m": {"x.c": Cell(value, {"scored": 2}), "x.d": Cell(None, {})}}
    lines = print_tables(build_results_tables(columns, cells, decimals=decimals), 100)
    assert f" {text} (2/2) " in "\n".join(lines)
    assert not any("empty" in line for line in lines), "what asks nothing has no row"
