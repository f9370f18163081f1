"""How many of the calls that are left a ledger answers already."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ..base.config import Settings
from ..base.contracts import Tensors
from ..base.errors import Abstained, EditjudgeError
from ..base.identity import Identities, ServiceName
from ..base.images import load_image
from ..base.item import Edit, Missing
from ..engine.header import RunHeader
from ..engine.judge import judge
from ..engine.runplan import RunPlan
from ..engine.session import IDENTITIES, asking, services_fact
from ..panel import Panel
from ..panel.calls import Call, Reply, Said, SpecialistCall
from ..storage.ledger import Ledger
from ..storage.store import FILE

T = TypeVar("T")
_SAMPLED = 200


@dataclass
class Known:
    """What ledgers answer of the calls that are left.

    Attributes:
        calls: By service; of a sample of edits, for all of them.
        exact: Every edit was looked at.
        unmet: The services that answer by these settings are not known, so nothing can be told.
    """

    calls: Counter[ServiceName] = field(default_factory=Counter)
    exact: bool = True
    unmet: bool = False


def known_calls(plan: RunPlan, out: Path, before: RunHeader | None, settings: Settings) -> Known:
    """Look up the calls that are left in the run and in the ledger of the settings.

    None are known where a Judge service is asked, which has replies of its own. Nothing is called
    and nothing written. Pictures of 200 edits at most are decoded.

    Args:
        out: Folder of the run, maybe not begun.
        before: The header as its last session left it.

    Raises:
        ConfigError: the ledger is none, or of a newer editjudge.
        StoreError: it is damaged.
    """
    if settings.gateway is not None:
        return Known()
    files = [path for path in (out / FILE, settings.ledger) if path is not None and path.is_file()]
    if settings.ledger not in files:
        return Known()
    with ExitStack() as opened:
        ledgers = [opened.enter_context(Ledger.to_read(path)) for path in files]
        return asyncio.run(_known(plan, ledgers, before, settings))


async def _known(
    plan: RunPlan, ledgers: list[Ledger], before: RunHeader | None, settings: Settings
) -> Known:
    looked = _Looked(ledgers, await ledgers[0].dropped() if before else frozenset())
    identities = await _identities(looked, before, settings)
    if not identities:
        return Known(unmet=True)
    panel = Panel.replaying(looked, identities, settings)
    looked.judges = {one.as_judge: name for name, one in panel.generalists.items()}
    count = plan.edits
    edits = ((ref, model, names) for ref, of in plan.items() for model, names in of.items())
    sampled = 0
    for ref, model, names in sample(edits, count):
        sampled += 1
        try:
            item = await asyncio.to_thread(plan.order.dataset.load, ref)
            path = plan.order.dataset.outputs(plan.order.outputs[model]).path(ref.id)
            image = await asyncio.to_thread(load_image, Path(path)) if path else None
        except EditjudgeError:  # what cannot be read asks nothing
            continue
        edit = Edit(item, model, image, None if image else Missing("absent", ""))
        await judge(edit, plan.named(names), plan.order.known, panel, plan.order.signed)
    scale = count / sampled if sampled else 0.0
    calls = Counter({name: round(scale * count) for name, count in looked.counts.items()})
    return Known(calls, exact=sampled == count)


def sample(edits: Iterable[T], count: int, at_most: int = _SAMPLED) -> Iterator[T]:
    """As many edits as may be looked at, spread over all.

    Args:
        count: How many there are.
    """
    for number, edit in enumerate(edits):
        if number * at_most % count < at_most:
            yield edit


async def _identities(
    looked: _Looked, before: RunHeader | None, settings: Settings
) -> Identities | None:
    """Of the services that these settings mean, as the run or the ledger last met them."""
    if before is not None and before.settings == asking(settings):
        return before.identities
    fact = await looked.fact(services_fact(settings))
    return None if fact is None else IDENTITIES.validate_json(fact)


class _Looked:
    """A `CallStore` that is only looked into, and counts what it answers.

    Args:
        ledgers: The run's own first, where it is begun.
        dropped: Keys of calls that the run has dropped: it asks them anew.
    """

    def __init__(self, ledgers: Iterable[Ledger], dropped: frozenset[str]) -> None:
        self._ledgers = tuple(ledgers)
        self._dropped = dropped
        self._seen: set[str] = set()
        self.judges: Mapping[str, ServiceName] = {}
        self.counts: Counter[ServiceName] = Counter()

    async def get(self, call: Call) -> Reply | None:
        """The reply to a call that was made before, or None."""
        for ledger in self._ledgers:
            if (reply := await ledger.get(call)) is not None:
                self._count(self.judges[call.judge], call.key)
                return reply
            if call.key in self._dropped:
                return None
        return None

    async def outputs(self, call: SpecialistCall) -> Tensors | None:
        """What a specialist returned before, or None; raises what it abstained with."""
        for ledger in self._ledgers:
            try:
                outputs = await ledger.outputs(call)
            except Abstained:
                self._count(call.service, call.key)
                raise
            if outputs is not None:
                self._count(call.service, call.key)
                return outputs
            if call.key in self._dropped:
                return None
        return None

    async def fact(self, name: str) -> str | None:
        """Something found out about a service before, or None."""
        facts = [await ledger.fact(name) for ledger in self._ledgers]
        return next(filter(None, facts), None)

    async def said(self, keys: Iterable[str]) -> Mapping[str, Said]:
        """Nothing: nobody asks here what was said."""
        return {}

    async def put(self, call: Call, reply: Reply) -> None:
        """Keep nothing."""

    async def keep_fact(self, name: str, value: str) -> None:
        """Keep nothing."""

    async def keep_outputs(
        self,
        call: SpecialistCall,
        outputs: Mapping[str, NDArray[np.float32] | bytes],
        seconds: float,
    ) -> Tensors:
        """Keep nothing."""
        return dict(outputs)

    async def keep_abstention(self, call: SpecialistCall, kind: str, reason: str) -> Abstained:
        """Keep nothing."""
        return Abstained(kind, reason, calls=(call.key,))

    async def drop(self, keys: Iterable[str]) -> int:
        """Drop nothing."""
        return 0

    def _count(self, service: ServiceName, key: str) -> None:
        if key not in self._seen:
            self._seen.add(key)
            self.counts[service] += 1
