"""One session of a preparation: what is known is taken from the ledger, the rest is asked for."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ..benchmarks.dataset import ItemRef
from ..benchmarks.items import ItemsFile
from ..config import Settings
from ..digest import content_digest
from ..errors import (
    Abstained,
    ConfigError,
    CostLimit,
    EditjudgeError,
    NotAuthorised,
    NotServed,
    ServiceError,
    StoreError,
    WrongModel,
)
from ..panel import Panel
from ..run.ledger import Ledger
from ..run.progress import Progress, took
from ..run.session import asking
from .entry import JUDGE, Entry, Maker
from .folder import Folder
from .live import Live

_FATAL = (CostLimit, NotAuthorised, WrongModel)
"""What would fail every call to come."""
_KEPT = {"had", "unsuited", "left"}
"""Whatever the services are."""


@dataclass
class Session:
    """A session of a preparation.

    The data must have been `checked`.

    Attributes:
        ledger: Of the calls.
        limit: Only this many of the items; None for all.
        own_ledger: Whether what it cost before was for this preparation.
        entries: What became of the items, by id.
        identities: Of the services.
        usage: What generalists took.
    """

    data: ItemsFile
    maker: Maker
    folder: Folder
    ledger: Ledger
    live: Live
    limit: int | None = None
    own_ledger: bool = True
    entries: dict[str, Entry] = field(default_factory=dict)
    identities: dict[str, str] = field(default_factory=dict)
    usage: dict[str, float] = field(default_factory=dict)
    _over: str = ""

    def recall(self, settings: Settings) -> None:
        """Do what needs no service: all that was answered before by services such as these."""
        for ref in self.data.items():
            if (entry := self.maker.needless(ref.data)) is not None:
                self.entries[ref.id] = entry
            elif self.limit is not None and ref.index >= self.limit:
                self.entries[ref.id] = Entry("left")
        known = self.ledger.fact(self._fact(settings))
        if known is not None:
            self.identities = json.loads(known)
            panel = Panel.replaying(self.ledger, self.identities, settings)
            asyncio.run(self._made_by(panel, settings, recalling=True))

    @property
    def left(self) -> int:
        """How many items must be asked about."""
        return sum(ref.id not in self.entries for ref in self.data.items())

    def make(self, settings: Settings, before: Settings) -> None:
        """Make what is left.

        Args:
            before: The settings as `recall` was given them.

        Raises:
            ServiceError: a service is not there.
            ConfigError: no generalist is configured, or one cannot be used as it is.
            StoreError: nothing can be written any more.
        """
        if JUDGE.partition(".")[2] not in settings.generalists:
            raise ConfigError(
                "no generalist is configured", "give --generalist URL, or see docs/configuration.md"
            )
        asyncio.run(self._asked(settings, before))

    async def _asked(self, settings: Settings, before: Settings) -> None:
        panel = Panel(settings, ledger=self.ledger, patience=settings.patience)
        spent, dearest = self.ledger.costs if self.own_ledger else (0.0, 0.0)
        panel.budget.goes_on(spent, dearest)
        async with panel:
            for role in self.maker.roles:
                if role not in panel.served:
                    raise NotServed(panel.why_not(role), service=role)
            self._meet(panel.identities())
            self.ledger.keep_fact(self._fact(before), json.dumps(self.identities))
            progress = Progress(edits=self.left, spent_before=spent)
            with self.live.showing(progress, panel):
                await self._made_by(panel, settings, recalling=False)
            self.usage = took(panel, progress)

    def _meet(self, identities: Mapping[str, str]) -> None:
        """Take note of the services; what others than these made is made anew."""
        found = {role: identities[role] for role in self.maker.roles}
        for role, identity in found.items():
            if self.identities.get(role, identity) != identity:
                self.live.say(f"{role} is another one than before: all is made anew")
                self.entries = {
                    name: one for name, one in self.entries.items() if one.status in _KEPT
                }
        self.identities = found

    async def _made_by(self, panel: Panel, settings: Settings, *, recalling: bool) -> None:
        refs = (ref for ref in self.data.items() if ref.id not in self.entries)
        # Enough that no endpoint waits for images to be decoded.
        count = 2 * (os.cpu_count() or 1) + (0 if recalling else settings.concurrency)
        await asyncio.gather(
            *(self._worker(refs, panel, recalling=recalling) for _ in range(count))
        )

    async def _worker(self, refs: Iterator[ItemRef], panel: Panel, *, recalling: bool) -> None:
        for ref in refs:
            entry = await self._one(ref, panel, recalling=recalling)
            if entry is None:
                continue
            self.entries[ref.id] = entry
            if not recalling:
                self.live.done(failed=entry.status == "failed")

    async def _one(self, ref: ItemRef, panel: Panel, *, recalling: bool) -> Entry | None:
        """What became of an item; None where the ledger alone does not tell."""
        if self._over:
            return Entry("failed", f"not asked any more: {self._over}")
        try:
            item = await asyncio.to_thread(self.data.load, ref)
            entry = await self.maker.make(item, panel)
        except Abstained as abstained:
            self.ledger.drop(_calls(abstained))
            return Entry("failed", f"{abstained.kind}: {abstained.reason}")
        except NotServed as error:
            return None if recalling else Entry("failed", str(error))
        except StoreError:
            raise
        except ServiceError as error:
            if isinstance(error, _FATAL):
                self._over = str(error)
                self.live.say(self._over)
            return Entry("failed", str(error))
        except EditjudgeError as error:  # a picture that cannot be read
            return Entry("failed", str(error))
        if entry.mask is not None:
            await asyncio.to_thread(self.folder.keep_mask, ref.id, entry.mask)
        return entry

    def _fact(self, settings: Settings) -> str:
        """The name under which the ledger knows the services of these settings."""
        asked = {"settings": asking(settings), "roles": self.maker.roles}
        digest = content_digest(json.dumps(asked, sort_keys=True).encode())
        return f"services that prepared, by {digest}"


def _calls(abstained: Abstained) -> list[str]:
    """The calls whose replies led to nothing: to be made again, they must be forgotten."""
    calls = abstained.evidence.get("calls")
    listed = calls if isinstance(calls, list) else [abstained.evidence.get("call")]
    return [key for key in listed if isinstance(key, str)]
