"""The tools that these tests need, which `make k8s` brings; what was not checked is told."""

from __future__ import annotations

import pytest

from . import monitored as monitored  # its rules are asked with all others
from . import plane, prometheus
from . import scheduling as scheduling
from .chart import CRDS, TOOLS


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = [item for item in items if item.nodeid.startswith("tests/k8s/")]
    if here and not (TOOLS / "bin" / "helm").is_file():
        absent = pytest.mark.skip(reason=f"{TOOLS} has no helm: make k8s brings it")
        for item in here:
            item.add_marker(absent)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    told = [plane.lacking(), prometheus.lacking()]
    if CRDS is None:
        told.append(
            "EDITJUDGE_CRDS is not set: what clusters add (gateways, rules, …) has no schema"
        )
    for line in filter(None, told):
        terminalreporter.write_line(f"NOT CHECKED: {line}", red=True, bold=True)
