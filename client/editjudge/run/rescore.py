"""Judging a run again from its stored replies: today's code, and no call."""

from __future__ import annotations

import asyncio
import math
import os
from array import array
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..panel import Panel
from ..verdict import Failed, Scored, Verdict
from .progress import Progress
from .scheduler import Scheduler, jobs
from .store import RunStore
from .work import Order, Survey, Work


@dataclass
class Side:
    """The verdicts of one model on one dimension, before or after."""

    counts: Counter[str] = field(default_factory=Counter)
    values: array[float] = field(default_factory=lambda: array("d"))

    def add(self, verdict: Verdict) -> None:
        """One more."""
        self.counts[verdict.status] += 1
        if isinstance(verdict, Scored):
            self.values.append(verdict.value)

    @property
    def mean(self) -> float | None:
        """Of the scored ones."""
        return math.fsum(self.values) / len(self.values) if self.values else None


@dataclass
class Change:
    """What became of the verdicts of one model on one dimension.

    Attributes:
        before: All that are stored, scored or unscored.
        after: The same, judged again; where that was not possible, as they were.
        changed: How many have another value or status.
        kept: How many could not be judged again.
        why: The reason for the first of these.
    """

    before: Side = field(default_factory=Side)
    after: Side = field(default_factory=Side)
    changed: int = 0
    kept: int = 0
    why: str = ""


Changes = dict[tuple[str, str], Change]


class _Compared:
    """Takes verdicts in a store's place, and compares them with those that are there."""

    def __init__(self, store: RunStore, *, write: bool) -> None:
        self._store = store
        self._write = write
        self._about: dict[int, tuple[str, str, str | None, str]] = {}
        self._digests = {(one.item, one.model): one.digest for one in store.edits()}
        self.changes: Changes = {}

    def edit_id(self, item_id: str, model: str, digest: str | None, missing: str = "") -> int:
        number = len(self._about)
        self._about[number] = (item_id, model, digest, missing)
        return number

    def put_verdicts(
        self, edit: int, verdicts: Mapping[str, Verdict], signatures: Mapping[str, str]
    ) -> None:
        item, model, digest, missing = self._about.pop(edit)
        old = {
            one.dimension: one.verdict
            for one in self._store.verdicts(model, item=item, evidence=False)
        }
        fresh: dict[str, Verdict] = {}
        for name, verdict in verdicts.items():
            before = old.get(name)
            if before is None or isinstance(before, Failed):
                continue
            change = self.changes.setdefault((model, name), Change())
            change.before.add(before)
            why = verdict.error if isinstance(verdict, Failed) else ""
            if digest != self._digests.get((item, model)):
                why = "the output is not the one that was judged"
            if why:
                change.after.add(before)
                change.kept += 1
                change.why = change.why or why
                continue
            change.after.add(verdict)
            change.changed += _says(before) != _says(verdict)
            fresh[name] = verdict
        if self._write and fresh:
            number = self._store.edit_id(item, model, digest, missing)
            self._store.put_verdicts(number, fresh, signatures)


def rescored(order: Order, store: RunStore, *, write: bool = False) -> Changes:
    """Judge again whatever has a verdict, from the stored replies alone.

    Args:
        write: Keep the new verdicts in the place of the old ones.

    Returns:
        By model and dimension, what changed.
    """
    survey = Survey(order)
    header = store.header
    work = survey.work(None, header.identities, frozenset(header.identities))
    _only_judged(work, store)
    compared = _Compared(store, write=write)

    async def judge() -> None:
        panel = Panel.replaying(store.ledger, header.identities)
        progress = Progress.of(work, {})
        async with panel:
            at_once = 2 * (os.cpu_count() or 1)
            scheduler = Scheduler(order, panel, compared, progress, in_flight=at_once)
            await scheduler.run(jobs(work))

    asyncio.run(judge())
    return {
        key: compared.changes[key]
        for model in order.outputs
        for key in ((model, d.id) for d in order.dimensions)
        if key in compared.changes
    }


def _only_judged(work: Work, store: RunStore) -> None:
    """Leave to do only what has a verdict."""
    for model, todo in work.todo.items():
        judged: dict[str, int] = {}
        for one in store.verdicts(model, evidence=False):
            if not isinstance(one.verdict, Failed):
                judged[one.item] = judged.get(one.item, 0) | work.bits.get(one.dimension, 0)
        work.todo[model] = [
            left & judged.get(item, 0) for item, left in zip(work.ids, todo, strict=True)
        ]


def _says(verdict: Verdict) -> tuple[Any, ...]:
    return verdict.status, getattr(verdict, "value", None), getattr(verdict, "kind", None)
