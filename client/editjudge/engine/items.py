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
_OTHERS = (
    "output is another than was judged, and counts",
    "outputs are others than was judged, and count",
)
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

    def items(self) -> Iterable[tuple[str, ItemState]]:
        """What each item was that verdicts are about, with its id."""

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
            f"{model}: {counted(len(items), *_OTHERS)} as pending until judged again"
            f" (first: {next(iter(items))})"
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
    header = known.header
    whole = _same(header, look.dataset)
    changes = ItemChanges(look.dataset.digest)
    names = known.item_names()
    if names is None or not whole:
        changes.names = look.ids
        before = frozenset(look.ids if names is None else names)
        changes.new = tuple(item for item in look.ids if item not in before)
    judged = _Judged(look, whole=whole)
    if header.per_item:
        judged.compare(known.items())
        changes.changed, changes.states = judged.became(files)
    else:
        judged.note(known.edited_items())
        if header.data_digest != changes.digest:
            changes.untold = True
            changes.changed = judged.named(judged.untold)
        else:
            changes.unknown = judged.untold
    changes.gone = judged.gone
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


class _Judged:
    """The judged items beside the data as it is now, one after another.

    Args:
        whole: The data says what it said.
    """

    def __init__(self, look: Look, *, whole: bool) -> None:
        self._look = look
        self._places = {item: place for place, item in enumerate(look.ids)}
        self._records = {} if whole else look.records
        self._whole = whole
        self._gone: list[str] = []
        self._others: set[int] = set()
        self._suspect: dict[int, ItemState] = {}
        self.untold: set[int] = set()

    def note(self, items: Iterable[str]) -> None:
        """Note items of which nobody knows what they were."""
        for item in items:
            place = self._places.get(item)
            if place is None:
                self._gone.append(item)
            else:
                self.untold.add(place)
        self._check_there(len(self.untold))

    def compare(self, states: Iterable[tuple[str, ItemState]]) -> None:
        """Compare what the data says of items, and what files they have."""
        places, stats, suspect = self._places, self._look.stats, self._suspect
        there = 0
        for item, before in states:
            place = places.get(item)
            if place is None:
                self._gone.append(item)
                continue
            there += 1
            if not self._whole and self._records[item] != before.record:
                self._others.add(place)
            elif (now := stats[place]) and now != before.stats:
                suspect[place] = before
        self._check_there(there)

    def became(self, files: Files) -> tuple[dict[str, None], dict[str, ItemState]]:
        """The items that are others now, and the states of the same with other files.

        Args:
            files: Reads what may have changed.
        """
        dataset, stats, states = self._look.dataset, self._look.stats, {}
        for ref in dataset.items(self._suspect) if self._suspect else ():
            before = self._suspect[ref.index]
            now = _as_now(dataset.files(ref), before, stats[ref.index], files)
            if now is None or not now.is_of(before):
                self._others.add(ref.index)
            elif now != before:
                states[ref.id] = now
        return self.named(self._others), states

    def named(self, places: Iterable[int]) -> dict[str, None]:
        """The ids of items in these places, in the order of the data."""
        return {self._look.ids[place]: None for place in sorted(places)}

    @property
    def gone(self) -> tuple[str, ...]:
        """Ids of those that the data has no more."""
        return tuple(self._gone)

    def _check_there(self, there: int) -> None:
        """Refuse data that has none of the items."""
        if self._gone and not there:
            raise ConfigError(
                f"{counted(len(self._gone), 'item')} were judged (first: {self._gone[0]}), and"
                f" {self._look.dataset.path} has none of them",
                "give the run's own data, or another folder for this run",
            )


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
