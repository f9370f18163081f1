"""A run is read where its data is gone, is another revision, has moved, or has lost a picture."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from itertools import repeat
from pathlib import Path
from typing import Any

import pytest

import editjudge
from editjudge import RunView
from editjudge.app.export import long_rows
from editjudge.app.merge import merge
from editjudge.app.rescoring import rescore_run
from editjudge.base.errors import ConfigError, InputError
from editjudge.base.file_states import ABSENT
from editjudge.engine import stored_items

from ...small_data import read_items, save_picture, write_items
from .changing import COUNT, DIMENSIONS, count_judged_anew, noise, run_again, spec, values

Lines = list[dict[str, Any]]
KEPT = "items are as the run stored them"


def read_run(out: Path, **places: Any) -> dict[str, Any]:
    """What is read of a run: its table, comparison, export, flaws and clusters."""
    with RunView(out, **places) as view:
        return {
            "table": view.results(count_missing=True).to_dict()["models"],
            "rows": [row.model_dump() for row in long_rows(view)],
            "flaws": view.flawed_outcomes(),
            "clusters": view.clusters(repeat(True)),
            "item": str(view.item("1")),
        }


def _break_lines(lines: Lines) -> Lines:
    return [lines[0] | {"mask": "masks/none.bmp"}, *lines[1:2], lines[2] | {"hint": "\0"}, lines[3]]


@pytest.mark.parametrize("change", [lambda lines: lines, _break_lines])
def test_a_run_alone_says_what_it_said_beside_its_data(folder: Path, change: Callable[[Lines], Lines]) -> None:
    write_items(folder / "data", change(read_items(folder / "data")))
    (folder / "v1" / "3.bmp").unlink()
    run_again(folder, limit=3)
    before = read_run(folder / "run")
    shutil.move(folder / "run", folder / "away")
    for name in ("data", "v1", "v2"):
        shutil.rmtree(folder / name)
    assert read_run(folder / "away") == before
    with RunView(folder / "away") as view:
        assert view.data_note.startswith("the data of the run cannot be read (")
        assert view.data_note.endswith(f"no such file; {KEPT}") or KEPT in view.data_note
        assert not view.pictures("1").files
        dataset = view.resolved_spec.dataset
        with pytest.raises(InputError, match="its pictures are needed, and it is not here"):
            dataset.load(next(dataset.items()))
        assert set(view.pictures("1").outputs.values()) == {None}


def test_another_revision_moves_no_number(folder: Path) -> None:
    run_again(folder)
    before = read_run(folder / "run")
    lines = read_items(folder / "data")
    write_items(folder / "data", [lines[3], lines[1] | {"instruction": "other"}, lines[0]])
    save_picture(folder / "data" / "masks" / "0.bmp", noise(77, 8, 12))
    assert read_run(folder / "run") == before
    with RunView(folder / "run") as view:
        assert view.data_note == f"{folder}/data/items.jsonl is not what the run judged; {KEPT}"
        whole, other = view.pictures("1"), view.pictures("0")
        assert whole.mask is not None, "what is as it was judged is shown"
        assert other.mask is None, "what is not, is not"
        assert other.sources


@pytest.mark.parametrize("by", ["data", "roots"])
def test_pictures_are_found_where_they_are_now(folder: Path, by: str) -> None:
    run_again(folder)
    with RunView(folder / "run") as view:
        before = view.pictures("1")
    moved = folder / "moved"
    moved.mkdir()
    for name in ("data", "v1", "ours"):
        (folder / name).rename(moved / name)
    (moved / "data" / "targets" / "1.bmp").unlink()
    save_picture(moved / "data" / "masks" / "1.bmp", noise(5, 8, 12))
    places: dict[str, Any] = {"data": {"data": moved / "data"}, "roots": {"roots": {f"{folder}": moved}}}
    with RunView(folder / "run", **places[by]) as view:
        finder = view.make_picture_finder()
        now = finder.find("1")
        assert now.sources == tuple(moved / one.relative_to(folder) for one in before.sources)
        assert (now.mask, now.target) == (None, None)
        assert finder.others == {f"{moved}/data/masks/1.bmp"}
        assert now.outputs == {"ours": moved / "ours" / "1.bmp" if by == "roots" else None}
    with RunView(folder / "run", roots={f"{folder}": folder / "none"}) as view:
        assert not view.pictures("1").files
    with RunView(folder / "run", data=folder / "none") as view:
        with pytest.raises(InputError, match="none: no such file"):
            view.make_picture_finder()


def test_a_merged_run_has_the_items_of_all(folder: Path) -> None:
    asked, shards = spec(folder), [folder / "first", folder / "second"]
    editjudge.run(asked, out=shards[0], shard=(0, 2))
    lines = read_items(folder / "data")
    write_items(folder / "data", [*lines, lines[3] | {"id": "new", "hint": "a cup"}])
    shutil.copyfile(folder / "v1" / "3.bmp", folder / "v1" / "new.bmp")
    editjudge.run(asked, out=shards[1], shard=(1, 2))
    merge(shards, folder / "run")
    with RunView(folder / "run") as view:
        there = view.results().models
    assert {cell.counts["pending"] for cell in there["ours"].values()} == {1}, "new is in no shard"
    assert count_judged_anew(folder) == 1
    merge(shards[:1] * 2, folder / "twice")
    shutil.rmtree(folder / "data")
    with RunView(folder / "twice") as view:
        assert {sum(cell.counts.values()) for cell in view.results().models["ours"].values()} == {COUNT}


def test_values_that_cannot_be_stored_are_never_read_otherwise(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = stored_items._item_json
    monkeypatch.setattr(stored_items, "_item_json", lambda ref: [*plain(ref), {1, 2}])
    run_again(folder)
    before = read_run(folder / "run")
    assert read_run(folder / "run") == before
    (folder / "data" / "items.jsonl").unlink()
    with RunView(folder / "run") as view, pytest.raises(InputError, match="no such file") as e:
        view.results()
    assert "--data" not in str(e.value)


def test_what_rests_on_pixels_is_kept_by_rescore(folder: Path) -> None:
    run_again(folder)
    before = values(folder / "run")
    shutil.rmtree(folder / "data")
    changes = rescore_run(folder / "run", write=True)
    assert {(one.changed, one.kept) for one in changes} == {(0, COUNT)}
    assert values(folder / "run") == before


def test_a_bundle_in_the_place_of_a_run_is_told(tmp_path: Path) -> None:
    (tmp_path / "run.zip").write_bytes(b"PK")
    with pytest.raises(ConfigError, match=r"run.zip is a file; .* of a bundle the one it unpacks to"):
        RunView(tmp_path / "run.zip")


def test_items_are_stored_once(folder: Path) -> None:
    run_again(folder)
    with RunView(folder / "run") as view:
        store = view._store
        (block,) = store.item_blocks()
        cache = store.file_cache()
    assert count_judged_anew(folder) == 0
    with RunView(folder / "run") as view:
        assert [*view._store.item_blocks()] == [block]
        assert view._store.file_cache().traits == cache.traits
        assert view._store.stored_items(folder, "").stat("x") == ABSENT  # type: ignore[union-attr]
        assert len(block) + len(cache.traits) < 600
    assert DIMENSIONS
