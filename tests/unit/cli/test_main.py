"""What commands say: of errors, to somebody who is new to them, and before anything is judged."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from editjudge.base.errors import ConfigError
from editjudge.base.local_stack import LocalGateway, StackState
from editjudge.cli import main
from editjudge.cli.options import parse_outputs
from editjudge_services.cli import status

from ...small_data import save_picture, write_items


class Output(NamedTuple):
    """The exit code of a command, and what it wrote."""

    code: int
    out: str
    err: str


Command = Callable[..., Output]
SCORE = ["score", "--source", "a.png", "--edited", "a.png", "--instruction", "x"]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Gives a command in a folder with a picture."""
    monkeypatch.chdir(tmp_path)
    save_picture(Path("a.png"))

    def run(*arguments: str) -> Output:
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        code: Any = ended.value.code
        return Output(code, *capsys.readouterr())

    return run


@pytest.mark.parametrize("command", [("summary",), ("show",), ("prompts", "check")])
def test_a_name_that_is_too_long_is_one_line(run: Command, command: tuple[str, ...]) -> None:
    said = run(*command, "r" * 300, *["1"] * (command == ("show",)))
    assert said.code == 2
    assert re.fullmatch("error: rrr+…: File name too long; give another path\n", said.err)


def test_a_folder_without_a_model_is_shown_how_to_be_written() -> None:
    with pytest.raises(ConfigError, match=r"'out/ours' is not MODEL=DIR; .* as ours=out/ours"):
        parse_outputs(("out/ours",))


def test_where_nothing_is_judged_there_is_no_table(run: Command) -> None:
    said = run(*SCORE, "--dimension", "core.psnr.source.outside")
    assert said.out == "not judged, needs a mask: core.psnr.source.outside\n"


@pytest.mark.parametrize(
    "server",
    [
        ("--judge", "http://127.0.0.1:9/v1", "--judge-model", "m"),
        ("--judge", "grpc://127.0.0.1:9"),
        ("--endpoint", "grpc://127.0.0.1:9"),
        ("--gateway", "grpc://127.0.0.1:9"),
    ],
)
def test_a_server_that_is_down_is_told_in_plain_words(run: Command, server: tuple[str, ...]) -> None:
    dimensions = ("-d", "core.instruction_following", "-d", "core.quality.piqe")
    said = run(*SCORE, "--set", "attempts=1", *dimensions, *server)
    told = said.out + said.err
    assert f"{server[1]}: nothing listens at this address" in told
    assert not re.search("ssl|UNKNOWN|backends|Connect call|Errno", told)


def test_dimensions_that_nobody_named_are_one_line(run: Command) -> None:
    said = run(*SCORE, "--endpoint", "grpc://127.0.0.1:9")
    (line,) = [line for line in said.out.splitlines() if line[0] not in "┏┃┡│└"]
    assert re.fullmatch(
        r"other dimensions: \d+ need an input that was not given, \d+ need models that are not"
        r" served; --json names each with its reason",
        line,
    )


@pytest.mark.parametrize("problem", ["", "port 1 is taken"])
def test_why_the_judge_service_is_away_is_said(problem: str, run: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    log = Path("judge.log")
    gateway = LocalGateway(pid=1, url="grpc://a:1", http="http://a:2", log=log, problem=problem)
    nowhere = dict.fromkeys(("grpc", "http", "metrics"), "")
    state = StackState(pid=1, log=log, started=time.time(), gateway=gateway, **nowhere)

    async def nothing() -> tuple[dict[str, str], str]:
        return {}, ""

    monkeypatch.setattr(status, "running_stack", lambda: state)
    monkeypatch.setattr(status, "_find_services", nothing)
    said = run("status")
    assert said.code == (1 if problem else 0)
    assert problem in said.err
    told = f"the Judge service is not running: {problem}" if problem else ""
    assert json.loads(run("status", "--json").out)["problem"] == told


@pytest.fixture
def dry_run(tmp_path: Path) -> list[str]:
    """A dry run of five items, all of which have an output."""
    for name in ("s.png", *(f"ours/{index}.png" for index in range(5))):
        save_picture(tmp_path / name)
    where = ["--data", str(write_items(tmp_path, [{}] * 5)), "--outputs", "ours=ours"]
    return ["run", "core", *where, "--out", "run", "--dimension=core.psnr.*", "--dry-run"]


@pytest.mark.parametrize(("shard", "items"), [("0/2", 3), ("1/2", 2), ("0/1", 5), ("7/8", 0)])
def test_a_shard_is_every_nth_item(run: Command, dry_run: list[str], shard: str, items: int) -> None:
    said = run(*dry_run, "--shard", shard, "--json")
    assert (said.code, json.loads(said.out)["items"]) == (0, items)


@pytest.mark.parametrize("shard", ["2/2", "1", "a/b", "-1/2", "0/0", "/2", "1/", "0.5/2", ""])
def test_no_such_shard_is_told(run: Command, dry_run: list[str], shard: str) -> None:
    said = run(*dry_run, f"--shard={shard}")
    assert said.code == 2
    assert "write I/N, with I from 0 to N - 1" in said.err
