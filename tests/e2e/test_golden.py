"""Every protocol of every benchmark, by two judges twice: what commands say is what was kept."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from editjudge.benchmarks.registry import load_benchmarks

from ..golden import text
from ..golden.alone import check_alone
from ..golden.cases import CASES, Case
from ..golden.run_lines import make_lines


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
async def test_a_run_is_as_it_was(case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if case.prompts is not None:
        case.prompts(monkeypatch, tmp_path / "prompts")
    text.check(f"runs/{case.name}", await make_lines(case, tmp_path))
    await asyncio.to_thread(check_alone, case, tmp_path)


def test_every_protocol_is_run() -> None:
    every = {(one.name, name) for one in load_benchmarks().values() for name in one.protocols}
    without = sorted(every - {(case.benchmark, case.protocol) for case in CASES})
    assert not without, f"add to CASES of tests/golden/cases.py: {without}"


@pytest.mark.parametrize(
    ("kept", "found", "lines"),
    [
        ("ours 1 gie.clip = 0.25", "ours 1 gie.clip = 0.25000000001", []),
        ("ours 1 gie.clip = 0.25", "ours 1 gie.clip = 0.26", ["ours 1 gie.clip = 0.25 -> 0.26"]),
        ("a = b [1, 2.5]\nc = d", "a = b [1, 2.5]", ["c = d -> (nothing)"]),
        (f"a = {'x ' * 60}1 y", f"a = {'x ' * 60}2 y", ["a = … 1 -> 2 …"]),
        ("a = 1.2.3", "a = 1.2.4\nb =", ["a = 1.2.3 -> 1.2.4", "b = (nothing) -> "]),
    ],
)
def test_a_difference_is_one_line(kept: str, found: str, lines: list[str]) -> None:
    told = text.differences(*(text.parse(f"[verdicts]\n{one}\n") for one in (kept, found)))
    assert [line.strip() for line in told][1:] == [line.strip() for line in lines]


def test_a_document_is_read_as_it_is_written() -> None:
    document = {"verdicts": {"ours 1 gie.clip": "0.5", "x": ""}, "[columns] of": {"a": "b = c"}}
    assert text.parse(text.render(document)) == document
