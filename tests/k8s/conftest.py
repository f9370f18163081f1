"""The tools that these tests need; `make k8s` brings them."""

from __future__ import annotations

import pytest

from .chart import TOOLS


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = [item for item in items if item.nodeid.startswith("tests/k8s/")]
    if here and not (TOOLS / "bin" / "helm").is_file():
        lacking = pytest.mark.skip(reason=f"{TOOLS} has no helm: make k8s brings it")
        for item in here:
            item.add_marker(lacking)
