"""The ledger: every call to a service and its reply, so that none is paid for twice.

One SQLite file, content-addressed: a call's key is the digest of everything its reply can
depend on. Replies are kept raw, so reading them by other rules needs no new call.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue

from ..base.contracts import Tensors
from ..base.errors import Abstained, StoreError
from ..panel.calls import Call, Reply, Said, SpecialistCall, call_json
from ..panel.prompt import Prompt, Text
from .codec import (
    digest_from_bytes,
    digest_to_bytes,
    outputs_from_bytes,
    outputs_to_bytes,
    pack,
    unpack,
)
from .database import RESTORE, Database
from .tables import CALLS, NAMING_TEXTS, PROMPTS, TEXTS, Table

_COUNTS = ("prompt_tokens", "cached_tokens", "completion_tokens", "cost")
_USUAL = {
    **dict.fromkeys(("dropped", "repeat", "abstained", *_COUNTS[:-1]), 0),
    "attempts": 1,
}
_AT_A_TIME = 5000
"""Rows that are deleted in one transaction."""
_FEW = 16
"""Numbers of a specialist that are shown one by one."""


class Ledger:
    """Calls and replies, in a file or in memory; use as a context manager. A `CallStore`.

    A reply that `put` has returned from survives the end of the process, however it comes; the
    last ones can be lost when the machine goes down. Several processes may share a file.

    Teams may share a file: none reads what another has. `for_team` is the ledger of another team.

    Args:
        path: None keeps everything in memory.
        team: Whose calls it keeps and answers.
        database: An open file instead, which stays open when the ledger is closed.

    Raises:
        ConfigError: the file cannot be opened, is no ledger, or of a newer editjudge.
        StoreError: the file is damaged; later also: its disk is full.
    """

    def __init__(
        self, path: Path | None = None, *, team: str = "", database: Database | None = None
    ) -> None:
        self.team = team
        self._owned = database is None
        self._database = database or Database(path)
        self.path = self._database.path

    @classmethod
    def to_read(cls, path: Path) -> Self:
        """A ledger, or the calls of a run, that is only looked into."""
        ledger = cls(database=Database(path, read_only=True))
        ledger._owned = True
        return ledger

    def for_team(self, team: str) -> Ledger:
        """The ledger of another team in the same file, which stays open when that is closed."""
        return Ledger(team=team, database=self._database)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        if self._owned:
            self._database.close()

    async def get(self, call: Call) -> Reply | None:
        """The reply to a call that was made before, or None."""
        return await self._database.aside(self._get, call)

    def _get(self, call: Call) -> Reply | None:
        with self._database.snapshot():  # its texts may be purged with it
            row = self._database.one(
                "SELECT reply, model, prompt_tokens, cached_tokens, completion_tokens, attempts,"
                " cost, seconds FROM calls WHERE team = ? AND key = ? AND dropped = 0",
                self.team,
                digest_to_bytes(call.key),
            )
            if row is None:
                return None
            return Reply(unpack(row[0]), self._database.text(row[1]), *row[2:])

    async def put(self, call: Call, reply: Reply) -> None:
        """Keep a reply; the first one for a call stays."""
        await self._database.aside(self._put, call, reply)

    def _put(self, call: Call, reply: Reply) -> None:
        with self._database.transaction():
            self._keep(
                call.key,
                service=self._database.intern(call.judge),
                form=self._database.intern(call_json(call.form)),
                prompt=self._prompt(call.prompt),
                repeat=call.repeat,
                reply=pack(reply.content),
                model=self._database.intern(reply.model),
                prompt_tokens=reply.prompt_tokens,
                cached_tokens=reply.cached_tokens,
                completion_tokens=reply.completion_tokens,
                attempts=reply.attempts,
                cost=reply.cost,
                seconds=reply.seconds,
            )

    async def outputs(self, call: SpecialistCall) -> Tensors | None:
        """What a specialist returned before, or None.

        Raises:
            Abstained: it said that there is no value for this input.
        """
        return await self._database.aside(self._outputs, call)

    def _outputs(self, call: SpecialistCall) -> Tensors | None:
        row = self._database.one(
            "SELECT reply, abstained FROM calls WHERE team = ? AND key = ? AND dropped = 0",
            self.team,
            digest_to_bytes(call.key),
        )
        if row is None:
            return None
        if row[1]:
            stored = unpack(row[0])
            raise _abstained(call, stored["kind"], stored["reason"])
        return outputs_from_bytes(row[0])

    async def keep_outputs(
        self,
        call: SpecialistCall,
        outputs: Mapping[str, NDArray[np.float32] | bytes],
        seconds: float,
    ) -> Tensors:
        """Keep what a specialist returned; the first for a call stays.

        Args:
            seconds: What the call took, attempts included.

        Returns:
            The outputs as they will come back from now on; see `codec`.
        """
        return await self._database.aside(self._keep_outputs, call, outputs, seconds)

    def _keep_outputs(
        self,
        call: SpecialistCall,
        outputs: Mapping[str, NDArray[np.float32] | bytes],
        seconds: float,
    ) -> Tensors:
        stored = outputs_to_bytes(call.role, outputs)
        self._keep_specialist(call, stored, seconds, abstained=False)
        kept = self._outputs(call)
        return outputs_from_bytes(stored) if kept is None else kept

    async def keep_abstention(
        self, call: SpecialistCall, kind: str, reason: str, seconds: float = 0.0
    ) -> Abstained:
        """Keep that a specialist said there is no value for this input.

        Returns:
            What `outputs` raises from now on, to be raised: it names the call.
        """
        stored = pack({"kind": kind, "reason": reason})
        await self._database.aside(self._keep_specialist, call, stored, seconds, abstained=True)
        return _abstained(call, kind, reason)

    async def keep_said(self, said: Iterable[Said]) -> None:
        """Keep what generalists said to others who asked for us; see `CallStore`."""
        await self._database.aside(self._keep_said, tuple(said))

    def _keep_said(self, said: Iterable[Said]) -> None:
        with self._database.transaction():
            for reply in said:
                if reply.prompt is None or not isinstance(reply.reply, dict):
                    continue
                self._keep(
                    reply.call,
                    service=self._database.intern(reply.judge),
                    form=self._database.intern(call_json({})),
                    prompt=self._prompt_row(reply.prompt, "", []),
                    reply=pack(reply.reply),
                    model=self._database.intern(reply.model or ""),
                    prompt_tokens=reply.prompt_tokens,
                    cached_tokens=reply.cached_tokens,
                    completion_tokens=reply.completion_tokens,
                    seconds=0.0,
                )

    async def drop(self, keys: Iterable[str]) -> int:
        """Forget the replies to calls, so that they are made again.

        Verdicts that rest on them can still show them.

        Returns:
            How many there were.
        """
        return await self._database.aside(self._drop, tuple(keys))

    def _drop(self, keys: Iterable[str]) -> int:
        with self._database.transaction():
            return sum(
                self._database.change(
                    CALLS,
                    "team = :of AND key = :is AND dropped = 0",
                    {"of": self.team, "is": digest_to_bytes(key)},
                    dropped=True,
                )
                for key in keys
            )

    async def purge(
        self, before: float | None = None, *, team: str | None = None, shrink: bool = False
    ) -> int:
        """Delete calls for good, with their prompts and texts: what stood there is overwritten.

        Other processes may go on reading and writing the file. What verdicts rest on is not to be
        purged: it is for ledgers, not for runs.

        Args:
            before: Only those made before this time, in seconds since 1970.
            team: Only those of this team; None for those of all teams.
            shrink: Give the room on the disk back, for which others wait; it is used again if not.

        Returns:
            How many there were.
        """
        return await self._database.aside(self._purge, before, team, shrink)

    def _purge(self, before: float | None, team: str | None, shrink: bool) -> int:
        database = self._database
        database.run("PRAGMA secure_delete = ON")
        asked_for = {"made < ?": before, "team = ?": team}
        conditions = {sql: value for sql, value in asked_for.items() if value is not None}
        purged = self._delete_some(CALLS, " AND ".join(conditions) or "1", *conditions.values())
        asked = "SELECT prompt FROM main.calls WHERE prompt IS NOT NULL"
        self._delete_some(PROMPTS, f"id NOT IN ({asked})")
        self._purge_texts()
        if shrink:
            database.shrink()
        database.run("PRAGMA wal_checkpoint(TRUNCATE)")
        return purged

    def _purge_texts(self) -> None:
        """Delete the texts that no row names any more."""
        named = (
            f"SELECT {column} FROM main.{table} WHERE {column} IS NOT NULL"  # noqa: S608
            for table, column in NAMING_TEXTS
        )
        unnamed = f"id NOT IN ({' UNION '.join(named)})"
        last = "(SELECT max(id) FROM main.texts)"
        # The last is overwritten and stays: numbers go on from it, so that one which another
        # process holds never becomes that of another text.
        self._database.change(TEXTS, f"id = {last} AND {unnamed}", {}, text=f"purged {uuid4().hex}")
        self._delete_some(TEXTS, f"{unnamed} AND id < {last}")

    def _delete_some(self, table: Table, where: str, *values: object) -> int:
        """Delete rows, some at a time, so that others can write in between; returns how many."""
        some = f"id IN (SELECT id FROM main.{table.name} WHERE {where} LIMIT {_AT_A_TIME})"  # noqa: S608
        deleted = 0
        while count := self._database.delete(table, some, *values):
            deleted += count
        return deleted

    async def space(self) -> dict[str, int]:
        """About how many bytes the calls of each team take."""
        return await self._database.aside(self._space)

    def _space(self) -> dict[str, int]:
        rows = self._database.each("SELECT team, sum(length(reply)) FROM calls GROUP BY team")
        return {str(team): int(size) for team, size in rows}

    async def dropped(self) -> frozenset[str]:
        """Keys of calls whose replies were dropped, at some time."""
        return await self._database.aside(self._dropped)

    def _dropped(self) -> frozenset[str]:
        rows = self._database.each(
            "SELECT DISTINCT key FROM calls WHERE team = ? AND dropped + 0 = 1", self.team
        )
        return frozenset(digest_from_bytes(key) for (key,) in rows)

    async def fact(self, name: str) -> str | None:
        """Something found out about a service before, or None."""
        return await self._database.aside(self._database.fact, name)

    async def keep_fact(self, name: str, value: str) -> None:
        """Keep what was found out; the last stays."""
        await self._database.aside(self._database.keep_fact, name, value)

    async def said(self, keys: Iterable[str]) -> dict[str, Said]:
        """What came back from calls, by key; those that are not known are left out."""
        return await self._database.aside(self._said, tuple(keys))

    def _said(self, keys: Iterable[str]) -> dict[str, Said]:
        with self._database.snapshot():  # they may be purged meanwhile
            numbers = {key: call_id(self._database, key, self.team) for key in keys}
            return {k: said(self._database, number) for k, number in numbers.items() if number}

    @property
    def count(self) -> int:
        """How many calls it can answer."""
        row = self._database.one(
            "SELECT count(*) FROM calls WHERE team || '' = ? AND NOT dropped", self.team
        )
        return int(row[0]) if row else 0

    @property
    def costs(self) -> tuple[float, float]:
        """What all its calls have cost, and the dearest of them."""
        row = self._database.one("SELECT sum(cost), max(cost) FROM calls")
        spent, dearest = row or (None, None)
        return float(spent or 0.0), float(dearest or 0.0)

    def _keep_specialist(
        self, call: SpecialistCall, stored: bytes, seconds: float, *, abstained: bool
    ) -> None:
        with self._database.transaction():
            self._keep(
                call.key,
                service=self._database.intern(call.identity),
                form=self._database.intern(
                    call_json({"service": call.service, "parameters": call.parameters})
                ),
                inputs=pack(dict(call.inputs)),
                reply=stored,
                abstained=abstained,
                seconds=seconds,
            )

    def _keep(self, key: str, **columns: object) -> None:
        row = {
            **_USUAL,
            "team": self.team,
            "key": digest_to_bytes(key),
            "made": time.time(),
            **columns,
        }
        self._database.put(CALLS, instead="IGNORE", **row)

    def _prompt(self, prompt: Prompt) -> int:
        parts = [
            {"text": part.text, "data": part.data}
            if isinstance(part, Text)
            else {"image": part.digest, "size": list(part.size), "name": part.name}
            for part in prompt.parts
        ]
        return self._prompt_row(prompt.digest, prompt.system, parts)

    def _prompt_row(self, digest: str, system: str, parts: list[dict[str, Any]]) -> int:
        """The row of a prompt; without parts where only others know them."""
        known = digest_to_bytes(digest)
        if row := self._database.one("SELECT id FROM prompts WHERE digest = ?", known):
            return int(row[0])
        named = self._database.intern(system)
        return self._database.put(PROMPTS, digest=known, system=named, parts=pack(parts))


@dataclass(frozen=True, slots=True)
class StoredPrompt:
    """A prompt as it was sent, without the pictures.

    Attributes:
        parts: The user turn in order: `{text, data}` of a text, `{image, size, name}` of a picture,
            with the digest of what was sent of it; none where only others know them.
    """

    system: str
    parts: tuple[Mapping[str, JsonValue], ...]


def stored_prompt(database: Database, digest: str) -> StoredPrompt | None:
    """The prompt of a digest; None where it is not kept."""
    row = database.one(
        "SELECT system, parts FROM prompts WHERE digest = ?", digest_to_bytes(digest)
    )
    return None if row is None else StoredPrompt(database.text(row[0]), tuple(unpack(row[1])))


def call_id(database: Database, key: str, team: str = "") -> int | None:
    """The row of the call that answers to a key, or None."""
    row = database.one(
        "SELECT id FROM calls WHERE team = ? AND key = ? AND dropped = 0",
        team,
        digest_to_bytes(key),
    )
    return None if row is None else int(row[0])


def said(database: Database, number: int) -> Said:
    """What came back from the call of a row.

    Raises:
        StoreError: there is none.
        ValueError: it cannot be read.
    """
    row = database.one(
        "SELECT calls.key, calls.service, calls.model, prompts.digest, calls.reply,"
        " calls.abstained, calls.prompt_tokens, calls.cached_tokens, calls.completion_tokens,"
        " calls.cost FROM calls LEFT JOIN prompts ON prompts.id = calls.prompt WHERE calls.id = ?",
        number,
    )
    if row is None:
        raise StoreError(f"{database.path} is damaged: it lacks call {number}", RESTORE)
    key, service, model, prompt, reply, abstained, *taken = row
    in_words = prompt is not None or abstained
    counts = dict(zip(_COUNTS, taken, strict=True))
    return Said(
        call=digest_from_bytes(key),
        judge=database.text(service),
        model=None if model is None else database.text(model),
        prompt=None if prompt is None else digest_from_bytes(prompt),
        reply=unpack(reply) if in_words else _shown(outputs_from_bytes(reply)),
        **counts,
    )


def _shown(outputs: Tensors) -> dict[str, JsonValue]:
    """A specialist's outputs as JSON: few numbers as they are, of many how many there are."""
    return {
        name: {"bytes": len(one)}
        if isinstance(one, bytes)
        else (one.tolist() if one.size <= _FEW else {"shape": list(one.shape)})
        for name, one in outputs.items()
    }


def _abstained(call: SpecialistCall, kind: str, reason: str) -> Abstained:
    return Abstained(kind, reason, calls=(call.key,))
