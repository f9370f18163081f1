"""Clusters of a run come from what it stored, whatever became of its pictures since."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import editjudge
from editjudge import RunView
from editjudge.app.comparison import compare_models
from editjudge.app.merge import merge
from editjudge.base.errors import InputError
from editjudge.base.verdict import CountedMissing

from ...small_data import PSNR, make_spec, read_items, save_picture, write_items
from .changing import noise

SOURCES, EDITS = 5, 3
NO_OUTPUT = "4-2"
"""The item that no model has an output for; its source has a name of its own."""

pytestmark = pytest.mark.usefixtures("clock")


def _source_name(source: int, edit: int) -> str:
    """The last edit of each source names a copy of it."""
    return f"{source}.bmp" if edit < EDITS - 1 else f"copy {source}.bmp"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    lines = []
    for source in range(SOURCES):
        pixels, gain = noise(source, 16, 16, 3), 3 * (source % 3)
        for edit in range(EDITS):
            item, file = f"{source}-{edit}", _source_name(source, edit)
            save_picture(tmp_path / "data" / file, pixels)
            lines.append({"id": item, "source": file})
            for model, width in (("a", 30), ("b", 25 + gain)) if item != NO_OUTPUT else ():
                shift = np.random.default_rng([source, edit, width]).normal(0, width, pixels.shape)
                edited = np.clip(pixels + shift, 0, 255).astype(np.uint8)
                save_picture(tmp_path / model / f"{item}.bmp", edited)
    write_items(tmp_path / "data", lines)
    return tmp_path


def _judge(folder: Path, out: str = "run", shard: tuple[int, int] = (0, 1), **given: Any) -> Path:
    spec = make_spec(folder, "ab", **{"data": folder / "data", **given})
    editjudge.run(spec, out=folder / out, shard=shard)
    return folder / out


def _numbers(run: Path, other: Path | None = None) -> dict[str, Any]:
    """All that depends on clusters: intervals, with missing outputs counted too, and p."""
    with RunView(run) as view, RunView(other or run) as second:
        plain, counted = view.results(), view.results(count_missing=True)
        compared = compare_models((view, "a"), (second, "b"))
        figures = compared.dimensions[0].figures
        ids = [ref.id for ref in view.resolved_spec.dataset.items()]
        return {
            "sources": (plain.sources, counted.sources),
            "cells": [results.to_dict()["models"] for results in (plain, counted)],
            "figures": figures,
            "clusters": dict(zip(ids, view.clusters(repeat(True)), strict=True)),
        }


def _remove(data: Path, pattern: str = "*.bmp") -> None:
    for file in data.glob(pattern):
        file.unlink()


def _replace_by_folder(data: Path) -> None:
    (data / "1.bmp").unlink()
    (data / "1.bmp").mkdir()


def _links_lead_nowhere(data: Path) -> None:
    for file in data.glob("*.bmp"):
        file.unlink()
        file.symlink_to(data / "nowhere")


@pytest.mark.parametrize(
    "change",
    [
        partial(_remove, pattern="1.bmp"),
        partial(_remove, pattern="copy 2.bmp"),
        partial(_remove, pattern=_source_name(4, 2)),  # of the item without an output
        _remove,
        _replace_by_folder,
        _links_lead_nowhere,
    ],
)
def test_a_finished_run_keeps_its_numbers(folder: Path, change: Callable[[Path], None]) -> None:
    run = _judge(folder)
    before = _numbers(run)
    assert before["sources"] == (SOURCES, SOURCES)
    assert before["figures"].sources == SOURCES
    change(folder / "data")
    assert _numbers(run) == before
    shutil.copytree(run, folder / "elsewhere")
    assert _numbers(folder / "elsewhere") == before


def test_a_missing_output_counts_without_its_source(folder: Path) -> None:
    run = _judge(folder)
    _remove(folder / "data")
    with RunView(run) as view:
        outcomes: dict[str, Any] = {}
        view.results(count_missing=True, each=lambda row, _: outcomes.update({row.item.id: row.outcomes[PSNR]}))
    assert isinstance(outcomes[NO_OUTPUT], CountedMissing)


def test_a_session_after_sources_went_changes_nothing(folder: Path) -> None:
    before = _numbers(_judge(folder))
    _remove(folder / "data", "*[12].bmp")
    assert _numbers(_judge(folder)) == before


def _after_a_move(folder: Path) -> Path:
    _judge(folder)
    (folder / "data").rename(folder / "far")
    return _judge(folder, data=folder / "far")


def _of_sources_elsewhere(folder: Path) -> Path:
    far = shutil.copytree(folder / "data", folder / "far")
    lines = read_items(folder / "data")
    write_items(folder / "data", (line | {"source": f"{far}/{line['source']}"} for line in lines))
    return _judge(folder, roots={str(far): far})


def _judge_twice(folder: Path) -> Path:
    _judge(folder, limit=4)
    return _judge(folder)


def _judge_shards(folder: Path) -> Path:
    shards = [_judge(folder, f"shard {n}", shard=(n, 2)) for n in (0, 1)]
    merge(shards, folder / "merged")
    return folder / "merged"


@pytest.mark.parametrize("judge", [_after_a_move, _of_sources_elsewhere, _judge_twice, _judge_shards])
def test_however_it_was_judged_a_run_needs_no_pictures(folder: Path, judge: Callable[[Path], Path]) -> None:
    plain = _numbers(_judge(folder, "plain"))
    run = judge(folder)
    assert _numbers(run) == plain
    for data in (folder / "data", folder / "far"):
        _remove(data)
    assert _numbers(run) == plain


def test_a_replaced_source_is_its_items_own_until_it_is_back(folder: Path) -> None:
    run, copy = _judge(folder), folder / "data" / "copy 1.bmp"
    before, held = _numbers(run), copy.read_bytes()
    save_picture(copy, noise(99, 16, 16, 3))
    replaced = _numbers(run)
    assert replaced["figures"].edits == before["figures"].edits - 1  # it is pending
    assert replaced["clusters"]["1-2"] != replaced["clusters"]["1-1"]
    assert _numbers(_judge(folder))["figures"].sources == SOURCES + 1
    copy.write_bytes(held)
    assert _numbers(run) == before


def test_items_whose_sources_nobody_could_read_share_none(folder: Path) -> None:
    _remove(folder / "data", "*[01].bmp")
    clusters = _numbers(_judge(folder))["clusters"]
    assert clusters["0-0"] == clusters["0-1"]  # of one name
    apart = ("0-0", "0-2", "1-0", "1-2", "2-0", "3-0", "4-0")
    assert len({clusters[item] for item in apart}) == len(apart)


def test_damaged_sources_are_told_apart_by_what_they_hold(folder: Path) -> None:
    for name in ("0.bmp", "copy 1.bmp"):
        (folder / "data" / name).write_bytes(b"no picture")
    run = _judge(folder)
    clusters = _numbers(run)["clusters"]
    assert clusters["0-0"] == clusters["1-2"] != clusters["1-0"]
    _remove(folder / "data")
    assert _numbers(run)["clusters"] == clusters


def test_a_run_without_any_source_is_still_refused(folder: Path) -> None:
    _remove(folder / "data")
    with pytest.raises(InputError, match="source: no such file"):
        _judge(folder)


def test_two_runs_are_compared_by_the_sources_that_both_judged(folder: Path) -> None:
    first = _judge(folder)
    one_run = _numbers(first)
    # In the second run this item has another source, so both clusters and content differ.
    save_picture(folder / "data" / "copy 1.bmp", noise(99, 16, 16, 3))
    second = _judge(folder, "second")
    save_picture(folder / "data" / "copy 1.bmp", noise(1, 16, 16, 3))
    before = _numbers(first, second)["figures"]
    assert before.edits == one_run["figures"].edits - 1
    assert before.sources == SOURCES
    _remove(folder / "data")
    assert _numbers(first, second)["figures"] == before
