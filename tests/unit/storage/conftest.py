from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from editjudge.storage.ledger import Ledger
from editjudge.storage.store import RunStore

from .small_store import HEADER


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RunStore]:
    """A run that is open; its folder is `tmp_path`."""
    with RunStore.open(tmp_path, HEADER) as opened:
        yield opened


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    """A ledger in memory."""
    with Ledger() as opened:
        yield opened
