"""What items and outputs hold, beside what they held when they were judged.

An item is what the data says of it and what its pictures hold. Where these lie, and in which order
the data names them, is nothing to it. A picture that is gone cannot be compared: what was judged
with it stays judged.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol

from ..base.digest import digest_bytes
from ..base.errors import ConfigError
from ..base.files import ABSENT, STAT, Files, Seen, stat_of
from ..base.item import Missing
from ..base.verdict import Verdict
from ..base.words import counted
from ..benchmarks.dataset import Dataset, ItemRef
from ..panel.calls import CallStore
from .header import RunHeader

SHORT = 16
"""Bytes that are kept of a digest that is only compared."""
_NO_FILE = bytes(SHORT)


class ItemContent(NamedTuple):
    """What an item was when it was judged.

    Attributes:
        record: See `Dataset.record`; 16 bytes of it, none where nothing was judged yet.
        files: Digests of its files, 16 bytes each, zeros for one that was not there.
        stats: Their stats, 8 bytes each.
    """

    record: bytes
    files: bytes
    stats: bytes

    def is_of(self, other: ItemContent) -> bool:
        """Whether both are one item, wherever its files lie."""
        return self.record == other.record and self.files == other.files


class JudgedEdit(NamedTuple):
    """An edit that verdicts are about.

    Attributes:
        item: Its id.
        model: Under test.
        seen: The file of the output; None where there is none.
        missing: Why the output is missing: there is no file, or none that can be used.
        content: What its item holds; None where nobody looked.
    """

    item: str
    model: str
    seen: Seen | None = None
    missing: Missing | None = None
    content: ItemContent | None = None


class Standing(NamedTuple):
    """What is known of an edit.

    Attributes:
        digest: Of the output's file; None where there was none.
        missing: Why the output was missing; None where it was not.
        dimensions: Those on which a verdict stands.
        stat: Of the output's file.
    """

    item: str
    digest: str | None
    missing: Missing | None
    dimensions: frozenset[str]
    stat: bytes = ABSENT


class VerdictSink(Protocol):
    """Where verdicts go."""

    async def keep(
        self,
        edit: JudgedEdit,
        verdicts: Mapping[str, Verdict],
        signatures: Mapping[str, str],
        versions: str | None = None,
    ) -> None:
        """Keep an edit's verdicts, all or none; what this has returned from is kept.

        Args:
            verdicts: By dimension id; they take the place of earlier ones on the same content.
            signatures: At least of these dimensions.
            versions: Of the packages that they were made with; None for those of this process.

        Raises:
            StoreError: the disk is full or fails.
        """


class KnownVerdicts(Protocol):
    """Where verdicts are kept, as far as planning asks."""

    @property
    def header(self) -> RunHeader:
        """Of the run."""

    def contents(self) -> Iterable[tuple[str, ItemContent, bool]]:
        """What items were when something was judged of them: id, content, whether it is today's."""

    def standing(self, model: str, signatures: Mapping[str, str]) -> Iterable[Standing]:
        """Every edit of a model, with the dimensions on which a verdict of today stands."""

    def standing_on(
        self,
        item: str,
        content: ItemContent | None,
        model: str,
        digest: str,
        signatures: Mapping[str, str],
    ) -> Standing | None:
        """The same of an edit of this content; None where nothing was judged of it.

        Args:
            content: Of its item; None for that of today.
        """


class VerdictStore(VerdictSink, KnownVerdicts, Protocol):
    """A run's header, its edits and their verdicts, beside the store of its calls."""

    @property
    def ledger(self) -> CallStore:
        """Its calls."""

    @property
    def costs(self) -> tuple[float, float]:
        """What all its calls have cost, and the dearest of them."""

    def amend(self, header: RunHeader) -> RunHeader:
        """Go on with another header, joined with the one there is; returns the whole."""

    def counts(
        self, signatures: Mapping[str, str] | None = None
    ) -> Mapping[str, Mapping[str, Mapping[str, int]]]:
        """How many verdicts there are, by model, dimension and status."""

    def keep_contents(
        self,
        edits: Iterable[JudgedEdit],
        items: Mapping[str, ItemContent],
        gone: Iterable[str],
        header: Mapping[str, object],
    ) -> None:
        """Keep what items and outputs hold now, all or nothing.

        Args:
            gone: Ids of items that the data has no more.
            header: What is to be changed in the header with it.
        """


class Look:
    """The items of data as they are now, as far as they are compared.

    Args:
        before: The header of the run; None where there is none yet.

    Attributes:
        ids: In their order.
        stats: Of the files of each, 8 bytes each; nothing of an item that is not asked for.
    """

    def __init__(self, dataset: Dataset, before: RunHeader | None) -> None:
        self.dataset = dataset
        self.ids: list[str] = []
        self.stats: list[bytes] = []
        beside = before is not None and before.data_digest != dataset.digest
        self._records: dict[str, bytes] | None = {} if beside else None

    @classmethod
    def at(cls, dataset: Dataset, before: RunHeader | None) -> Look:
        """At all items of some data.

        Raises:
            InputError: it cannot be used.
        """
        look = cls(dataset, before)
        for ref in dataset.checked():
            look.add(ref, asked=True)
        return look

    def add(self, ref: ItemRef, *, asked: bool) -> None:
        """Look at the next item."""
        self.ids.append(ref.id)
        self.stats.append(self.dataset.stats(ref) if asked else b"")
        if self._records is not None:
            self._records[ref.id] = self.dataset.record(ref)[:SHORT]

    def record(self, item: str) -> bytes:
        """What the data says of an item."""
        if self._records is None:
            self._records = {
                ref.id: self.dataset.record(ref)[:SHORT] for ref in self.dataset.items()
            }
        return self._records[item]


@dataclass
class ItemChanges:
    """The items that are not what they were, beside what was judged.

    Attributes:
        digest: Of the data; empty where nothing was compared.
        other: By id, items of another content.
        moved: By id, items of the same content with other files.
        gone: Ids of judged items that the data has no more.
        outputs: By model under test, the items of which another output is there than was judged,
            where outputs were looked at.
    """

    digest: str = ""
    other: dict[str, ItemContent] = field(default_factory=dict)
    moved: dict[str, ItemContent] = field(default_factory=dict)
    gone: tuple[str, ...] = ()
    outputs: Mapping[str, Collection[str]] = field(default_factory=dict)

    def stands(self, item: str, model: str) -> bool:
        """Whether what was judged of an edit is what is there now."""
        return item not in self.other and item not in self.outputs.get(model, ())


def item_changes(look: Look, known: KnownVerdicts, files: Files) -> ItemChanges:
    """Compare items with what they were.

    Args:
        files: Reads what may have changed.

    Raises:
        ConfigError: the data has none of the items that were judged.
    """
    whole = known.header.data_digest == look.dataset.digest
    places = {item: place for place, item in enumerate(look.ids)}
    changes = ItemChanges(look.dataset.digest)
    gone: dict[str, None] = {}
    current: set[int] = set()
    earlier: set[int] = set()
    suspect: dict[int, ItemContent] = {}
    for item, before, is_current in known.contents():
        place = places.get(item)
        if place is None:
            gone |= {item: None} if is_current else {}
            continue
        if not is_current:
            earlier.add(place)
            continue
        current.add(place)
        if not before.record:
            continue  # nothing was judged of it
        is_elsewhere = (now := look.stats[place]) and now != before.stats
        if is_elsewhere or (not whole and look.record(item) != before.record):
            suspect[place] = before
    if gone and not current and not earlier:
        raise ConfigError(
            f"{counted(len(gone), 'item')} were judged (first: {next(iter(gone))}), and"
            f" {look.dataset.path} has none of them",
            "give the run's own data, or another folder for this run",
        )
    changes.gone = tuple(gone)
    looked = suspect.keys() | (earlier - current)
    for ref in look.dataset.items(looked) if looked else ():
        was = suspect.get(ref.index)
        content = content_of(look.dataset, ref, files, before=was)
        if was is None or not content.is_of(was):
            changes.other[ref.id] = content
        elif content != was:
            changes.moved[ref.id] = content
    return changes


def content_of(
    dataset: Dataset,
    ref: ItemRef,
    files: Files,
    read: Mapping[str, Seen] | None = None,
    before: ItemContent | None = None,
) -> ItemContent:
    """What an item holds now; of its files those are read that changed since they were read last.

    Args:
        read: Those that were read just now, by path.
        before: What it held; a file that is gone holds what it held.
    """
    record = dataset.record(ref)[:SHORT]
    if before is not None and before.record != record:
        before = None
    there = [_file(path, n, files, read or {}, before) for n, path in enumerate(dataset.files(ref))]
    return ItemContent(record, b"".join(d for d, _ in there), b"".join(stat for _, stat in there))


def _file(
    path: str, number: int, files: Files, read: Mapping[str, Seen], before: ItemContent | None
) -> tuple[bytes, bytes]:
    """What a file of an item holds, and its stat."""
    known = _NO_FILE, ABSENT
    if before is not None:
        known = _piece(before.files, number, SHORT), _piece(before.stats, number, STAT)
        if stat_of(path) in {known[1], ABSENT}:
            return known
    seen = read.get(path) or files.seen(path)
    return known if seen is None else (digest_bytes(seen.digest)[:SHORT], seen.stat)


def _piece(whole: bytes, number: int, size: int) -> bytes:
    return whole[number * size : (number + 1) * size]


def other_outputs(look: Look, known: KnownVerdicts, files: Files) -> dict[str, set[str]]:
    """By model, the items of which another output is there than was judged.

    Outputs that are not there any more stay judged.
    """
    others: dict[str, set[str]] = {}
    for model, folder in known.header.outputs.items():
        if not look.dataset.has_outputs(Path(folder)):
            continue
        outputs = look.dataset.outputs(Path(folder)).index()
        for edit in known.standing(model, {}):
            path = outputs.path(edit.item)
            if edit.digest is None or path is None or edit.stat == stat_of(path) != ABSENT:
                continue
            seen = files.seen(path)
            if seen is not None and seen.digest != edit.digest:
                others.setdefault(model, set()).add(edit.item)
    return others
