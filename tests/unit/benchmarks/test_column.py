"""Aggregation counts what it leaves out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from editjudge.base.item import Item
from editjudge.base.signature import Signature
from editjudge.base.verdict import Failure, MissingOutput, NoScore, NotApplicable, NotServed, Outcome, Pending, Score
from editjudge.benchmarks.cell import Cell
from editjudge.benchmarks.column import Column, Composite, Mean, PairedDifference, PooledMean, Row, WeightedMean
from editjudge.benchmarks.fusion import min_max
from editjudge.benchmarks.tabulation import tabulate

from ...fakes.scorers import edit

ScoredWeighted = WeightedMean
AskedWeighted = partial(WeightedMean, count="asked")

ALL: list[Outcome] = [
    Score(value=1),
    Score(value=4, imputed=True),
    NoScore(kind="unparsable", reason="?"),
    Failure(error="?"),
    MissingOutput(reason="?"),
    NotServed(reason="?"),
    NotApplicable(reason="?"),
]


def rows(outcomes: list[Outcome], task: str = "", dimension: str = "d") -> list[Row]:
    signature = {dimension: Signature.of({"dimension": dimension})}
    return [Row(edit(task, item_id=str(i)).item, "m", {dimension: one}, signature) for i, one in enumerate(outcomes)]


def cell(*columns: Column, of: list[Row]) -> Cell:
    return tabulate(columns, of)["m"][columns[-1].id]


def by_task(*tasks: str) -> list[Column]:
    """A column of the mean of each task, of that name."""
    return [Column(t, t, Mean("d", where=lambda i, t=t: i.task == t), True) for t in tasks]  # type: ignore[misc]


MEAN = Column("c", "C", Mean("d"), True)


def test_a_mean_rests_on_scored_values_and_counts_the_rest() -> None:
    got = cell(MEAN, of=rows(ALL))
    assert got.value == 2.5
    assert (got.scored, got.asked, got.imputed) == (2, 6, 1)
    assert "not_applicable" not in got.counts


def test_a_missing_output_can_count_as_a_value_by_the_benchmarks_rule() -> None:
    got = cell(Column("c", "C", Mean("d", missing_output=0.0), True), of=rows(ALL))
    assert got.value == pytest.approx(5 / 3)
    assert got.imputed == 2


@pytest.mark.parametrize(
    ("outcomes", "reason"),
    [
        ([Failure(error="?")], "nothing scored"),
        ([NotApplicable(reason="?")], "not applicable to any item"),
        ([], "not applicable to any item"),
    ],
)
def test_no_number_has_a_reason(outcomes: list[Outcome], reason: str) -> None:
    some = rows(outcomes) or [replace(rows(ALL)[0], model="other")]
    table = tabulate([MEAN], [*some, *rows([NotApplicable(reason="?")])])
    assert table["m"]["c"].value is None
    assert table["m"]["c"].reason == reason


def test_subsets() -> None:
    of = rows([Score(value=1), Score(value=5)])
    first = Column("c", "C", Mean("d", where=lambda i: i.id == "0"), True)
    assert cell(first, of=of).value == 1
    assert cell(MEAN, first, of=of).asked == 1


AREA = Column("c", "C", Mean("d", weighted_by="area"), True)


def make_rows(*pairs: tuple[Outcome, Outcome]) -> list[Row]:
    return [Row(edit(item_id=str(i)).item, "m", {"d": value, "area": area}) for i, (value, area) in enumerate(pairs)]


def test_values_are_weighted_by_another_dimension() -> None:
    of = make_rows((Score(value=1), Score(value=1)), (Score(value=5), Score(value=3)))
    got = cell(AREA, of=of)
    assert (got.value, got.scored, got.asked) == (4, 2, 2)
    assert "mean(d by area)" in str(got.signature)
    assert AREA.dimensions == ("d", "area")
    assert MEAN.dimensions == ("d",)


def test_a_value_without_its_weight_counts_as_the_weights_outcome() -> None:
    got = cell(
        AREA,
        of=make_rows(
            (Score(value=2), Score(value=1)),
            (Score(value=9), Failure(error="?")),
            (NoScore(kind="refused", reason="?"), Score(value=1)),
            (NotApplicable(reason="?"), Score(value=1)),
        ),
    )
    assert got.value == 2
    assert got.counts == {"scored": 1, "failed": 1, "unscored": 1}


def test_weights_of_nothing_give_no_number() -> None:
    got = cell(AREA, of=make_rows((Score(value=2), Score(value=0))))
    assert (got.value, got.reason, got.scored) == (None, "every weight is 0", 1)


def test_an_imputed_value_needs_its_weight_too() -> None:
    column = Column("c", "C", Mean("d", weighted_by="area", missing_output=0.0), True)
    missing = MissingOutput(reason="?")
    got = cell(column, of=make_rows((missing, Score(value=1)), (missing, missing)))
    assert (got.value, got.imputed) == (0, 1)
    assert got.counts == {"scored": 1, "missing_output": 1}


def sides(*given: tuple[str, str, Outcome]) -> list[Row]:
    return [Row(edit(pair, item_id=side).item, "m", {"d": value}) for pair, side, value in given]


DROP = Column("c", "C", PairedDifference("d", lambda i: (i.task, "+" if i.id == "+" else "-")), False)


def test_the_mean_difference_of_pairs() -> None:
    of = sides(
        ("a", "+", Score(value=5)),
        ("b", "-", Score(value=1)),
        ("a", "-", Score(value=2)),
        ("b", "+", Score(value=2)),
        ("alone", "+", Score(value=100)),
    )
    got = cell(DROP, of=of)
    assert (got.value, got.scored, got.asked) == (2, 2, 2)
    assert "paired(d as judged)" in str(got.signature)
    assert DROP.dimensions == ("d",)


def test_a_pair_counts_as_what_is_missing_of_it() -> None:
    refused = NoScore(kind="refused", reason="?")
    of = sides(
        ("a", "+", Score(value=5)),
        ("a", "-", refused),
        ("b", "+", MissingOutput(reason="?")),
        ("b", "-", Score(value=5)),
        ("c", "+", NotApplicable(reason="?")),
        ("c", "-", Score(value=5)),
    )
    got = cell(DROP, of=of)
    assert (got.value, got.reason) == (None, "nothing scored")
    assert got.counts == {"unscored": 1, "missing_output": 1}
    assert cell(DROP, of=sides(("a", "+", Score(value=1)))).reason == "no pairs"


@pytest.mark.parametrize("side", ["+", "-"])
def test_a_value_that_a_rule_put_in_is_no_side_of_a_pair(side: str) -> None:
    of = sides(
        ("a", "+", Score(value=0, imputed=side == "+")),
        ("a", "-", Score(value=0, imputed=side == "-")),
        ("b", "+", Score(value=5)),
        ("b", "-", Score(value=2)),
    )
    assert cell(DROP, of=of[:2]).reason == "nothing scored"
    got = cell(DROP, of=of)
    assert (got.value, got.imputed) == (3, 0)
    assert got.counts == {"scored": 1, "unscored": 1}


def test_items_outside_every_pair_are_left_out() -> None:
    column = Column("c", "C", PairedDifference("d", lambda i: None), False)
    assert cell(column, of=rows([Score(value=1)])).reason == "no pairs"


POOLED = Column("c", "C", PooledMean(min_max, "d"), True)


def test_a_pooled_column_is_fitted_once_to_all_models() -> None:
    fitted: list[list[float]] = []

    def fit(values: Sequence[float]) -> Callable[[float], float]:
        fitted.append(list(values))
        return min_max(values)

    of = [replace(row, model=m) for m in "ab" for row in rows([Score(value=1), Score(value=5)])]
    of += [replace(of[0], model="c", outcomes={"d": Score(value=9)})]
    got = tabulate([Column("c", "C", PooledMean(fit, "d"), True)], of)
    assert {model: row["c"].value for model, row in got.items()} == {"a": 0.25, "b": 0.25, "c": 1}
    assert fitted[0] == [1, 5, 1, 5, 9]
    assert "pool:a+b+c" in str(got["a"]["c"].signature)


def test_what_a_rule_put_in_is_no_part_of_the_pool() -> None:
    """The scale is that of judged values; what was put in is placed on it."""
    put_in = Score(value=9, imputed=True)
    got = cell(POOLED, of=rows([Score(value=1), Score(value=5), put_in]))
    assert (got.value, got.scored, got.imputed) == (pytest.approx((0 + 1 + 1) / 3), 3, 1)
    assert cell(POOLED, of=rows([Score(value=1), put_in])).value is None


def test_a_pool_without_a_scale_has_a_reason() -> None:
    got = cell(POOLED, of=rows([Score(value=1)]))
    assert got.value is None
    assert "at least two different values" in got.reason


@pytest.mark.parametrize(
    "how",
    [Mean("d"), PairedDifference("d", lambda i: None), PooledMean(min_max, "d"), AskedWeighted(()), ScoredWeighted(())],
)
def test_the_protocol_is_in_every_signature(how: Any) -> None:
    of = rows([Score(value=1), Score(value=2)])
    paper, official = (
        cell(Column("c", "C", how, True, protocol=name), of=of).signature for name in ("x.paper.1", "x.official.1")
    )
    assert "protocol:x.paper.1" in str(paper)
    assert paper != official


def test_models_and_conditions_do_not_mix() -> None:
    """The same condition is looked at once for each model, and not once for all."""
    a, b = rows([Score(value=1), Score(value=2)], "t"), rows([Score(value=4)], "u")
    looked: list[str] = []

    def of_task_t(item: Item) -> bool:
        looked.append(item.id)
        return item.task == "t"

    columns = [Column(name, name, Mean("d", of_task_t), True) for name in ("x", "y")]
    other = Column("z", "Z", Mean("d", lambda i: i.task == "u"), True)
    mixed = [a[0], *(replace(row, model="n") for row in (*a, *b)), a[1]]
    got = tabulate((one for one in [*columns, other]), mixed)
    values = {(m, c): one.value for m, row in got.items() for c, one in row.items()}
    assert values == {
        ("m", "x"): 1.5, ("m", "y"): 1.5, ("m", "z"): None,
        ("n", "x"): 1.5, ("n", "y"): 1.5, ("n", "z"): 4,
    }  # fmt: skip
    assert list(got) == ["m", "n"]
    assert len(looked) == len(mixed)


@pytest.mark.parametrize(("by", "value"), [((), 2), (("b", "b", "never"), 3)])
def test_columns_weigh_by_their_edits_or_by_those_of_others(by: Any, value: float) -> None:
    of = rows([Score(value=1)] * 3, "a") + rows([Score(value=5)], "b")
    total = Column("t", "T", AskedWeighted(("a", "b", "never"), by=by), True)
    assert cell(*by_task("a", "b", "never"), total, of=of).value == value


@pytest.mark.parametrize("how", [AskedWeighted, ScoredWeighted])
def test_parts_that_all_weigh_nothing_have_no_mean(how: Any) -> None:
    columns = by_task("a", "never")
    total = Column("t", "T", how(("a",), by=("never",)), True)
    got = cell(*columns, total, of=rows([Score(value=1)], "a"))
    assert (got.value, got.reason, got.scored) == (None, "every weight is 0", 1)


REFUSED = NoScore(kind="refused", reason="?")


@pytest.mark.parametrize(
    ("how", "mean"),
    [
        # The one without a value counts as 1, the mean of its column.
        (AskedWeighted, (3 * 1 + 1 * 5) / 4),
        (ScoredWeighted, (2 * 1 + 1 * 5) / 3),
    ],
)
def test_what_an_edit_without_a_value_counts_as(how: Any, mean: float) -> None:
    of = rows([Score(value=1), Score(value=1), REFUSED], "a") + rows([Score(value=5)], "b")
    columns = by_task("a", "b", "never")
    parts = tuple(one.id for one in columns)
    total = Column("t", "T", how(parts), True)
    got = cell(*columns, total, of=of)
    assert (got.value, got.scored, got.asked) == (pytest.approx(mean), 3, 4)
    other = AskedWeighted if how is ScoredWeighted else ScoredWeighted
    other_total = replace(total, how=other(parts))
    assert got.signature != cell(*columns, other_total, of=of).signature
    # A column without any value takes the whole with it, or drops out.
    nothing = rows([REFUSED], "a") + rows([Score(value=5)], "b")
    got = cell(*columns, total, of=nothing)
    assert (got.value, got.reason) == ((5, "") if how is ScoredWeighted else (None, "no value for a"))
    assert (got.scored, got.asked) == (1, 2)


@pytest.mark.parametrize(
    ("given", "value", "reason"),
    [
        ([REFUSED], 5, ""),
        ([MissingOutput(reason="?")], 5, ""),
        ([REFUSED, MissingOutput(reason="?")], 5, ""),
        ([NotApplicable(reason="?")], 5, ""),
        ([NotServed(reason="?")], None, "no value yet for a (not served)"),
        ([Pending()], None, "no value yet for a (pending)"),
        ([Failure(error="?")], None, "no value yet for a (failed)"),
        ([REFUSED, Pending(), NotServed(reason="?")], None,
         "no value yet for a (not served, pending)"),
        # What has some values is a part all the same; how few stands in the coverage.
        ([Score(value=1), Failure(error="?"), Pending(), NotServed(reason="?")], 3, ""),
    ],
)  # fmt: skip
def test_what_was_not_judged_is_awaited(given: list[Outcome], value: float | None, reason: str) -> None:
    """Else a run without a service, or half of one, would show the mean of the other columns."""
    of = rows(given, "a") + rows([Score(value=5)], "b")
    columns = by_task("a", "b")
    total = Column("t", "T", ScoredWeighted(("a", "b")), True)
    got = cell(*columns, total, of=of)
    assert (got.value, got.reason) == (value, reason)
    # Neither does a mean of such means, nor what is made of them, show it.
    above = Column("u", "U", ScoredWeighted(("t", "b"), by=("a", "b")), True)
    upper = cell(*columns, total, above, of=of)
    assert (upper.value is None) == (value is None)
    assert upper.open_statuses == got.open_statuses


def test_a_composite_awaits_what_its_parts_without_a_value_do() -> None:
    """A failed edit of a part that has a value is not what the other part lacks."""
    some = rows([Score(value=1), Failure(error="?")], "a")
    columns = by_task("a", "b", "c")
    less = Column("a-b", "L", Composite(lambda v: v["a"] - v["b"], {"a": "a", "b": "b"}), True)
    total = Column("t", "T", ScoredWeighted(("a-b", "c")), True)
    three = rows([Score(value=3)], "c")
    got = cell(*columns, less, total, of=some + three)
    assert (got.value, got.reason) == (3, ""), "nothing is asked of b"
    got = cell(*columns, less, total, of=some + three + rows([Pending()], "b"))
    assert (got.value, got.reason) == (None, "no value yet for a-b (pending)")


@pytest.mark.parametrize(
    "how", [PairedDifference("d", lambda i: (i.task, "+" if i.id == "0" else "-")), PooledMean(min_max, "d"), Mean("d")]
)
def test_every_number_that_is_not_there_says_what_it_awaits(how: Any) -> None:
    column = Column("c", "C", how, True)
    assert cell(column, of=rows([Failure(error="?"), REFUSED])).open_statuses == {"failed"}
    assert cell(column, of=rows([REFUSED, REFUSED])).open_statuses == frozenset()


def test_values_on_the_papers_scale() -> None:
    of = rows([Score(value=1), Score(value=2)])
    percent = Column("c", "C", Mean("d", affine=(25.0, -25.0)), True)
    got = cell(percent, of=of)
    assert got.value == 12.5
    assert "25*mean(d)-25" in str(got.signature)


def test_a_composite_without_a_part_has_no_number() -> None:
    of = rows([Failure(error="?")])
    composite = Column("x", "X", Composite(lambda v: v["d"], {"d": "c"}), True)
    got = cell(MEAN, composite, of=of)
    assert (got.value, got.reason) == (None, "no value for d")
    assert got.counts == {"failed": 1}


@pytest.mark.parametrize(
    "how", [Composite(lambda v: v["d"], {"d": "c"}), ScoredWeighted(("c",)), AskedWeighted(("c",))]
)
def test_the_signature_of_what_is_made_of_columns_follows_theirs(how: Any) -> None:
    whole = Column("x", "X", how, True)
    of = rows([Score(value=1)])
    other = [replace(of[0], signatures={"d": Signature.of({"dimension": "d", "judge": "new"})})]
    assert cell(MEAN, whole, of=of).signature != cell(MEAN, whole, of=other).signature


def test_the_signature_follows_the_values_signatures() -> None:
    of = rows([Score(value=1)])
    other = [replace(of[0], signatures={"d": Signature.of({"dimension": "d", "judge": "new"})})]
    assert cell(MEAN, of=of).signature != cell(MEAN, of=other).signature
    assert cell(MEAN, of=of).signature == cell(MEAN, of=rows([Score(value=2)])).signature
