"""What is asked without naming a dimension is the same from Python and from the command line."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from editjudge.app import client
from editjudge.app.spec import ResolvedSpec, RunSpec
from editjudge.benchmarks.registry import load_benchmark, load_benchmarks, select_dimensions
from editjudge.cli import root, scoring

from ...small_data import save_picture


def test_of_one_edit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[Any] = []

    async def judge(_: object, __: object, dimensions: Any, ___: object) -> None:
        asked.extend(d.id for d in dimensions)
        raise click.Abort

    monkeypatch.setattr(scoring, "_judge", judge)
    monkeypatch.setattr(scoring, "provide_services", lambda *_, **__: nullcontext())
    picture = str(save_picture(tmp_path / "a.png"))
    given = ["--source", picture, "--edited", picture, "--instruction", "x"]
    CliRunner().invoke(root.commands["score"], given)
    assert asked == [d.id for d in client._select_dimensions(None)]
    assert {name.partition(".")[0] for name in asked} == {"core"}


@pytest.mark.parametrize("name", load_benchmarks())
def test_of_a_run(name: str) -> None:
    ours = ResolvedSpec(RunSpec(benchmark=name, data=Path("items.jsonl"))).dimensions
    assert [d.id for d in ours] == [d.id for d in select_dimensions((), load_benchmark(name).rules())]
