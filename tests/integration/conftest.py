"""One real Triton server for all integration tests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from editjudge.config import Endpoint, Settings
from editjudge.panel import Panel
from editjudge_services.runtime.launcher import TritonServer, temporary_stack


@pytest.fixture(scope="session")
def triton() -> Iterator[TritonServer]:
    with temporary_stack() as server:
        yield server


@pytest.fixture
async def panel(triton: TritonServer) -> AsyncIterator[Panel]:
    async with Panel(Settings(endpoints={"local": Endpoint(url=triton.url)})) as panel:
        yield panel
