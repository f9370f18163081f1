"""Every protocol of every benchmark, by two judges twice: what commands say is what was kept."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from editjudge.benchmarks.registry import load_benchmarks

from ..golden import compare
from ..golden.cases import CASES, Case
from ..golden.taken import normalised, spoken, taken

WRITE = os.environ.get("EDITJUDGE_GOLDEN") == "write"


def check(name: str, documents: dict[str, Any]) -> None:
    if WRITE:
        compare.written(compare.FOLDER / name, documents)
    found = compare.differences(compare.FOLDER / name, documents)
    # Not by `assert`: its own account of so much would hide ours.
    if found:
        pytest.fail(compare.told(found), pytrace=False)


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
async def test_a_run_is_as_it_was(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if case.prompts is not None:
        case.prompts(monkeypatch, tmp_path / "prompts")
    check(case.name, await taken(case, tmp_path))


def test_every_protocol_is_run() -> None:
    every = {(one.name, name) for one in load_benchmarks().values() for name in one.protocols}
    without = sorted(every - {(case.benchmark, case.protocol) for case in CASES})
    assert not without, f"add to CASES of tests/golden/cases.py: {without}"


def test_declarations_are_as_they_were(tmp_path: Path) -> None:
    _, benchmarks = spoken("list", "benchmarks", "--json")
    found = {"benchmarks": {one.pop("benchmark"): one for one in benchmarks}}
    for name in found["benchmarks"]:
        _, dimensions = spoken("list", "dimensions", f"{name}.*", "--json")
        found[f"{name}.dimensions"] = {one.pop("id"): one for one in dimensions}
        _, switches = spoken("list", "switches", name, "--json")
        found[f"{name}.switches"] = {one.pop("switch"): one for one in switches}
    _, prompts = spoken("list", "prompts", "--json")
    found["prompts"] = {one["name"]: one["digest"] for one in prompts["own"]}
    _, services = spoken("list", "services", "--json")
    found["services"] = {one.pop("service"): one for one in services}
    check("lists", normalised(found, tmp_path))


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ({"a": 1.0}, {"a": 1.0 + 1e-12}, []),
        ({"a": 1.0}, {"a": 1.0 + 1e-8}, [("$.a", "1.0", "1.00000001")]),
        ({"a.b": ["x", 1]}, {"a.b": ["x", 2]}, [("$['a.b'][1]", "1", "2")]),
        ({"a": 1}, {"a": True}, [("$.a", "1", "true")]),
        ({"a": None}, {}, [("$.a", "null", "(nothing)")]),
        ([1], [1, 2], [("$", "[1]", "[1, 2]")]),
    ],
)
def test_a_difference_is_told_by_its_path(old: Any, new: Any, told: list[Any]) -> None:
    assert list(compare.between(old, new)) == told
