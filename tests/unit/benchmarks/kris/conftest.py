from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from editjudge.base.item import Item
from editjudge.benchmarks.kris.dataset import KrisData

from .made import released
from .stand_ins import imported


@pytest.fixture(scope="session")
def items(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Item]:
    """An item of each folder."""
    data = KrisData(released(tmp_path_factory.mktemp("kris")))
    return {ref.id.partition("/")[0]: data.load(ref) for ref in data.check_items()}


@pytest.fixture
def authors(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Stand-ins for the authors' prompts are imported."""
    imported(monkeypatch, tmp_path)
