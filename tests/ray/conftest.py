from __future__ import annotations

from collections.abc import Iterator

import pytest

from ..objects.test_s3 import Bucket, serve_bucket
from ..postgres.conftest import ledger_place, password, server
from .cluster import Cluster, cluster

__all__ = ["ledger_place", "password", "server"]


@pytest.fixture(scope="session")
def bucket() -> Iterator[Bucket]:
    """An object store whose address and keys all nodes have."""
    with serve_bucket("workers") as made:
        yield made


@pytest.fixture(scope="session")
def ray(bucket: Bucket) -> Iterator[Cluster]:
    """A cluster of one node with two processors."""
    with cluster(variables=bucket.variables) as started:
        yield started
