"""The store of a run: its header, edits and verdicts, and the ledger of its calls.

A run is a folder with one file, `run.sqlite`, and a lock file. The system releases the lock when
the process ends in any way. `save_edit` commits all verdicts on an edit in one transaction, and
each reply is committed when it arrives. A killed process loses the calls in flight and the verdicts
on edits that were not saved. The next session makes these verdicts from the stored replies. See
`database` for what a crash of the machine can lose.

Verdicts are valid for one content: the item's content key, the model, and the digest of the output.
An edit has one row for each content that was judged; tables show its newest row.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from contextlib import ExitStack
from functools import cache
from itertools import starmap
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self, TypeAlias

from ..base.closeable import Closeable
from ..base.errors import ConfigError, StoreError
from ..base.file_states import ABSENT, FileState
from ..base.output_files import lock_folder
from ..base.parse import describe_failure, parse_json
from ..base.signature import versions as versions_of_today
from ..base.text import group_by_key, shorten_list
from ..base.verdict import Verdicts, calls_of
from ..engine.content_keys import FileCache, FileContent, ItemContent, JudgedEdit, StandingVerdicts
from ..engine.run_header import RunHeader
from ..engine.stored_items import StoredItems
from .codec import digest_from_bytes, digest_to_bytes
from .compression import dumps
from .database import Database
from .edit_rows import (
    EditRow,
    Provenance,
    StoredEdit,
    StoredVerdict,
    missing_of,
    parse_outcomes,
    status_of,
    stored_edit,
    verdict_from_json,
    verdict_to_json,
)
from .ledger import Ledger, StoredPrompt
from .schema import CALLS, DATA, EDITS, FILES, SIGNINGS, decode_text, encode_text

__all__ = ["FILE", "RunHeader", "RunStore", "StoredEdit", "StoredPrompt", "StoredVerdict"]

FILE = "run.sqlite"
_LOCK = "run.lock"
_HEADER = "run"
_FAILED_STATUS = encode_text('"failed"')
_DIGESTS, _TRAITS, _FIRST_ITEMS = 1, 2, 3
"""Rows of the table `data`: digests, traits, and the first of those that hold items."""
Names: TypeAlias = "str | Collection[str] | None"
"""One name, several, or None for all."""
_Document: TypeAlias = "tuple[Provenance, Any, Any]"
"""A stored verdict: its provenance, its encoded outcome, and its details (evidence and calls)."""


class RunStore(Closeable):
    """An open run; use as a context manager. `RunStore.open` makes one.

    Attributes:
        folder: The folder of the run.
        database: The file of the run.
        ledger: The calls of the run, in the same file.
    """

    def __init__(self, folder: Path, database: Database, resources: ExitStack) -> None:
        self.folder = folder
        self.database = database
        self.ledger = Ledger(database=database)
        self._resources = resources
        self._signings: dict[int, tuple[Provenance, ...]] = {}

    @classmethod
    def open(
        cls, folder: Path, header: RunHeader | None = None, *, read_only: bool = False, only_header: bool = False
    ) -> Self:
        """Begin a run, or resume the one in the folder.

        Args:
            header: The header of a new run. A stored run is extended by its outputs and dimensions.
                None resumes the stored run as it is.
            read_only: Whether to open the file for reading only, without a lock; another process
                may write meanwhile.
            only_header: Whether to skip the check of the file's structure, for callers that read
                the header only.

        Raises:
            ConfigError: another process has the run open, the header is that of another
                experiment, there is no run, or the folder cannot be used.
            StoreError: the file is damaged, or the disk is full.
        """
        file = folder / FILE
        if header is None and not file.is_file():
            raise _no_run(folder)
        with ExitStack() as resources:
            if not read_only:
                resources.enter_context(lock_folder(folder, _LOCK))
            database = Database(file, read_only=read_only, is_run=True)
            resources.callback(database.close)
            store = cls(folder, database, resources)
            stored_header = store._read_header()
            if stored_header is None and header is None:
                raise _no_run(folder)
            if not only_header:
                database.check_structure()
            if header is not None:
                store.extend_header(header)
            store._resources = resources.pop_all()
            return store

    def close(self) -> None:
        """Close the file and release the lock."""
        self._resources.close()

    # The header

    @property
    def header(self) -> RunHeader:
        """The header of the run, read from the file."""
        header = self._read_header()
        if header is None:
            raise _no_run(self.folder)
        return header

    def extend_header(self, header: RunHeader) -> RunHeader:
        """Extend the stored header by another one and commit it; see `RunHeader.join`.

        Returns:
            The stored header from now on.
        """
        with self.database.transaction():
            stored_header = self._read_header()
            if stored_header is not None:
                header = stored_header.join(header, str(self.folder))
            self._put_header(header)
        return header

    def _put_header(self, header: RunHeader) -> None:
        self.database.put_fact(_HEADER, dumps(header.model_dump(mode="json")))

    def _read_header(self) -> RunHeader | None:
        fact = self.database.fact(_HEADER)
        try:
            return None if fact is None else RunHeader.model_validate(parse_json(fact))
        except ValueError as error:
            raise ConfigError(
                f"{self.database.path}: its header cannot be read: {describe_failure(error)}",
                "use the version of editjudge that wrote it",
            ) from error

    # Writing

    async def save_edit(
        self, edit: JudgedEdit, verdicts: Verdicts, signatures: Mapping[str, str], versions: str | None = None
    ) -> None:
        """Commit an edit's verdicts in the store's thread; see `VerdictStore.save_edit`."""
        await self.database.run_in_thread(self.save_edit_now, edit, verdicts, signatures, versions)

    def save_edit_now(
        self,
        edit: JudgedEdit,
        verdicts: Verdicts = MappingProxyType({}),
        signatures: Mapping[str, str] = MappingProxyType({}),
        versions: str | None = None,
        calls: Mapping[str, Collection[int]] = MappingProxyType({}),
    ) -> None:
        """Do what `save_edit` does, in the calling thread.

        Args:
            calls: By dimension, the row numbers of the calls that its verdict rests on. For other
                dimensions they are looked up by the keys in the verdict.
        """
        made_with = versions_of_today() if versions is None else versions
        with self.database.transaction():
            if edit.content is not None:
                self._save_files(edit.content.files)
            row = self._row_of(edit)
            if not verdicts and (edit.missing is None or not row.signing):
                self._put_row(row)
                return
            documents = self._documents(row)
            if edit.missing is not None:  # what failed cannot be judged again
                documents = {n: d for n, d in documents.items() if status_of(d[1]) != "failed"}
            for name, verdict in verdicts.items():
                keys = () if name in calls else calls_of(verdict)
                rows = map(self.ledger.find_number, keys)
                numbers = calls.get(name) or [number for number in rows if number is not None]
                provenance = Provenance(name, signatures[name], made_with)
                documents[name] = (provenance, *verdict_to_json(verdict, numbers))
            self._put_verdicts(row, documents)

    def save_contents(self, edits: Iterable[JudgedEdit], files: FileCache, header: Mapping[str, object]) -> None:
        """Commit contents and header fields in one transaction; see `VerdictStore`."""
        with self.database.transaction():
            self._save_files(files.files)
            if files.records:
                self.database.run(f"DELETE FROM {DATA.name}")  # noqa: S608
                digest = digest_to_bytes(files.data)
                self.database.put(DATA, id=_DIGESTS, digest=digest, records=files.records)
                for number, block in enumerate(files.items, _FIRST_ITEMS):
                    self.database.put(DATA, id=number, records=block)
            if files.traits:
                self.database.put(DATA, id=_TRAITS, records=files.traits)
            for edit in edits:
                self.save_edit_now(edit)
            self._put_header(self.header.model_copy(update=dict(header)))

    def _save_files(self, files: Mapping[int, FileContent]) -> None:
        for number, content in files.items():
            row = self.database.row(FILES, "WHERE id = ?", number)
            if row is None or row[1:] != content:
                self.database.put(FILES, id=number, **content._asdict())

    def _row_of(self, edit: JudgedEdit) -> EditRow:
        """Make the row for an edit's content from the stored row, if there is one.

        An older row is deleted and made new, since the newest row is the one that is valid now. A
        new row has the number 0. Content that was not read is taken from the newest row.
        """
        item_and_model = encode_text(edit.item), encode_text(edit.model)
        rows = list(self._rows("WHERE item = ? AND model = ? ORDER BY id", *item_and_model, long=True))
        last = rows[-1] if rows else None
        last_content = last.content if last else b""
        content = last_content if edit.content is None else edit.content.key
        output = None if edit.output_file is None else digest_to_bytes(edit.output_file.digest)
        was_not_read = edit.output_file is None and edit.missing is None
        for row in reversed(rows):
            if row.content in {content, b""} and (was_not_read or row.output == output):
                break
        else:
            row = EditRow(0, *item_and_model, content, output, None, ABSENT, 0, b"[]")
        if last is not None and row.id not in {0, last.id}:
            self.database.run("DELETE FROM edits WHERE id = ?", row.id)
            row = row._replace(id=0)
        if was_not_read:
            return row._replace(content=content)
        missing = edit.missing
        why = None if missing is None else encode_text(dumps([missing.kind, missing.reason]))
        stat = ABSENT if edit.output_file is None else edit.output_file.stat
        return row._replace(content=content, missing=why, stat=stat)

    def _documents(self, row: EditRow) -> dict[str, _Document]:
        """Decode the verdicts of a row that was read with its details, by dimension."""
        pairs = list(self._outcomes(row))
        details = [None] * len(pairs)
        if row.details is not None:
            details = self.database.compressor.decompress(row.details)
        whole = zip(pairs, details, strict=True)
        return {one.dimension: (one, outcome, detail) for (one, outcome), detail in whole}

    def _outcomes(self, row: EditRow) -> Iterator[tuple[Provenance, Any]]:
        return zip(self._read_provenances(row.signing), parse_outcomes(row.outcomes), strict=True)

    def _put_verdicts(self, row: EditRow, documents: Mapping[str, _Document]) -> None:
        sorted_documents = [documents[name] for name in sorted(documents)]
        details = [detail for _, _, detail in sorted_documents]
        self._put_row(
            row._replace(
                signing=self._save_provenances(tuple(one for one, _, _ in sorted_documents)),
                outcomes=encode_text(dumps([outcome for _, outcome, _ in sorted_documents])),
                details=self.database.compressor.compress(details) if any(details) else None,
            )
        )

    def _put_row(self, row: EditRow) -> None:
        self.database.put(EDITS, **{**row._asdict(), "id": row.id or None})

    def _save_provenances(self, provenances: tuple[Provenance, ...]) -> int:
        """Store a list of provenances if it is new; return its number, 0 for an empty list."""
        if not provenances:
            return 0
        data = encode_text(dumps(provenances))
        for number, stored_provenances in self._signings.items():
            if stored_provenances == provenances:
                return number
        row = self.database.row(SIGNINGS, "WHERE signed = ?", data)
        number = self.database.put(SIGNINGS, signed=data) if row is None else int(row[0])
        self._signings[number] = provenances
        return number

    def _read_provenances(self, number: int) -> tuple[Provenance, ...]:
        if not number:
            return ()
        if number not in self._signings:
            row = self.database.row(SIGNINGS, "WHERE id = ?", number)
            if row is None:
                raise StoreError(f"{self.database.path} is damaged: signing {number} is missing")
            signing = parse_json(decode_text(row[1]))
            self._signings[number] = tuple(Provenance(*one) for one in signing)
        return self._signings[number]

    # Reading

    def file_cache(self) -> FileCache:
        """Read what is stored about files and data records."""
        rows = self.database.rows(FILES)
        files = {number: FileContent(stat, digest) for number, stat, digest in rows}
        rows = self.database.rows(DATA, "WHERE id <= ?", _TRAITS, long=True)
        by_number = {number: (digest, value) for number, digest, value in rows}
        digest, records = by_number.get(_DIGESTS, (b"", b""))
        _, traits = by_number.get(_TRAITS, (None, b""))
        return FileCache(files, digest_from_bytes(digest) if digest else "", records, traits)

    def item_blocks(self) -> Iterator[bytes]:
        """Read the items of the data; see `encode_items`."""
        for row in self.database.rows(DATA, "WHERE id >= ? ORDER BY id", _FIRST_ITEMS, long=True):
            yield row[2]

    def stored_items(self, path: Path, digest: str) -> StoredItems | None:
        """Return the items of the data as the last session read them; None where there are none.

        Args:
            path: Where the data was.
            digest: Digest of the data.
        """
        traits = self.database.row(DATA, "WHERE id = ?", _TRAITS, long=True)
        if traits is None or next(self.item_blocks(), None) is None:
            return None
        return StoredItems(path, digest, self.item_blocks, traits[2])

    def items(self) -> list[str]:
        """List the ids of the items that have a stored edit, oldest first."""
        ids = self.database.run("SELECT item FROM edits GROUP BY item ORDER BY min(id)")
        return [decode_text(item) for (item,) in ids]

    def content_keys(self) -> dict[str, bytes]:
        """Read the content keys of the items' newest rows, by item id."""
        return {decode_text(r.item): r.content for r in self._rows("ORDER BY id") if r.content}

    def find_standing(self, model: str, signatures: Mapping[str, str]) -> dict[str, list[StandingVerdicts]]:
        """Find the valid verdicts on a model's edits: by item, one entry per content, newest last.

        A verdict is valid if it did not fail and has the given signature. Edits with the same
        valid dimensions share one set of ids, so 100,000 edits take a few megabytes.

        Args:
            signatures: The signatures that new verdicts would have, by dimension.
        """

        @cache
        def find_current(signing: int) -> frozenset[str]:
            provenances = self._read_provenances(signing)
            return frozenset(one.dimension for one in provenances if signatures.get(one.dimension) == one.signature)

        unique_sets: dict[frozenset[str], frozenset[str]] = {}
        standing_by_item: dict[str, list[StandingVerdicts]] = {}
        for row in self._rows("WHERE model = ? ORDER BY id", encode_text(model)):
            stands = find_current(row.signing)
            if _FAILED_STATUS in row.outcomes:
                stands -= {one.dimension for one, outcome in self._outcomes(row) if status_of(outcome) == "failed"}
            stands = unique_sets.setdefault(stands, stands)
            verdicts = StandingVerdicts(row.content, row.output, row.stat, missing_of(row), stands)
            standing_by_item.setdefault(decode_text(row.item), []).append(verdicts)
        return standing_by_item

    def rows_of(self, items: Collection[str], *, evidence: bool) -> dict[tuple[str, str], list[EditRow]]:
        """Read the rows of items' edits, by model and item, newest last.

        Args:
            evidence: Whether to read the details, which `verdicts_in` needs for evidence.
        """
        where = f"WHERE item IN ({', '.join('?' * len(items))}) ORDER BY id"
        rows = self._rows(where, *map(encode_text, items), long=evidence)
        return group_by_key(((decode_text(row.model), decode_text(row.item)), row) for row in rows)

    def edit(self, item: str, model: str) -> StoredEdit | None:
        """Read the edit of an item by a model under test; None where there is none."""
        return next(iter([*self.edits(model, item=item)]), None)

    def edits(self, model: Names = None, *, item: Names = None) -> Iterator[StoredEdit]:
        """Iterate over the edits, oldest first.

        Args:
            model: Only edits by this model under test, or by these.
            item: Only edits of the item with this id, or of these.
        """
        yield from map(stored_edit, self._newest_rows(model, item))

    def judged_edit(self, edit: StoredEdit) -> JudgedEdit:
        """Read an edit with its content, to store it in another run."""
        row = next(self._rows("WHERE id = ?", edit.id))
        output = None if row.output is None else FileState(row.stat, digest_from_bytes(row.output))
        return JudgedEdit(edit.item, edit.model, output, edit.missing, ItemContent(row.content))

    def verdicts(
        self, model: Names = None, dimension: str | None = None, *, item: Names = None, evidence: bool = True
    ) -> Iterator[StoredVerdict]:
        """Iterate over the verdicts, edit by edit, oldest first.

        Args:
            model: Only verdicts on outputs of this model under test, or of these.
            item: Only verdicts on the item with this id, or on these.
            evidence: Whether to read evidence and calls too. False is several times as fast.
        """
        for row in self._newest_rows(model, item, long=evidence):
            for verdict in self.verdicts_in(row, evidence=evidence):
                if dimension in {None, verdict.dimension}:
                    yield verdict

    def calls_of(self, edit: StoredEdit) -> dict[str, list[int]]:
        """Read the row numbers of the calls that each verdict on an edit rests on, by dimension."""
        row = next(self._rows("WHERE id = ?", edit.id, long=True))
        documents = self._documents(row).items()
        return {name: (detail or {}).get("calls", []) for name, (_, _, detail) in documents}

    def counts(
        self, signatures: Mapping[str, str] | None = None, items: Container[str] | None = None
    ) -> dict[str, dict[str, Counter[str]]]:
        """Count the verdicts by model, dimension and status; see `VerdictStore.counts`."""
        counts: dict[str, dict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
        for row in self._newest_rows():
            if items is not None and decode_text(row.item) not in items:
                continue
            for (name, signature, _), outcome in self._outcomes(row):
                if signatures is None or signatures.get(name) == signature:
                    counts[decode_text(row.model)][name][status_of(outcome)] += 1
        return {model: dict(row) for model, row in counts.items()}

    @property
    def verdict_count(self) -> int:
        """How many verdicts the run has."""
        return sum(len(self._read_provenances(row.signing)) for row in self._newest_rows())

    @property
    def costs(self) -> tuple[float, float]:
        """The cost of all its calls together, and that of the dearest call."""
        return self.ledger.costs

    # Dropping

    def drop_verdicts(
        self,
        status: str,
        *,
        models: Names = None,
        dimensions: Collection[str] | None = None,
        derived_ids: Mapping[str, Collection[str]] = MappingProxyType({}),
    ) -> int:
        """Delete verdicts with a status and drop their replies, so that both are made again.

        Other verdicts on the same edit that rest on a dropped reply are deleted as well, whatever
        their status, and so are the dimensions that derive from them. So no two verdicts on an edit
        rest on different replies to one call. A reply stays if a score of the same dimension on
        another edit rests on it: such a reply is about the item alone, for example the questions
        for all models, and is not what failed. All of this is one transaction.

        Args:
            status: `unscored` or `failed`.
            derived_ids: By dimension id, the ids of the dimensions that derive from it.

        Returns:
            How many verdicts with the status were deleted.
        """
        with self.database.transaction():
            used_calls = self._find_calls_of_scores()

            def drop_from(row: EditRow) -> int:
                documents = self._documents(row)
                calls = {n: set((detail or {}).get("calls", ())) for n, (_, _, detail) in documents.items()}
                matching_names = {
                    name
                    for name, (_, outcome, _) in documents.items()
                    if status_of(outcome) == status and (dimensions is None or name in dimensions)
                }
                dropped_calls = {call for name in matching_names for call in calls[name] - used_calls[name]}
                for call in dropped_calls:
                    self.database.change(CALLS, call, dropped=1)
                drops = matching_names | {name for name in documents if calls[name] & dropped_calls}
                drops.update(*(derived_ids.get(name, ()) for name in drops))
                if drops:
                    self._put_verdicts(row, {name: one for name, one in documents.items() if name not in drops})
                return len(matching_names)

            return sum(map(drop_from, list(self._newest_rows(models, long=True))))

    def _find_calls_of_scores(self) -> dict[str, set[int]]:
        """Find the row numbers of the calls that scores rest on, by dimension."""
        calls_by_dimension: dict[str, set[int]] = defaultdict(set)
        for row in self._newest_rows(long=True):
            for name, (_, outcome, detail) in self._documents(row).items():
                if detail and status_of(outcome) == "scored":
                    calls_by_dimension[name].update(detail.get("calls", ()))
        return calls_by_dimension

    # Rows

    def _rows(self, where: str, *values: object, long: bool = False) -> Iterator[EditRow]:
        return starmap(EditRow, self.database.rows(EDITS, where, *values, long=long))

    def _newest_rows(self, model: Names = None, item: Names = None, *, long: bool = False) -> Iterator[EditRow]:
        """Iterate over the newest row of each edit."""
        models = None if model is None else {encode_text(name) for name in _as_collection(model)}
        condition, items = "", []
        if item is not None:
            items = [encode_text(name) for name in _as_collection(item)]
            condition = f"WHERE item IN ({', '.join('?' * len(items))})"
        last = f"SELECT max(id) FROM edits {condition} GROUP BY item, model"  # noqa: S608
        for row in self._rows(f"WHERE id IN ({last}) ORDER BY id", *items, long=long):
            if models is None or row.model in models:
                yield row

    def verdicts_in(self, row: EditRow, *, evidence: bool) -> Iterator[StoredVerdict]:
        """Decode the verdicts of a row; for `evidence` it must have been read with its details."""
        item, model = decode_text(row.item), decode_text(row.model)
        try:
            plain = ((*pair, None) for pair in self._outcomes(row))
            for (name, signature, versions), outcome, detail in self._documents(row).values() if evidence else plain:
                replies = tuple(map(self.ledger.read_record, (detail or {}).get("calls", ())))
                evidence_json = (detail or {}).get("evidence", {})
                verdict = verdict_from_json(outcome, evidence_json, tuple(one.call for one in replies))
                yield StoredVerdict(item, model, name, verdict, signature, versions, replies)
        except ValueError as error:
            raise StoreError(
                f"{self.database.path}: the verdicts on {item}, {model} cannot be read: {error}",
                "use a newer editjudge, or restore a copy of the run",
            ) from error


def _as_collection(names: str | Collection[str]) -> Collection[str]:
    return [names] if isinstance(names, str) else names


def _no_run(folder: Path) -> ConfigError:
    """Make the error for a folder without a run; it names the runs in the folders below."""
    if folder.is_file():
        return ConfigError(f"{folder} is a file", "give the folder of a run, of a bundle the one it unpacks to")
    below = [str(file.parent) for file in sorted(folder.glob(f"*/{FILE}"))]
    runs = f", such as {shorten_list(below)}" if below else ""
    return ConfigError(f"{folder} holds no run", f"give the folder of a run{runs}")
