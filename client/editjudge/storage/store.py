"""The store of a run: its header, its edits and their verdicts, beside the ledger of its calls.

A run is a folder with one file, `run.sqlite`, and a lock that the system takes away with the
process. What `put_verdicts` has returned from is kept; see `database`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

from pydantic import ValidationError

from ..base.digest import digest_bytes
from ..base.errors import ConfigError, StoreError
from ..base.files import Seen
from ..base.item import Missing
from ..base.parse import parse_json
from ..base.signature import versions as versions_of_today
from ..base.verdict import Verdict, calls_of
from ..engine.header import RunHeader
from ..engine.items import ItemChanges, ItemState
from ..engine.keeping import JudgedEdit
from ..engine.outdated import Stale
from ..engine.runplan import Standing
from .codec import digest_to_bytes, dumps, from_text, to_text
from .database import Database
from .dropping import drop_verdicts
from .earlier import EarlierVerdict, Why, copy_earlier, earlier_verdicts, keep_earlier
from .folder import FILE, lock, no_run
from .ledger import Ledger, StoredPrompt, call_id, said, stored_prompt
from .named import NamedItem, by_name
from .packing import MISSING, STATUSES, Packed, packed, unpacked
from .rows import Names, StoredEdit, StoredVerdict, digest_of, missing_of, seen_of, where
from .standing import stale, standing
from .tables import EDITS, HEADER, ITEMS, VERDICT_CALLS, VERDICTS

__all__ = [
    "FILE",
    "EarlierVerdict",
    "RunHeader",
    "RunStore",
    "StoredEdit",
    "StoredPrompt",
    "StoredVerdict",
]

_ITEM_NAMES = "items of the data"


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
            raise no_run(folder)
        with ExitStack() as resources:
            if not read_only:
                lock(folder, resources)
            database = Database(file, read_only=read_only)
            resources.callback(database.close)
            store = cls(folder, database, resources)
            known = store._read_header()
            if known is None and header is None:
                raise no_run(folder)
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

    @property
    def header(self) -> RunHeader:
        """What it is about."""
        header = self._read_header()
        if header is None:
            raise no_run(self.folder)
        return header

    def amend(self, header: RunHeader) -> RunHeader:
        """Go on with another header; see `RunHeader.joined`.

        Returns:
            The header from now on.
        """
        with self.database.transaction():
            known = self._read_header()
            whole = header if known is None else known.joined(header, str(self.folder))
            self._put_header(whole.model_dump(mode="json"))
        return whole

    def _put_header(self, fields: Mapping[str, Any]) -> None:
        for name, value in fields.items():
            stored = to_text(dumps(value))
            self.database.put(HEADER, instead="REPLACE", name=name, value=stored)

    def edit_id(
        self,
        item_id: str,
        model: str,
        digest: str | None,
        missing: Missing | None = None,
        seen: Seen | None = None,
    ) -> int:
        """The number of an edit, given to it here when it is new.

        Where its output is not the one judged before, its verdicts become earlier ones: they were
        about another picture.

        Args:
            digest: Of the output; None where it is missing, or was not looked at.
            missing: Why it is; None where it is there, or was not looked at: what is known of it
                stays.
            seen: Its file, where that is known.
        """
        file = _file(seen, digest)
        stored = None if digest is None else digest_to_bytes(digest)
        unseen = digest is None and missing is None
        if unseen:
            missing = Missing("absent", "")
        why = (MISSING[missing.kind], to_text(missing.reason)) if missing else (None, None)
        with self.database.transaction():
            names = (self.database.intern(model), self.database.intern(item_id))
            row = self.database.one(
                "SELECT id, digest, missing, reason, seen FROM edits WHERE model = ? AND item = ?",
                *names,
            )
            if row is None:
                return self.database.put(
                    EDITS,
                    model=names[0],
                    item=names[1],
                    digest=stored,
                    missing=why[0],
                    reason=why[1],
                    seen=file,
                )
            if unseen:
                return int(row[0])
            if row[1] != stored:
                self._stand_no_more(row[0], "output")
            elif file is None:
                file = row[4]
            if row[1:] != (stored, *why, file):
                self.database.change(
                    EDITS,
                    "id = :edit",
                    {"edit": row[0]},
                    digest=stored,
                    missing=why[0],
                    reason=why[1],
                    seen=file,
                )
            return int(row[0])

    def _stand_no_more(self, edit: int, why: Why) -> None:
        """Let no verdict of an edit stand: they were about something else."""
        keep_earlier(self.database, edit, why)
        for table in (VERDICT_CALLS, VERDICTS):
            self.database.delete(table, "edit = ?", edit)

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
        verdicts: Mapping[str, Verdict],
        signatures: Mapping[str, str],
        versions: str | None = None,
    ) -> None:
        """The same, in the thread that calls."""
        item, model, digest, missing, seen, state = edit
        with self.database.transaction():
            if state is not None:
                self._keep_item(item, state)
            edit_id = self.edit_id(item, model, digest, missing, seen)
            self.put_verdicts(edit_id, verdicts, signatures, versions)

    def keep_changes(
        self,
        edits: Iterable[JudgedEdit],
        seen: Iterable[tuple[str, str, Seen]],
        changes: ItemChanges,
        places: Mapping[str, str],
    ) -> None:
        """Keep what became of outputs and items, all or nothing; see `VerdictStore`."""
        with self.database.transaction():
            for edit in edits:
                self.edit_id(edit.item, edit.model, edit.digest, edit.missing, edit.seen)
            for item, model, file in seen:
                self._keep_seen(item, model, file)
            models = [self.database.intern(model) for model in self.header.outputs]
            for item in changes.changed:
                self._forget_item(self.database.intern(item), models)
            self.keep_items(changes.states, changes.names)
            outputs = {**self.header.outputs, **places}
            now = {"data_digest": changes.digest, "per_item": True, "outputs": outputs}
            self._put_header(now)

    def _keep_seen(self, item: str, model: str, seen: Seen) -> None:
        of = (self.database.intern(model), self.database.intern(item))
        row = self.database.one("SELECT id, digest FROM edits WHERE model = ? AND item = ?", *of)
        if row is not None:
            file = _file(seen, row[1])
            self.database.change(EDITS, "id = :edit", {"edit": row[0]}, seen=file)

    def keep_items(
        self, states: Mapping[str, ItemState], names: Collection[str] | None = None
    ) -> None:
        """Keep what items were when they were judged.

        Args:
            names: Ids of all items of the data; None where these are kept.
        """
        with self.database.transaction():
            for item, state in states.items():
                self._keep_item(item, state)
            if names is not None:
                self.database.keep_fact(_ITEM_NAMES, dumps(list(names)))

    def _keep_item(self, item: str, state: ItemState) -> None:
        """Where the item is not what it was, its verdicts stand no more."""
        number = self.database.intern(item)
        row = self.database.one("SELECT record, files, stats FROM items WHERE item = ?", number)
        before = None if row is None else ItemState(*row)
        if before == state:
            return
        if before is not None and not before.is_of(state):
            models = [self.database.intern(model) for model in self.header.outputs]
            self._forget_item(number, models)
        self.database.put(ITEMS, instead="REPLACE", item=number, **state._asdict())

    def _forget_item(self, item: int, models: Iterable[int]) -> None:
        self.database.delete(ITEMS, "item = ?", item)
        for model in models:
            of = "SELECT id FROM edits WHERE model = ? AND item = ?"
            if (edit := self.database.one(of, model, item)) is not None:
                self._stand_no_more(edit[0], "item")

    def items(self) -> Iterator[tuple[str, ItemState]]:
        """What each item was that verdicts are about, with its id."""
        names, text = self.database.texts(), self.database.text
        for _, item, record, files, stats in self.database.rows(ITEMS):
            yield names.get(item) or text(item), ItemState(record, files, stats)

    def edited_items(self) -> list[str]:
        """Ids of the items that have edits."""
        rows = self.database.each(
            "SELECT text FROM texts WHERE id IN (SELECT item FROM edits) ORDER BY id"
        )
        return [from_text(item) for (item,) in rows]

    def item_names(self) -> list[str] | None:
        """Ids of all items of the data that the header names; None where nobody kept them."""
        fact = self.database.fact(_ITEM_NAMES)
        return None if fact is None else list(parse_json(fact))

    def facts(self, prefix: str) -> list[str]:
        """What was found out under names that begin so, in the order of their names."""
        rows = self.database.each("SELECT name, value FROM facts ORDER BY name")
        return [str(value) for name, value in rows if name.startswith(prefix)]

    @property
    def costs(self) -> tuple[float, float]:
        """What all its calls have cost, and the dearest of them."""
        return self.ledger.costs

    def put_verdicts(
        self,
        edit: int,
        verdicts: Mapping[str, Verdict],
        signatures: Mapping[str, str],
        versions: str | None = None,
    ) -> None:
        """Keep an edit's verdicts, all or none; those in whose place they come become earlier ones.

        Args:
            edit: From `edit_id`.
            verdicts: By dimension id.
            signatures: At least of these.
            versions: Of the packages that they were made with; None for those of today.

        Raises:
            StoreError: the disk is full or fails.
        """
        made_with = versions_of_today() if versions is None else versions
        with self.database.transaction():
            intern = self.database.intern
            rows = {
                name: (intern(name), intern(signatures[name]), packed(verdict))
                for name, verdict in verdicts.items()
            }
            successors = {of: (signature, row) for of, signature, row in rows.values()}
            keep_earlier(self.database, edit, successors=successors)
            for name, (dimension, signature, row) in rows.items():
                self.database.put(
                    VERDICTS,
                    instead="REPLACE",
                    edit=edit,
                    dimension=dimension,
                    signature=signature,
                    versions=intern(made_with),
                    **row._asdict(),
                )
                numbers = (call_id(self.database, key) for key in calls_of(verdicts[name]))
                self.rests_on(edit, name, (one for one in numbers if one is not None))

    def rests_on(self, edit: int, dimension: str, calls: Iterable[int]) -> None:
        """Keep which calls a verdict rests on, by their numbers here."""
        of = (edit, self.database.intern(dimension))
        self.database.delete(VERDICT_CALLS, "edit = ? AND dimension = ?", *of)
        for place, number in enumerate(calls):
            self.database.put(
                VERDICT_CALLS, edit=of[0], dimension=of[1], position=place, call=number
            )

    def calls_of(self, edit: int, dimension: str) -> list[int]:
        """The numbers of the calls that a verdict rests on, in order."""
        rows = self.database.each(
            "SELECT call FROM verdict_calls WHERE edit = ? AND dimension ="
            " (SELECT id FROM texts WHERE text = ?) ORDER BY position",
            edit,
            to_text(dimension),
        )
        return [int(number) for (number,) in rows]

    def standing(self, model: str, signatures: Mapping[str, str]) -> Iterator[Standing]:
        """Every edit of a model, with the dimensions on which a verdict stands.

        A verdict stands when it is scored or unscored and its signature is today's.

        Args:
            signatures: Of today, by dimension.
        """
        return standing(self.database, model, signatures)

    def stale(self, signatures: Mapping[str, str]) -> Iterator[Stale]:
        """The verdicts on these dimensions, other than failed ones, by other signatures."""
        return stale(self.database, signatures)

    def by_name(self) -> Iterator[NamedItem]:
        """Every item that has edits, in the order of ids by their code points.

        One is held at a time; SQLite sorts in a file of its own where they are many.
        """
        return by_name(self.database)

    @property
    def signatures(self) -> frozenset[str]:
        """Those of all verdicts."""
        rows = self.database.each("SELECT DISTINCT signature FROM verdicts")
        return frozenset(self.database.text(number) for number in [of for (of,) in rows])

    def edit(self, item: str, model: str) -> StoredEdit | None:
        """The edit of an item by a model under test; None where there is none."""
        return next(iter([*self.edits(model, item=item)]), None)

    def edits(self, model: Names = None, *, item: Names = None) -> Iterator[StoredEdit]:
        """The edits, in the order in which they came.

        Args:
            model: Only of this model under test, or these.
            item: Only this item's, by its id, or these items'.
        """
        chosen, values = where(model=model, item=item)
        rows = self.database.each(
            "SELECT edits.id, texts.text, edits.model, edits.digest, edits.missing,"  # noqa: S608
            " edits.reason, edits.seen FROM edits JOIN texts ON texts.id = edits.item"
            f" {chosen} ORDER BY edits.id",
            *values,
        )
        for number, name, of, digest, missing, reason, seen in rows:
            yield StoredEdit(
                number,
                from_text(name),
                self.database.text(of),
                digest_of(digest),
                missing_of(missing, reason),
                seen_of(seen, digest),
            )

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
        chosen, values = where(model=model, dimension=dimension, item=item)
        rows = self.database.each(
            "SELECT edits.id, texts.text, edits.model, verdicts.dimension,"  # noqa: S608
            " verdicts.signature, verdicts.versions, verdicts.status, verdicts.value,"
            " verdicts.kind, verdicts.detail"
            " FROM edits JOIN texts ON texts.id = edits.item"
            f" JOIN verdicts ON verdicts.edit = edits.id {chosen}"
            " ORDER BY edits.id, verdicts.dimension",
            *values,
        )
        text = self.database.text
        for edit, name, of, on, signature, versions, *rest in rows:
            try:
                calls = self.calls_of(edit, text(on)) if evidence else ()
                replies = tuple(said(self.database, number) for number in calls)
                keys = tuple(one.call for one in replies)
                verdict = unpacked(Packed(*rest), keys, evidence=evidence)
            except ValueError as error:
                raise StoreError(
                    f"{self.database.path}: the verdict on {from_text(name)}, {text(of)},"
                    f" {text(on)} cannot be read: {error}",
                    "judge it again with a newer editjudge, or restore a copy of the run",
                ) from error
            made_with = text(versions) if versions else ""
            yield StoredVerdict(
                from_text(name), text(of), text(on), verdict, text(signature), made_with, replies
            )

    def prompt(self, digest: str) -> StoredPrompt | None:
        """A prompt as it was sent, without its pictures; None where it is not kept."""
        return stored_prompt(self.database, digest)

    def earlier(
        self, model: str | None = None, *, item: str | None = None
    ) -> Iterator[EarlierVerdict]:
        """The verdicts in whose place others came, in the order in which these did."""
        return earlier_verdicts(self.database, model, item)

    def take_earlier(self, run: RunStore, at: int, edit: int, calls: Mapping[int, int]) -> None:
        """Take over the earlier verdicts of an edit of another run; see `copy_earlier`."""
        copy_earlier(run.database, at, self.database, edit, calls)

    def counts(
        self, signatures: Mapping[str, str] | None = None
    ) -> dict[str, dict[str, dict[str, int]]]:
        """How many verdicts there are, by model, dimension and status.

        Args:
            signatures: Counts only verdicts with these, by dimension.
        """
        counts: dict[str, dict[str, dict[str, int]]] = {}
        names = {number: status for status, number in STATUSES.items()}
        rows = self.database.each(
            "SELECT edits.model, verdicts.dimension, verdicts.status, verdicts.signature,"
            " count(*) FROM verdicts JOIN edits ON edits.id = verdicts.edit"
            " GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3"
        )
        for model, dimension, status, signature, number in rows:
            name, text = self.database.text(dimension), self.database.text(signature)
            if signatures is None or signatures.get(name) == text:
                row = counts.setdefault(self.database.text(model), {})
                by_status = row.setdefault(name, {})
                by_status[names[status]] = by_status.get(names[status], 0) + number
        return counts

    @property
    def verdict_count(self) -> int:
        """How many verdicts there are."""
        row = self.database.one("SELECT count(*) FROM verdicts")
        return int(row[0]) if row else 0

    def missing(self) -> dict[str, int]:
        """How many outputs are missing, by model; 0 where none is."""
        rows = self.database.each(
            "SELECT model, sum(digest IS NULL) FROM edits GROUP BY model ORDER BY min(id)"
        )
        return {self.database.text(model): number for model, number in rows}

    def drop_verdicts(
        self,
        status: str,
        *,
        kind: str | None = None,
        model: str | None = None,
        dimension: str | None = None,
        above: Mapping[str, Collection[str]] = MappingProxyType({}),
    ) -> int:
        """Forget verdicts and the replies behind them, so that both are made again.

        What had a number, or a reason for none, becomes an earlier verdict. Other verdicts on the
        same edit that rest on such a reply are forgotten too, whatever their
        status, with what derives from them: all that is read from a reply is read from the same
        one. A reply stays that another edit's number on the same dimension rests on: it is about
        the item alone, such as the questions that all models get, and was not what failed.

        Args:
            status: `scored`, `unscored` or `failed`.
            kind: Of the unscored ones.
            above: By dimension, the dimensions that derive from it.

        Returns:
            How many verdicts of the status there were.
        """
        return drop_verdicts(self.database, status, kind, model, dimension, above)

    def _read_header(self) -> RunHeader | None:
        rows = self.database.each("SELECT name, value FROM header")
        try:
            fields: dict[str, Any] = {name: parse_json(from_text(value)) for name, value in rows}
            return RunHeader.model_validate(fields) if fields else None
        except ValueError as error:
            why = error.errors()[0]["msg"] if isinstance(error, ValidationError) else error
            raise ConfigError(
                f"{self.database.path}: its header cannot be read: {why}",
                "use the editjudge that wrote it",
            ) from error


def _file(seen: Seen | None, digest: object) -> bytes | None:
    """The file of an output: its stat, and what it held where that is no output's digest."""
    if seen is None:
        return None
    return seen.stat if digest is not None else seen.stat + digest_bytes(seen.digest)
