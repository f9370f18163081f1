"""Whether items are what they were when they were judged: what changed, what is new, what is gone.

An item is what the data says of it and what its pictures hold. Where these lie, and in which order
the data names them, is nothing to it. A picture that is gone cannot be compared: what was judged
with it stays judged.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, NamedTuple, Protocol, TypeAlias

from ..base.digest import DIGEST, digest_bytes
from ..base.errors import ConfigError
from ..base.files import ABSENT, STAT, Files, Seen, stat_of
from ..base.words import counted
from ..benchmarks.dataset import Dataset, ItemRef
from .header import RunHeader

Became: TypeAlias = Literal["same", "changed", "gone"]
"""What became of what was judged."""
Known: TypeAlias = Became | Literal["unknown"]
"""The same; `unknown` where the data is not there any more."""
_NO_FILE = bytes(DIGEST)


class ItemState(NamedTuple):
    """What an item was when it was judged.

    Attributes:
        record: See `Dataset.record`.
        files: Digests of its files, 32 bytes each, zeros for one that was not there.
        stats: Their stats, 40 bytes each.
    """

    record: bytes
    files: bytes
    stats: bytes

    def is_of(self, other: ItemState) -> bool:
        """Whether both are one item, wherever its files lie."""
        return self.record == other.record and self.files == other.files


class KnownItems(Protocol):
    """Where it is kept what items were when they were judged."""

    @property
    def header(self) -> RunHeader:
        """Of the run."""

    def items(self) -> Mapping[str, ItemState]:
        """What each item was that verdicts are about, by id."""

    def edited_items(self) -> Collection[str]:
        """Ids of the items that have edits."""

    def item_names(self) -> Collection[str] | None:
        """Ids of all items of the data that the header names; None where nobody kept them."""


class KnownOutput(Protocol):
    """An edit, as far as its output is compared."""

    @property
    def item(self) -> str:
        """Id of its item."""

    @property
    def digest(self) -> str | None:
        """Of the output; None where it was missing."""

    @property
    def seen(self) -> Seen | None:
        """Its file; None where nobody kept it."""


class KnownOutputs(Protocol):
    """Where it is kept which outputs were judged."""

    @property
    def header(self) -> RunHeader:
        """Of the run."""

    def edits(self, model: str) -> Iterable[KnownOutput]:
        """Those of a model under test."""


class Look:
    """The items of data as they are now, as far as they are compared.

    Args:
        before: The header of the run; None where there is none yet.

    Attributes:
        ids: In their order.
        stats: Of the files of each, 40 bytes each; nothing of an item that is not asked for.
    """

    def __init__(self, dataset: Dataset, before: RunHeader | None) -> None:
        self.dataset = dataset
        self.ids: list[str] = []
        self.stats: list[bytes] = []
        beside = before is not None and not _same(before, dataset)
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
            self._records[ref.id] = self.dataset.record(ref)

    @property
    def records(self) -> Mapping[str, bytes]:
        """By id; made anew where the run was not known to have other data."""
        if self._records is None:
            self._records = {ref.id: self.dataset.record(ref) for ref in self.dataset.items()}
        return self._records


@dataclass
class ItemChanges:
    """What became of a run's items since they were judged.

    Attributes:
        digest: Of the data; empty where nothing was compared.
        changed: Ids of the judged items that are another thing now, each once, in order.
        new: Of those that the data did not have before.
        gone: Of the judged items that the data has no more.
        untold: The run does not know its items one by one, and its data is another one now.
        states: By id, what is to be known of judged items that are the same from now on.
        unknown: Positions of judged items of which the run does not know what they were, though its
            data is the same; see `completed`.
        names: Ids of all items of the data, where that is another one now.
        outputs: By model under test, the items of which another output is there than was judged,
            where outputs were looked at.
    """

    digest: str = ""
    changed: dict[str, None] = field(default_factory=dict)
    new: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    untold: bool = False
    states: dict[str, ItemState] = field(default_factory=dict)
    unknown: Collection[int] = ()
    names: Collection[str] | None = None
    outputs: Mapping[str, Collection[str]] = field(default_factory=dict)

    def became(self, item: str, model: str | None = None) -> Became:
        """What became of an item, and of its output by a model, since they were judged."""
        if item in self.gone:
            return "gone"
        other = item in self.outputs.get(model, ()) if model is not None else False
        return "changed" if other or item in self.changed else "same"

    @property
    def lines(self) -> tuple[str, ...]:
        """For people: how many, and the first of each."""
        lines = []
        if self.changed:
            how = "may have changed" if self.untold else "changed"
            why = ": an earlier editjudge began the run, and did not keep what each was"
            changed = counted(
                len(self.changed),
                f"item {how} since it was judged, and is",
                f"items {how} since they were judged, and are",
            )
            lines.append(
                f"{changed} to be judged again; calls that stay the same are not made again"
                f"{why if self.untold else ''} (first: {next(iter(self.changed))})"
            )
        if self.new:
            lines.append(f"{counted(len(self.new), 'item')} new (first: {self.new[0]})")
        if self.gone:
            lines.append(
                f"{counted(len(self.gone), 'item')} gone, and counted no more; what was judged of"
                f" them is kept (first: {self.gone[0]})"
            )
        others = (
            f"{model}: {counted(len(items), 'output is another', 'outputs are others')} than was"
            f" judged, and count as pending until judged again (first: {next(iter(items))})"
            for model, items in self.outputs.items()
            if items
        )
        return (*(f"data: {line}" for line in lines), *others)


def item_changes(look: Look, known: KnownItems, files: Files) -> ItemChanges:
    """Compare items with what they were.

    Args:
        files: Reads what may have changed.

    Raises:
        ConfigError: the data has none of the items that were judged.
    """
    header, there = known.header, frozenset(look.ids)
    stored = known.items() if header.per_item else {}
    judged = stored if header.per_item else dict.fromkeys(known.edited_items())
    if judged and there.isdisjoint(judged):
        raise ConfigError(
            f"{counted(len(judged), 'item')} were judged (first: {next(iter(judged))}), and"
            f" {look.dataset.path} has none of them",
            "give the run's own data, or another folder for this run",
        )
    changes = ItemChanges(look.dataset.digest)
    changes.gone = tuple(item for item in judged if item not in there)
    names = known.item_names()
    if names is None or not _same(header, look.dataset):
        changes.names = look.ids
        before = there if names is None else frozenset(names)
        changes.new = tuple(item for item in look.ids if item not in before)
    if header.per_item:
        _compare(changes, look, stored, files, whole=_same(header, look.dataset))
    elif header.data_digest != changes.digest:
        changes.untold = True
        changes.changed = {item: None for item in look.ids if item in judged}
    else:
        changes.unknown = {place for place, item in enumerate(look.ids) if item in judged}
    return changes


def completed(changes: ItemChanges, dataset: Dataset, files: Files) -> ItemChanges:
    """The changes with the states of all items, to be kept: those unknown are looked at."""
    unknown = dataset.items(changes.unknown) if changes.unknown else ()
    states = {ref.id: state_of(dataset, ref, files) for ref in unknown}
    return replace(changes, states={**changes.states, **states}, unknown=())


def state_of(
    dataset: Dataset, ref: ItemRef, files: Files, read: Mapping[str, Seen] | None = None
) -> ItemState:
    """What an item is now; of its files those are read that changed since they were read last.

    Args:
        read: Those that were read just now, by path.
    """
    known = read or {}
    each = [known.get(path) or files.seen(path) for path in dataset.files(ref)]
    return ItemState(
        dataset.record(ref),
        b"".join(_NO_FILE if one is None else digest_bytes(one.digest) for one in each),
        b"".join(ABSENT if one is None else one.stat for one in each),
    )


def _compare(
    changes: ItemChanges,
    look: Look,
    stored: Mapping[str, ItemState],
    files: Files,
    *,
    whole: bool,
) -> None:
    """What the data says of each item, and what its files hold.

    Args:
        whole: The data says what it said.
    """
    records = {} if whole else look.records
    suspect: dict[int, bytes] = {}
    for place, (item, stats) in enumerate(zip(look.ids, look.stats, strict=True)):
        before = stored.get(item)
        if before is None:
            continue
        if not whole and records[item] != before.record:
            changes.changed[item] = None
        elif stats and stats != before.stats:
            suspect[place] = stats
    for ref in look.dataset.items(suspect) if suspect else ():
        before = stored[ref.id]
        now = _as_now(look.dataset.files(ref), before, suspect[ref.index], files)
        if now is None or not now.is_of(before):
            changes.changed[ref.id] = None
        elif now != before:
            changes.states[ref.id] = now


def _as_now(
    paths: Collection[str], before: ItemState, stats: bytes, files: Files
) -> ItemState | None:
    """What an item is now, as far as its files are there; None where they are not as many.

    Args:
        stats: Of these files.
    """
    if len(stats) != len(before.stats):
        return None
    digests, seen = [], []
    of_files = zip(
        paths,
        _pieces(before.files, DIGEST),
        _pieces(before.stats, STAT),
        _pieces(stats, STAT),
        strict=True,
    )
    for path, digest, stat, now in of_files:
        read = None if now in {stat, ABSENT} else files.seen(path)
        digests.append(digest if read is None else digest_bytes(read.digest))
        seen.append(stat if read is None else read.stat)
    return ItemState(before.record, b"".join(digests), b"".join(seen))


def other_outputs(look: Look, known: KnownOutputs, files: Files) -> dict[str, dict[str, None]]:
    """By model, the items of which another output is there than was judged.

    Outputs that are not there any more stay judged, and so do those of which a run of an earlier
    form did not keep what file they were.
    """
    others: dict[str, dict[str, None]] = {}
    for model, folder in known.header.outputs.items():
        if not look.dataset.has_outputs(Path(folder)):
            continue
        outputs = look.dataset.outputs(Path(folder)).index()
        for edit in known.edits(model):
            path = outputs.path(edit.item)
            if edit.digest is None or edit.seen is None or path is None:
                continue
            if edit.seen.stat == stat_of(path) != ABSENT:
                continue
            seen = files.seen(path)
            if seen is not None and seen.digest != edit.digest:
                others.setdefault(model, {})[edit.item] = None
    return others


def _same(known: RunHeader, dataset: Dataset) -> bool:
    """Whether a run knows its items one by one, and its data says what it said."""
    return known.per_item and known.data_digest == dataset.digest


def _pieces(whole: bytes, size: int) -> Iterator[bytes]:
    return (whole[at : at + size] for at in range(0, len(whole), size))
