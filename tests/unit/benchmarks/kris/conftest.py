from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from editjudge.base.item import Item
from editjudge.benchmarks.kris.dataset import KrisData

from .release import write_release
from .stand_ins import import_stand_ins


@pytest.fixture(scope="session")
def items(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Item]:
    """An item of each folder."""
    data = KrisData(write_release(tmp_path_factory.mktemp("kris")))
    return {ref.id.partition("/")[0]: data.load(ref) for ref in data.check_items()}


@pytest.fixture
def authors(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Stand-ins for the authors' prompts are imported."""
    import_stand_ins(monkeypatch, tmp_path)
