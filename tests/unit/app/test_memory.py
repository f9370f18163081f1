"""What reads a run holds numbers, and not the verdicts: twice as many take little more."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from editjudge.app.comparison import compare_models, rank_models
from editjudge.app.export import export
from editjudge.app.view import RunView
from editjudge.base.verdict import Score
from editjudge.report import site

from ...small_data import MSE, PSNR, make_spec, save_picture, stored_run, write_items

ITEMS = 150
MODELS = "ab"
READERS: dict[str, tuple[Callable[[RunView, Path], object], int]] = {
    "summary": (lambda view, _: view.results(), 120),
    "compare": (lambda view, _: compare_models((view, "a"), (view, "b")), 200),
    "rankings": (lambda view, _: rank_models(view), 200),
    "csv": (lambda view, out: export(view, out, "csv"), 120),
    "jsonl": (lambda view, out: export(view, out, "jsonl"), 120),
    "report": (lambda view, out: site.write_report([view.folder], out, pictures=False), 400),
}
"""What reads a run, and the most bytes that it may hold for a verdict more; as an object each takes 1,000 or more."""


def make(folder: Path, items: int) -> Path:
    save_picture(folder / "s.png")
    names = [f"item {number}" for number in range(items)]
    write_items(folder, ({"id": name, "task": "local_editing"} for name in names))
    rng = np.random.default_rng(0)
    with stored_run(folder / "run", make_spec(folder, MODELS, (PSNR, MSE))) as keep:
        for name in names:
            for model in MODELS:
                keep(name, model, {each: Score(value=rng.random(), evidence={"n": 1}) for each in (PSNR, MSE)})
    return folder / "run"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return [make(tmp_path_factory.mktemp("run"), items) for items in (ITEMS, 3 * ITEMS)]


@pytest.mark.parametrize("what", READERS)
def test_a_verdict_more_takes_few_bytes(
    runs: list[Path], tmp_path: Path, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site, "MAX_EDITS", 20)  # a page of more lists some of them
    read, most = READERS[what]
    peaks = []
    for number, run in enumerate([runs[0], *runs]):  # the first time modules are loaded
        with RunView(run) as view:
            tracemalloc.start()
            read(view, tmp_path / f"{what}.{number}")
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
    a_verdict = (peaks[2] - peaks[1]) / (2 * ITEMS * len(MODELS) * 2)
    assert a_verdict < most
