"""The ledger: every call to a service with its reply, so that no call is paid for twice.

A ledger is one SQLite file. The key of a call is the digest of everything that its reply depends
on. Replies are stored unparsed, so parsing them by other rules needs no new call. A fact is a text
about a service under a name, for example the identities of services.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import JsonValue

from ..base.closeable import Closeable
from ..base.errors import StoreError
from ..panel.calls import AnyCall, CallRecord, CallStore, Reply, SpecialistCall
from ..panel.prompt import Prompt, Text
from .codec import decode_record, decode_reply, digest_from_bytes, digest_to_bytes, encode_record, encode_reply
from .compression import Compressor
from .database import RESTORE, Database, Row
from .schema import CALLS, FACTS, PROMPTS, Value, decode_text, encode_text


class LedgerRows(NamedTuple):
    """Rows of the tables `prompts` and `calls`, with their long values."""

    prompts: Sequence[Row] = ()
    calls: Sequence[Row] = ()


class Ledger(CallStore, Closeable):
    """A `CallStore` in a file or in memory; use it as a context manager.

    `put` commits a reply before it returns, so the reply survives a kill of the process. A crash of
    the machine can lose the last replies. Several processes may share a file.

    Teams may share a file as well. Each reads only its own calls; see `for_team`.

    Args:
        path: The file; None for a ledger in memory.
        team: The team whose calls are stored and looked up.
        database: An open file to use instead; it stays open when the ledger is closed.
        read_only: Open the file, which may be that of a run with its calls, for reading only.

    Raises:
        ConfigError: the file cannot be opened, is no ledger, or is from a newer editjudge.
        StoreError: the file is damaged. Later calls also raise it when the disk is full.

    Attributes:
        where: The file, for people.
        needs_turns: Whether its users wait for each other, so that one waits for a locked file.
    """

    needs_turns = True

    def __init__(
        self, path: Path | None = None, *, team: str = "", database: Database | None = None, read_only: bool = False
    ) -> None:
        self.team = team
        self.repeated_count = 0
        self._owns_database = database is None
        self._database = database or Database(path, read_only=read_only)
        self._last_rows = [0, 0]
        self.path = self._database.path
        self.where = str(self.path)

    def for_team(self, team: str) -> Ledger:
        """Return the ledger of a team in the same file. Closing it leaves the file open."""
        return Ledger(team=team, database=self._database)

    def close(self) -> None:
        """Close the file."""
        if self._owns_database:
            self._database.close()

    async def get(self, call: AnyCall) -> Reply | None:
        """Get the reply to a call that was made before, or None."""
        return await self._database.run_in_thread(self._get, call)

    def _get(self, call: AnyCall) -> Reply | None:
        row = self._row(call.key)
        return None if row is None else decode_reply(self._database.compressor.decompress, row[6:])

    async def put(self, call: AnyCall, reply: Reply) -> Reply:
        """Commit a reply, unless the call has one: the first reply to a call stays.

        Returns:
            The reply that `get` returns from now on; see `codec` for what encoding changes.
        """
        return await self._database.run_in_thread(self._put, call, reply)

    def _put(self, call: AnyCall, reply: Reply) -> Reply:
        with self._database.transaction():
            document, outputs = encode_reply(call, reply)
            prompt = None
            if not isinstance(call, SpecialistCall):
                prompt = digest_to_bytes(call.prompt.digest)
                self._write_prompt(call.prompt.digest, _prompt_to_json(call.prompt))
            is_new = self._write_reply(call.key, document, prompt=prompt, cost=reply.cost, outputs=outputs)
            self.repeated_count += not is_new
            return reply if is_new and outputs is None else self._get(call) or reply

    async def put_records(self, records: Iterable[CallRecord]) -> None:
        """Store records of calls that a gateway made for us; see `CallStore`."""
        await self._database.run_in_thread(self._put_records, tuple(records))

    def _put_records(self, records: Iterable[CallRecord]) -> None:
        with self._database.transaction():
            for entry in records:
                if entry.prompt is None or not isinstance(entry.reply, dict):
                    continue
                self._write_prompt(entry.prompt, {"system": "", "parts": []})
                self._write_reply(entry.call, encode_record(entry), prompt=digest_to_bytes(entry.prompt))

    async def drop(self, keys: Iterable[str]) -> int:
        """Drop the replies to calls, so that the calls are made again.

        Verdicts that rest on dropped replies can still show them.

        Returns:
            How many replies were dropped.
        """
        return await self._database.run_in_thread(self.drop_now, tuple(keys))

    def drop_now(self, keys: Iterable[str]) -> int:
        """Do what `drop` does, in the calling thread."""
        with self._database.transaction():
            numbers = [number for key in keys if (number := self.find_number(key)) is not None]
            for number in numbers:
                self._database.change(CALLS, number, dropped=True)
        return len(numbers)

    async def purge(self, before: float | None = None, *, team: str | None = None, shrink: bool = False) -> int:
        """Delete calls and their prompts for good: their bytes in the file are overwritten.

        Other processes may read and write meanwhile, since each transaction is short. Never purge
        the file of a run: its verdicts rest on its calls.

        Args:
            before: Only calls made before this time, in seconds since 1970.
            team: Only calls of this team; None for all teams.
            shrink: Whether to make the file smaller, while other processes wait. Otherwise new
                calls reuse the free space in the file.

        Returns:
            How many calls were deleted.
        """
        return await self._database.run_in_thread(self._purge, before, team, shrink)

    def _purge(self, before: float | None, team: str | None, shrink: bool) -> int:
        values = {"made < ?": before, "team = ?": None if team is None else encode_text(team)}
        conditions = {sql: value for sql, value in values.items() if value is not None}
        which = " AND ".join(conditions) or "1"
        self._database.run("PRAGMA secure_delete = ON")
        purged_count = self._database.delete(CALLS, which, *conditions.values())
        self._database.delete(PROMPTS, which, *conditions.values())
        if shrink:
            self._database.shrink()
        self._database.run("PRAGMA wal_checkpoint(TRUNCATE)")
        return purged_count

    async def count_by_team(self) -> Counter[str]:
        """Count the calls of each team."""
        return await self._database.run_in_thread(
            lambda: Counter(decode_text(row[1]) for row in self._database.rows(CALLS))
        )

    async def get_dropped_keys(self) -> frozenset[str]:
        """Get the keys of all calls of which a reply was ever dropped."""
        return await self._database.run_in_thread(self._get_dropped_keys)

    def _get_dropped_keys(self) -> frozenset[str]:
        rows = self._database.rows(CALLS, "WHERE team = ? AND dropped = 1", encode_text(self.team))
        return frozenset(digest_from_bytes(row[2]) for row in rows)

    async def get_fact(self, name: str) -> str | None:
        """Get the fact of this name, or None."""
        return await self._database.run_in_thread(self._database.fact, name)

    async def put_fact(self, name: str, value: str) -> None:
        """Store a fact; it replaces an earlier one of that name."""
        await self._database.run_in_thread(self._database.put_fact, name, value)

    async def get_records(self, keys: Iterable[str]) -> dict[str, CallRecord]:
        """Get the records of calls, by key; calls that are not stored are left out."""
        return await self._database.run_in_thread(self._get_records, tuple(keys))

    def _get_records(self, keys: Iterable[str]) -> dict[str, CallRecord]:
        with self._database.transaction("BEGIN"):  # they may be purged meanwhile
            rows = {key: self._row(key) for key in keys}
            return {key: self._make_record(row) for key, row in rows.items() if row is not None}

    def read_record(self, number: int) -> CallRecord:
        """Read the record of a call by the number of its row.

        Raises:
            StoreError: there is no such row.
            ValueError: the record cannot be decoded.
        """
        row = self._database.row(CALLS, "WHERE id = ?", number, long=True)
        if row is None:
            raise StoreError(f"{self.path} is damaged: call {number} is missing", RESTORE)
        return self._make_record(row)

    def _make_record(self, row: Row) -> CallRecord:
        values = (row[2], row[4], *row[6:])
        return decode_record(self._database.compressor.decompress, values)

    def find_number(self, key: str) -> int | None:
        """Find the row number of the call with this key and a reply, or None."""
        row = self._row(key, long=False)
        return None if row is None else int(row[0])

    def get_prompt(self, digest: str) -> StoredPrompt | None:
        """Get the prompt with this digest as it was sent, without its images, or None."""
        row = self._prompt_row(digest, long=True)
        if row is None:
            return None
        document = self._database.compressor.decompress(row[4])
        return StoredPrompt(document["system"], tuple(document["parts"]))

    def get_form(self, key: str) -> Mapping[str, JsonValue]:
        """Get the form that an answer was to have, and how it was sampled.

        Empty where a gateway made the call, or where its reply was dropped.
        """
        row = self._row(key)
        form = {} if row is None else self._database.compressor.decompress(row[7])["form"]
        return dict(form)

    @property
    def costs(self) -> tuple[float, float]:
        """The cost of all calls together, and the cost of the dearest call."""
        costs = [row[6] or 0.0 for row in self._database.rows(CALLS)]
        return sum(costs), max(costs, default=0.0)

    @property
    def totals(self) -> tuple[int, float, float]:
        """Number of calls, their cost, and when the last was made, in seconds since 1970."""
        rows = [row[5:7] for row in self._database.rows(CALLS)]
        times, costs = ([row[k] or 0.0 for row in rows] for k in (0, 1))
        return len(rows), sum(costs), max(times, default=0.0)

    def copy_to(self, other: Ledger, without: Container[int] = (), free_calls: Container[int] = ()) -> dict[int, int]:
        """Copy calls with their prompts, and facts, into another ledger, where existing ones stay.

        If the other ledger has another reply to a call, the call is copied as dropped. `get` does
        not find it there, but verdicts that rest on it can show it.

        Args:
            without: Row numbers of calls that are left out.
            free_calls: Row numbers of calls whose cost another new ledger has.

        Returns:
            By row number of a call in this ledger, its row number in the other.
        """
        own, target = self._database, other._database
        for _, name, value in own.rows(FACTS):
            if target.fact(decode_text(name)) is None:
                target.put(FACTS, name=name, value=value)
        digests = {row[4] for row in own.rows(CALLS) if row[0] not in without}
        prompts = (row for row in own.rows(PROMPTS, long=True) if row[2] in digests)
        calls = (
            (*row[:6], None, *row[7:]) if row[0] in free_calls else row
            for row in own.rows(CALLS, long=True)
            if row[0] not in without
        )
        return other._add_rows(prompts, calls, own.compressor.decompress)

    def new_rows(self) -> LedgerRows:
        """Return the rows that were added since the last call of this method."""
        with self._database.transaction("BEGIN"):
            rows = LedgerRows(
                *(
                    [*self._database.rows(table, "WHERE id > ?", last, long=True)]
                    for table, last in zip((PROMPTS, CALLS), self._last_rows, strict=True)
                )
            )
        self._last_rows = [of[-1][0] if of else last for of, last in zip(rows, self._last_rows, strict=True)]
        return rows

    async def add_rows(self, rows: LedgerRows) -> None:
        """Add the rows of another ledger in memory; see `copy_to`."""
        await self._database.run_in_thread(self._add_rows, *rows, Compressor(tuple, None).decompress)

    def _add_rows(
        self, prompts: Iterable[Row], calls: Iterable[Row], decompress: Callable[[bytes], Any]
    ) -> dict[int, int]:
        target, packer, numbers = self._database, self._database.compressor, {}
        with target.transaction():
            for _, _, digest, _, document in prompts:
                self._write_prompt(digest_from_bytes(digest), decompress(document))
            names = (*CALLS.columns, *CALLS.long)
            for number, *values in calls:
                row = dict(zip(names, values, strict=True))
                twin = self._row(digest_from_bytes(row["key"]))
                document = decompress(row["document"])
                if twin and twin[8] == row["outputs"] and packer.decompress(twin[7]) == document:
                    numbers[number] = int(twin[0])
                    continue
                row |= {"document": packer.compress(document)}
                numbers[number] = target.put(CALLS, **row | {"dropped": bool(row["dropped"] or twin)})
        return numbers

    def _row(self, key: str, *, long: bool = True) -> Row | None:
        return self._database.row(
            CALLS, "WHERE team = ? AND key = ? AND dropped = 0", encode_text(self.team), digest_to_bytes(key), long=long
        )

    def _write_reply(self, key: str, document: Mapping[str, Any], **columns: Value) -> bool:
        """Write a reply with further columns unless the call has one; return whether it was written."""
        if self.find_number(key) is not None:
            return False
        self._database.put(
            CALLS,
            team=encode_text(self.team),
            key=digest_to_bytes(key),
            dropped=False,
            made=time.time(),
            document=self._database.compressor.compress(document),
            **columns,
        )
        return True

    def _write_prompt(self, digest: str, document: Mapping[str, Any]) -> None:
        """Write a prompt. Of a stored one, update the time of its latest call (see `purge`)."""
        row = self._prompt_row(digest)
        if row is not None:
            self._database.change(PROMPTS, row[0], made=time.time())
            return
        self._database.put(
            PROMPTS,
            team=encode_text(self.team),
            digest=digest_to_bytes(digest),
            made=time.time(),
            document=self._database.compressor.compress(document),
        )

    def _prompt_row(self, digest: str, *, long: bool = False) -> Row | None:
        prompt_key = encode_text(self.team), digest_to_bytes(digest)
        return self._database.row(PROMPTS, "WHERE team = ? AND digest = ?", *prompt_key, long=long)


@dataclass(frozen=True, slots=True)
class StoredPrompt:
    """A prompt as it was sent, without the images.

    Attributes:
        system: The system prompt.
        parts: The user turn in order: `{text, data}` for a text, `{image, size, name}` for an
            image, with the digest of its bytes as sent; empty where a gateway made the call.
    """

    system: str
    parts: tuple[Mapping[str, JsonValue], ...]


def _prompt_to_json(prompt: Prompt) -> dict[str, Any]:
    parts = [
        {"text": part.text, "data": part.is_data}
        if isinstance(part, Text)
        else {"image": part.digest, "size": list(part.size), "name": part.name}
        for part in prompt.parts
    ]
    return {"system": prompt.system, "parts": parts}
