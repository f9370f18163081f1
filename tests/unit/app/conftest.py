"""What tests of changes begin with."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from editjudge.base import file_states

from ...small_data import count_calls, save_picture, write_items
from .changing import COUNT, DAY, Values, half, noise, run_again, values


@pytest.fixture(params=["right", "a day ahead"])
def clock(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The clock that editjudge goes by."""
    if request.param != "right":
        monkeypatch.setattr(file_states, "time_ns", lambda: time.time_ns() + DAY)
    return str(request.param)


@pytest.fixture
def hashed_files(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of files that were read to compare them."""
    return count_calls(monkeypatch, file_states, "file_digest", lambda path: Path(path).name)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Items with sources of their own, one for two of them; outputs, and others beside them."""
    lines = []
    for index in range(COUNT):
        fields = {"source": f"sources/{index // 2}.bmp", "mask": f"masks/{index}.bmp", "target": f"targets/{index}.bmp"}
        for name, picture in (
            (f"data/{fields['source']}", noise(index // 2)),
            (f"data/{fields['mask']}", half(left=True)),
            (f"data/{fields['target']}", noise(10 + index)),
            (f"v1/{index}.bmp", noise(20 + index)),
            (f"v2/{index}.bmp", noise(30 + index)),
        ):
            save_picture(tmp_path / name, picture)  # a BMP, whose size says nothing of its content
        lines.append({"instruction": f"edit {index}", **fields})
    write_items(tmp_path / "data", lines)
    (tmp_path / "ours").symlink_to("v1")
    return tmp_path


@pytest.fixture
def before(folder: Path) -> Values:
    """The numbers of a first session, in `run`."""
    run_again(folder)
    return values(folder / "run")
