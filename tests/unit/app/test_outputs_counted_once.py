"""Every item counts once in every table, whatever its output's name leads to, and whenever."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import editjudge
from editjudge import RunSpec, RunView
from editjudge.app.export import long_rows
from editjudge.app.run import RunResult
from editjudge.app.spec import ResolvedSpec
from editjudge.app.validation import validate
from editjudge.base.errors import InputError
from editjudge.benchmarks.cell import Cell
from editjudge.benchmarks.outputs import Outputs
from editjudge.engine import scheduler

from ...small_data import PSNR, make_spec, read_items, save_picture, write_items

COUNT = 20
ODD = "7"
ALL = {"scored": COUNT}
MISSING = {"scored": COUNT - 1, "missing_output": 1}
FAILED = {"scored": COUNT - 1, "failed": 1}


@pytest.fixture
def spec(tmp_path: Path) -> RunSpec:
    """Twenty items whose outputs are their sources: 100 dB each."""
    rng = np.random.default_rng(7)
    for index in range(COUNT):
        pixels = rng.integers(0, 256, (12, 16, 3), dtype=np.uint8)
        for folder in (tmp_path, tmp_path / "ours"):
            save_picture(folder / f"{index}.png", pixels)
    write_items(tmp_path, ({"source": f"{index}.png"} for index in range(COUNT)))
    return make_spec(tmp_path)


def judge_run(spec: RunSpec) -> RunResult:
    return editjudge.run(spec, out=spec.data.parent / "run")


def judged_counts(spec: RunSpec) -> dict[str, int]:
    return dict(judge_run(spec).cells["ours"][PSNR].counts)


def read_cell(spec: RunSpec, *, count_missing: bool = False) -> Cell:
    with RunView(spec.data.parent / "run") as view:
        return view.results(count_missing=count_missing).models["ours"][PSNR]


def list_statuses(spec: RunSpec) -> list[str]:
    with RunView(spec.data.parent / "run") as view:
        return [row.status for row in long_rows(view) if row.item == ODD]


def odd(spec: RunSpec) -> Path:
    """The output that a case replaces."""
    path = spec.outputs["ours"] / f"{ODD}.png"
    path.unlink()
    return path


LEADING_NOWHERE: dict[str, Callable[[Path], None]] = {
    "a link to nothing": lambda path: path.symlink_to("nowhere.png"),
    "a link below a file": lambda path: path.symlink_to("1.png/7.png"),
    "a link to itself": lambda path: path.symlink_to(path.name),
    "a link to a folder": lambda path: path.symlink_to(path.parent),
    "a folder": Path.mkdir,
    "a pipe": os.mkfifo,
}


@pytest.mark.parametrize("case", LEADING_NOWHERE)
def test_a_name_that_leads_to_no_file_is_a_missing_output(case: str, spec: RunSpec) -> None:
    path = odd(spec)
    LEADING_NOWHERE[case](path)
    missing = validate(ResolvedSpec(spec)).select("missing")
    assert [one.what for one in missing] == [f"{ODD}: {path} leads to no file"]
    for session in range(2):
        result = judge_run(spec)
        assert result.last_event.exit_code == 0, session
        assert result.cells["ours"][PSNR].counts == MISSING
        plain, counted = read_cell(spec), read_cell(spec, count_missing=True)
        assert (plain.value, plain.counts) == (100, MISSING)
        assert (counted.value, counted.counts, counted.imputed) == (95, ALL, 1)
        assert list_statuses(spec) == ["missing_output"]


def test_what_vanishes_while_a_run_judges_is_a_failure_and_then_missing(
    spec: RunSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = spec.outputs["ours"] / f"{ODD}.png"

    def vanish(source: Any, *args: Any, **named: Any) -> Any:
        if source == path:
            path.unlink()
        return load(source, *args, **named)

    load = scheduler.load_image
    monkeypatch.setattr(scheduler, "load_image", vanish)
    first = judge_run(spec)
    assert first.last_event.exit_code == 3
    assert first.cells["ours"][PSNR].counts == FAILED
    assert list_statuses(spec) == ["failed"]
    assert read_cell(spec, count_missing=True).value == 95, "there is no output by now"
    assert judged_counts(spec) == read_cell(spec).counts == MISSING
    assert read_cell(spec, count_missing=True).value == 95
    assert list_statuses(spec) == ["missing_output"]


def test_an_output_that_failed_and_is_put_away_counts_once(spec: RunSpec) -> None:
    """Nothing was judged of it, so nothing of it stays."""
    source = spec.data.parent / f"{ODD}.png"
    pixels = source.read_bytes()
    source.write_bytes(b"no picture")
    assert judged_counts(spec) == FAILED
    odd(spec)
    assert judged_counts(spec) == read_cell(spec).counts == MISSING
    source.write_bytes(pixels)
    assert judged_counts(spec) == MISSING
    assert read_cell(spec, count_missing=True).value == 95


def test_an_item_that_failed_and_lost_its_source_counts_once(spec: RunSpec) -> None:
    source = spec.data.parent / f"{ODD}.png"
    source.write_bytes(b"no picture")
    judge_run(spec)
    source.unlink()
    assert judged_counts(spec) == {"scored": COUNT - 1, "unscored": 1}


def test_an_output_that_was_judged_and_is_put_away_stays_judged(spec: RunSpec) -> None:
    judge_run(spec)
    odd(spec).symlink_to("nowhere.png")
    assert judged_counts(spec) == read_cell(spec, count_missing=True).counts == ALL


@pytest.mark.parametrize("field", ["source", "mask"])
def test_a_picture_of_the_data_that_links_to_nothing_is_a_flaw(field: str, spec: RunSpec) -> None:
    link = spec.data.parent / "link.png"
    link.symlink_to("nowhere.png")
    lines = read_items(spec.data.parent)
    lines[7][field] = link.name
    write_items(spec.data.parent, lines)
    problems = validate(ResolvedSpec(spec)).select("data")
    assert [one.what for one in problems] == [f"{ODD}: {field}: no such file: {link}"]
    spoilt = {"scored": COUNT - 1, "unscored": 1}
    assert judged_counts(spec) == (spoilt if field == "source" else ALL)


@pytest.mark.parametrize("at", ["output", "source"])
def test_a_pipe_is_never_opened(at: str, spec: RunSpec) -> None:
    """Reading one waits for a writer, for ever."""
    path = spec.data.parent / f"{ODD}.png" if at == "source" else odd(spec)
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    assert judged_counts(spec)["scored"] == COUNT - 1


def test_what_else_lies_in_a_folder_counts_for_nothing(spec: RunSpec) -> None:
    for name in ("._0001.png", f"._{ODD}.png", "Thumbs.db", ".DS_Store", "a.txt"):
        (spec.outputs["ours"] / name).write_bytes(b"x")
    odd(spec).write_bytes(b"")
    judge_run(spec)
    assert read_cell(spec).counts == MISSING
    assert read_cell(spec, count_missing=True).value == 95


@pytest.mark.parametrize("second", ["7.jpg", "7.PNG"])
@pytest.mark.parametrize("dangling", [False, True])
def test_two_names_for_an_item_are_no_output(second: str, dangling: bool, spec: RunSpec) -> None:
    folder = spec.outputs["ours"]
    target = "nowhere.png" if dangling else f"{ODD}.png"
    (folder / second).symlink_to(target)
    for outputs in (Outputs(folder), Outputs(folder).index()):
        assert outputs.path(ODD) is None
        assert outputs.why_not(ODD).kind == "several"
    assert judged_counts(spec) == MISSING
    assert read_cell(spec, count_missing=True).value == 95


def refuse(monkeypatch: pytest.MonkeyPatch, call: str, path: Path) -> None:
    """The system refuses this call on this path."""
    plain = getattr(os, call)

    def refusing(of: Any, **named: Any) -> Any:
        if str(of) == str(path) and named.get("follow_symlinks", True):
            raise PermissionError(errno.EACCES, "Permission denied", str(of))
        return plain(of, **named)

    monkeypatch.setattr(os, call, refusing)


def test_an_output_that_may_be_there_fails_and_is_not_missing(spec: RunSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    """A refused access tells nothing about the model."""
    path = odd(spec)
    path.symlink_to("secret.png")
    refuse(monkeypatch, "stat", path)
    assert judged_counts(spec) == read_cell(spec, count_missing=True).counts == FAILED


def test_a_folder_that_cannot_be_listed_is_no_folder_without_outputs(
    spec: RunSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = spec.outputs["ours"] / "inner"
    inner.mkdir()
    refuse(monkeypatch, "scandir", inner)
    with pytest.raises(InputError, match="inner: cannot be listed: Permission denied"):
        judge_run(spec)


def test_a_link_to_itself_hides_nothing_beside_it(spec: RunSpec) -> None:
    folder = spec.outputs["ours"]
    for name in ("a", "loop", "z"):
        (folder / name).symlink_to(name)
    assert len(Outputs(folder).index().suffixes_by_item or ()) == COUNT
