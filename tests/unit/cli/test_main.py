"""What every command does with an error."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image as Pil

from editjudge.base.errors import ConfigError
from editjudge.base.local_stack import LocalGateway, StackState
from editjudge.cli import main, services
from editjudge.cli.options import parse_outputs

from ...small_data import save_picture, write_items


@pytest.mark.parametrize("command", [["summary"], ["show"], ["prompts", "check"]])
def test_a_name_that_is_too_long_is_one_line(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    name = "r" * 300
    with pytest.raises(SystemExit) as ended:
        main([*command, name, *(["1"] if command == ["show"] else [])])
    assert ended.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: rrr")
    assert line.endswith("…: File name too long; give another path")


def test_a_folder_without_a_model_is_shown_how_to_be_written() -> None:
    with pytest.raises(ConfigError, match=r"'out/ours' is not MODEL=DIR; .* as ours=out/ours"):
        parse_outputs(("out/ours",))


def test_where_nothing_is_judged_there_is_no_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Pil.fromarray(np.zeros((8, 8, 3), np.uint8)).save(tmp_path / "a.png")
    asked = ["--source", "a.png", "--edited", "a.png", "--instruction", "x"]
    with pytest.raises(SystemExit):
        main(["score", *asked, "--dimension", "core.psnr.source.outside"])
    assert capsys.readouterr().out == "not judged, needs a mask: core.psnr.source.outside\n"


@pytest.mark.parametrize(
    "server",
    [
        ("--judge", "http://127.0.0.1:9/v1", "--judge-model", "m"),
        ("--judge", "grpc://127.0.0.1:9"),
        ("--endpoint", "grpc://127.0.0.1:9"),
        ("--gateway", "grpc://127.0.0.1:9"),
    ],
)
def test_a_server_that_is_down_is_told_in_plain_words(
    server: tuple[str, ...],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Pil.fromarray(np.zeros((8, 8, 3), np.uint8)).save(tmp_path / "a.png")
    edit = ["--source", "a.png", "--edited", "a.png", "--instruction", "x", "--set", "attempts=1"]
    dimensions = ["-d", "core.instruction_following", "-d", "core.quality.piqe"]
    with pytest.raises(SystemExit):
        main(["score", *edit, *dimensions, *server])
    told = "".join(capsys.readouterr())
    assert f"{server[1]}: nothing listens at this address" in told
    assert not re.search("ssl|UNKNOWN|backends|Connect call|Errno", told)


def test_dimensions_that_nobody_named_are_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Pil.fromarray(np.zeros((8, 8, 3), np.uint8)).save(tmp_path / "a.png")
    edit = ["--source", "a.png", "--edited", "a.png", "--instruction", "x"]
    with pytest.raises(SystemExit):
        main(["score", *edit, "--endpoint", "grpc://127.0.0.1:9"])
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line[0] not in "┏┃┡│└"]
    assert re.fullmatch(
        r"other dimensions: \d+ need an input that was not given, \d+ need models that are not"
        r" served; --json names each with its reason",
        line,
    )


@pytest.mark.parametrize("problem", ["", "port 1 is taken"])
def test_why_the_judge_service_is_away_is_said(
    problem: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log = Path("judge.log")
    gateway = LocalGateway(pid=1, url="grpc://a:1", http="http://a:2", log=log, problem=problem)
    state = StackState(
        pid=1, grpc="", http="", metrics="", log=log, started=time.time(), gateway=gateway
    )

    async def nothing() -> tuple[dict[str, str], str]:
        return {}, ""

    monkeypatch.setattr(services, "running_stack", lambda: state)
    monkeypatch.setattr(services, "_find_services", nothing)
    with pytest.raises(SystemExit) as ended:
        main(["status"])
    assert ended.value.code == (1 if problem else 0)
    assert problem in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["status", "--json"])
    assert json.loads(capsys.readouterr().out)["problem"] == (
        f"the Judge service is not running: {problem}" if problem else ""
    )


@pytest.fixture
def asked(tmp_path: Path) -> list[str]:
    """Arguments for five items, all of which have an output."""
    for name in ("s.png", *(f"ours/{index}.png" for index in range(5))):
        save_picture(tmp_path / name)
    data = [
        "--data",
        str(write_items(tmp_path, [{}] * 5)),
        "--outputs",
        f"ours={tmp_path / 'ours'}",
    ]
    return ["run", "core", *data, "--out", str(tmp_path / "run"), "--dimension=core.psnr.*"]


def ran(arguments: list[str]) -> int:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert isinstance(ended.value.code, int)
    return ended.value.code


@pytest.mark.parametrize(("shard", "items"), [("0/2", 3), ("1/2", 2), ("0/1", 5), ("7/8", 0)])
def test_a_shard_is_every_nth_item(
    asked: list[str], shard: str, items: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ran([*asked, "--shard", shard, "--dry-run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["items"] == items


@pytest.mark.parametrize("shard", ["2/2", "1", "a/b", "-1/2", "0/0", "/2", "1/", "0.5/2", ""])
def test_no_such_shard_is_told(
    asked: list[str], shard: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ran([*asked, f"--shard={shard}", "--dry-run"]) == 2
    assert "write I/N, with I from 0 to N - 1" in capsys.readouterr().err
