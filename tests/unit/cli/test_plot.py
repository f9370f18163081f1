"""`editjudge plot` on a stored run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from editjudge.app.spec import ResolvedSpec
from editjudge.base.errors import ConfigError
from editjudge.base.verdict import NoScore, Score
from editjudge.cli import root

from ...small_data import make_spec, save_picture, stored_run, write_items

command = root.commands["plot"]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Four items of two models; one verdict has no number."""
    return store_run(tmp_path)


def store_run(folder: Path, *away: str) -> Path:
    """The same, where dimensions that begin with one of `away` have no number."""
    save_picture(folder / "s.png")
    write_items(folder, [{"task": "local_editing"}] * 4)
    spec = make_spec(folder, ("ours", "theirs"), ("i2i.se.*",), benchmark="i2i")
    refused = NoScore(kind="refused", reason="no")
    with stored_run(folder / "run", spec) as keep:
        for number in range(4):
            for place, model in enumerate(spec.outputs):
                lost = (*away, "i2i.se.image_quality") if (number, place) == (0, 0) else away
                value = Score(value=(number + place) / 5)
                names = ResolvedSpec(spec).signatures({})
                keep(str(number), model, {name: refused if name.startswith(lost) else value for name in names})
    return folder / "run"


def run_plot(*arguments: object) -> str:
    done = CliRunner().invoke(command, [str(each) for each in arguments], catch_exceptions=False)
    assert done.exit_code == 0
    return done.output


def test_all_figures_of_the_benchmark(run: Path) -> None:
    said = run_plot(run)
    files = sorted(file.name for file in (run / "figures").iterdir())
    assert files == ["i2i-1-radar.svg", "i2i-2-tasks.svg"]
    assert "ours: " in said
    assert "verdicts have a score" in said
    picture = (run / "figures" / files[0]).read_text()
    assert ">ours<" in picture
    assert "(SE)" in picture
    assert "(ME)" not in picture  # nobody edited several images


def test_a_backend_of_a_notebook_that_is_not_installed_is_not_used(run: Path) -> None:
    words = [sys.executable, "-m", "editjudge", "plot", str(run)]
    variables = {**os.environ, "MPLBACKEND": "module://nowhere.backend_inline"}
    done = subprocess.run(words, env=variables, capture_output=True, text=True, check=False)
    assert (done.returncode, len([*(run / "figures").iterdir()])) == (0, 2), done.stderr


def test_one_kind_one_model_with_the_papers_rows(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "drawn"
    run_plot(run, "--figure", "radar", "--model", "theirs", "--published", "--out", out)
    (file,) = out.iterdir()
    picture = file.read_text()
    assert ">theirs<" in picture
    assert ">ours<" not in picture
    assert ">† Step1X-Edit<" in picture


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--figure", "turns"), "i2i has no figure turns; it has lines, radar, tasks"),
        (("--model", "nobody"), "no model nobody; models: ours, theirs"),
    ],
)
def test_what_is_not_there_is_named(run: Path, arguments: tuple[str, ...], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        run_plot(run, *arguments)


def test_the_coverage_is_of_what_is_drawn(tmp_path: Path) -> None:
    said = run_plot(store_run(tmp_path, "i2i.se.subject_identity"), "--figure", "radar")
    assert "  ours: 55 of 56 verdicts have a score" in said
    assert "theirs: " not in said


def test_a_panel_that_is_left_out_is_told(tmp_path: Path) -> None:
    away = ("aesth", "blend", "compo", "editing_art", "non_ed", "physical")
    run = store_run(tmp_path, *(f"i2i.se.{name}" for name in away))
    said = run_plot(run, "--figure", "radar")
    lack = "too few numbers for Foundational quality and fidelity (SE)"
    assert f"radar, figure 3: {lack}" in said
    assert "no numbers yet" not in said
    assert "(SE)" in (run / "figures" / "i2i-1-radar.svg").read_text()  # the other panel


def test_nothing_that_can_be_drawn(tmp_path: Path) -> None:
    run = store_run(tmp_path, "i2i.se.")
    done = CliRunner().invoke(command, [str(run)])
    assert "radar, figure 3: too few numbers\n" in done.output
    assert "no figure has any numbers yet" in str(done.exception)


def test_the_line_about_unchecked_judges_is_printed_and_drawn(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    line = "judge not checked: editjudge canary"
    monkeypatch.setattr("editjudge.app.canary.last_checks_line", lambda _: line)
    assert line in run_plot(run, "--figure", "radar")
    assert f">{line}<" in (run / "figures" / "i2i-1-radar.svg").read_text()


def test_looks_that_come_again_are_told(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "colours and markers" not in run_plot(run)
    monkeypatch.setattr("editjudge.cli.plot.MAX_LOOKS", 1)
    assert "2 models share 1 colours and markers; choose some with --model" in run_plot(run)


def test_a_folder_that_cannot_be_written(run: Path, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    with pytest.raises(ConfigError, match="give another --out"):
        run_plot(run, "--out", tmp_path / "taken" / "below")


def test_only_a_former_figure_is_written_over(run: Path, tmp_path: Path) -> None:
    for form in ("svg", "pdf", "png"):
        for _ in range(2):
            run_plot(run, "--figure", "radar", "--format", form)
    (mine := tmp_path / "i2i-1-radar.svg").write_text("<svg/>")
    with pytest.raises(ConfigError, match="is no former figure of editjudge"):
        run_plot(run, "--figure", "radar", "--out", tmp_path)
    assert mine.read_text() == "<svg/>"
