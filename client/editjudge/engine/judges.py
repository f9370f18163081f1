"""Who judges the edits of a run: services that are called from here, or a Judge service."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from ..base.config import Settings
from ..base.item import Edit
from ..benchmarks.dimension import Dimension
from ..panel import Panel, PoolPolicy
from ..panel.budget import Budget
from ..panel.calls import OthersCallStore
from ..panel.context import CallContext
from .judge import Answered, Judgement, Settled, Signatures, at_once, judge, nobody_counts
from .order import Order


class Judges(Protocol):
    """Who judges edits."""

    @property
    def panel(self) -> Panel:
        """The services that judge: which there are, and what they are."""

    @property
    def here(self) -> bool:
        """Whether edits are judged in this process, so that it decodes their pictures."""

    async def judge(
        self,
        edit: Edit,
        dimensions: Iterable[Dimension],
        known: Mapping[str, Dimension],
        signatures: Signatures,
        settled: Settled = at_once,
        answered: Answered = nobody_counts,
    ) -> Judgement:
        """Judge one edit; see `engine.judge.judge`."""


Opened: TypeAlias = Callable[
    [Order, Settings, OthersCallStore, PoolPolicy, Budget], AbstractAsyncContextManager[Judges]
]
"""Opens the judges of a session: of its order, by its settings, with its store and budget."""


@dataclass(frozen=True, slots=True)
class Near:
    """Judges with services that are called from here. `Judges`."""

    panel: Panel
    here: bool = True

    async def judge(
        self,
        edit: Edit,
        dimensions: Iterable[Dimension],
        known: Mapping[str, Dimension],
        signatures: Signatures,
        settled: Settled = at_once,
        answered: Answered = nobody_counts,
    ) -> Judgement:
        """Judge one edit; see `engine.judge.judge`."""
        return await judge(edit, dimensions, known, self.panel, signatures, settled, answered)


@contextlib.asynccontextmanager
async def near(
    _: Order, settings: Settings, calls: OthersCallStore, policy: PoolPolicy, budget: Budget
) -> AsyncIterator[Near]:
    """Judges with the services of the settings; an `Opened`."""
    async with Panel(settings, ledger=calls, policy=policy) as panel:
        yield Near(panel.within(CallContext(budget)))
