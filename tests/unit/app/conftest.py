"""What tests of changes begin with."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from editjudge.base import file_states

from .changing import (
    COUNT,
    DAY,
    half,
    noise,
    save,
    write,
)


@pytest.fixture(params=["right", "a day ahead"])
def clock(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The clock that editjudge goes by."""
    if request.param != "right":
        monkeypatch.setattr(file_states, "time_ns", lambda: time.time_ns() + DAY)
    return str(request.param)


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of files that were read to compare them."""
    read: list[str] = []
    whole = file_states.file_digest

    def counted(path: Any) -> str:
        read.append(Path(path).name)
        return whole(path)

    monkeypatch.setattr(file_states, "file_digest", counted)
    return read


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Items with sources of their own, one for two of them; outputs, and others beside them."""
    lines = []
    for index in range(COUNT):
        source = f"sources/{index // 2}.bmp"
        save(tmp_path / "data" / source, noise(index // 2, 8, 12, 3))
        save(tmp_path / "data" / f"masks/{index}.bmp", half(left=True))
        save(tmp_path / "data" / f"targets/{index}.bmp", noise(10 + index, 8, 12, 3))
        save(tmp_path / "v1" / f"{index}.bmp", noise(20 + index, 8, 12, 3))
        save(tmp_path / "v2" / f"{index}.bmp", noise(30 + index, 8, 12, 3))
        lines.append(
            {
                "id": str(index),
                "instruction": f"edit {index}",
                "source": source,
                "mask": f"masks/{index}.bmp",
                "target": f"targets/{index}.bmp",
            }
        )
    write(tmp_path, lines)
    (tmp_path / "ours").symlink_to("v1")
    return tmp_path
