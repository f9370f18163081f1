"""The store of a run: its header, its edits and their verdicts, beside the ledger of its calls.

A run is a folder with one file, `run.sqlite`, and a lock that the system takes away with the
process. What `keep` has returned from is kept; see `database`.

Verdicts are told apart by content: an item with its pictures (a row of `items`), the model, and
what its output held. An edit with another content is another row. Which row is the one of today is
told by `current`; the others are not used.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack
from itertools import starmap
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self, TypeAlias

from filelock import FileLock, Timeout
from pydantic import ValidationError

from ..base.errors import ConfigError, StoreError
from ..base.files import ABSENT, Seen
from ..base.parse import parse_json
from ..base.signature import versions as versions_of_today
from ..base.verdict import Verdict, calls_of
from ..base.words import few
from ..engine.contents import ItemContent, JudgedEdit, Standing
from ..engine.header import RunHeader
from .codec import digest_from_bytes, digest_to_bytes
from .database import Database
from .edits import (
    EditRow,
    Signed,
    Stands,
    StoredEdit,
    StoredVerdict,
    packed,
    parsed,
    status_of,
    stored_edit,
    unpacked,
)
from .ledger import Ledger, StoredPrompt
from .packing import dumps
from .tables import CALLS, EDITS, ITEMS, SIGNINGS, encoded, text

__all__ = ["FILE", "RunHeader", "RunStore", "StoredEdit", "StoredPrompt", "StoredVerdict"]

FILE = "run.sqlite"
_LOCK = "run.lock"
_HEADER = "run"
Names: TypeAlias = "str | Collection[str] | None"
"""Of one, of several, or of all."""
_Document: TypeAlias = "tuple[Signed, Any, Any]"
"""A verdict: how it was made; a number, or all else but what is next; evidence and calls."""


class RunStore:
    """An open run; use as a context manager. `RunStore.open` makes one.

    Attributes:
        folder: Of the run.
        ledger: Of its calls.
    """

    def __init__(self, folder: Path, database: Database, resources: ExitStack) -> None:
        self.folder = folder
        self.database = database
        self.ledger = Ledger(database=database)
        self._resources = resources
        self._signings: dict[int, tuple[Signed, ...]] = {}

    @classmethod
    def open(
        cls,
        folder: Path,
        header: RunHeader | None = None,
        *,
        read_only: bool = False,
        only_header: bool = False,
    ) -> Self:
        """Begin a run, or go on with one.

        Args:
            header: Of the run to begin; for one that is there, what it goes on with: further
                outputs and dimensions are added. None goes on with what is there.
            read_only: Reads beside the process that writes, and takes no lock.
            only_header: Nothing else is to be read: the rest of the file is not looked through.

        Raises:
            ConfigError: another process has it open, it is about something else, there is
                none, or its folder cannot be used.
            StoreError: its file is damaged, or the disk is full.
        """
        file = folder / FILE
        if header is None and not file.is_file():
            raise _no_run(folder)
        with ExitStack() as resources:
            if not read_only:
                _lock(folder, resources)
            database = Database(file, read_only=read_only, is_run=True)
            resources.callback(database.close)
            store = cls(folder, database, resources)
            known = store._read_header()
            if known is None and header is None:
                raise _no_run(folder)
            if not only_header:
                database.check_structure()
            if header is not None:
                store.amend(header)
            store._resources = resources.pop_all()
            return store

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file and give the run free."""
        self._resources.close()

    # The header

    @property
    def header(self) -> RunHeader:
        """What it is about."""
        header = self._read_header()
        if header is None:
            raise _no_run(self.folder)
        return header

    def amend(self, header: RunHeader) -> RunHeader:
        """Go on with another header; see `RunHeader.joined`.

        Returns:
            The header from now on.
        """
        with self.database.transaction():
            known = self._read_header()
            whole = header if known is None else known.joined(header, str(self.folder))
            self._put_header(whole)
        return whole

    def _put_header(self, header: RunHeader) -> None:
        self.database.keep_fact(_HEADER, dumps(header.model_dump(mode="json")))

    def _read_header(self) -> RunHeader | None:
        fact = self.database.fact(_HEADER)
        try:
            return None if fact is None else RunHeader.model_validate(parse_json(fact))
        except ValueError as error:
            why = error.errors()[0]["msg"] if isinstance(error, ValidationError) else error
            raise ConfigError(
                f"{self.database.path}: its header cannot be read: {why}",
                "use the editjudge that wrote it",
            ) from error

    # What is written

    async def keep(
        self,
        edit: JudgedEdit,
        verdicts: Mapping[str, Verdict],
        signatures: Mapping[str, str],
        versions: str | None = None,
    ) -> None:
        """Keep an edit and its verdicts, all or none, without holding up the event loop.

        Args:
            verdicts: By dimension id.
            signatures: At least of these.
            versions: Of the packages that they were made with; None for those of this process.

        Raises:
            StoreError: the disk is full or fails.
        """
        await self.database.aside(self.keep_now, edit, verdicts, signatures, versions)

    def keep_now(
        self,
        edit: JudgedEdit,
        verdicts: Mapping[str, Verdict] = MappingProxyType({}),
        signatures: Mapping[str, str] = MappingProxyType({}),
        versions: str | None = None,
        calls: Mapping[str, Collection[int]] = MappingProxyType({}),
    ) -> None:
        """The same, in the thread that calls.

        Args:
            calls: By dimension the numbers of the calls that a verdict rests on, where they are
                known; they are looked up by their keys otherwise.
        """
        made_with = versions_of_today() if versions is None else versions
        with self.database.transaction():
            row = self._meet(edit)
            if not verdicts:
                return
            documents = self._documents(row)
            for name, verdict in verdicts.items():
                stored = map(self.ledger.number, () if name in calls else calls_of(verdict))
                numbers = calls.get(name) or [number for number in stored if number is not None]
                signed = Signed(name, signatures[name], made_with)
                documents[name] = (signed, *packed(verdict, numbers))
            self._put_verdicts(row, documents)

    def keep_contents(
        self,
        edits: Iterable[JudgedEdit],
        items: Mapping[str, ItemContent],
        gone: Iterable[str],
        header: Mapping[str, object],
    ) -> None:
        """Keep what items and outputs hold now, all or nothing; see `VerdictStore`."""
        with self.database.transaction():
            self.keep_items(items)
            for edit in edits:
                self._meet(edit)
            for name in gone:
                for row in list(self.database.rows(ITEMS, "WHERE name = ?", encoded(name))):
                    self.database.change(ITEMS, row[0], current=0)
            self._put_header(self.header.model_copy(update=dict(header)))

    def keep_items(self, contents: Mapping[str, ItemContent]) -> None:
        """Keep what items hold now; of another content, other edits are those of today."""
        with self.database.transaction():
            for name, content in contents.items():
                self._meet_item(name, content)

    def _meet(self, edit: JudgedEdit) -> EditRow:
        """The row of an edit of this content, which is the one of today from now on."""
        item = self._meet_item(edit.item, edit.content)
        model = encoded(edit.model)
        output = None if edit.seen is None else digest_to_bytes(edit.seen.digest)
        missing = (
            None
            if edit.missing is None
            else encoded(dumps([edit.missing.kind, edit.missing.reason]))
        )
        stat = ABSENT if edit.seen is None else edit.seen.stat
        met = None
        unseen = edit.seen is None and edit.missing is None
        for row in list(self._rows("WHERE item = ?", item, long=True)):
            if row.model != model:
                continue
            if unseen and row.current:
                return row  # nobody looked: what is known of it stays
            if row.output == output:
                met = row
            elif row.current:
                self.database.change(EDITS, row.id, current=0)
        if met is None:
            values = EditRow(0, b"", b"", item, model, output, missing, stat, 1, 0, b"[]")
            return values._replace(id=self._put_edit(values))
        now = met._replace(missing=missing, stat=stat, current=1)
        if now != met:
            self._put_edit(now)
        return now

    def _meet_item(self, name: str, content: ItemContent | None) -> int:
        """The row of an item of this content; of the one that is current where none is given."""
        met = None
        rows = list(self.database.rows(ITEMS, "WHERE name = ?", encoded(name)))
        for number, _, *fields, current in rows:
            there = ItemContent(*fields)
            if content is None:
                met = number if current else met
            elif there.is_of(content) or not there.record:
                met = number
                if there != content or not current:
                    self._put_item(name, content, number)
            elif current:
                self.database.change(ITEMS, number, current=0)
        return met or self._put_item(name, content or ItemContent(b"", b"", b""))

    def _put_item(self, name: str, content: ItemContent, number: int | None = None) -> int:
        named = encoded(name)
        return self.database.put(ITEMS, id=number, name=named, **content._asdict(), current=1)

    def _put_edit(self, row: EditRow) -> int:
        return self.database.put(EDITS, **{**row._asdict(), "id": row.id or None})

    def _documents(self, row: EditRow) -> dict[str, _Document]:
        """The verdicts of a row that was read with its details, by dimension."""
        outcomes = list(self._outcomes(row))
        details = [None] * len(outcomes) if row.details is None else self._unpacked(row.details)
        whole = zip(outcomes, details, strict=True)
        return {one.dimension: (one, outcome, detail) for (one, outcome), detail in whole}

    def _outcomes(self, row: EditRow) -> Iterator[tuple[Signed, Any]]:
        return zip(self._signing(row.signing), parsed(row.outcomes), strict=True)

    def _put_verdicts(self, row: EditRow, documents: Mapping[str, _Document]) -> None:
        ordered = [documents[name] for name in sorted(documents)]
        details = [detail for _, _, detail in ordered]
        self._put_edit(
            row._replace(
                signing=self._signing_of(tuple(signed for signed, _, _ in ordered)),
                outcomes=encoded(dumps([outcome for _, outcome, _ in ordered])),
                details=self.database.packer.pack(details) if any(details) else None,
            )
        )

    def _signing_of(self, signed: tuple[Signed, ...]) -> int:
        """The number of a signing, put in here where it is new."""
        stored = encoded(dumps(signed))
        for number, known in self._signings.items():
            if known == signed:
                return number
        row = self.database.row(SIGNINGS, "WHERE signed = ?", stored)
        number = self.database.put(SIGNINGS, signed=stored) if row is None else int(row[0])
        self._signings[number] = signed
        return number

    def _signing(self, number: int) -> tuple[Signed, ...]:
        if not number:
            return ()
        if number not in self._signings:
            row = self.database.row(SIGNINGS, "WHERE id = ?", number)
            if row is None:
                raise StoreError(f"{self.database.path} is damaged: it lacks signing {number}")
            self._signings[number] = tuple(Signed(*one) for one in parse_json(text(row[1])))
        return self._signings[number]

    # What is read

    def contents(self) -> Iterator[tuple[str, ItemContent, bool]]:
        """What items were, each with its id and whether that is today's."""
        for _, name, *fields, current in self.database.rows(ITEMS):
            yield text(name), ItemContent(*fields), bool(current)

    def standing(self, model: str, signatures: Mapping[str, str]) -> Iterator[Standing]:
        """Every edit of a model, with the dimensions on which a verdict stands.

        A verdict stands when it did not fail and its signature is today's. Edits with the same
        dimensions share one set of them, so 100,000 edits are a few megabytes.

        Args:
            signatures: Of today, by dimension.
        """
        names = {row[0]: text(row[1]) for row in self.database.rows(ITEMS, "WHERE current = 1")}
        stands = Stands(self._signing, signatures)
        for row in self._rows("WHERE current = 1 AND model = ? ORDER BY id", encoded(model)):
            if row.item in names:
                yield stands.of(row, names[row.item])

    def standing_on(
        self,
        item: str,
        content: ItemContent | None,
        model: str,
        digest: str,
        signatures: Mapping[str, str],
    ) -> Standing | None:
        """The same of an edit of this content; see `KnownVerdicts`."""
        key = encoded(model), digest_to_bytes(digest)
        for number, _, *fields, current in self.database.rows(
            ITEMS, "WHERE name = ?", encoded(item)
        ):
            if current if content is None else ItemContent(*fields).is_of(content):
                for row in self._rows("WHERE item = ?", number):
                    if (row.model, row.output) == key:
                        return Stands(self._signing, signatures).of(row, item)
        return None

    def edit(self, item: str, model: str) -> StoredEdit | None:
        """The edit of an item by a model under test; None where there is none."""
        return next(iter([*self.edits(model, item=item)]), None)

    def edits(self, model: Names = None, *, item: Names = None) -> Iterator[StoredEdit]:
        """The edits, in the order in which they came.

        Args:
            model: Only of this model under test, or these.
            item: Only this item's, by its id, or these items'.
        """
        for row, name in self._current(model, item):
            yield stored_edit(row, name)

    def judged_edit(self, edit: StoredEdit) -> JudgedEdit:
        """An edit with all that its verdicts rest on, to be kept elsewhere."""
        row = next(self._rows("WHERE id = ?", edit.id))
        item = self.database.row(ITEMS, "WHERE id = ?", row.item)
        seen = None if row.output is None else Seen(row.stat, digest_from_bytes(row.output))
        content = None if item is None else ItemContent(*item[2:5])
        return JudgedEdit(edit.item, edit.model, seen, edit.missing, content)

    def verdicts(
        self,
        model: Names = None,
        dimension: str | None = None,
        *,
        item: Names = None,
        evidence: bool = True,
    ) -> Iterator[StoredVerdict]:
        """The verdicts, edit by edit in the order in which these came.

        Args:
            model: Only of this model under test, or these.
            item: Only this item's, or these items'; with models many items are found at once.
            evidence: False leaves it out, and the calls: several times as fast.
        """
        for row, name in self._current(model, item, long=evidence):
            for stored in self._stored(row, name, evidence=evidence):
                if dimension in {None, stored.dimension}:
                    yield stored

    def calls_of(self, edit: StoredEdit) -> dict[str, list[int]]:
        """By dimension the numbers of the calls that verdicts on an edit rest on, in order."""
        row = next(self._rows("WHERE id = ?", edit.id, long=True))
        documents = self._documents(row).items()
        return {name: (detail or {}).get("calls", []) for name, (_, _, detail) in documents}

    def prompt(self, digest: str) -> StoredPrompt | None:
        """A prompt as it was sent, without its pictures; None where it is not kept."""
        return self.ledger.prompt(digest)

    def counts(
        self, signatures: Mapping[str, str] | None = None
    ) -> dict[str, dict[str, dict[str, int]]]:
        """How many verdicts there are, by model, dimension and status.

        Args:
            signatures: Counts only verdicts with these, by dimension.
        """
        counts: dict[str, dict[str, dict[str, int]]] = {}
        for row, _ in self._current():
            of_model = counts.setdefault(text(row.model), {})
            for signed, outcome in self._outcomes(row):
                name = signed.dimension
                if signatures is None or signatures.get(name) == signed.signature:
                    status = status_of(outcome)
                    by_status = of_model.setdefault(name, {})
                    by_status[status] = by_status.get(status, 0) + 1
        return {model: row for model, row in counts.items() if row}

    @property
    def verdict_count(self) -> int:
        """How many verdicts there are."""
        return sum(len(self._signing(row.signing)) for row, _ in self._current())

    @property
    def costs(self) -> tuple[float, float]:
        """What all its calls have cost, and the dearest of them."""
        return self.ledger.costs

    def facts(self, prefix: str) -> list[str]:
        """What was found out under names that begin so, in the order of their names."""
        return self.database.facts(prefix)

    # What is asked again

    def drop_verdicts(
        self,
        status: str,
        *,
        models: Names = None,
        dimensions: Collection[str] | None = None,
        above: Mapping[str, Collection[str]] = MappingProxyType({}),
    ) -> int:
        """Forget verdicts and the replies behind them, so that both are made again.

        Other verdicts on the same edit that rest on such a reply are forgotten too, whatever their
        status, with what derives from them: all that is read from a reply is read from the same
        one. A reply stays that another edit's number on the same dimension rests on: it is about
        the item alone, such as the questions that all models get, and was not what failed.

        Args:
            status: `unscored` or `failed`.
            above: By dimension, the dimensions that derive from it.

        Returns:
            How many verdicts of the status there were.
        """
        with self.database.transaction():
            asked = [row for row, _ in self._current(models, long=True)]
            under = self._under_numbers()
            return sum(self._forget(row, status, dimensions, under, above) for row in asked)

    def _under_numbers(self) -> dict[str, set[int]]:
        """By dimension the calls that numbers rest on."""
        under: dict[str, set[int]] = {}
        for row, _ in self._current(long=True):
            for name, (_, outcome, detail) in self._documents(row).items():
                if detail and status_of(outcome) == "scored":
                    under.setdefault(name, set()).update(detail.get("calls", ()))
        return under

    def _forget(
        self,
        row: EditRow,
        status: str,
        dimensions: Collection[str] | None,
        under: Mapping[str, Collection[int]],
        above: Mapping[str, Collection[str]],
    ) -> int:
        documents = self._documents(row)
        calls = {n: set((detail or {}).get("calls", ())) for n, (_, _, detail) in documents.items()}
        meant = {
            name
            for name, (_, outcome, _) in documents.items()
            if status_of(outcome) == status and (dimensions is None or name in dimensions)
        }
        dropped = {call for name in meant for call in calls[name] - set(under.get(name, ()))}
        for call in dropped:
            self.database.change(CALLS, call, dropped=1)
        gone = meant | {name for name in documents if calls[name] & dropped}
        gone.update(*(above.get(name, ()) for name in gone))
        if gone:
            kept = {name: one for name, one in documents.items() if name not in gone}
            self._put_verdicts(row, kept)
        return len(meant)

    # Rows

    def _rows(self, where: str, *values: object, long: bool = False) -> Iterator[EditRow]:
        return starmap(EditRow, self.database.rows(EDITS, where, *values, long=long))

    def _current(
        self, model: Names = None, item: Names = None, *, long: bool = False
    ) -> Iterator[tuple[EditRow, str]]:
        """The rows of today, with the ids of their items."""
        models = None if model is None else {encoded(name) for name in _several(model)}
        where, values = "", []
        if item is not None:
            values = [encoded(name) for name in _several(item)]
            where = f" AND name IN ({', '.join('?' * len(values))})"
        named = self.database.rows(ITEMS, f"WHERE current = 1{where}", *values)
        names = {row[0]: text(row[1]) for row in named}
        if item is not None:
            where, values = f" AND item IN ({', '.join('?' * len(names))})", [*names]
        for row in self._rows(f"WHERE current = 1{where} ORDER BY id", *values, long=long):
            if row.item in names and (models is None or row.model in models):
                yield row, names[row.item]

    def _stored(self, row: EditRow, item: str, *, evidence: bool) -> Iterator[StoredVerdict]:
        model = text(row.model)
        try:
            if not evidence:
                for signed, outcome in self._outcomes(row):
                    name, signature, versions = signed
                    yield StoredVerdict(item, model, name, unpacked(outcome), signature, versions)
                return
            for (name, signature, versions), outcome, detail in self._documents(row).values():
                said = tuple(map(self.ledger.said_by, (detail or {}).get("calls", ())))
                proof = (detail or {}).get("evidence", {})
                verdict = unpacked(outcome, proof, tuple(one.call for one in said))
                yield StoredVerdict(item, model, name, verdict, signature, versions, said)
        except ValueError as error:
            raise StoreError(
                f"{self.database.path}: the verdicts on {item}, {model} cannot be read: {error}",
                "judge it again with a newer editjudge, or restore a copy of the run",
            ) from error

    def _unpacked(self, details: bytes) -> list[Any]:
        unpacked: list[Any] = self.database.packer.unpack(details)
        return unpacked


def _several(names: str | Collection[str]) -> Collection[str]:
    return [names] if isinstance(names, str) else names


def _no_run(folder: Path) -> ConfigError:
    """The error where a folder holds none; its mend names the runs in folders below."""
    below = [str(file.parent) for file in sorted(folder.glob(f"*/{FILE}"))]
    runs = f", such as {few(below)}" if below else ""
    return ConfigError(f"{folder} holds no run", f"give the folder of a run{runs}")


def _lock(folder: Path, resources: ExitStack) -> None:
    """Hold a run until `resources` are closed, at the latest until the process ends.

    Raises:
        ConfigError: another process holds it, or the folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        resources.enter_context(FileLock(folder / _LOCK).acquire(timeout=0))
    except Timeout as error:
        raise ConfigError(
            f"{folder} is in use by another process", "wait for it, or end it"
        ) from error
    except (OSError, NotImplementedError) as error:
        raise ConfigError(f"{folder}: {error}", "give a folder that can be written") from error
