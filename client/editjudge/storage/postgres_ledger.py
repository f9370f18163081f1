"""The ledger in PostgreSQL, which many processes on many machines share.

The key of a call and its row's document are those of a ledger in a file. Prompts are not stored,
since a run has those of its calls in its own file.
"""

from __future__ import annotations

import asyncio
import functools
import json
import re
import secrets
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from pathlib import Path

from ..base.closeable import Closeable
from ..base.errors import StoreError
from ..panel.calls import Account, AnyCall, CallRecord, Reply, ReplyStore, SpecialistCall
from .codec import decode_record, decode_reply, digest_to_bytes, encode_reply
from .compression import Compressor
from .postgres import ALL_TEAMS, Postgres, Row
from .schema import decode_text, encode_text

_LEASE = timedelta(seconds=30)
_FIRST_LOOK, _LONGEST_LOOK = 0.05, 1.0
"""Seconds between two looks at a call that another process makes."""
_STATEMENT = re.compile(r"^-- (\w+)$(.*?);$", re.MULTILINE | re.DOTALL)
"""A statement of `postgres_ledger.sql`: its name in a line of its own, and its text."""
PURGE_FACT = "purged"
"""The fact of a team that says when it was purged."""
_OF_ALL_TEAMS = frozenset({"teams", "purges"})
"""Statements that see the rows of all teams; none returns a reply."""


@functools.cache
def _load_statements() -> dict[str, str]:
    return dict(_STATEMENT.findall(Path(__file__).with_suffix(".sql").read_text("utf-8")))


class PostgresLedger(ReplyStore, Closeable):
    """A `ReplyStore` in PostgreSQL; use it as a context manager.

    Each process claims a call before it makes it. A claim is a lease that is renewed while the call
    lasts. Another process that wants the call waits for the reply, and makes the call itself if the
    lease ends without one: the owner died, or was stopped.

    Attributes:
        where: The server and the database.
        repeated_count: How many replies came when the call had one.
        needs_turns: Whether its users must wait for each other.
    """

    needs_turns = False

    def __init__(self, database: Postgres, *, team: str = "") -> None:
        self.team = team
        self.where = database.where
        self.repeated_count = 0
        self._database = database
        self._owner = secrets.token_bytes(8)
        self._compressor = Compressor(tuple, None)
        self._claimed_keys: set[str] = set()

    @property
    def keeps_teams_apart(self) -> bool:
        """Whether the database itself shows a team no row of another; to a superuser it does."""
        return not self._database.sees_all

    def for_team(self, team: str) -> PostgresLedger:
        """Return the ledger of a team in the same database."""
        return PostgresLedger(self._database, team=team)

    def close(self) -> None:
        """Close the connections."""
        self._database.close()

    def _of(self, key: str) -> dict[str, object]:
        # When a server comes back, its owners have a lease's time to renew what ended meanwhile.
        grace = max(self._database.return_time + _LEASE.total_seconds() - time.monotonic(), 0.0)
        times = {"lease": _LEASE, "grace": timedelta(seconds=grace)}
        return {"key": digest_to_bytes(key), "owner": self._owner, **times}

    async def _fetch(self, name: str, values: Mapping[str, object], *, waits: bool = True) -> list[Row]:
        team = encode_text(self.team)
        sql, values = _load_statements()[name], {"team": team, **values}
        visible_team = ALL_TEAMS if name in _OF_ALL_TEAMS else f"x{team.hex()}"
        return await self._database.fetch(sql, values, visible_team, waits=waits)

    async def get(self, call: AnyCall) -> Reply | None:
        """Get the reply to a call that was made before, or None."""
        return self._decode(await self._fetch("get", self._of(call.key)))

    def _decode(self, rows: list[Row]) -> Reply | None:
        if not rows or rows[0][1] is None:
            return None
        return decode_reply(self._compressor.decompress, rows[0])

    @asynccontextmanager
    async def claim(self, call: AnyCall) -> AsyncIterator[Reply | None]:
        """Get the stored reply, or None for who is to make the call; see `ReplyStore`."""
        renewal: asyncio.Task[None] | None = None
        self._claimed_keys.add(call.key)  # also where the statement is interrupted
        try:
            wait = _FIRST_LOOK
            while not (rows := await self._fetch("claim", self._of(call.key))):
                await asyncio.sleep(wait)
                wait = min(1.5 * wait, _LONGEST_LOOK)
            if (reply := self._decode(rows)) is None:
                renewal = asyncio.create_task(self._renew(call.key))
            else:
                self._claimed_keys.discard(call.key)
            yield reply
        finally:
            if renewal is not None:
                renewal.cancel()
            if call.key in self._claimed_keys:
                self._claimed_keys.discard(call.key)
                # Where the server is lost, the lease ends by itself.
                with suppress(StoreError):
                    await self._fetch("release", self._of(call.key), waits=False)

    async def _renew(self, key: str) -> None:
        with suppress(StoreError):  # the call goes on, and its reply is stored if nobody was faster
            while True:
                await asyncio.sleep(_LEASE.total_seconds() / 3)
                await self._fetch("renew", self._of(key))

    async def put(self, call: AnyCall, reply: Reply) -> Reply:
        """Commit a reply, unless the call has one: the first reply to a call stays."""
        record, outputs = encode_reply(call, reply)
        document = self._compressor.compress(record)
        prompt = None if isinstance(call, SpecialistCall) else digest_to_bytes(call.prompt.digest)
        values = {**self._of(call.key), "prompt": prompt, "cost": reply.cost}
        is_new = await self._fetch("put", {**values, "document": document, "outputs": outputs})
        self._claimed_keys.discard(call.key)
        if is_new:
            return self._decode([(reply.cost, document, outputs)]) or reply
        rows = await self._fetch("stored", self._of(call.key))
        # Its own where the connection was lost between the commit and the answer.
        self.repeated_count += any(not is_own for is_own, *_ in rows)
        return self._decode([row[1:] for row in rows]) or reply  # or it was deleted meanwhile

    async def get_records(self, keys: Iterable[str]) -> dict[str, CallRecord]:
        """Get the records of calls, by key; calls that are not stored are left out."""
        names = {digest_to_bytes(key): key for key in keys}
        found_rows = {row[0]: row for row in await self._fetch("records", {"keys": [*names]})}
        rows = {name: found_rows[key] for key, name in names.items() if key in found_rows}
        return {key: decode_record(self._compressor.decompress, row) for key, row in rows.items()}

    async def drop(self, keys: Iterable[str]) -> int:
        """Delete the replies to calls, so that the calls are made again; returns how many."""
        return len(await self._fetch("drop", {"keys": [digest_to_bytes(key) for key in keys]}))

    async def get_fact(self, name: str) -> str | None:
        """Get the fact of this name, or None."""
        rows = await self._fetch("fact", {"name": encode_text(name)})
        return decode_text(rows[0][0]) if rows else None

    async def put_fact(self, name: str, value: str) -> None:
        """Store a fact; it replaces an earlier one of that name."""
        await self._fetch("put_fact", {"name": encode_text(name), "value": encode_text(value)})

    async def count_by_team(self) -> Counter[str]:
        """Count the calls of each team."""
        teams = [decode_text(row[0]) for row in await self._fetch("teams", {})]
        counts = [await self.for_team(team)._fetch("count", {}) for team in teams]
        return Counter({team: rows[0][0] for team, rows in zip(teams, counts, strict=True)})

    async def purge(self, before: float | None = None, *, team: str | None = None) -> int:
        """Delete calls for good, in pieces, so that others read and write meanwhile.

        The server overwrites the deleted bytes in its own time (`VACUUM`).

        Args:
            before: Only calls made before this time, in seconds since 1970.
            team: Only calls of this team; None for all teams.

        Returns:
            How many calls were deleted.
        """
        rows = await self._fetch("teams", {}) if team is None else [(encode_text(team),)]
        count = 0
        for ledger in (self.for_team(decode_text(row[0])) for row in rows):
            while piece := await ledger._fetch("purge", {"before": before}):
                count += sum(is_reply for (is_reply,) in piece)
        if team is not None:
            await self.for_team(team).put_fact(PURGE_FACT, str(time.time()))
        return count

    async def get_purges(self) -> dict[str, str]:
        """Get when each team was purged, by team, for who holds replies in memory."""
        return {decode_text(row[0]): decode_text(row[1]) for row in await self._fetch("purges", {})}

    async def add_usage(self, batch: int, rows: Iterable[Mapping[str, object]]) -> None:
        """Add what teams used; a batch that this process added before is not added again.

        Args:
            rows: The columns of the table, without the process and the batch.
        """
        own = {"process": self._owner.hex(), "batch": batch}
        await self._fetch("add_usage", {"rows": json.dumps([{**row, **own} for row in rows])})

    async def read_usage(self) -> list[Row]:
        """Read the usage of all teams: day, team, and the columns of the table that are counts."""
        return await self._fetch("usage", {})

    async def delete_usage(self, team: str | None, before_day: str | None) -> int:
        """Delete the usage of a team, or of all, on all days or on those before one (ISO 8601)."""
        return len(await self._fetch("delete_usage", {"of": team, "day": before_day}))

    def open_account(self, budget: str) -> Account:
        """Open the account of a budget, in which this one has a row of its own."""
        row = {"budget": encode_text(budget), "owner": secrets.token_bytes(8)}

        async def spend(cost: float, dearest: float) -> tuple[float, float]:
            ((others, most),) = await self._fetch("spend", {**row, "cost": cost, "dearest": dearest})
            return others, most

        return spend
