"""The reviewer's hour: a run folder alone, and a bundle of it, on a machine with nothing else."""

from __future__ import annotations

import re
import shutil
import zipfile
from pathlib import Path
from typing import Any

import pytest

from editjudge.cli import root

from ..golden.cases import CASES
from ..golden.run_lines import judge_case
from .conftest import CommandResult, await_run, run_in_thread

(CASE,) = (case for case in CASES if case.name == "co_edit.paper")
KEPT = "items are as the run stored them"
_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")


@pytest.fixture
async def runs(tmp_path: Path, home: Path) -> Path:
    """A folder with a run alone and one that was a bundle; nothing else is left."""
    there, away = tmp_path / "author", tmp_path / "away"
    there.mkdir()
    away.mkdir()
    await judge_case(CASE, there)
    made = await run_in_thread("bundle", there / "run", "--out", away / "b.zip", "--originals")
    assert made.code == 0, made.err
    shutil.move(there / "run", away / "run")
    with zipfile.ZipFile(away / "b.zip") as bundle:
        bundle.extractall(away)
    (away / "b").rename(away / "bundle")
    shutil.rmtree(there)
    return away


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the reviewer stands: an empty folder and another home."""
    for name in ("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    return tmp_path / "home"


async def alone(verb: str, *arguments: object) -> CommandResult:
    """A command; it may name its own options alone."""
    # What is read beside the run shows in a process of its own.
    done = await (await_run if verb == "summary" else run_in_thread)(verb, *arguments)
    command = root.get_command(None, verb)  # type: ignore[arg-type]
    own = {name for one in command.params for name in one.opts}  # type: ignore[union-attr]
    assert set(_OPTION.findall(done.err)) <= own, done.err
    return done


async def test_every_verb_reads_a_run_alone(runs: Path, tmp_path: Path) -> None:
    item, out = CASE.shown[0], tmp_path / "out"
    out.mkdir()
    commands: dict[str, tuple[object, ...]] = {
        "table": ("summary", "RUN", "--json"),
        "published": ("summary", "RUN", "--published"),
        "paper": ("summary", "RUN", "--format", "latex"),
        "switch": ("summary", "RUN", "--with", "uniform_weights", "--json"),
        "switch off": ("summary", "RUN", "--without", "specialists", "--json"),
        "ranking": ("compare", "RUN", "--json"),
        "two": ("compare", "RUN", "ours", "theirs", "--json"),
        "item": ("show", "RUN", item, "--json"),
        "words": ("show", "RUN", item),
        "again": ("rescore", "RUN", "--json"),
        "rows": ("export", "RUN", "--format", "csv", "--pictures", "--out", out / "NAME.csv"),
        "tasks": ("export", "RUN", "--format", "label-studio", "--out", out / "NAME.json"),
        "page": ("report", "RUN", "--out", out / "NAME.html"),
        "pages": ("report", "RUN", "--out", out / "NAME"),
        "figures": ("plot", "RUN", "--out", out / "NAME figures"),
        "merged": ("merge", "RUN", "--out", out / "NAME merged"),
        "bundle": ("bundle", "RUN", "--out", out / "NAME.zip"),
    }
    said: dict[tuple[str, str], CommandResult] = {}
    for name in ("run", "bundle"):
        for what, words in commands.items():
            given = (
                runs / name if word == "RUN" else Path(str(word).replace("NAME", name))
                if isinstance(word, Path) else word
                for word in words
            )  # fmt: skip
            said[name, what] = done = await alone(*map(str, given))
            assert done.code == 0, (what, done.err)
    for what in ("table", "published", "paper", "switch", "switch off", "ranking", "two", "again"):
        assert said["run", what].out == said["bundle", what].out
        assert KEPT in said["run", what].err or what == "again"
    assert all(KEPT in said["run", what].err for what in ("page", "pages", "bundle"))
    shown = said["bundle", "item"].json
    assert [Path(one).parent.name for one in shown["files"]] == ["originals"] * len(shown["files"])
    assert said["run", "item"].json == {**shown, "files": []}
    check_questions(shown, said["run", "words"].out)
    pages = {name: (out / f"{name}.html").read_text("utf-8") for name in ("run", "bundle")}
    assert all(KEPT in page for page in pages.values())
    assert "data:image/webp" in pages["bundle"]
    assert "data:image/webp" not in pages["run"]
    merged = await alone("summary", out / "run merged", "--json")
    assert merged.json["models"] == said["run", "table"].json["models"]


def check_questions(shown: dict[str, Any], text: str) -> None:
    """Each reply of a judge has its question, as it was sent."""
    verdicts = [one for edit in shown["edits"] for one in edit["verdicts"]]
    calls = [call for verdict in verdicts for call in verdict["calls"] or () if call["prompt"]]
    assert calls
    assert {call["call"] for call in calls} == shown["questions"].keys()
    for call in calls:
        question = shown["questions"][call["call"]]
        assert question["judge"] == call["judge"]
        assert question["form"]["sampling"]["max_tokens"]
        pictures = [part for part in question["parts"] if "image" in part]
        assert pictures
        for part in pictures:
            mark = f"[picture {part['name']}, {'x'.join(map(str, part['size']))}]"
            assert mark in text
        assert question["system"].splitlines()[0] in text


async def test_what_cannot_be_read_is_said_in_one_line(runs: Path, home: Path) -> None:
    mistakes: list[tuple[tuple[object, ...], str]] = [
        (("summary", runs / "b.zip"), "is a file; give the folder of a run, of a bundle"),
        (("report", runs / "run", "--data", "none", "--out", "p"), "none: no such file"),
        (("report", runs / "run", "--root", "/x=/none", "--out", "p.html"), ""),
        (("report", runs / "run", runs / "bundle", "--data", "x"), "of one run are; name one RUN"),
        (("bundle", runs / "run", "--out", runs / "run" / "run.sqlite"), "exists and is no"),
        (("bundle", runs / "none", "--out", "b.zip"), "holds no run"),
    ]
    for words, error in mistakes:
        done = await alone(*map(str, words))
        assert (done.code == 0) == (not error), done.err
        assert error in done.err
        assert "Traceback" not in done.err
    assert not home.exists(), "nothing is read or written there"
