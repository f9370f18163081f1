"""Every item counts once in every table, whatever its output's name leads to, and whenever."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image as Pil

import editjudge
from editjudge import RunSpec, RunView
from editjudge.app.export import long_rows
from editjudge.app.run import RunResult
from editjudge.app.spec import ResolvedSpec
from editjudge.app.validation import validate
from editjudge.base.config import Settings
from editjudge.base.errors import InputError
from editjudge.benchmarks.cell import Cell
from editjudge.benchmarks.outputs import Outputs
from editjudge.engine import scheduler

PSNR = "core.psnr.source.whole"
COUNT = 20
ODD = "7"


@pytest.fixture
def spec(tmp_path: Path) -> RunSpec:
    """Twenty items whose outputs are their sources: 100 dB each."""
    rng = np.random.default_rng(7)
    lines = []
    (tmp_path / "ours").mkdir()
    for index in range(COUNT):
        pixels = rng.integers(0, 256, (12, 16, 3), dtype=np.uint8)
        Pil.fromarray(pixels).save(tmp_path / f"{index}.png")
        Pil.fromarray(pixels).save(tmp_path / "ours" / f"{index}.png")
        lines.append({"id": str(index), "instruction": "x", "source": f"{index}.png"})
    (tmp_path / "items.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return RunSpec(
        benchmark="core",
        data=tmp_path / "items.jsonl",
        outputs={"ours": tmp_path / "ours"},
        dimensions=(PSNR,),
    )


def judged(spec: RunSpec) -> RunResult:
    return editjudge.run(spec, out=spec.data.parent / "run")


def summed(spec: RunSpec, *, count_missing: bool = False) -> Cell:
    with RunView(spec.data.parent / "run") as view:
        return view.results(count_missing=count_missing).models["ours"][PSNR]


def exported(spec: RunSpec) -> list[str]:
    with RunView(spec.data.parent / "run") as view:
        return [row.status for row in long_rows(view) if row.item == ODD]


def odd(spec: RunSpec) -> Path:
    """The output that a case replaces."""
    path = spec.outputs["ours"] / f"{ODD}.png"
    path.unlink()
    return path


def link_to_folder(path: Path) -> None:
    path.symlink_to(path.parent)


LEADING_NOWHERE: dict[str, Callable[[Path], None]] = {
    "a link to nothing": lambda path: path.symlink_to("nowhere.png"),
    "a link below a file": lambda path: path.symlink_to("1.png/7.png"),
    "a link to itself": lambda path: path.symlink_to(path.name),
    "a link to a folder": link_to_folder,
    "a folder": Path.mkdir,
    "a pipe": os.mkfifo,
}


@pytest.mark.parametrize("case", LEADING_NOWHERE)
def test_a_name_that_leads_to_no_file_is_a_missing_output(case: str, spec: RunSpec) -> None:
    path = odd(spec)
    LEADING_NOWHERE[case](path)
    missing = validate(ResolvedSpec(spec), Settings()).select("missing")
    assert [one.what for one in missing] == [f"{ODD}: {path} leads to no file"]
    for session in range(2):
        result = judged(spec)
        assert result.last_event.exit_code == 0, session
        assert result.cells["ours"][PSNR].counts == {"scored": COUNT - 1, "missing_output": 1}
        plain, counted = summed(spec), summed(spec, count_missing=True)
        assert (plain.value, plain.counts) == (100, {"scored": COUNT - 1, "missing_output": 1})
        assert (counted.value, counted.counts, counted.imputed) == (95, {"scored": COUNT}, 1)
        assert exported(spec) == ["missing_output"]


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
    first = judged(spec)
    assert first.last_event.exit_code == 3
    assert first.cells["ours"][PSNR].counts == {"scored": COUNT - 1, "failed": 1}
    assert exported(spec) == ["failed"]
    assert summed(spec, count_missing=True).value == 95, "there is no output by now"
    second = judged(spec)
    assert second.cells["ours"][PSNR].counts == {"scored": COUNT - 1, "missing_output": 1}
    assert summed(spec).counts == {"scored": COUNT - 1, "missing_output": 1}
    assert summed(spec, count_missing=True).value == 95
    assert exported(spec) == ["missing_output"]


def test_an_output_that_failed_and_is_put_away_counts_once(spec: RunSpec) -> None:
    """Nothing was judged of it, so nothing of it stays."""
    source = spec.data.parent / f"{ODD}.png"
    pixels = source.read_bytes()
    source.write_bytes(b"no picture")
    assert judged(spec).cells["ours"][PSNR].counts == {"scored": COUNT - 1, "failed": 1}
    odd(spec)
    once = {"scored": COUNT - 1, "missing_output": 1}
    assert judged(spec).cells["ours"][PSNR].counts == once
    assert summed(spec).counts == once
    source.write_bytes(pixels)
    assert judged(spec).cells["ours"][PSNR].counts == once
    assert summed(spec, count_missing=True).value == 95


def test_an_item_that_failed_and_lost_its_source_counts_once(spec: RunSpec) -> None:
    source = spec.data.parent / f"{ODD}.png"
    source.write_bytes(b"no picture")
    judged(spec)
    source.unlink()
    assert judged(spec).cells["ours"][PSNR].counts == {"scored": COUNT - 1, "unscored": 1}


def test_an_output_that_was_judged_and_is_put_away_stays_judged(spec: RunSpec) -> None:
    judged(spec)
    odd(spec).symlink_to("nowhere.png")
    assert judged(spec).cells["ours"][PSNR].counts == {"scored": COUNT}
    assert summed(spec, count_missing=True).counts == {"scored": COUNT}


@pytest.mark.parametrize("field", ["source", "mask"])
def test_a_picture_of_the_data_that_is_a_link_to_nothing_is_a_flaw(
    field: str, spec: RunSpec
) -> None:
    link = spec.data.parent / "link.png"
    link.symlink_to("nowhere.png")
    lines = [json.loads(line) for line in spec.data.read_text().splitlines()]
    lines[7][field] = link.name
    spec.data.write_text("\n".join(map(json.dumps, lines)))
    problems = validate(ResolvedSpec(spec), Settings()).select("data")
    assert [one.what for one in problems] == [f"{ODD}: {field}: no such file: {link}"]
    counts = judged(spec).cells["ours"][PSNR].counts
    spoilt = {"scored": COUNT - 1, "unscored": 1}
    assert counts == (spoilt if field == "source" else {"scored": COUNT})


@pytest.mark.parametrize("at", ["output", "source"])
def test_a_pipe_is_never_opened(at: str, spec: RunSpec) -> None:
    """Reading one waits for a writer, for ever."""
    path = spec.data.parent / f"{ODD}.png" if at == "source" else odd(spec)
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    assert judged(spec).cells["ours"][PSNR].scored == COUNT - 1


def clutter(folder: Path, names: Iterable[str]) -> None:
    for name in names:
        (folder / name).write_bytes(b"x")


def test_what_else_lies_in_a_folder_counts_for_nothing(spec: RunSpec) -> None:
    clutter(spec.outputs["ours"], ("._0001.png", f"._{ODD}.png", "Thumbs.db", ".DS_Store", "a.txt"))
    odd(spec).write_bytes(b"")
    judged(spec)
    assert summed(spec).counts == {"scored": COUNT - 1, "missing_output": 1}
    assert summed(spec, count_missing=True).value == 95


@pytest.mark.parametrize("second", ["7.jpg", "7.PNG"])
@pytest.mark.parametrize("dangling", [False, True])
def test_two_names_for_one_item_are_nobodys_output(
    second: str, dangling: bool, spec: RunSpec
) -> None:
    folder = spec.outputs["ours"]
    target = "nowhere.png" if dangling else f"{ODD}.png"
    (folder / second).symlink_to(target)
    for outputs in (Outputs(folder), Outputs(folder).index()):
        assert outputs.path(ODD) is None
        assert outputs.why_not(ODD).kind == "several"
    assert judged(spec).cells["ours"][PSNR].counts == {"scored": COUNT - 1, "missing_output": 1}
    assert summed(spec, count_missing=True).value == 95


def test_an_output_that_may_be_there_fails_and_is_not_missing(
    spec: RunSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A refused access tells nothing about the model."""
    path = odd(spec)
    path.symlink_to("secret.png")
    stat = os.stat

    def refuse(of: Any, **named: Any) -> Any:
        if str(of) == str(path) and named.get("follow_symlinks", True):
            raise PermissionError(errno.EACCES, "Permission denied", str(of))
        return stat(of, **named)

    monkeypatch.setattr(os, "stat", refuse)
    result = judged(spec)
    assert result.cells["ours"][PSNR].counts == {"scored": COUNT - 1, "failed": 1}
    assert summed(spec, count_missing=True).counts == {"scored": COUNT - 1, "failed": 1}


def test_a_folder_that_cannot_be_listed_is_no_folder_without_outputs(
    spec: RunSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = spec.outputs["ours"] / "inner"
    inner.mkdir()
    scandir = os.scandir

    def refuse(of: Any) -> Any:
        if str(of) == str(inner):
            raise PermissionError(errno.EACCES, "Permission denied", str(of))
        return scandir(of)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(InputError, match="inner: cannot be listed: Permission denied"):
        judged(spec)


def test_a_link_to_itself_hides_nothing_beside_it(spec: RunSpec) -> None:
    folder = spec.outputs["ours"]
    for name in ("a", "loop", "z"):
        (folder / name).symlink_to(name)
    assert len(Outputs(folder).index().suffixes_by_item or ()) == COUNT
