"""A table is made while verdicts are read: the same whatever is held at once, which is little."""

from __future__ import annotations

import json
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image as Pil

from editjudge.app import results as module
from editjudge.app.spec import ResolvedSpec, RunSpec
from editjudge.app.view import RunView
from editjudge.base.config import Settings
from editjudge.base.file_states import FileState
from editjudge.base.item import Missing
from editjudge.base.verdict import NoScore, Score, Verdict
from editjudge.benchmarks.cell import Cell
from editjudge.benchmarks.column import Row
from editjudge.benchmarks.tabulation import tabulate
from editjudge.engine.content_keys import JudgedEdit
from editjudge.storage.store import RunStore

ITEMS = 23
WAYS: dict[str, dict[str, Any]] = {
    "core": {"dimensions": ("core.psnr.source.whole", "core.mse.source.whole")},
    "i2i": {"dimensions": ("i2i.se.*",), "judges": ("one", "two"), "rounds": 2},
}


@pytest.fixture(params=WAYS)
def view(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """A run of two models, of which a few outputs and numbers are missing."""
    Pil.fromarray(np.zeros((8, 8, 3), np.uint8)).save(tmp_path / "s.png")
    line = {"instruction": "make it red", "source": "s.png", "task": "local_editing"}
    lines = [json.dumps(line | {"id": f"item {number}"}) for number in range(ITEMS)]
    (tmp_path / "items.jsonl").write_text("\n".join(lines))
    resolved = ResolvedSpec(
        RunSpec(
            benchmark=request.param,
            data=tmp_path / "items.jsonl",
            outputs={model: tmp_path / model for model in "ab"},
            **WAYS[request.param],
        )
    )
    signatures = resolved.signatures({})
    with RunStore.open(tmp_path / "run", resolved.header(Settings())) as store:
        rng = np.random.default_rng(0)
        for number in rng.permutation(ITEMS):
            for model in "ba":
                put(store, f"item {number}", model, signatures, rng)
    with RunView(tmp_path / "run") as opened:
        yield opened


def plainly(row: Mapping[str, Cell]) -> dict[str, Cell]:
    """Without what `tabulate` does not say."""
    return {
        name: replace(cell, interval=None, capped=0, other_items=False, rounds=())
        for name, cell in row.items()
    }


def put(
    store: RunStore, item: str, model: str, signatures: dict[str, str], rng: np.random.Generator
) -> None:
    if rng.random() < 0.1:
        store.save_edit_now(JudgedEdit(item, model, None, Missing("absent", "no file")))
        return
    verdicts: dict[str, Verdict] = {
        name: NoScore(kind="unparsable", reason="?")
        if rng.random() < 0.1
        else Score(value=rng.integers(0, 5) / 4)
        for name in signatures
    }
    seen = FileState(bytes(8), f"sha256:{'0' * 64}")
    store.save_edit_now(JudgedEdit(item, model, seen), verdicts, signatures)


def test_a_table_does_not_depend_on_what_is_held_at_once(
    view: RunView, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = view.results()
    assert whole.items == ITEMS
    assert list(whole.models) == ["a", "b"]
    assert {row.model: row.item.id for row in view.rows()} == dict.fromkeys("ab", "item 22")
    plain = tabulate(whole.columns, list(view.rows()))
    assert plain == {model: plainly(row) for model, row in whole.models.items()}
    for at_once in (1, 5):
        monkeypatch.setattr(module, "_ITEMS_AT_ONCE", at_once)
        again = view.results()
        assert again.models == whole.models
        assert again.judges == whole.judges


def test_no_edit_is_held_once_it_is_counted(view: RunView, monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[weakref.ref[Row]] = []
    most = 0

    class Watched(Row):
        __slots__ = ("__weakref__",)

    def watched(*fields: Any) -> Row:
        nonlocal most
        row = Watched(*fields)
        held.append(weakref.ref(row))
        most = max(most, sum(each() is not None for each in held))
        return row

    monkeypatch.setattr(module, "Row", watched)
    view.results()
    assert len(held) == 2 * ITEMS
    assert most <= 2


def test_verdicts_are_read_a_few_items_at_a_time(
    view: RunView, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Sequence[str]] = []
    plain = RunStore.rows_of

    def noted(self: RunStore, items: Any, **how: Any) -> Any:
        asked.append(items)
        return plain(self, items, **how)

    monkeypatch.setattr(module, "_ITEMS_AT_ONCE", 10)
    monkeypatch.setattr(RunStore, "rows_of", noted)
    view.results()
    assert [len(items) for items in asked] == [10, 10, 3]


def test_common_counts_the_items_that_all_models_have(view: RunView) -> None:
    plain, common = view.results(), view.results(common=True)
    rows = list(view.rows())
    for column in common.columns:
        if column.dimensions != (column.id,):  # not the mean of a dimension over all items
            continue
        scored = [
            {r.item.id for r in rows if r.model == m and r.outcomes[column.id].status == "scored"}
            for m in "ab"
        ]
        both = scored[0] & scored[1]
        for model, own in zip("ab", scored, strict=True):
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
