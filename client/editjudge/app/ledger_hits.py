"""Counts how many of the remaining calls of a run the ledger answers."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeVar

from ..base.config import Settings
from ..base.errors import EditjudgeError
from ..base.identity import Identities, ServiceName
from ..base.images import load_image
from ..base.item import Edit, Missing
from ..engine.judge import judge
from ..engine.run_header import RunHeader
from ..engine.run_plan import RunPlan
from ..engine.session import IDENTITIES, service_settings, services_fact_name
from ..panel import Panel
from ..panel.calls import AnyCall, Call, MemoryReplies, Reply
from ..storage.ledger import Ledger
from ..storage.shared_ledger import AnyLedger, open_ledger

T = TypeVar("T")
SAMPLE_SIZE = 200


def count_ledger_hits(
    plan: RunPlan, before: RunHeader | None, settings: Settings
) -> Counter[ServiceName] | None:
    """Count the remaining calls of a run that the ledger of the settings answers.

    The count is empty through a Judge service, which has its own ledger. No service is called and
    nothing is written. The pictures of at most 200 edits are decoded.

    Args:
        before: The run's header as its last session left it; None for a new run.

    Returns:
        The number of calls by service, extrapolated from a sample of edits. None if the ledger
        holds no identities of the services of these settings.

    Raises:
        ConfigError: the file is not a ledger, or belongs to a newer editjudge.
        StoreError: the ledger is damaged.
    """
    place = settings.ledger
    if settings.gateway is not None or place is None:
        return Counter()
    if isinstance(place, Path) and not place.is_file():
        return Counter()
    source = Ledger.open_read_only(place) if isinstance(place, Path) else open_ledger(place, 0.0)
    with source as ledger:
        return asyncio.run(_count_hits(plan, _CountingLedger(ledger), before, settings))


async def _count_hits(
    plan: RunPlan, ledger: _CountingLedger, before: RunHeader | None, settings: Settings
) -> Counter[ServiceName] | None:
    identities = await _find_identities(ledger, before, settings)
    if not identities:
        return None
    panel = Panel.from_ledger(ledger, identities, settings)
    count = plan.edit_count
    items = plan.list_unfinished_items()
    edits = ((ref, model, names) for ref, models in items for model, names in models.items())
    sample_size = 0
    for ref, model, names in sample_edits(edits, count):
        sample_size += 1
        try:
            item = await asyncio.to_thread(plan.inputs.dataset.load, ref)
            path = plan.inputs.dataset.outputs(plan.inputs.outputs[model]).path(ref.id)
            image = await asyncio.to_thread(load_image, Path(path)) if path else None
        except EditjudgeError:  # an edit that cannot be read makes no calls
            continue
        edit = Edit(item, model, image, None if image else Missing("absent", ""))
        await judge(
            edit,
            plan.select_dimensions(names),
            plan.inputs.dimensions_by_id,
            panel,
            plan.inputs.signature_cache,
        )
    scale = count / sample_size if sample_size else 0.0
    names_of = {one.call_identity: name for name, one in panel.judges.items()}
    counts = Counter(names_of.get(of) or ServiceName.parse(of) for of in ledger.hits.values())
    return Counter({name: round(scale * count) for name, count in counts.items()})


def sample_edits(edits: Iterable[T], count: int, at_most: int = SAMPLE_SIZE) -> Iterator[T]:
    """Yield at most `at_most` edits, spread evenly over all.

    Args:
        count: Number of all edits.
    """
    for number, edit in enumerate(edits):
        if number * at_most % count < at_most:
            yield edit


async def _find_identities(
    ledger: _CountingLedger, before: RunHeader | None, settings: Settings
) -> Identities | None:
    """The identities of the services of these settings, as the run or the ledger stored them."""
    if before is not None and before.settings == service_settings(settings):
        return before.identities
    fact = await ledger.get_fact(services_fact_name(settings))
    return None if fact is None else IDENTITIES.validate_json(fact)


class _CountingLedger(MemoryReplies):
    """A ledger that is read only, and records which calls it answered.

    Attributes:
        hits: The service of each call that was answered, by the key of the call; a judge by its
            identity.
    """

    def __init__(self, ledger: AnyLedger) -> None:
        super().__init__()
        self._ledger = ledger
        self.hits: dict[str, str] = {}

    async def get(self, call: AnyCall) -> Reply | None:
        """The reply to a call that was made before, or None."""
        reply = await self._ledger.get(call)
        if reply is not None:
            self.hits[call.key] = call.judge if isinstance(call, Call) else call.service
        return reply

    async def get_fact(self, name: str) -> str | None:
        """A stored fact about a service, or None."""
        return await self._ledger.get_fact(name)
