"""Real Triton servers, shared by all integration tests: as installed, and with untrained models."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack

import pytest

from editjudge.base.config import Endpoint, Settings, StackSettings
from editjudge.panel import Panel
from editjudge_services.runtime.triton_server import TritonServer, temporary_stack

from ..patience import patience
from ..untrained_models import KINDS, SERVED, UntrainedModels, serve_untrained


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark those that need the untrained models, which are exported first and take the longest."""
    for item in items:
        if "zoo" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.networks)


@pytest.fixture(scope="session")
def triton() -> Iterator[TritonServer]:
    with temporary_stack(StackSettings(startup_timeout=patience(120))) as server:
        yield server


@pytest.fixture
async def panel(triton: TritonServer) -> AsyncIterator[Panel]:
    async with Panel(Settings(endpoints={"local": Endpoint(url=triton.url)})) as panel:
        yield panel


@pytest.fixture(scope="session")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[UntrainedModels]:
    """An untrained export of every entry that is served here; Sa2VA always finds something."""
    from .sa2va import make_sa2va_speak  # needs torch, unlike the servers as installed

    entries = [KINDS[name].entry for name in SERVED]
    with ExitStack() as ending:
        with make_sa2va_speak():
            found = ending.enter_context(serve_untrained(tmp_path_factory.mktemp("models"), entries))
        yield found


@pytest.fixture(scope="module")
def stack(zoo: UntrainedModels) -> Iterator[TritonServer]:
    """Its server; the module's own process has its models too."""
    with zoo.in_use() as server:
        yield server
