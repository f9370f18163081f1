"""The cache of calls: a ledger on disk with a part for each team, or one part for all teams."""

import asyncio
import contextlib
import secrets
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Self, TypeVar

from filelock import FileLock, Timeout

from editjudge.base.config import LedgerPlace, PostgresAddress
from editjudge.base.errors import ConfigError, EditjudgeError
from editjudge.service import (
    AnyLedger,
    Call,
    CallContext,
    CallRecord,
    Ledger,
    MemoryReplies,
    Reply,
    SpecialistCall,
    open_database,
)

from ..runtime.cache import BoundedCache
from .admission import FairLock
from .usage import make_private

T = TypeVar("T")
FILE = "calls.sqlite"
_LOCK = "service.lock"
DAY_SECONDS = 86_400
_MAX_TEAMS = 1024
"""The number of teams with replies in memory; the least recently used is dropped."""
_MAX_REPLIES_IN_MEMORY = 256
"""The number of replies of a team that are held in memory while the ledger cannot be used."""
_LEDGER_RETRY_SECONDS = 300.0
_PATIENCE_SECONDS = 30.0
"""How long requests wait for the server of a database that was lost, as in a failover."""
_PURGE_MARK = "purged-"
"""How the names of files begin that tell a service which teams were purged."""


class CallCache:
    """The cache of the calls of all teams; an async context manager.

    A lock file reserves the folder for one Judge service. A database serves many replicas, of which
    one at a time makes a call of a team. A later failure of the ledger fails no request:
    the failure is logged, calls are made without the ledger, and the ledger is tried again after
    5 minutes. The stored replies survive a restart.

    Args:
        place: The folder of the ledger, or its database; None holds the latest replies of each team
            in memory only.
        is_shared: Whether teams share replies; otherwise each gets only replies to its own calls.
        say: Called with a message of one line when the ledger fails.

    Attributes:
        folder: The folder; None without one.
        has_ledger: Whether replies are stored, and not only held in memory.

    Raises:
        ConfigError: on entry, if another service has locked the folder, or it cannot be written;
            if the database cannot be used, or its role sees the rows of all teams.
    """

    def __init__(self, place: LedgerPlace | None, *, is_shared: bool, say: Callable[[str], None]) -> None:
        self.folder = place if isinstance(place, Path) else None
        self.has_ledger = place is not None
        self._place = place
        self._database_ledger: AnyLedger | None = None
        self._get_purges: Callable[[], Awaitable[dict[str, str]]] | None = None
        self._purges: dict[str, str] = {}
        self._is_shared = is_shared
        self._say = say
        self._opening: asyncio.Task[Ledger] | None = None
        self._locks = FairLock(by_time=False), FairLock(by_time=False)  # to read, to store
        self._retry_time = 0.0
        self._teams: BoundedCache[TeamCalls] = BoundedCache(_MAX_TEAMS)
        self._began = time.monotonic()
        self._resources = contextlib.ExitStack()

    async def __aenter__(self) -> Self:
        if self.folder is not None:
            self._resources.enter_context(lock_folder(self.folder))
        elif isinstance(self._place, PostgresAddress):
            opening = asyncio.to_thread(open_database, self._place, _PATIENCE_SECONDS, self._say)
            self._database_ledger = ledger = self._resources.enter_context(await opening)
            self._get_purges = ledger.get_purges
            if not (ledger.keeps_teams_apart or self._is_shared):
                self._resources.close()
                raise ConfigError(
                    f"{ledger.where}: the role sees the rows of all teams",
                    "give one that is no superuser, or --cache-shared",
                )
        return self

    async def __aexit__(self, *_: object) -> None:
        async with self._locks[False], self._locks[True]:
            opening, self._opening, self._retry_time = self._opening, None, float("inf")
        if opening is not None:
            with contextlib.suppress(EditjudgeError):
                await asyncio.to_thread((await opening).close)
        self._resources.close()

    def bytes(self) -> int:
        """The size of the folder's files on disk, in bytes."""
        return 0 if self.folder is None else sum(map(_size, self.folder.glob("*")))

    def for_team(self, team: str) -> CallContext:
        """Return the context for the calls of a team: its part of the cache, and its cache salt.

        The salt separates the teams in the prefix caches of judges, so that no team can infer the
        prompts of another from response times. It changes with each start of the service, and when
        the team is purged. Teams that share replies have no salt.
        """
        name = "" if self._is_shared else team
        if (calls := self._teams.get(name)) is None:
            self._teams.put(name, calls := TeamCalls(self, name), 1)
        return CallContext(calls=calls, salt="" if self._is_shared else calls.salt)

    async def forget(self, keep_days: float) -> None:
        """Forget replies and salts in memory: of teams that were purged, and of all after days."""
        if keep_days and time.monotonic() - self._began > keep_days * DAY_SECONDS:
            self._began = time.monotonic()
            self._teams = BoundedCache(_MAX_TEAMS)
        for marker in () if self.folder is None else self.folder.glob(f"{_PURGE_MARK}*"):
            name = marker.name.removeprefix(_PURGE_MARK)
            self._teams.put(name, TeamCalls(self, name), 1)
            marker.unlink(missing_ok=True)
        if (get_purges := self._get_purges) is not None:
            purges = await self.try_ledger(lambda _: get_purges(), self._purges)
            for name in {name for name, _ in purges.items() - self._purges.items()}:
                self._teams.put(name, TeamCalls(self, name), 1)
            self._purges = purges

    async def try_ledger(self, work: Callable[[AnyLedger], Awaitable[T]], fallback: T, *, stores: bool = False) -> T:
        """Run `work` with the ledger; return `fallback` if the ledger cannot be used now.

        What stores a reply holds a place at its server meanwhile, so it waits for no reading.
        """
        if not self.has_ledger:
            return fallback
        # One of each kind at a time, so that few calls wait for a locked file.
        async with self._locks[stores] if self._database_ledger is None else contextlib.nullcontext():
            if time.monotonic() < self._retry_time:
                return fallback
            try:
                return await work(self._database_ledger or await self._open_ledger())
            except Exception as error:  # noqa: BLE001 - a broken ledger must not stop judging
                if time.monotonic() < self._retry_time:  # another call said so
                    return fallback
                self._retry_time = time.monotonic() + _LEDGER_RETRY_SECONDS
                self._say(f"calls are not cached for {_LEDGER_RETRY_SECONDS:.0f} s: {error}")
                return fallback

    async def _open_ledger(self) -> Ledger:
        """Return the open ledger. A cancelled caller does not cancel the opening for others."""

        def open_private() -> Ledger:
            path = Path(self.folder or "", FILE)
            make_private(path)
            return Ledger(path)

        if self._opening is None:
            opening = asyncio.to_thread(open_private)
            self._opening = asyncio.create_task(opening)
        try:
            return await asyncio.shield(self._opening)
        except EditjudgeError:
            self._opening = None
            raise


class TeamCalls(MemoryReplies):
    """One team's part of the ledger; a `ReplyStore`.

    If there is no ledger, or it cannot be used now, the latest replies of judges are held in
    memory. Facts about services (`MemoryReplies`) are always held in memory.

    Attributes:
        salt: Tells the team's entries in the prefix caches of judges apart.
    """

    def __init__(self, cache: CallCache, team: str) -> None:
        super().__init__(_MAX_REPLIES_IN_MEMORY)
        self._cache = cache
        self._team = team
        self._ledger: AnyLedger | None = None
        self.salt = secrets.token_hex()

    async def get(self, call: Call | SpecialistCall) -> Reply | None:
        """Return the stored reply to a call; None if there is none."""
        reply = await super().get(call)
        return reply or await self._try_ledger(lambda ledger: ledger.get(call), None)

    @contextlib.asynccontextmanager
    async def claim(self, call: Call | SpecialistCall) -> AsyncIterator[Reply | None]:
        """Get the stored reply, or None for the replica that is to make the call."""
        async with contextlib.AsyncExitStack() as claims:
            yield await super().get(call) or await self._try_ledger(
                lambda ledger: claims.enter_async_context(ledger.claim(call)), None
            )

    async def put(self, call: Call | SpecialistCall, reply: Reply) -> Reply:
        """Store a reply; a cancellation of the caller does not stop it.

        Returns:
            The reply that was stored first for this call, which may be another one.
        """
        if not self._cache.has_ledger:
            return await super().put(call, reply)
        return await asyncio.shield(asyncio.create_task(self._put(call, reply)))

    async def _put(self, call: Call | SpecialistCall, reply: Reply) -> Reply:
        first_reply = await self._try_ledger(lambda ledger: ledger.put(call, reply), None, stores=True)
        return await super().put(call, reply) if first_reply is None else first_reply

    async def drop(self, keys: Iterable[str]) -> int:
        """Remove replies, so that their calls are made again; returns how many were removed."""
        names = tuple(keys)
        return await super().drop(names) + await self._try_ledger(lambda ledger: ledger.drop(names), 0)

    async def get_records(self, keys: Iterable[str]) -> dict[str, CallRecord]:
        """Return the records of calls by key; calls that are not stored are left out."""
        names = tuple(keys)
        records: Mapping[str, CallRecord] = await self._try_ledger(lambda ledger: ledger.get_records(names), {})
        return {**await super().get_records(names), **records}

    async def _try_ledger(self, work: Callable[[AnyLedger], Awaitable[T]], fallback: T, *, stores: bool = False) -> T:
        def work_with_own(ledger: AnyLedger) -> Awaitable[T]:
            self._ledger = self._ledger or ledger.for_team(self._team)
            return work(self._ledger)

        return await self._cache.try_ledger(work_with_own, fallback, stores=stores)


@contextlib.contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Lock a cache folder until the block is left.

    Raises:
        ConfigError: another Judge service has locked the folder, or it cannot be written.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = FileLock(folder / _LOCK, mode=0o600).acquire(timeout=0)
    except Timeout as error:
        raise ConfigError(f"{folder}: another Judge service has its cache here", "give another folder") from error
    except OSError as error:
        raise ConfigError(f"{folder}: {error.strerror}", "give another folder") from error
    with lock:
        yield


async def count_calls(folder: Path) -> Counter[str]:
    """Count the calls of each team in the cache.

    Raises:
        StoreError: the ledger is damaged.
    """
    if not (folder / FILE).is_file():
        return Counter()
    with Ledger(folder / FILE, read_only=True) as ledger:
        return await ledger.count_by_team()


async def delete_calls(folder: Path, team: str | None, before: float | None) -> int:
    """Delete calls from the cache; a Judge service may use it meanwhile.

    Calls are deleted in small batches, so that a running service can write in between. It then
    forgets what it holds of the team in memory. The file shrinks only if no service uses it.

    Args:
        team: The team whose calls are deleted; None means all teams.
        before: Only calls stored before this time, in seconds since 1970; None means all.

    Returns:
        The number of deleted calls.

    Raises:
        StoreError: the ledger is damaged.
    """
    if not (folder / FILE).is_file():
        return 0
    with contextlib.ExitStack() as resources:
        alone = True
        try:
            resources.enter_context(lock_folder(folder))
        except ConfigError:
            alone = False
            if team is not None:
                (folder / f"{_PURGE_MARK}{team}").touch(mode=0o600)
        ledger = resources.enter_context(Ledger(folder / FILE))
        return await ledger.purge(before, team=team, shrink=alone)


def _size(path: Path) -> int:
    """Return the size of a file in bytes; 0 if it was deleted meanwhile."""
    with contextlib.suppress(OSError):
        if path.is_file():
            return path.stat().st_size
    return 0
