from __future__ import annotations

from collections.abc import Iterator

import pytest

from ..postgres.conftest import password, server, shared
from .cluster import Cluster, cluster

__all__ = ["password", "server", "shared"]


@pytest.fixture(scope="session")
def ray() -> Iterator[Cluster]:
    """A cluster of one node with two processors."""
    with cluster() as started:
        yield started
