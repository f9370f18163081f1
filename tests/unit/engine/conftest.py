from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from editjudge.storage.store import RunStore

from ..storage.small_store import HEADER
from .scripted_runs import Log


@pytest.fixture
def log() -> Log:
    return Log()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RunStore]:
    """A run that is open, in `run`."""
    with RunStore.open(tmp_path / "run", HEADER) as opened:
        yield opened
