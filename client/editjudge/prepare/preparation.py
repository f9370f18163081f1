"""A preparation: results whose replies are in the ledger are recalled, the rest needs calls.

Each reply is committed to the ledger when it arrives. So a killed preparation loses the calls in
flight only: begun again, it recalls the rest and writes its files.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import TypeAdapter

from ..app.ledger import Ledger
from ..base.config import Settings
from ..base.digest import content_digest
from ..base.errors import (
    Abstention,
    ConfigError,
    CostLimit,
    EditjudgeError,
    NoAccess,
    NoModel,
    StoreError,
    WrongModel,
)
from ..base.identity import Identities, ModelIdentity, ServiceName, format_identities
from ..base.strict import Number, Strict
from ..base.terminal import print_notice
from ..benchmarks.dataset import ItemRef
from ..benchmarks.items import ItemsFile
from ..engine.events import ProgressEvent
from ..engine.progress import DimensionProgress, Progress, summarise_usage
from ..engine.session import service_settings
from ..panel import Panel, PoolPolicy
from ..panel.budget import Budget
from ..panel.context import CallContext
from ..report.display import make_display
from .folder import CALLS, REVIEW, Folder, Record, named_by_mask
from .items import FIELDS, JUDGE, STATUSES, DraftData, Entry
from .makers import Maker
from .review import write_page

_FATAL = (CostLimit, NoAccess, WrongModel)
"""Errors that every later call would have too."""
_IDENTITIES = TypeAdapter(dict[ServiceName, ModelIdentity])
_WHOEVER_IS_ASKED = {"had", "unsuited", "left"}
"""Statuses that do not depend on the services."""
_WITH_REASONS = ("not_found", "unsuited", "failed")


class PreparationResult(Strict):
    """The result of a preparation.

    Attributes:
        what: What was generated.
        counts: How many items have each status.
        reasons: Why items are `not_found`, `unsuited` or `failed`: by status and item id.
        services: Identities of the services, by role.
        usage: What judges used: calls, tokens, cost.
        data: The completed data.
        review: The page on which people accept or reject.
        exit_code: The exit code of the command.
    """

    what: str
    counts: dict[str, int]
    reasons: dict[str, dict[str, str]]
    services: dict[str, str]
    usage: dict[str, Number]
    data: Path
    review: Path
    exit_code: int


@asynccontextmanager
async def open_panel(
    settings: Settings, ledger: Ledger, roles: Iterable[ServiceName], budget: Budget
) -> AsyncIterator[Panel]:
    """Open the services; replies are read from the ledger and stored there.

    Raises:
        NoModel: one of these roles is not there.
        ConfigError: a judge cannot be used as it is.
    """
    policy = PoolPolicy(patience=settings.patience)
    panel = Panel(settings, ledger=ledger, policy=policy).with_context(CallContext(budget))
    async with panel:
        for role in roles:
            if role not in panel.service_names:
                raise NoModel(panel.why_not(role), service=role)
        yield panel


@contextmanager
def open_preparation(
    data: Path,
    out: Path,
    maker: Maker,
    settings: Settings,
    limit: int | None = None,
    roots: Mapping[str, str] | None = None,
) -> Iterator[Preparation]:
    """Begin or resume a preparation; its files are written when the block ends.

    Calls are stored in the ledger of the settings, or else in the folder.

    Args:
        out: The folder of the preparation.
        limit: Only this many of the items; None for all.
        roots: Folders outside that of the data whose pictures it may name.

    Raises:
        InputError: the data cannot be used.
        ConfigError: the folder is in use, or that of another preparation.
        StoreError: the folder or the ledger cannot be written.
    """
    items = DraftData(data, roots)
    for _ in items.check_items():
        pass
    folder = Folder(out)
    with folder.lock():
        record = folder.begin(items, maker.what)
        with Ledger(settings.ledger or folder.path / CALLS) as ledger:
            preparation = Preparation(items, maker, folder, ledger, settings, limit)
            preparation.recall()
            yield preparation
            preparation.write(record)


@dataclass
class Preparation:
    """Fills one field of the items of a data set.

    Attributes:
        ledger: The store of its calls.
        settings: The settings without started services, which name the services in the ledger.
        limit: Only this many of the items; None for all.
        entries: The results, by item id.
        identities: Identities of the services.
        usage: What judges took.
    """

    data: ItemsFile
    maker: Maker
    folder: Folder
    ledger: Ledger
    settings: Settings
    limit: int | None = None
    entries: dict[str, Entry] = field(default_factory=dict)
    identities: dict[ServiceName, ModelIdentity] = field(default_factory=dict)
    usage: dict[str, float] = field(default_factory=dict)
    _stop_reason: str = ""

    @property
    def pending_count(self) -> int:
        """How many items need calls to services."""
        return sum(ref.id not in self.entries for ref in self.data.items())

    def recall(self) -> None:
        """Make the entries that need no call: no work to do, or replies that are stored."""
        for ref in self.data.items():
            if (entry := self.maker.find_entry_without_work(ref.data)) is not None:
                self.entries[ref.id] = entry
            elif self.limit is not None and ref.index >= self.limit:
                self.entries[ref.id] = Entry("left")
        asyncio.run(self._recall())

    async def _recall(self) -> None:
        identities_json = await self.ledger.get_fact(self._fact_name())
        if identities_json is None:
            return
        self.identities = _IDENTITIES.validate_json(identities_json)
        panel = Panel.from_ledger(self.ledger, self.identities, self.settings)

        async def recall_entry(ref: ItemRef) -> Entry | None:
            try:
                return await self._make_entry(ref, panel)
            except (NoModel, *_FATAL):  # the ledger does not have all the replies
                return None

        await self._fill(recall_entry, workers=_count_decoders())

    async def make(self, settings: Settings) -> None:
        """Make the entries that are left, calling the services.

        Args:
            settings: Settings with the available services.

        Raises:
            ServiceError: a service is not there.
            ConfigError: no judge is configured, or one cannot be used as it is.
            StoreError: nothing can be written any more.
        """
        if JUDGE.variant not in settings.judges:
            raise ConfigError(
                "no judge is configured", "give --judge URL, or see docs/configuration.md"
            )
        budget = Budget(settings.max_cost)
        if self.settings.ledger is None:
            # In the folder's own ledger every earlier call was for this preparation.
            budget.add_earlier_cost(*self.ledger.costs)
        async with open_panel(settings, self.ledger, self.maker.roles, budget) as panel:
            self._note_services(panel.identities())
            identities = _IDENTITIES.dump_json(self.identities).decode()
            await self.ledger.put_fact(self._fact_name(), identities)
            counts = DimensionProgress(total=self.pending_count)
            progress = Progress({self.maker.what: counts}, edits=self.pending_count, budget=budget)
            with make_display(as_json=False) as live_display:
                due = time.monotonic() + live_display.seconds_between

                async def ask_entry(ref: ItemRef) -> Entry:
                    nonlocal due
                    entry = await self._entry_or_failure(ref, panel)
                    progress.count_edit({}, ())
                    counts.failed += entry.status == "failed"
                    counts.scored += entry.status != "failed"
                    if time.monotonic() >= due:
                        live_display(ProgressEvent.by(progress, panel))
                        due = time.monotonic() + live_display.seconds_between
                    return entry

                # Enough that no endpoint waits for images to be decoded.
                await self._fill(ask_entry, workers=_count_decoders() + settings.concurrency)
            self.usage = summarise_usage(panel, progress)

    def _note_services(self, identities: Identities) -> None:
        """Note the identities of the services; entries that other services made are dropped."""
        used_identities = {role: identities[role] for role in self.maker.roles}
        for role, identity in used_identities.items():
            if self.identities.get(role, identity) != identity:
                print_notice(f"{role} is another one than before: all is made anew")
                self.entries = {
                    name: entry
                    for name, entry in self.entries.items()
                    if entry.status in _WHOEVER_IS_ASKED
                }
        self.identities = used_identities

    async def _fill(
        self, entry_of: Callable[[ItemRef], Awaitable[Entry | None]], *, workers: int
    ) -> None:
        """Make the entries of all items that have none, several at a time."""
        refs = (ref for ref in self.data.items() if ref.id not in self.entries)

        async def work() -> None:
            for ref in refs:
                if (entry := await entry_of(ref)) is not None:
                    self.entries[ref.id] = entry

        await asyncio.gather(*(work() for _ in range(workers)))

    async def _entry_or_failure(self, ref: ItemRef, panel: Panel) -> Entry:
        """Make an entry; after an error that every later call would have, stop calling."""
        if self._stop_reason:
            return Entry("failed", f"not asked any more: {self._stop_reason}")
        try:
            return await self._make_entry(ref, panel)
        except _FATAL as error:
            self._stop_reason = str(error)
            print_notice(self._stop_reason)
            return Entry("failed", str(error))
        except NoModel as error:
            return Entry("failed", str(error))

    async def _make_entry(self, ref: ItemRef, panel: Panel) -> Entry:
        """Make an entry, and write its mask.

        Raises:
            ServiceError: a service is not there, or every later call would fail too.
            StoreError: nothing can be written any more.
        """
        try:
            item = await asyncio.to_thread(self.data.load, ref)
            for name in {"source", "instruction"} - {*FIELDS[self.maker.what]}:
                if name in item.flaws:
                    return Entry("failed", item.flaws[name].reason)
            entry = await self.maker.make(item, panel)
        except Abstention as abstention:
            await self.ledger.drop(abstention.calls)
            return Entry("failed", f"{abstention.kind}: {abstention.reason}")
        except (NoModel, StoreError, *_FATAL):
            raise
        except EditjudgeError as error:  # of a service, or a picture that cannot be read
            return Entry("failed", str(error))
        if entry.mask is not None:
            await asyncio.to_thread(self.folder.write_mask, ref.id, entry.mask)
        return entry

    def _list_mask_phrase_fields(self) -> dict[str, tuple[str, ...]]:
        """Find, by item id, the fields that hold words for what is white in its new mask."""
        phrase_fields = {
            ref.id: named_by_mask(ref.data, self.entries[ref.id]) for ref in self.data.items()
        }
        return {name: tuple(fields) for name, fields in phrase_fields.items() if fields}

    def _fact_name(self) -> str:
        """Make the name of the fact under which the ledger stores these services."""
        settings = {"settings": service_settings(self.settings), "roles": self.maker.roles}
        digest = content_digest(json.dumps(settings, sort_keys=True).encode())
        return f"services that prepared, by {digest}"

    def write(self, record: Record) -> None:
        """Write the record, the items and the review page.

        Raises:
            StoreError: they cannot be written.
        """
        statuses = {name: entry.status for name, entry in self.entries.items()}
        update = {
            "made_by": format_identities(self.identities),
            "statuses": statuses,
            "named": self._list_mask_phrase_fields(),
        }
        record = record.model_copy(update=update)
        # In this order, so that after a crash no items exist without their record.
        self.folder.write_record(record)
        self.folder.write_items(self.data, self.entries)
        write_page(self.folder, record, self.entries)

    def result(self) -> PreparationResult:
        """Make the result of the preparation."""
        counts = Counter(entry.status for entry in self.entries.values())
        reasons = {
            status: {
                name: entry.reason for name, entry in self.entries.items() if entry.status == status
            }
            for status in _WITH_REASONS
        }
        return PreparationResult(
            what=self.maker.what,
            counts={status: counts[status] for status in STATUSES},
            reasons=reasons,
            services=format_identities(self.identities),
            usage=dict(self.usage),
            data=self.folder.items,
            review=self.folder.path / REVIEW,
            exit_code=3 if counts["failed"] else 0,
        )


def _count_decoders() -> int:
    """How many items to have in work so that decoding images uses all processors."""
    return 2 * (os.cpu_count() or 1)
