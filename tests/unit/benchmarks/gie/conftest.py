from __future__ import annotations

from pathlib import Path

import pytest

from editjudge.base.item import Item
from editjudge.benchmarks.gie.dataset import GieData

from .release import write_release
from .stand_ins import import_stand_ins


@pytest.fixture(scope="session")
def items(tmp_path_factory: pytest.TempPathFactory) -> list[Item]:
    """Ten with the oddities of the release."""
    data = GieData(write_release(tmp_path_factory.mktemp("gie")))
    return [data.load(ref) for ref in data.items()]


@pytest.fixture
def authors(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Stand-ins for the authors' prompts are imported."""
    import_stand_ins(monkeypatch, tmp_path)
