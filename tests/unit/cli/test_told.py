"""What commands say to somebody who is new to them."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image as Pil

from editjudge.base.errors import ConfigError
from editjudge.cli import main
from editjudge.cli.options import parse_outputs


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
