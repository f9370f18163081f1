"""Clusters of a run come from what it stored, whatever became of its pictures since."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import editjudge
from editjudge import RunSpec, RunView
from editjudge.app.comparison import compare_models
from editjudge.app.merge import merge
from editjudge.base.errors import InputError
from editjudge.base.verdict import CountedMissing

from .changing import noise, save, write

PSNR = "core.psnr.source.whole"
SOURCES, EDITS = 5, 3
NO_OUTPUT = "4-2"
"""The item that no model has an output for; its source has a name of its own."""

pytestmark = pytest.mark.usefixtures("clock")


def _source_name(source: int, edit: int) -> str:
    """The last edit of each source names a copy of it."""
    return f"{source}.bmp" if edit < EDITS - 1 else f"copy {source}.bmp"


def _write_data(folder: Path) -> None:
    lines = []
    for source in range(SOURCES):
        pixels, gain = noise(source, 16, 16, 3), 3 * (source % 3)
        for edit in range(EDITS):
            item, file = f"{source}-{edit}", _source_name(source, edit)
            save(folder / "data" / file, pixels)
            lines.append({"id": item, "instruction": "x", "source": file})
            if item == NO_OUTPUT:
                continue
            for model, width in (("a", 30), ("b", 25 + gain)):
                shift = np.random.default_rng([source, edit, width]).normal(0, width, pixels.shape)
                edited = np.clip(pixels + shift, 0, 255).astype(np.uint8)
                save(folder / model / f"{item}.bmp", edited)
    write(folder, lines)


def _spec(folder: Path, **given: Any) -> RunSpec:
    asked: dict[str, Any] = {
        "benchmark": "core",
        "data": folder / "data",
        "outputs": {"a": folder / "a", "b": folder / "b"},
        "dimensions": (PSNR,),
    }
    return RunSpec(**{**asked, **given})


def _judge(folder: Path, out: str = "run", **given: Any) -> Path:
    options = {name: given.pop(name) for name in ("shard",) if name in given}
    editjudge.run(_spec(folder, **given), out=folder / out, **options)
    return folder / out


def _numbers(run: Path, other: Path | None = None) -> dict[str, Any]:
    """All that depends on clusters: intervals, with missing outputs counted too, and p."""
    with RunView(run) as view, RunView(other or run) as second:
        plain, counted = view.results(), view.results(count_missing=True)
        compared = compare_models((view, "a"), (second, "b"))
        figures = compared.dimensions[0].figures
        items = {ref.id for ref in view.resolved_spec.dataset.items()}
        return {
            "sources": (plain.sources, counted.sources),
            "cells": [results.to_dict()["models"] for results in (plain, counted)],
            "figures": figures,
            "clusters": view.clusters(items),
        }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    _write_data(tmp_path)
    return tmp_path


def _one_is_gone(data: Path) -> None:
    (data / "1.bmp").unlink()


def _copy_is_gone(data: Path) -> None:
    (data / "copy 2.bmp").unlink()


def _source_without_output_is_gone(data: Path) -> None:
    (data / _source_name(4, 2)).unlink()


def _all_are_gone(data: Path) -> None:
    for file in data.glob("*.bmp"):
        file.unlink()


def _one_cannot_be_read(data: Path) -> None:
    (data / "1.bmp").unlink()
    (data / "1.bmp").mkdir()


def _links_lead_nowhere(data: Path) -> None:
    for file in data.glob("*.bmp"):
        file.unlink()
        file.symlink_to(data / "nowhere")


@pytest.mark.parametrize(
    "change",
    [
        _one_is_gone,
        _copy_is_gone,
        _source_without_output_is_gone,
        _all_are_gone,
        _one_cannot_be_read,
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
    _all_are_gone(folder / "data")
    with RunView(run) as view:
        outcomes: dict[str, Any] = {}
        view.results(
            count_missing=True,
            each=lambda row, _: outcomes.update({row.item.id: row.outcomes[PSNR]}),
        )
    assert isinstance(outcomes[NO_OUTPUT], CountedMissing)


def test_a_session_after_sources_went_changes_nothing(folder: Path) -> None:
    before = _numbers(_judge(folder))
    _one_is_gone(folder / "data")
    _copy_is_gone(folder / "data")
    assert _numbers(_judge(folder)) == before


def test_moved_data_has_the_same_clusters(folder: Path) -> None:
    before = _numbers(_judge(folder))
    (folder / "data").rename(folder / "moved")
    assert _numbers(_judge(folder, data=folder / "moved")) == before
    _all_are_gone(folder / "moved")
    assert _numbers(folder / "run") == before


def test_pictures_outside_the_data_may_go_too(folder: Path) -> None:
    lines = [
        {"id": f"{s}-{e}", "instruction": "x", "source": str(folder / "far" / _source_name(s, e))}
        for s in range(SOURCES)
        for e in range(EDITS)
    ]
    shutil.copytree(folder / "data", folder / "far")
    write(folder, lines)
    run = _judge(folder, roots={str(folder / "far"): folder / "far"})
    before = _numbers(run)
    assert before["sources"] == (SOURCES, SOURCES)
    _all_are_gone(folder / "far")
    assert _numbers(run) == before


def test_a_replaced_source_is_its_items_own_until_it_is_back(folder: Path) -> None:
    run, copy = _judge(folder), folder / "data" / "copy 1.bmp"
    before, held = _numbers(run), copy.read_bytes()
    save(copy, noise(99, 16, 16, 3))
    replaced = _numbers(run)
    assert replaced["figures"].edits == before["figures"].edits - 1  # it is pending
    assert replaced["clusters"]["1-2"] != replaced["clusters"]["1-1"]
    assert _numbers(_judge(folder))["figures"].sources == SOURCES + 1
    copy.write_bytes(held)
    assert _numbers(run) == before


def test_items_whose_sources_nobody_could_read_share_none(folder: Path) -> None:
    for name in ("0.bmp", "copy 0.bmp", "1.bmp", "copy 1.bmp"):
        (folder / "data" / name).unlink()
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
    _all_are_gone(folder / "data")
    assert _numbers(run)["clusters"] == clusters


def test_a_run_without_any_source_is_still_refused(folder: Path) -> None:
    _all_are_gone(folder / "data")
    with pytest.raises(InputError, match="source: no such file"):
        _judge(folder)


def test_a_run_that_grew_has_the_clusters_of_all(folder: Path) -> None:
    _judge(folder, limit=4)
    whole = _numbers(_judge(folder))
    assert whole["sources"] == (SOURCES, SOURCES)
    _all_are_gone(folder / "data")
    assert _numbers(folder / "run") == whole
    assert _numbers(folder / "run")["clusters"] == whole["clusters"]


def test_merged_shards_keep_their_clusters(folder: Path) -> None:
    whole = _numbers(_judge(folder))
    shards = [_judge(folder, f"shard {n}", shard=(n, 2)) for n in (0, 1)]
    _all_are_gone(folder / "data")
    merge(shards, folder / "merged")
    assert _numbers(folder / "merged") == whole


def test_two_runs_are_compared_by_the_sources_that_both_judged(folder: Path) -> None:
    first = _judge(folder)
    one_run = _numbers(first)
    # In the second run this item has another source, so both clusters and content differ.
    save(folder / "data" / "copy 1.bmp", noise(99, 16, 16, 3))
    second = _judge(folder, "second")
    save(folder / "data" / "copy 1.bmp", noise(1, 16, 16, 3))
    before = _numbers(first, second)["figures"]
    assert before.edits == one_run["figures"].edits - 1
    assert before.sources == SOURCES
    _all_are_gone(folder / "data")
    assert _numbers(first, second)["figures"] == before
