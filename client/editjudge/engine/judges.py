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
from ..panel.calls import OthersCallStore
from .judge import Judgement, Settled, Signatures, at_once, judge
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
    ) -> Judgement:
        """Judge one edit; see `engine.judge.judge`."""


Opened: TypeAlias = Callable[
    [Order, Settings, OthersCallStore, PoolPolicy], AbstractAsyncContextManager[Judges]
]
"""Opens judges for a session: for its order, by its settings, with the store of its calls."""


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
    ) -> Judgement:
        """Judge one edit; see `engine.judge.judge`."""
        return await judge(edit, dimensions, known, self.panel, signatures, settled)


@contextlib.asynccontextmanager
async def near(
    _: Order, settings: Settings, calls: OthersCallStore, policy: PoolPolicy
) -> AsyncIterator[Near]:
    """Judges with the services of the settings; an `Opened`."""
    async with Panel(settings, ledger=calls, policy=policy) as panel:
        yield Near(panel)
