"""A preparation generates one field for the items of a data set, and can be resumed.

Each reply is committed to the ledger when it arrives. So a killed preparation loses only the calls
in flight. Begun again, it makes no call whose reply is in the ledger.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from ..app.client import work_on_all
from ..app.ledger import AnyLedger, Ledger, open_ledger
from ..base.config import Settings
from ..base.errors import Abstention, ConfigError, CostLimit, EditjudgeError, NoAccess, NoModel, StoreError, WrongModel
from ..base.identity import Identities, ServiceName, format_identities
from ..base.strict import Number, Strict
from ..base.terminal import print_notice
from ..benchmarks.dataset import ItemRef
from ..benchmarks.items import ItemsFile
from ..engine.events import ProgressEvent
from ..engine.progress import DimensionProgress, Progress, summarise_usage
from ..panel import Panel
from ..panel.budget import Budget
from ..panel.context import CallContext
from ..report.display import make_display
from .folder import CALLS, REVIEW, Folder, Record
from .items import FIELDS, JUDGE, STATUSES, DraftData, Entry
from .makers import Maker
from .review import write_page

_FATAL = (CostLimit, NoAccess, WrongModel)
"""Errors that every later call would have too."""
_WITH_REASONS = ("not_found", "unsuited", "failed")


class PreparationResult(Strict):
    """The result of a preparation.

    Attributes:
        what: The generated field: `instructions`, `choice`, `facts` or `masks`.
        counts: How many items have each status.
        reasons: Why items are `not_found`, `unsuited` or `failed`: by status and item id.
        services: Identities of the services, by role.
        usage: What judges used: calls, tokens, cost.
        data: The file with the completed items.
        review: The page on which reviewers accept or reject the results.
        exit_code: The exit code of the command: 3 if an item failed, else 0.
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
    settings: Settings, ledger: AnyLedger, roles: Iterable[ServiceName], budget: Budget
) -> AsyncIterator[Panel]:
    """Open a panel that reads replies from the ledger and stores new ones in it.

    Raises:
        NoModel: a service with one of the roles is not available.
        ConfigError: a judge cannot be used as it is configured.
    """
    panel = Panel(settings, ledger=ledger).with_context(CallContext(budget))
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
    candidates: int = 1,
) -> Iterator[Preparation]:
    """Begin or resume a preparation; its files are written when the block ends.

    Calls are stored in the ledger of the settings, or without one in the folder.

    Args:
        out: The folder of the preparation.
        limit: How many items to prepare, from the first; None for all.
        roots: Folders outside the data's folder whose images the data may name.
        candidates: How many items with an instruction each is made of one without.

    Raises:
        InputError: the data cannot be used.
        ConfigError: the folder is in use, or holds another preparation.
        StoreError: the folder or the ledger cannot be written.
    """
    items = DraftData(data, roots, candidates)
    for _ in items.check_items():
        pass
    folder = Folder(out)
    with folder.lock():
        record = folder.begin(items, maker.what)
        place = settings.ledger or folder.path / CALLS
        with open_ledger(place, settings.patience) as ledger:
            preparation = Preparation(items, maker, folder, ledger, settings)
            preparation.skip_items(limit)
            yield preparation
            preparation.write(record)


@dataclass
class Preparation:
    """Fills one field of the items of a data set.

    Attributes:
        ledger: The store of its calls.
        settings: The settings without the services that this command starts itself.
        entries: The results, by item id.
        identities: Identities of the services, by role.
        usage: What judges used: calls, tokens, cost.
    """

    data: ItemsFile
    maker: Maker
    folder: Folder
    ledger: AnyLedger
    settings: Settings
    entries: dict[str, Entry] = field(default_factory=dict)
    identities: Identities = field(default_factory=dict)
    usage: dict[str, float] = field(default_factory=dict)
    _stop_reason: str = ""

    @property
    def pending_count(self) -> int:
        """How many items need calls to services."""
        return sum(ref.id not in self.entries for ref in self.data.items())

    def skip_items(self, limit: int | None) -> None:
        """Make the entries of items without work, and of those beyond the limit."""
        for ref in self.data.items():
            if (entry := self.maker.find_entry_without_work(ref.data)) is not None:
                self.entries[ref.id] = entry
            elif limit is not None and ref.index >= limit:
                self.entries[ref.id] = Entry("left")

    async def make(self, settings: Settings) -> None:
        """Make the remaining entries by calling the services.

        Args:
            settings: The settings with the services that this command starts itself.

        Raises:
            ServiceError: a service is not available.
            ConfigError: no judge is configured, or it cannot be used as it is configured.
            StoreError: the ledger or the folder cannot be written any more.
        """
        if JUDGE.variant not in settings.judges:
            raise ConfigError("no judge is configured", "give --judge URL, or see docs/howto/configuration.md")
        budget = Budget.of(settings, self.ledger)
        if self.settings.ledger is None and isinstance(self.ledger, Ledger):
            # All calls in the folder's own ledger were for this preparation: they count.
            budget.add_earlier_cost(*self.ledger.costs)
        async with open_panel(settings, self.ledger, self.maker.roles, budget) as panel:
            for role in self.maker.roles:
                if role in panel.judges:
                    await panel.judge(role).settle()
            identities = panel.identities()
            self.identities = {role: identities[role] for role in self.maker.roles}
            counts = DimensionProgress(total=self.pending_count)
            progress = Progress({self.maker.what: counts}, edits=self.pending_count, budget=budget)
            with make_display(as_json=False) as live_display:
                due = time.monotonic() + live_display.seconds_between

                async def make_entry(_: int, ref: ItemRef) -> None:
                    nonlocal due
                    self.entries[ref.id] = entry = await self._make_entry(ref, panel)
                    progress.count_edit({}, ())
                    counts.failed += entry.status == "failed"
                    counts.scored += entry.status != "failed"
                    if time.monotonic() >= due:
                        live_display(ProgressEvent.by(progress, panel))
                        due = time.monotonic() + live_display.seconds_between

                refs = (ref for ref in self.data.items() if ref.id not in self.entries)
                # Enough that no endpoint waits for images to be decoded.
                await work_on_all(refs, make_entry, 2 * (os.cpu_count() or 1) + settings.concurrency)
            self.usage = summarise_usage(panel, progress)

    async def _make_entry(self, ref: ItemRef, panel: Panel) -> Entry:
        """Make an entry, and write its mask to the folder; an error becomes a failed entry.

        After a fatal error no call is made.

        Raises:
            StoreError: the ledger or the folder cannot be written any more.
        """
        if self._stop_reason:
            return Entry("failed", f"not attempted after an earlier error: {self._stop_reason}")
        try:
            item = await asyncio.to_thread(self.data.load, ref)
            for name in {"source", "instruction"} - {*FIELDS[self.maker.what]}:
                if name in item.flaws:
                    return Entry("failed", item.flaws[name].reason)
            entry = await self.maker.make(item, panel)
        except Abstention as abstention:
            await self.ledger.drop(abstention.calls)
            return Entry("failed", f"{abstention.kind}: {abstention.reason}")
        except StoreError:
            raise
        except EditjudgeError as error:  # of a service, or a picture that cannot be read
            if isinstance(error, _FATAL) and not self._stop_reason:
                self._stop_reason = str(error)
                print_notice(self._stop_reason)
            return Entry("failed", str(error))
        if entry.mask is not None:
            await asyncio.to_thread(self.folder.write_mask, ref.id, entry.mask)
        return entry

    def write(self, record: Record) -> None:
        """Write the record, the items and the review page.

        Raises:
            StoreError: they cannot be written.
        """
        statuses = {name: entry.status for name, entry in self.entries.items()}
        update = {"made_by": format_identities(self.identities), "statuses": statuses}
        record = record.model_copy(update=update)
        # In this order, so that after a crash no items exist without their record.
        self.folder.write_record(record)
        self.folder.write_items(self.data, self.entries)
        write_page(self.folder, record, self.entries)

    def result(self) -> PreparationResult:
        """Make the result of the preparation."""
        counts = Counter(one.status for one in self.entries.values())
        reasons = {
            status: {name: one.reason for name, one in self.entries.items() if one.status == status}
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
