"""The paper's tables from their own numbers, and the gate of eq. 5."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from editjudge.base.item import Item
from editjudge.base.verdict import NotApplicable, Outcome, Score
from editjudge.benchmarks.column import Column, Mean, Row
from editjudge.benchmarks.fusion import product, styled_text
from editjudge.benchmarks.i2i.columns import columns
from editjudge.benchmarks.i2i.dimensions import dimensions
from editjudge.benchmarks.i2i.switches import I2iSwitches
from editjudge.benchmarks.i2i.taxonomy import ARTIFACTS, CATEGORIES, DIMENSIONS, ROWS, SHARED_DIMENSIONS, TRACKS, WORLD
from editjudge.benchmarks.tabulation import tabulate
from editjudge.scorers.specialists import text_accuracy

from ....fakes.scorers import PIXEL

HERE = Path(__file__).parent
NOT_ASKED = NotApplicable(reason="no")


def read(name: str) -> list[dict[str, str]]:
    with (HERE / name).open(newline="") as file:
        return list(csv.DictReader(file))


QUOTA = {(one["track"][0] + "e", one["dimension"]): int(one["prompts"]) for one in read("tables4and5.csv")}
PRINTED = [
    *(pytest.param("se", one, id=f"single-{one['model']}") for one in read("table1.csv")),
    *(pytest.param("me", one, id=f"multi-{one['model']}") for one in read("table2.csv")),
]


def table(track: str) -> tuple[Column, ...]:
    """The paper's table alone."""
    names = {f"i2i.{track}.{name}" for name in (*DIMENSIONS[track], "overall")}  # type: ignore[index]
    return tuple(column for column in columns(I2iSwitches()) if column.id in names)


def item(number: int, task: str) -> Item:
    return Item(str(number), "x", (PIXEL,), task=task)


def rows(track: str, printed: dict[str, str]) -> Iterator[Row]:
    """500 prompts, each dimension on as many of them as the paper has, at its printed mean."""
    quotas = {name: count for (of, name), count in QUOTA.items() if of == track}
    scored = {name: Score(value=float(printed[name])) for name in quotas}
    for number in range(500):
        outcomes: dict[str, Outcome] = {
            f"i2i.{track}.{name}": scored[name] if number < count else NOT_ASKED for name, count in quotas.items()
        }
        yield Row(item(number, "x"), printed["model"], outcomes)


def test_tables_4_and_5_are_the_dimensions() -> None:
    named = {(of, name) for of, names in DIMENSIONS.items() for name in names}
    assert named - QUOTA.keys() == {("me", ARTIFACTS)}
    assert {(t, n): row["prompts"] for t, rows in ROWS.items() for n, row in rows.items() if row["prompts"]} == QUOTA
    assert QUOTA.keys() <= named
    for on, due in (((), 30), (("me_editing_artifacts",), 31), (("lmm_baseline",), 30)):
        made = [d.id for d in dimensions(I2iSwitches.turn_on(on)) if not d.id.endswith(".lost")]
        assert len(made) == due
    assert len(PRINTED) == 13


@pytest.mark.parametrize(("track", "printed"), PRINTED)
def test_the_printed_overall(track: str, printed: dict[str, str]) -> None:
    row = tabulate(table(track), list(rows(track, printed)))[printed["model"]]
    for name, value in printed.items():
        if name not in {"model", "overall"}:
            assert row[f"i2i.{track}.{name}"].value == pytest.approx(float(value), abs=1e-12)
            assert row[f"i2i.{track}.{name}"].asked == QUOTA[track, name]
    overall = row[f"i2i.{track}.overall"]
    assert overall.value == pytest.approx(float(printed["overall"]), abs=0.004)
    assert overall.asked == sum(count for (of, _), count in QUOTA.items() if of == track)


def test_a_plain_mean_of_dimensions_is_not_the_printed_overall() -> None:
    """So the test above can fail."""
    off = []
    for one in read("table2.csv"):
        values = [float(v) for name, v in one.items() if name not in {"model", "overall"}]
        off.append(abs(sum(values) / len(values) - float(one["overall"])))
    assert max(off) > 0.004


def test_categories_and_the_comparison() -> None:
    tasks = ("local_editing", "text_rendering", "basic_combination")
    given = [(tasks[0], 0.2), (tasks[0], 0.4), (tasks[1], 0.9), (tasks[2], 0.1)]
    rows = []
    for number, (task, value) in enumerate(given):
        name = f"i2i.{TRACKS[task]}.image_quality"
        outcomes: dict[str, Outcome] = {
            d.id: Score(value=value) if d.id == name else NOT_ASKED for d in dimensions(I2iSwitches())
        }
        rows.append(Row(item(number, task), "m", outcomes))
    got = tabulate(columns(I2iSwitches()), rows)["m"]
    assert got["i2i.se.local_editing.image_quality"].value == pytest.approx(0.3)
    assert got["i2i.se.local_editing.overall"].value == pytest.approx(0.3)
    assert got["i2i.se.text_rendering.overall"].value == pytest.approx(0.9)
    assert got["i2i.se.overall"].value == pytest.approx(0.5)
    assert got["i2i.me_less_se.image_quality"].value == pytest.approx(-0.4)
    assert got["i2i.me_less_se.overall"].value == pytest.approx(-0.4)
    assert got["i2i.me_less_se.world_knowledge_reasoning"].value is None
    assert got["i2i.se.hybrid_editing.overall"].reason == "no parts"


def test_columns_are_of_dimensions() -> None:
    for on in (I2iSwitches(), I2iSwitches(me_editing_artifacts=True), I2iSwitches(lmm_baseline=True)):
        known = {d.id for d in dimensions(on)}
        made = columns(on)
        assert len({column.id for column in made}) == len(made)
        read = {column.how.of for column in made if isinstance(column.how, Mean)}
        assert read == known
        assert {c.group for c in made} >= {t for of in CATEGORIES.values() for t in of.values()}
    assert set(SHARED_DIMENSIONS) == set(DIMENSIONS["se"]) & set(DIMENSIONS["me"]) - {ARTIFACTS}


def test_the_comparison_is_of_what_both_tables_have() -> None:
    """A dimension of one track alone does not move its overall."""
    same = "image_quality", "spatial_accuracy"
    given: dict[str, dict[str, tuple[float, int]]] = {
        "se": dict(zip((*same, ARTIFACTS), [(0.6, 3), (0.2, 1), (1.0, 5)], strict=True)),
        # SE has no prompt that asks for knowledge.
        "me": dict(zip((*same, WORLD), [(0.5, 1), (0.2, 4), (0.0, 5)], strict=True)),
    }

    def overall(*on: str) -> tuple[float | None, int]:
        rows = []
        for track, values in given.items():
            of = values | ({ARTIFACTS: (0.4, 5)} if on and track == "me" else {})
            for number in range(5):
                outcomes: dict[str, Outcome] = {d.id: NOT_ASKED for d in dimensions(I2iSwitches.turn_on(on))}
                for name, (value, prompts) in of.items():
                    if number < prompts:
                        outcomes[f"i2i.{track}.{name}"] = Score(value=value)
                task = next(task for task, its in TRACKS.items() if its == track)
                rows.append(Row(item(number, task), "m", outcomes))
        cell = tabulate(columns(I2iSwitches.turn_on(on)), rows)["m"]["i2i.me_less_se.overall"]
        return cell.value, cell.scored

    value, scored = overall()
    assert value == pytest.approx((4 * -0.1 + 5 * 0) / 9, abs=1e-12)
    assert scored == 9 + 5, "what one track alone scored stays in the coverage"
    value, _ = overall("me_editing_artifacts")
    assert value == pytest.approx((4 * -0.1 + 5 * 0 + 10 * -0.6) / 19, abs=1e-12)


@pytest.mark.parametrize(
    ("content", "factor"), [(1.0, 1.0), (0.9999, 0.8), (0.8, 0.8), (0.7999, 0.5), (0.6, 0.5), (0.5999, 0.1), (0.0, 0.1)]
)
@pytest.mark.parametrize("style", [1, 2, 3, 4, 5])
def test_equation_5(style: int, content: float, factor: float) -> None:
    got = styled_text({"style": style, "content": content})
    assert got == pytest.approx((style - 1) / 4 * factor, abs=1e-12)


@pytest.mark.parametrize(("read", "band"), [("12345", 1.0), ("1234x", 0.8), ("123xx", 0.5), ("12xxx", 0.1)])
def test_accuracies_at_a_band_s_edge_are_in_it(read: str, band: float) -> None:
    for length in (1, 2, 3, 7):
        content = text_accuracy(read * length, "12345" * length)
        assert styled_text({"style": 5, "content": content}) == band


styles = st.floats(1, 5)
shares = st.floats(0, 1)


@given(styles, styles, shares, shares)
def test_the_gate_is_bounded_and_never_falls(a: float, b: float, c: float, d: float) -> None:
    low = styled_text({"style": min(a, b), "content": min(c, d)})
    high = styled_text({"style": max(a, b), "content": max(c, d)})
    assert 0 <= low <= high <= 1


@given(shares, shares, st.floats(-1, 1))
def test_extraction_is_bounded_by_its_parts(p: float, q: float, similar: float) -> None:
    of = [product({"count": one, "consistency": similar}) for one in sorted((p, q))]
    assert all(abs(one) <= abs(similar) for one in of)
    assert of[0] <= of[1] if similar >= 0 else of[0] >= of[1]
