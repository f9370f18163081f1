"""The real Triton behind the front door."""

from collections.abc import Iterator

import pytest

from editjudge_services.runtime.triton_server import TritonServer

from ..integration.conftest import panel, triton
from .door import Door

__all__ = ["panel", "triton"]


@pytest.fixture(scope="session")
def door(triton: TritonServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    """One before Triton that tests share."""
    door = Door(tmp_path_factory.mktemp("door"), triton)
    door.server.start()
    try:
        yield door
    finally:
        door.server.stop()
