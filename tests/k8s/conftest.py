"""The tools that these tests need, which `make k8s` brings; what was not checked is told."""

from __future__ import annotations

import pytest

from . import monitoring as monitoring  # its rules are asked with all others
from . import plane, prometheus
from . import scheduling as scheduling
from .chart import CRDS, TOOLS

NEEDED = {"helm": "tests/k8s/", "zizmor": "tests/k8s/test_release"}
"""Which tests need which program."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for program, part in NEEDED.items():
        if told := find_absence(program):
            for item in (each for each in items if each.nodeid.startswith(part)):
                item.add_marker(pytest.mark.skip(reason=told))


def find_absence(program: str) -> str:
    """Why a program is not there; "" where it is."""
    there = (TOOLS / "bin" / program).is_file()
    return "" if there else f"{TOOLS} has no {program}: make k8s brings it"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    told = [*map(find_absence, NEEDED), plane.find_absence(), prometheus.find_absence()]
    if CRDS is None:
        told.append("EDITJUDGE_CRDS is not set: what clusters add (gateways, rules, …) has no schema")
    for line in filter(None, told):
        terminalreporter.write_line(f"NOT CHECKED: {line}", red=True, bold=True)
