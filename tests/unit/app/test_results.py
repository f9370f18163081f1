"""A table is made while verdicts are read: the same whatever is held at once, which is little."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from editjudge.app import results as module
from editjudge.app.view import RunView
from editjudge.base.signature import Signature
from editjudge.base.verdict import NoScore, Score
from editjudge.benchmarks.cell import Cell
from editjudge.benchmarks.column import Row
from editjudge.benchmarks.registry import load_benchmark
from editjudge.benchmarks.tabulation import tabulate
from editjudge.engine.judge import Signatures
from editjudge.storage.store import RunStore, StoredVerdict

from ...small_data import MSE, NO_FILE, PSNR, count_calls, make_spec, save_picture, stored_run, write_items

ITEMS = 23
UNREAD = NoScore(kind="unparsable", reason="?")
WAYS: dict[str, dict[str, Any]] = {
    "core": {"dimensions": (PSNR, MSE)},
    "i2i": {"dimensions": ("i2i.se.*",), "judges": ("one", "two"), "rounds": 2},
}


@pytest.fixture(params=WAYS)
def view(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """A run of two models, of which a few outputs and numbers are missing."""
    save_picture(tmp_path / "s.png")
    items = [f"item {number}" for number in range(ITEMS)]
    write_items(tmp_path, ({"id": item, "task": "local_editing"} for item in items))
    spec = make_spec(tmp_path, "ab", benchmark=request.param, **WAYS[request.param])
    names = module.ResolvedSpec(spec).signatures({})
    rng = np.random.default_rng(0)
    with stored_run(tmp_path / "run", spec) as keep:
        for item in rng.permutation(items):
            for model in "ba":
                values = {name: Score(value=rng.integers(0, 5) / 4) for name in names}
                unread = {name: UNREAD for name in names if rng.random() < 0.1}
                keep(item, model, NO_FILE if rng.random() < 0.1 else values | unread)
    with RunView(tmp_path / "run") as opened:
        yield opened


def plainly(row: Mapping[str, Cell]) -> dict[str, Cell]:
    """Without what `tabulate` does not say."""
    untold: dict[str, Any] = {"interval": None, "capped": 0, "other_items": False, "rounds": ()}
    return {name: replace(cell, **untold) for name, cell in row.items()}


def test_a_table_does_not_depend_on_what_is_held_at_once(view: RunView, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = view.results()
    assert whole.items == ITEMS
    assert list(whole.models) == ["a", "b"]
    assert {row.model: row.item.id for row in view.rows()} == dict.fromkeys("ab", "item 22")
    plain = tabulate(whole.columns, list(view.rows()))
    assert plain == {model: plainly(row) for model, row in whole.models.items()}
    for at_once in (1, 5):
        monkeypatch.setattr(module, "_ITEMS_AT_ONCE", at_once)
        again = view.results()
        assert (again.models, again.judges) == (whole.models, whole.judges)


def test_little_is_held_and_read_at_once(view: RunView, monkeypatch: pytest.MonkeyPatch) -> None:
    """No edit once it is counted, and verdicts of a few items at a time."""
    held: list[weakref.ref[Row]] = []
    most = 0

    class WatchedRow(Row):
        __slots__ = ("__weakref__",)

    def watch_row(*fields: Any) -> Row:
        nonlocal most
        row = WatchedRow(*fields)
        held.append(weakref.ref(row))
        most = max(most, sum(each() is not None for each in held))
        return row

    monkeypatch.setattr(module, "Row", watch_row)
    monkeypatch.setattr(module, "_ITEMS_AT_ONCE", 10)
    asked = count_calls(monkeypatch, RunStore, "rows_of", lambda _, items: len(items))
    view.results()
    assert len(held) == 2 * ITEMS
    assert most <= 2
    assert asked == [10, 10, 3]


def test_common_counts_the_items_that_all_models_have(view: RunView) -> None:
    plain, common = view.results(), view.results(common=True)
    rows = list(view.rows())
    for column in common.columns:
        if column.dimensions != (column.id,):  # not the mean of a dimension over all items
            continue
        scored = {
            m: {r.item.id for r in rows if r.model == m and r.outcomes[column.id].value is not None} for m in "ab"
        }
        both = scored["a"] & scored["b"]
        for model, own in scored.items():
            cell, before = common.models[model][column.id], plain.models[model][column.id]
            assert cell.scored == len(both)
            assert cell.counts.get("left_out", 0) == len(own - both)
            assert cell.asked == before.asked
            assert not cell.other_items
            assert before.other_items == (own != both)
            assert "common:a+b" in str(cell.signature)


def test_what_missing_outputs_count_as_is_in_the_signature(view: RunView) -> None:
    for given in (True, False):
        for row in view.results(count_missing=given).models.values():
            assert {"missing:worst" in str(cell.signature) for cell in row.values()} == {given}


# What a composite that was asked for says of its parts, which were not.

WHOLE = "co_edit.edit_completeness"
PARTS = {"co_edit.editing_accuracy": 8.0, "co_edit.over_editing": 7.0, "co_edit.editing_plausibility": 6.0}
KNOWN = {d.id: d for d in load_benchmark("co_edit").dimensions}
TODAY = Signatures(KNOWN).of((KNOWN[name] for name in (*PARTS, WHOLE)), {})
EVIDENCE = {"parts": dict(PARTS)}
STORED = StoredVerdict("1", "ours", WHOLE, Score(value=7.3, evidence=EVIDENCE), str(TODAY[WHOLE]))


def test_the_scores_of_the_same_reply_are_told() -> None:
    parts = module._extract_part_scores(STORED, KNOWN, TODAY)
    assert {name: part.value for name, part in parts.items()} == PARTS
    assert all(part.evidence == {"from": WHOLE} for part in parts.values())
    # Also where the composite itself would be made otherwise now.
    other = TODAY | {WHOLE: Signature.of({"formula": "another"})}
    assert len(module._extract_part_scores(STORED, KNOWN, other)) == 3


@pytest.mark.parametrize(
    "changed",
    [
        {"verdict": NoScore(kind="unparsable", reason="no JSON object")},
        {"verdict": Score(value=7.3)},
        {"verdict": Score(value=0, imputed=True, evidence=EVIDENCE)},
        {"dimension": "co_edit.editing_accuracy"},
        {"dimension": "mine.own"},
        {"signature": "parts:co_edit.over_editing=000000000000"},
        {"signature": ""},
    ],
)
def test_nothing_else_is(changed: dict[str, Any]) -> None:
    assert module._extract_part_scores(replace(STORED, **changed), KNOWN, TODAY) == {}
