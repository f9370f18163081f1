"""Content keys of items and edits, under which the verdicts of a run are stored.

The key of an item is a digest of its record in the data and of the content of its files. Paths and
the order of items do not enter it. A verdict is valid only for the content that was judged: if an
image, a text or an output changes, the edit is judged again. A deleted file counts with the content
that was last read, so verdicts that rest on it stay valid.
"""

import os
from collections.abc import Container, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from types import MappingProxyType
from typing import NamedTuple, Protocol, TypeVar

from ..base.digest import digest_bytes
from ..base.errors import ConfigError
from ..base.file_states import ABSENT, FileState, FileStates, stat_of
from ..base.item import Flaws, Missing
from ..base.text import format_count
from ..base.verdict import Verdicts
from ..benchmarks.dataset import Dataset, ItemRef
from .run_header import RunHeader
from .stored_items import encode_items, encode_traits

KEY_BYTES = 16
"""Length in bytes of the digests that are only compared with each other, to save space."""
_NO_FILE = bytes(KEY_BYTES)
_CACHED_NUMBERS = 10_000
"""How many file numbers are cached."""


class FileContent(NamedTuple):
    """The content of a file when it was last read.

    Attributes:
        stat: The file's stat digest, see `base.file_states`; `ABSENT` where it must be read again.
        digest: Digest of its bytes, 16 bytes; zeros for a file that did not exist.
    """

    stat: bytes
    digest: bytes


def content_key(record: bytes, files: Iterable[bytes]) -> bytes:
    """Compute the key of an item's content, 16 bytes.

    Together with the item's id, the model under test and the digest of the output it identifies
    the content of an edit.

    Args:
        record: Digest of the item's record in the data, see `Dataset.record_digest`. It covers the
            number of files.
        files: The digests of its files, 16 bytes each, in the order in which the data names them.
    """
    return blake2b(b"".join((record, *files)), digest_size=KEY_BYTES).digest()


def file_number(name: str) -> int:
    """Compute the row number under which a run stores a file's content, from the file's name."""
    digest = blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


class ItemContent(NamedTuple):
    """The content of an item.

    Attributes:
        key: See `content_key`.
        files: The content of its files, by file number.
    """

    key: bytes
    files: Mapping[int, FileContent] = MappingProxyType({})


class JudgedEdit(NamedTuple):
    """An edit with the content that its verdicts are valid for.

    Attributes:
        item: The id of the item.
        model: The model under test.
        output_file: The file of the output; None where there is none.
        missing: Why the output is missing: there is no file, or none that can be used.
        content: The content of the item; None where it was not read.
    """

    item: str
    model: str
    output_file: FileState | None = None
    missing: Missing | None = None
    content: ItemContent | None = None


class StandingVerdicts(NamedTuple):
    """The valid verdicts on one content of an edit.

    Attributes:
        content: Content key of the item; empty where it was not read.
        output: Digest of the output's file; None where there was no output.
        stat: Stat digest of that file.
        missing: Why the output was missing; None where there was one.
        dimensions: Ids of the dimensions with a valid verdict: it did not fail, and it has the
            signature that a new verdict would have.
    """

    content: bytes
    output: bytes | None
    stat: bytes
    missing: Missing | None
    dimensions: frozenset[str]


class _EditState(Protocol):
    """What is stored for one content of an edit: `EditRow` or `StandingVerdicts`."""

    @property
    def content(self) -> bytes: ...
    @property
    def output(self) -> bytes | None: ...
    @property
    def stat(self) -> bytes: ...
    @property
    def missing(self) -> object | None: ...


E = TypeVar("E", bound=_EditState)


def find_current_output(states: Sequence[E], path: str | None, files: FileStates) -> tuple[bytes | None, bytes]:
    """Find the digest of an output's present content, and the stat digest of its file.

    An output that was deleted or cannot be read counts with the content that was judged. The file
    is read only if an output was judged before and its stat differs. If none was judged before, the
    result is None and `ABSENT`.

    Args:
        states: What is stored for the edit, newest last.
        path: The path of the output; None where there is none.
    """
    last = next((one for one in reversed(states) if one.output is not None), None)
    if last is None:
        return None, ABSENT
    if path is not None and not last.stat == stat_of(path) != ABSENT:
        file_state = files.get_state(path)
        if file_state is not None:
            return digest_bytes(file_state.digest), file_state.stat
    return last.output, last.stat


def find_by_content(states: Sequence[E], content: bytes, output: bytes | None, *, absent: bool) -> E | None:
    """Find the stored state of an edit that has this content; None where there is none.

    Args:
        states: What is stored for the edit, newest last.
        content: The content key of its item.
        output: The digest of its output.
        absent: Whether the output has no file now.
    """
    last = states[-1]
    if last.output == output is not None and last.content == content:
        return last
    same_item = [one for one in reversed(states) if one.content in {content, b""}]
    for state in same_item:
        if state.output == output is not None:
            return state
    # What remains are states without an output: it was missing and still is, or was never read.
    rest = (one for one in same_item if one.output is None and (absent or one.missing is None))
    return next(rest, None)


@dataclass(frozen=True)
class FileCache:
    """What a run has stored about files, so that unchanged files are not read again.

    Attributes:
        files: File contents by file number.
        data: Digest of the data that `records` belongs to.
        records: Record digests of the items of that data, 16 bytes each, in item order.
        traits: What is known of that data besides its items; see `encode_traits`.
        items: Its items, see `encode_items`; empty where they are not to be stored anew.
    """

    files: Mapping[int, FileContent] = field(default_factory=dict)
    data: str = ""
    records: bytes = b""
    traits: bytes = b""
    items: Sequence[bytes] = ()


class ItemContents:
    """Reads the present content of items. Files whose stat did not change are not read again.

    Args:
        before: What the run has stored about the items' files; None for a new run.
        files: The states of files that this session has read already.

    Attributes:
        changed_files: By file number, the files whose content or stat differs from what is stored.
        file_flaws: By item id, the flaws that missing files and those outside its folder are.
    """

    def __init__(self, dataset: Dataset, before: FileCache | None = None, files: FileStates | None = None) -> None:
        self.dataset = dataset
        self.files = files or FileStates()
        self.changed_files: dict[int, FileContent] = {}
        self.file_flaws: dict[str, Flaws] = {}
        self._before = before or FileCache()
        self._latest: tuple[ItemRef | None, bytes] = None, b""
        # The row number of a file depends on its path relative to the data's folder, so that may move.
        prefix = f"{dataset.folder}{os.sep}"
        self._get_file_number = lru_cache(_CACHED_NUMBERS)(lambda path: file_number(path.removeprefix(prefix)))
        self._records = self._before.records if self._before.data == dataset.digest else b""

    def get_record_digest(self, ref: ItemRef) -> bytes:
        """Get the digest of an item's record, 16 bytes."""
        if self._records:
            return self._records[ref.index * KEY_BYTES : (ref.index + 1) * KEY_BYTES]
        return self.dataset.record_digest(ref)[:KEY_BYTES]

    def key_from_cache(self, ref: ItemRef) -> bytes | None:
        """Compute the key of an item; None where the digest of one of its files is unknown.

        A file is read only if its digest is known and its stat has changed.
        """
        digests = []
        for path in self.dataset.files(ref):
            content = self._current_content(path)
            if content is None:
                return None
            digests.append(content.digest)
        return content_key(self.get_record_digest(ref), digests)

    def key(self, ref: ItemRef) -> bytes:
        """Get the key of an item, reading its files where needed; the latest key is cached."""
        if self._latest[0] is not ref:
            self._latest = ref, self.key_from_cache(ref) or self.read(ref).key
        return self._latest[1]

    def read(self, ref: ItemRef, loaded_files: Mapping[str, FileState] = MappingProxyType({})) -> ItemContent:
        """Read the content of an item.

        Args:
            loaded_files: The states of files that were just read, by path; they are not read again.
        """
        contents = {}
        for path in self.dataset.files(ref):
            number = self._get_file_number(path)
            before = self._known_content(number)
            if (state := loaded_files.get(path)) is not None:
                contents[number] = FileContent(state.stat, digest_bytes(state.digest)[:KEY_BYTES])
            elif before is not None and stat_of(path) in {before.stat, ABSENT}:
                contents[number] = before
            else:
                contents[number] = self._read(path, number, before)
        read = [contents[self._get_file_number(path)].digest for path in self.dataset.files(ref)]
        return ItemContent(content_key(self.get_record_digest(ref), read), contents)

    def get_stored(self, path: str) -> FileContent | None:
        """Get what the run has stored of a file's content; None where it stored nothing."""
        before = self._before.files.get(self._get_file_number(path))
        return None if before is None or before.digest == _NO_FILE else before

    def was_read(self, path: str) -> bool:
        """Whether the run has stored what a file held."""
        return self.get_stored(path) is not None

    def list_source_keys(self, ref: ItemRef) -> list[Hashable]:
        """List what an item has in common with items of the same sources.

        That is the number of each source file, and the digest that the run has stored of it. So a
        file that is gone, or that no session could read, changes nothing. A file with other content
        than before is read: the digests are those in the item's key.
        """
        keys: list[Hashable] = []
        for path in self.dataset.files(ref)[: len(ref.files["source"])]:
            keys.append(self._get_file_number(path))
            if self.was_read(path) and (content := self._current_content(path)):
                keys.append(content.digest)
        return keys

    def updates(self) -> FileCache:
        """Collect what differs from what the run has stored, so that it can be stored."""
        digest, changes = self.dataset.digest, dict(self.changed_files)  # others go on reading
        traits = encode_traits(self.dataset, self.file_flaws)
        if self._before.data == digest and self._before.traits:
            return FileCache(changes, traits=traits if traits != self._before.traits else b"")
        records = {r.index: self.dataset.record_digest(r)[:KEY_BYTES] for r in self.dataset.items()}
        positions = range(max(records, default=-1) + 1)
        digests = b"".join(records.get(place, bytes(KEY_BYTES)) for place in positions)
        return FileCache(changes, digest, digests, traits, encode_items(self.dataset.items()))

    def _current_content(self, path: str) -> FileContent | None:
        """Get the content of a file, read again if its stat has changed; None if unknown."""
        number = self._get_file_number(path)
        before = self._known_content(number)
        if before is None or self.dataset.stat(path) in {before.stat, ABSENT}:
            return before
        return self._read(path, number, before)

    def _known_content(self, number: int) -> FileContent | None:
        return self.changed_files.get(number) or self._before.files.get(number)

    def _read(self, path: str, number: int, before: FileContent | None) -> FileContent:
        state = self.files.get_state(path)
        if state is None:
            return before or FileContent(ABSENT, _NO_FILE)
        self.changed_files[number] = FileContent(state.stat, digest_bytes(state.digest)[:KEY_BYTES])
        return self.changed_files[number]


class VerdictStore(Protocol):
    """Stores the header, the edits and the verdicts of a run; a `CallStore` stores its calls.

    Each method that writes commits one transaction before it returns. A process that is killed at
    any moment loses at most the transaction it was in, so no stored verdict is lost or half stored.
    """

    @property
    def header(self) -> RunHeader:
        """The header of the run."""

    @property
    def costs(self) -> tuple[float, float]:
        """The cost of all its calls together, and that of the dearest call."""

    def items(self) -> Sequence[str]:
        """The ids of the items that have a stored edit."""

    def find_standing(self, model: str, signatures: Mapping[str, str]) -> Mapping[str, Sequence[StandingVerdicts]]:
        """Find the valid verdicts on a model's edits: by item, one entry per content, newest last.

        A verdict is valid if it did not fail and has the signature given here for its dimension.
        """

    def counts(
        self, signatures: Mapping[str, str] | None = None, items: Container[str] | None = None
    ) -> Mapping[str, Mapping[str, Mapping[str, int]]]:
        """Count the verdicts by model, dimension and status.

        Args:
            signatures: Counts only verdicts with these signatures, by dimension; None for all.
            items: Counts only verdicts on these items, by id; None for all.
        """

    def extend_header(self, header: RunHeader) -> RunHeader:
        """Extend the stored header by another one, commit the result and return it."""

    def save_contents(self, edits: Iterable[JudgedEdit], files: FileCache, header: Mapping[str, object]) -> None:
        """Commit the present content of edits and files, and header fields, in one transaction.

        Args:
            files: The files that changed.
            header: New values of header fields, by name.
        """

    async def save_edit(
        self, edit: JudgedEdit, verdicts: Verdicts, signatures: Mapping[str, str], versions: str | None = None
    ) -> None:
        """Commit the verdicts on an edit in one transaction: all of them or none.

        Once this has returned, the verdicts survive the end of the process. If the process is
        killed before, they are lost. The replies that they rest on are stored already, so the
        next session makes the same verdicts without new calls.

        Args:
            verdicts: By dimension id; they replace earlier ones on the same content.
            signatures: By dimension id, at least for these dimensions.
            versions: The package versions that the verdicts were made with; None for those of this
                process.

        Raises:
            StoreError: the disk is full or fails.
        """


def check_items(dataset: Dataset, items: Iterable[str], store: VerdictStore) -> None:
    """Refuse data that has none of the items that the run has judged.

    Args:
        items: The ids of the data's items.

    Raises:
        ConfigError: the data has none of the judged items.
    """
    judged_ids = store.items()
    if judged_ids and set(judged_ids).isdisjoint(items):
        raise ConfigError(
            f"{dataset.path} has none of the {format_count(len(judged_ids), 'item')} that the run"
            f" has judged (first: {judged_ids[0]})",
            "give the run's own data, or another folder for this run",
        )
