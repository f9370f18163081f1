"""`editjudge report` and `editjudge view`, as a user types them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ..report_runs import DIMENSIONS, make_run
from .conftest import run_in_process


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("runs"), 3, dimensions=DIMENSIONS[:3])


def test_report_writes_a_page(run: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    ran = run_in_process("report", run, "--out", page)
    assert (ran.code, ran.out) == (0, f"wrote {page}: 6 edits\n"), ran.err
    assert page.read_text().startswith("<!doctype html>")
    folder = tmp_path / "page"
    assert run_in_process("report", run, run, "--out", folder, "--size", "64").code == 0
    assert (folder / "index.html").is_file()


def test_report_tells_what_it_cannot_show(tmp_path: Path) -> None:
    run = make_run(tmp_path, 1, ("m",), dimensions=DIMENSIONS[:1])
    (tmp_path / "outputs/m/item 0.png").write_bytes(b"no picture")
    ran = run_in_process("report", run, "--out", tmp_path / "page.html")
    assert ran.code == 0
    assert "not shown: " in ran.err
    assert "not an image" in ran.err


BAD: list[tuple[list[str], str]] = [
    (["report", "{tmp}", "--out", "{tmp}/p.html"], "{tmp}"),
    (["report", "{run}", "--out", "{tmp}/mine.html"], "move it away"),
    (["report", "{run}", "--out", "{tmp}/p.html", "--published"], "leave --published out"),
    (["report", "{tmp}"], "{tmp}"),
]


@pytest.mark.parametrize(("arguments", "told"), BAD)
def test_what_cannot_be_done_is_told(run: Path, tmp_path: Path, arguments: list[str], told: str) -> None:
    (tmp_path / "mine.html").write_text("mine")
    names = {"run": str(run), "tmp": str(tmp_path)}
    ran = run_in_process(*(one.format(**names) for one in arguments))
    assert ran.code == 2
    assert ran.out == ""
    assert told.format(**names) in ran.err
