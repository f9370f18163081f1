"""The store of a run: its header, its edits and their verdicts, beside the ledger of its calls.

A run is a folder with one file, `run.sqlite`, and a lock that the system takes away with the
process. What `put_verdicts` has returned from is kept; see `database`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from filelock import FileLock, Timeout
from pydantic import ValidationError

from ..base.errors import ConfigError, StoreError
from ..base.item import Missing
from ..base.signature import versions as versions_of_today
from ..base.verdict import Verdict, calls_of
from ..engine.header import RunHeader
from ..engine.keeping import JudgedEdit
from ..engine.runplan import Standing
from ..panel.said import Said
from .codec import digest_from_bytes, digest_to_bytes, dumps, from_text, to_text
from .database import Database
from .ledger import Ledger, call_id, said
from .packing import KINDS, MISSING, STATUSES, Packed, packed, unpacked

__all__ = ["FILE", "LOCK", "RunHeader", "RunStore", "StoredEdit", "StoredVerdict"]

FILE = "run.sqlite"
LOCK = "run.lock"
_MISSING = {number: kind for kind, number in MISSING.items()}


@dataclass(frozen=True, slots=True)
class StoredVerdict:
    """One verdict of a run.

    Attributes:
        versions: Of the packages that it was made with; see `base.signature.versions`.
        said: What came back from the calls that it rests on, in the order of its `calls`.
    """

    item: str
    model: str
    dimension: str
    verdict: Verdict
    signature: str
    versions: str = ""
    said: tuple[Said, ...] = ()


@dataclass(frozen=True, slots=True)
class StoredEdit:
    """One edit of a run.

    Attributes:
        id: Its number in this run.
        digest: Of the output; None where it is missing.
        missing: Why it is; None where it is not.
    """

    id: int
    item: str
    model: str
    digest: str | None
    missing: Missing | None


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
        cls, folder: Path, header: RunHeader | None = None, *, read_only: bool = False
    ) -> Self:
        """Begin a run, or go on with one.

        Args:
            header: Of the run to begin; for one that is there, what it goes on with: further
                outputs and dimensions are added. None goes on with what is there.
            read_only: Reads beside the process that writes, and takes no lock.

        Raises:
            ConfigError: another process has it open, it is about something else, there is
                none, or its folder cannot be used.
            StoreError: its file is damaged, or the disk is full.
        """
        file = folder / FILE
        if header is None and not file.is_file():
            raise ConfigError(f"{folder} holds no run", "give the folder of a run")
        with ExitStack() as resources:
            if not read_only:
                _lock(folder, resources)
            database = Database(file, read_only=read_only)
            resources.callback(database.close)
            store = cls(folder, database, resources)
            known = store._read_header()
            if known is None and header is None:
                raise ConfigError(f"{folder} holds no run", "give the folder of a run")
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
            raise ConfigError(f"{self.folder} holds no run", "give the folder of a run")
        return header

    def amend(self, header: RunHeader) -> RunHeader:
        """Go on with another header; see `RunHeader.joined`.

        Returns:
            The header from now on.
        """
        with self.database.transaction():
            known = self._read_header()
            whole = header if known is None else known.joined(header, str(self.folder))
            for name, value in whole.model_dump(mode="json").items():
                self.database.run(
                    "INSERT OR REPLACE INTO header VALUES (?, ?)", name, to_text(dumps(value))
                )
        return whole

    def edit_id(
        self, item_id: str, model: str, digest: str | None, missing: Missing | None = None
    ) -> int:
        """The number of an edit, given to it here when it is new.

        Where its output is not the one judged before, its verdicts are gone: they were about
        another picture.

        Args:
            digest: Of the output; None where it is missing.
            missing: Why it is, where that is known.
        """
        stored = None if digest is None else digest_to_bytes(digest)
        if missing is None:
            missing = None if digest else Missing("absent", "")
        why = (MISSING[missing.kind], to_text(missing.reason)) if missing else (None, None)
        with self.database.transaction():
            names = (self.database.intern(model), self.database.intern(item_id))
            row = self.database.one(
                "SELECT id, digest, missing, reason FROM edits WHERE model = ? AND item = ?",
                *names,
            )
            if row is None:
                made = self.database.run(
                    "INSERT INTO edits (model, item, digest, missing, reason)"
                    " VALUES (?, ?, ?, ?, ?)",
                    *names,
                    stored,
                    *why,
                )
                return int(made.lastrowid or 0)
            if row[1:] != (stored, *why):
                self.database.run(
                    "UPDATE edits SET digest = ?, missing = ?, reason = ? WHERE id = ?",
                    stored,
                    *why,
                    row[0],
                )
            if row[1] != stored:
                for table in ("verdict_calls", "verdicts"):
                    self.database.run(f"DELETE FROM {table} WHERE edit = ?", row[0])  # noqa: S608
            return int(row[0])

    async def keep(
        self, edit: JudgedEdit, verdicts: Mapping[str, Verdict], signatures: Mapping[str, str]
    ) -> None:
        """Keep an edit and its verdicts, all or none, without holding up the event loop.

        Args:
            verdicts: By dimension id.
            signatures: At least of these.

        Raises:
            StoreError: the disk is full or fails.
        """
        await self.database.aside(self._keep, edit, verdicts, signatures)

    def _keep(
        self, edit: JudgedEdit, verdicts: Mapping[str, Verdict], signatures: Mapping[str, str]
    ) -> None:
        with self.database.transaction():
            self.put_verdicts(self.edit_id(*edit), verdicts, signatures)

    def keep_outputs(self, edits: Iterable[JudgedEdit], looked: Mapping[str, float]) -> None:
        """Keep what became of outputs, and when they were looked at.

        Args:
            looked: By model, seconds since the epoch.
        """
        with self.database.transaction():
            for edit in edits:
                self.edit_id(*edit)
            for model, moment in looked.items():
                self.database.keep_fact(_looked(model), repr(moment))

    @property
    def looked(self) -> Mapping[str, float]:
        """When each model's outputs were last known to be what was judged, since the epoch."""
        facts = {model: self.database.fact(_looked(model)) for model in self.header.outputs}
        return {model: float(fact) for model, fact in facts.items() if fact}

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
        """Keep an edit's verdicts, all or none; they take the place of earlier ones.

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
            for name, verdict in verdicts.items():
                row = packed(verdict)
                self.database.run(
                    "INSERT OR REPLACE INTO verdicts VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                    edit,
                    self.database.intern(name),
                    row.status,
                    self.database.intern(signatures[name]),
                    row.value,
                    row.kind,
                    row.detail,
                    self.database.intern(made_with),
                )
                numbers = (call_id(self.database, key) for key in calls_of(verdict))
                self.rests_on(edit, name, (one for one in numbers if one is not None))

    def rests_on(self, edit: int, dimension: str, calls: Iterable[int]) -> None:
        """Keep which calls a verdict rests on, by their numbers here."""
        of = (edit, self.database.intern(dimension))
        self.database.run("DELETE FROM verdict_calls WHERE edit = ? AND dimension = ?", *of)
        for place, number in enumerate(calls):
            self.database.run("INSERT INTO verdict_calls VALUES (?, ?, ?, ?)", *of, place, number)

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

        A verdict stands when it is scored or unscored and its signature is today's. Edits
        with the same dimensions share one set of them, so 100,000 edits are a few megabytes.

        Args:
            signatures: Of today, by dimension.
        """
        current = {
            f"{self.database.intern(name)}:{self.database.intern(text)}": name
            for name, text in signatures.items()
            if self._known(name) and self._known(text)
        }
        shared: dict[str, frozenset[str]] = {"": frozenset()}
        rows = self.database.each(
            "SELECT texts.text, edits.digest, edits.missing, edits.reason, (SELECT"
            " group_concat(dimension || ':' || signature) FROM verdicts"
            " WHERE edit = edits.id AND status != ?)"
            " FROM edits JOIN texts ON texts.id = edits.item WHERE edits.model ="
            " (SELECT id FROM texts WHERE text = ?)",
            STATUSES["failed"],
            to_text(model),
        )
        for item, digest, missing, reason, state in rows:
            if (names := shared.get(state or "")) is None:
                pairs = (current.get(pair) for pair in state.split(","))
                names = shared[state] = frozenset(name for name in pairs if name)
            why = None if missing is None else _missing(missing, reason)
            yield Standing(from_text(item), _digest(digest), why, names)

    def edit(self, item: str, model: str) -> StoredEdit | None:
        """The edit of an item by a model under test; None where there is none."""
        return next(iter([*self.edits(model, item=item)]), None)

    def edits(self, model: str | None = None, *, item: str | None = None) -> Iterator[StoredEdit]:
        """The edits, in the order in which they came.

        Args:
            item: Only this item's, by its id.
        """
        where, values = self._where(model=model, item=item)
        rows = self.database.each(
            "SELECT edits.id, texts.text, edits.model, edits.digest, edits.missing,"  # noqa: S608
            " edits.reason FROM edits JOIN texts ON texts.id = edits.item"
            f" {where} ORDER BY edits.id",
            *values,
        )
        for number, item, name, digest, missing, reason in rows:
            yield StoredEdit(
                number,
                from_text(item),
                self.database.text(name),
                _digest(digest),
                _missing(missing, reason),
            )

    def verdicts(
        self,
        model: str | None = None,
        dimension: str | None = None,
        *,
        item: str | None = None,
        evidence: bool = True,
    ) -> Iterator[StoredVerdict]:
        """The verdicts, edit by edit in the order in which these came.

        Args:
            item: Only this item's.
            evidence: False leaves it out, and the calls: several times as fast.
        """
        where, values = self._where(model=model, dimension=dimension, item=item)
        rows = self.database.each(
            "SELECT edits.id, texts.text, edits.model, verdicts.dimension,"  # noqa: S608
            " verdicts.signature, verdicts.versions, verdicts.status, verdicts.value,"
            " verdicts.kind, verdicts.detail"
            " FROM edits JOIN texts ON texts.id = edits.item"
            f" JOIN verdicts ON verdicts.edit = edits.id {where}"
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
    ) -> int:
        """Forget verdicts and the replies behind them, so that both are made again.

        Args:
            status: `scored`, `unscored` or `failed`.
            kind: Of the unscored ones.

        Returns:
            How many verdicts there were.
        """
        where, values = self._where(model=model, dimension=dimension, status=status, kind=kind)
        chosen = (
            "SELECT verdicts.edit, verdicts.dimension FROM verdicts"  # noqa: S608
            f" JOIN edits ON edits.id = verdicts.edit {where}"
        )
        with self.database.transaction():
            # All are read before any is deleted: SQLite leaves open what a query sees otherwise.
            rows = list(self.database.each(chosen, *values))
            of = "edit = ? AND dimension = ?"
            for row in rows:
                self.database.run(
                    "UPDATE calls SET dropped = 1 WHERE id IN"  # noqa: S608
                    f" (SELECT call FROM verdict_calls WHERE {of})",
                    *row,
                )
                for table in ("verdict_calls", "verdicts"):
                    self.database.run(f"DELETE FROM {table} WHERE {of}", *row)  # noqa: S608
        return len(rows)

    def _known(self, text: str) -> bool:
        return self.database.one("SELECT 1 FROM texts WHERE text = ?", to_text(text)) is not None

    def _where(
        self,
        *,
        model: str | None = None,
        dimension: str | None = None,
        item: str | None = None,
        status: str | None = None,
        kind: str | None = None,
    ) -> tuple[str, list[object]]:
        """A condition on what is asked for; names of columns are written here, never data."""
        named = "= (SELECT id FROM texts WHERE text = ?)"
        conditions: list[tuple[str, object]] = [
            (f"edits.model {named}", model and to_text(model)),
            (f"verdicts.dimension {named}", dimension and to_text(dimension)),
            (f"edits.item {named}", item and to_text(item)),
            ("verdicts.status = ?", status and STATUSES[status]),
            ("verdicts.kind = ?", kind and KINDS[kind]),
        ]
        chosen = [(text, value) for text, value in conditions if value is not None]
        text = " AND ".join(text for text, _ in chosen)
        return f"WHERE {text}" if text else "", [value for _, value in chosen]

    def _read_header(self) -> RunHeader | None:
        rows = self.database.each("SELECT name, value FROM header")
        fields: dict[str, Any] = {name: json.loads(from_text(value)) for name, value in rows}
        if not fields:
            return None
        try:
            return RunHeader.model_validate(fields)
        except ValidationError as error:
            raise ConfigError(
                f"{self.database.path}: its header cannot be read: {error.errors()[0]['msg']}",
                "use the editjudge that wrote it",
            ) from error


def _looked(model: str) -> str:
    return f"outputs of {model} looked at"


def _digest(stored: bytes | str | None) -> str | None:
    return None if stored is None else digest_from_bytes(stored)


def _missing(kind: int | None, reason: str | bytes | None) -> Missing | None:
    return None if kind is None else Missing(_MISSING[kind], from_text(reason or ""))


def _lock(folder: Path, resources: ExitStack) -> None:
    """Hold a run for as long as the process lives."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        resources.enter_context(FileLock(folder / LOCK).acquire(timeout=0))
    except Timeout as error:
        raise ConfigError(
            f"{folder} is in use by another process", "wait for it, or end it"
        ) from error
    except (OSError, NotImplementedError) as error:
        raise ConfigError(f"{folder}: {error}", "give a folder that can be written") from error
