"""What edits hold: verdicts are kept under it, and stand for nothing else.

An item is what the data says of it and what its files hold. Where these lie, and in which order
the data names items, is nothing to it. A file that is gone holds what it held when it was last
read, so that what was judged with it stays judged.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from types import MappingProxyType
from typing import NamedTuple, Protocol, TypeVar

from ..base.digest import digest_bytes
from ..base.errors import ConfigError
from ..base.file_states import ABSENT, FileState, FileStates, stat_of
from ..base.item import Missing
from ..base.text import format_count
from ..base.verdict import Verdict
from ..benchmarks.dataset import Dataset, ItemRef
from .run_header import RunHeader

KEY_BYTES = 16
"""Bytes that are kept of a digest that is only compared."""
_NO_FILE = bytes(KEY_BYTES)
_MANY = 10_000
"""Numbers of files that are remembered."""


class FileContent(NamedTuple):
    """What a file held when it was last read.

    Attributes:
        stat: See `base.file_states`; `ABSENT` where it must be read again.
        digest: 16 bytes; zeros of a file that was not there.
    """

    stat: bytes
    digest: bytes


def content_key(record: bytes, files: Iterable[bytes]) -> bytes:
    """The digest of all that an item holds, in 16 bytes.

    Together with the item's id, the model and the digest of the output it is the key of an edit.

    Args:
        record: What the data says of it; see `Dataset.record`. It tells how many files there are.
        files: The digests of its files, 16 bytes each, in the order in which the data names them.
    """
    return blake2b(b"".join((record, *files)), digest_size=KEY_BYTES).digest()


def file_number(name: str) -> int:
    """The number under which a run keeps what a file held, by what the data calls it."""
    digest = blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


class ItemContent(NamedTuple):
    """What an item holds.

    Attributes:
        key: See `content_key`.
        files: By number of a file, what it held.
    """

    key: bytes
    files: Mapping[int, FileContent] = MappingProxyType({})


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
    output_file: FileState | None = None
    missing: Missing | None = None
    content: ItemContent | None = None


class StandingVerdicts(NamedTuple):
    """What stands of an edit of one content.

    Attributes:
        content: Key of what the item held; empty where nobody looked.
        output: Digest of the output's file; None where there was none.
        stat: Of that file.
        missing: Why the output was missing; None where it was not.
        dimensions: Those on which a verdict stands.
    """

    content: bytes
    output: bytes | None
    stat: bytes
    missing: Missing | None
    dimensions: frozenset[str]


class _OfContent(Protocol):
    """What is kept of an edit of one content: a row of the store, or what stands of it."""

    @property
    def content(self) -> bytes: ...
    @property
    def output(self) -> bytes | None: ...
    @property
    def stat(self) -> bytes: ...
    @property
    def missing(self) -> object | None: ...


E = TypeVar("E", bound=_OfContent)


def find_current_output(
    states: Sequence[E], path: str | None, files: FileStates
) -> tuple[bytes | None, bytes]:
    """The digest of an output as it is now, and the stat of its file.

    An output that is gone, or that cannot be read just now, is what it was. One is read only where
    an output was judged before and its file may have changed.

    Args:
        judged: What is kept of the edit, the last one last.
        path: Of the output; None where there is none.
    """
    last = states[-1]
    if last.output is None:
        last = next((one for one in reversed(states) if one.output is not None), last)
    if last.output is None:
        return None, ABSENT
    if path is not None and not last.stat == stat_of(path) != ABSENT:
        file_state = files.get_state(path)
        if file_state is not None:
            return digest_bytes(file_state.digest), file_state.stat
    return last.output, last.stat


def find_by_content(
    states: Sequence[E], content: bytes, output: bytes | None, *, absent: bool
) -> E | None:
    """What is kept of an edit that holds this; None where nothing was judged of it.

    Args:
        judged: What is kept of the edit, the last one last.
        content: The key of its item.
        output: The digest of its output.
        absent: Whether there is no file of the output now.
    """
    last = states[-1]
    if last.output == output is not None and last.content == content:
        return last
    of_item = [one for one in reversed(states) if one.content in {content, b""}]
    for state in of_item:
        if state.output == output is not None:
            return state
    # What is kept without an output: it was missing, and still is, or nobody came to look at it.
    without = (one for one in of_item if one.output is None and (absent or one.missing is None))
    return next(without, None)


@dataclass(frozen=True)
class FileCache:
    """What a run knows of files: what it need not read again.

    Attributes:
        files: By number.
        data: Digest of the data.
        records: What that data says of its items, 16 bytes each, in their order.
    """

    files: Mapping[int, FileContent] = field(default_factory=dict)
    data: str = ""
    records: bytes = b""


class ItemContents:
    """What the items of some data hold now.

    Args:
        before: What is known of their files; those that may have changed since are read.
        files: Those that are read in this session.

    Attributes:
        changed: FileStates that hold something else than is known, or whose stat is another.
    """

    def __init__(
        self, dataset: Dataset, before: FileCache | None = None, files: FileStates | None = None
    ) -> None:
        self.dataset = dataset
        self.files = files or FileStates()
        self.changed_files: dict[int, FileContent] = {}
        self._before = before or FileCache()
        self._numbers: dict[str, int] = {}
        self._latest: tuple[ItemRef | None, bytes] = None, b""
        self._above = f"{dataset.folder}{os.sep}"
        self._records = self._before.records if self._before.data == dataset.digest else b""

    def record(self, ref: ItemRef) -> bytes:
        """What the data says of an item."""
        if self._records:
            return self._records[ref.index * KEY_BYTES : (ref.index + 1) * KEY_BYTES]
        return self.dataset.record_digest(ref)[:KEY_BYTES]

    def key_from_cache(self, ref: ItemRef) -> bytes | None:
        """The key of an item; None where it names a file that the run never met."""
        digests = []
        for path in self.dataset.files(ref):
            number = self._number(path)
            before = self._known_content(number)
            if before is None:
                return None
            is_same = self.dataset.stat(path) in {before.stat, ABSENT}
            digests.append((before if is_same else self._read(path, number, before)).digest)
        return content_key(self.record(ref), digests)

    def key(self, ref: ItemRef) -> bytes:
        """The key of an item; several ask for it one after another."""
        if self._latest[0] is not ref:
            self._latest = ref, self.key_from_cache(ref) or self.read(ref).key
        return self._latest[1]

    def read(
        self, ref: ItemRef, loaded_files: Mapping[str, FileState] = MappingProxyType({})
    ) -> ItemContent:
        """What an item holds.

        Args:
            loaded: FileStates that were read just now, by path.
        """
        contents = {}
        for path in self.dataset.files(ref):
            number = self._number(path)
            before = self._known_content(number)
            if (file_state := loaded_files.get(path)) is not None:
                contents[number] = FileContent(
                    file_state.stat, digest_bytes(file_state.digest)[:KEY_BYTES]
                )
            elif before is not None and stat_of(path) in {before.stat, ABSENT}:
                contents[number] = before
            else:
                contents[number] = self._read(path, number, before)
        read = [contents[self._number(path)].digest for path in self.dataset.files(ref)]
        return ItemContent(content_key(self.record(ref), read), contents)

    def source_keys(self, ref: ItemRef, count: int) -> tuple[str, ...]:
        """The first files of an item: equal texts where they are known to hold the same.

        Args:
            count: How many.
        """
        paths = self.dataset.files(ref)[:count]
        contents = [self._known_content(self._number(path)) for path in paths]
        return tuple(
            path if content is None else content.digest.hex()
            for path, content in zip(paths, contents, strict=True)
        )

    def updates(self) -> FileCache:
        """What the run does not know yet, to be known the next time."""
        digest, changed_files = (
            self.dataset.digest,
            dict(self.changed_files),
        )  # others go on reading
        if self._before.data == digest:
            return FileCache(changed_files)
        records = {
            ref.index: self.dataset.record_digest(ref)[:KEY_BYTES] for ref in self.dataset.items()
        }
        places = range(max(records, default=-1) + 1)
        whole = b"".join(records.get(place, bytes(KEY_BYTES)) for place in places)
        return FileCache(changed_files, digest, whole)

    def _known_content(self, number: int) -> FileContent | None:
        return self.changed_files.get(number) or self._before.files.get(number)

    def _number(self, path: str) -> int:
        """Files of the data's folder go by their names in it, so that the folder may move."""
        number = self._numbers.get(path)
        if number is None:
            if len(self._numbers) >= _MANY:
                self._numbers.clear()
            number = self._numbers[path] = file_number(path.removeprefix(self._above))
        return number

    def _read(self, path: str, number: int, before: FileContent | None) -> FileContent:
        file_state = self.files.get_state(path)
        if file_state is None:
            return before or FileContent(ABSENT, _NO_FILE)
        self.changed_files[number] = FileContent(
            file_state.stat, digest_bytes(file_state.digest)[:KEY_BYTES]
        )
        return self.changed_files[number]


class VerdictStore(Protocol):
    """A run's header, its edits and their verdicts, beside the store of its calls."""

    @property
    def header(self) -> RunHeader:
        """Of the run."""

    @property
    def costs(self) -> tuple[float, float]:
        """What all its calls have cost, and the dearest of them."""

    def items(self) -> Sequence[str]:
        """The ids of the items of which anything was judged."""

    def find_standing(
        self, model: str, signatures: Mapping[str, str]
    ) -> Mapping[str, Sequence[StandingVerdicts]]:
        """What stands of a model's edits by item, of each content, the last one last."""

    def counts(
        self, signatures: Mapping[str, str] | None = None
    ) -> Mapping[str, Mapping[str, Mapping[str, int]]]:
        """How many verdicts there are, by model, dimension and status."""

    def amend(self, header: RunHeader) -> RunHeader:
        """Go on with another header, joined with the one there is; returns the whole."""

    def save_contents(
        self, edits: Iterable[JudgedEdit], files: FileCache, header: Mapping[str, object]
    ) -> None:
        """Keep what edits and files hold now, all or nothing.

        Args:
            files: Those that changed.
            header: What is to be changed in the header with it.
        """

    async def save_edit(
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


def check_items(dataset: Dataset, items: Iterable[str], store: VerdictStore) -> None:
    """Refuse data that has none of the items that were judged.

    Args:
        items: Ids of those that it has.

    Raises:
        ConfigError: it has none of them.
    """
    judged_ids = store.items()
    if judged_ids and set(judged_ids).isdisjoint(items):
        raise ConfigError(
            f"{format_count(len(judged_ids), 'item')} were judged (first: {judged_ids[0]}), and"
            f" {dataset.path} has none of them",
            "give the run's own data, or another folder for this run",
        )
