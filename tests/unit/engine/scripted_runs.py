"""Runs of a scorer that keeps a log, on data of one pixel and a store on disk."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from PIL import Image as Pil

from editjudge.base.identity import ServiceName
from editjudge.base.item import Edit, Item
from editjudge.base.verdict import Score, Verdict
from editjudge.benchmarks.dataset import ItemRef
from editjudge.benchmarks.dimension import Dimension, Reading
from editjudge.benchmarks.items import ItemsFile
from editjudge.engine.judge import make_judges
from editjudge.engine.progress import Progress
from editjudge.engine.run_inputs import RunInputs
from editjudge.engine.run_plan import RunPlan, compare_with_run, inspect_items
from editjudge.engine.scheduler import Scheduler
from editjudge.scorers.scorer import Scorer
from editjudge.storage.store import RunStore

from ...fakes.scorers import FakePanel


class Log:
    """What happened, and what is to happen."""

    def __init__(self) -> None:
        self.errors: dict[int, Exception] = {}
        self.order: list[tuple[str, str]] = []
        self.now = self.most = self.loads = 0

    def began(self, edit: Edit) -> None:
        self.order.append((edit.item.id, edit.model))
        self.now += 1
        self.most = max(self.most, self.now)

    def end(self) -> None:
        self.now -= 1


@dataclass(frozen=True)
class TimedScorer(Scorer):
    """Takes its time; says how many are judged at once, and fails on demand."""

    name: ClassVar[str] = "timed"
    log: Any = field(default=None, compare=False, hash=False)
    needs: tuple[str, ...] = ()
    shows: bool = False

    @property
    def reads_pixels(self) -> bool:
        return not self.shows

    @property
    def roles(self) -> tuple[ServiceName, ...]:
        return tuple(map(ServiceName.parse, self.needs))

    def spec(self) -> Mapping[str, object]:
        return {}

    async def score(self, edit: Edit, panel: Any, wanted: frozenset[str]) -> Mapping[str, Verdict]:
        self.log.began(edit)
        try:
            number = int(edit.item.id)
            await asyncio.sleep(0.001 * (number * 7 % 5))
            if error := self.log.errors.get(number):
                raise error
            return {"score": Score(value=number)}
        finally:
            self.log.end()


class LoggedItems(ItemsFile):
    """A data set whose items are counted when they are loaded, and cannot be on demand."""

    log: Log
    broken_item = ""

    def load(self, ref: ItemRef, max_lazy_pixels: int = 0) -> Item:
        self.log.loads += 1
        if ref.id == self.broken_item:
            raise AssertionError("whatever a decoder raises")
        return super().load(ref, max_lazy_pixels)


def dimension(log: Log, name: str = "test.one", **given: Any) -> Dimension:
    how = given.pop("how", None) or Reading(TimedScorer(log), "score")
    return Dimension(name, "?", "test", how, (0, 1e9), **given)


def order(folder: Path, log: Log, count: int, models: str, *dimensions: Dimension, side: int = 1) -> RunInputs:
    """Items named from 0, of tasks `even` and `odd`, whose outputs are all one file."""
    picture = Pil.fromarray(np.zeros((side, side, 3), np.uint8))
    picture.save(folder / "source.png")
    outputs = {model: folder / model for model in models}
    lines = []
    for index in range(count):
        task = "odd" if index % 2 else "even"
        line = {"id": str(index), "instruction": "x", "source": "source.png", "task": task}
        lines.append(json.dumps(line))
    (folder / "items.jsonl").write_text("\n".join(lines))
    for output in outputs.values():
        output.mkdir()
        picture.save(output / "0.png")
        for index in range(1, count):
            (output / f"{index}.png").hardlink_to(output / "0.png")
    data = LoggedItems(folder / "items.jsonl")
    data.log = log
    chosen = dimensions or (dimension(log),)
    return RunInputs(data, outputs, chosen, {d.id: d for d in chosen})


def plan(asked: RunInputs, store: RunStore | None = None, *more: Any) -> RunPlan:
    """What is left to do."""
    return compare_with_run(inspect_items(asked), store, *(more or ({},)))


def schedule(work: RunPlan, store: RunStore, **given: Any) -> Scheduler:
    panel: Any = FakePanel()
    how = {"max_in_flight": 4, **given}
    return Scheduler(work, make_judges(panel), store.save_edit, Progress.of(work, {}), **how)


async def run(asked: RunInputs, store: RunStore, **given: Any) -> str:
    """Do it all; why it ended."""
    return await schedule(plan(asked), store, **given).run()


def verdicts(store: RunStore) -> dict[tuple[str, str], Verdict]:
    """By item and model."""
    return {(one.item, one.model): one.verdict for one in store.verdicts()}
