"""`editjudge run`: what its options say before anything is judged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from editjudge.cli import main

from ...small_data import save_picture, write_items


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
