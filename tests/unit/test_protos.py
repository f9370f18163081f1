"""The protos by the real buf: their style, and that nothing breaks callers of the last release."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROTOS = Path(__file__).parents[2] / "protos"
RELEASED = PROTOS / "released.binpb"
BUF = Path(sys.executable).with_name("buf")


def buf(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([BUF, *arguments], capture_output=True, text=True, check=False)


def find_breaks(folder: Path) -> str:
    """What buf says of protos against those of the last release; empty where nothing breaks."""
    ran = buf("breaking", folder, "--against", RELEASED)
    assert ran.returncode in {0, 100}, ran.stderr
    assert bool(ran.stdout) == bool(ran.returncode)
    return ran.stdout


def test_the_protos_keep_to_their_style_and_break_nobody() -> None:
    ran = buf("lint", PROTOS)
    assert (ran.returncode, ran.stdout) == (0, "")
    assert find_breaks(PROTOS) == ""


GET_PANEL = "  rpc GetPanel(GetPanelRequest) returns (GetPanelResponse);\n"
CHANGES = {
    "the number of a field": ("string request_id = 1;", "string request_id = 9;", "request_id"),
    "a field is gone": ("  string model = 2;\n", "", '"2" with name "model"'),
    "the type of a field": ("double tolerance = 10;", "float tolerance = 10;", "tolerance"),
    "the name of a field": ("string fix = 5;", "string remedy = 5;", "remedy"),
    "a value of an enum is gone": ("  STATUS_FAILED = 3;\n", "", 'enum value "3"'),
    "a method is gone": (GET_PANEL, "", "GetPanel"),
    "a stream is none": ("(stream ScoreStreamRequest)", "(ScoreStreamRequest)", "ScoreStream"),
    "a message is gone": ("message Refusal", "message Refused", "Refusal"),
    "the package": ("package editjudge.v1;", "package editjudge.v2;", "editjudge.v1"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_that_breaks_callers_is_found(change: str, tmp_path: Path) -> None:
    before, after, named = CHANGES[change]
    changed = shutil.copytree(PROTOS, tmp_path / "protos")
    judge = changed / "editjudge/v1/judge.proto"
    text = judge.read_text().replace(before, after)
    assert text != judge.read_text()
    judge.write_text(text)
    assert named in find_breaks(changed)


def test_what_is_added_breaks_nobody(tmp_path: Path) -> None:
    changed = shutil.copytree(PROTOS, tmp_path / "protos")
    judge = changed / "editjudge/v1/judge.proto"
    judge.write_text(
        judge.read_text()
        .replace("message ScoreRequest {", "message ScoreRequest {\n  string added = 100;")
        .replace("  // What can be asked.\n", "  rpc Add(GetPanelRequest) returns (Service);\n", 1)
    )
    assert find_breaks(changed) == ""
