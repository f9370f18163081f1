"""Runs to look at, for all tests of pages."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ...report_runs import DIMENSIONS, NASTY, make_run


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six items by two models; the first instruction and the first replies are hostile."""
    folder = tmp_path_factory.mktemp("runs")
    return make_run(folder, instructions={0: "</script><b>make</b> it \u202ered"}, reply=NASTY)


@pytest.fixture
def small(tmp_path: Path) -> Callable[..., Path]:
    """Makes a run of this many items by one model, one dimension and all with a number."""
    return lambda items=1: make_run(tmp_path, items, ("m",), dimensions=DIMENSIONS[:1], odd=False)
