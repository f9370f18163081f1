"""Where calls of many teams are kept: apart in one ledger, or shared by all of them."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Self, TypeVar

from filelock import FileLock, Timeout

from editjudge.base.errors import ConfigError, EditjudgeError
from editjudge.service import (
    Call,
    CallContext,
    CallRecord,
    Ledger,
    MemoryReplies,
    Reply,
    SpecialistCall,
)

from ..runtime.cache import BoundedCache
from .usage import make_private

T = TypeVar("T")
FILE = "calls.sqlite"
_LOCK = "service.lock"
_MOST_TEAMS = 1024
"""Whose replies are held in memory."""
_REMEMBERED = 256
"""Replies of a team that are held in memory where they cannot be kept."""
_LEFT_ALONE_SECONDS = 300.0
_PURGED_EVERY_SECONDS = 3600.0


class CallCache:
    """The calls of all teams; use as an async context manager. One service has a folder at a time.

    A ledger that failed is told, left alone and tried again some minutes later: that costs what
    it holds, and nothing else.

    Args:
        folder: None keeps the latest calls of each team in memory.
        shared: Whether what one team paid for answers another.
        say: Told where the ledger cannot be used.

    Raises:
        ConfigError: on entry, where another service has the folder, or it cannot be written.
    """

    def __init__(self, folder: Path | None, *, shared: bool, say: Callable[[str], None]) -> None:
        self.folder = folder
        self._shared = shared
        self._say = say
        self._opening: asyncio.Task[Ledger] | None = None
        self._turn = asyncio.Lock()
        self._again = 0.0
        self._teams: BoundedCache[TeamCalls] = BoundedCache(_MOST_TEAMS)
        self._secret = secrets.token_hex()
        self._resources = contextlib.ExitStack()

    async def __aenter__(self) -> Self:
        if self.folder is not None:
            self._resources.enter_context(lock_folder(self.folder))
        return self

    async def __aexit__(self, *_: object) -> None:
        async with self._turn:
            opening, self._opening, self._again = self._opening, None, float("inf")
        if opening is not None:
            with contextlib.suppress(EditjudgeError):
                await asyncio.to_thread((await opening).close)
        self._resources.close()

    def bytes(self) -> int:
        """Its size on the disk."""
        return 0 if self.folder is None else sum(map(_size, self.folder.glob("*")))

    def for_team(self, team: str) -> CallContext:
        """The calls that answer a team, and no other."""
        name = "" if self._shared else team
        if (calls := self._teams.get(name)) is None:
            self._teams.put(name, calls := TeamCalls(self, name), 1)
        salt = hashlib.sha256(f"{self._secret} {team}".encode()).hexdigest()
        return CallContext(calls=calls, salt="" if self._shared else salt)

    async def try_ledger(self, work: Callable[[Ledger], Awaitable[T]], otherwise: T) -> T:
        """What the ledger says; something else where it cannot be used now."""
        if self.folder is None:
            return otherwise
        # One after another, so that a file that is locked is waited for once, not by every call.
        async with self._turn:
            if time.monotonic() < self._again:
                return otherwise
            try:
                return await work(await self._ledger(self.folder / FILE))
            except Exception as error:  # noqa: BLE001 - whatever is wrong with it, service is not
                self._again = time.monotonic() + _LEFT_ALONE_SECONDS
                self._say(f"calls are not kept for {_LEFT_ALONE_SECONDS:.0f} s: {error}")
                return otherwise

    async def _ledger(self, path: Path) -> Ledger:
        """The ledger, opened by the first who asks, also where he is cancelled meanwhile."""

        def opened() -> Ledger:
            make_private(path)
            return Ledger(path)

        if self._opening is None:
            opening = asyncio.to_thread(opened)
            self._opening = asyncio.create_task(opening)
        try:
            return await asyncio.shield(self._opening)
        except EditjudgeError:
            self._opening = None
            raise


class TeamCalls(MemoryReplies):
    """The calls of one team in the ledger of all. A `ReplyStore`.

    While the ledger cannot be used, and where there is none, the latest replies of judges are
    held in memory; what is found out about services always is.
    """

    def __init__(self, cache: CallCache, team: str) -> None:
        super().__init__(_REMEMBERED)
        self._cache = cache
        self._team = team

    async def get(self, call: Call | SpecialistCall) -> Reply | None:
        """The reply to a call that was made before, or None."""
        remembered = await super().get(call)
        return remembered or await self._try_ledger(lambda ledger: ledger.get(call), None)

    async def put(self, call: Call | SpecialistCall, reply: Reply) -> Reply:
        """Keep a reply, also where the caller is cancelled; the first one for a call stays."""
        return await asyncio.shield(asyncio.create_task(self._put(call, reply)))

    async def _put(self, call: Call | SpecialistCall, reply: Reply) -> Reply:
        kept = await self._try_ledger(lambda ledger: ledger.put(call, reply), None)
        return await super().put(call, reply) if kept is None else kept

    async def get_records(self, keys: Iterable[str]) -> dict[str, CallRecord]:
        """What came back from calls, by key; those that are not known are left out."""
        asked = tuple(keys)
        kept: Mapping[str, CallRecord] = await self._try_ledger(
            lambda ledger: ledger.get_records(asked), {}
        )
        return {**await super().get_records(asked), **kept}

    async def _try_ledger(self, work: Callable[[Ledger], Awaitable[T]], otherwise: T) -> T:
        return await self._cache.try_ledger(
            lambda ledger: work(ledger.for_team(self._team)), otherwise
        )


@contextlib.contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Have a folder for oneself.

    Raises:
        ConfigError: a service has it, or it cannot be written.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = FileLock(folder / _LOCK, mode=0o600).acquire(timeout=0)
    except Timeout as error:
        raise ConfigError(
            f"{folder}: another Judge service keeps its calls here", "give another folder"
        ) from error
    except OSError as error:
        raise ConfigError(f"{folder}: {error.strerror}", "give another folder") from error
    with lock:
        yield


async def measure_space(folder: Path) -> Mapping[str, int]:
    """About how many bytes the calls of each team take.

    Raises:
        ConfigError: no service has kept calls there.
        StoreError: the ledger is damaged.
    """
    path = folder / FILE
    if not path.is_file():
        raise ConfigError(f"{folder}: no Judge service has kept calls here", "give its --cache")
    with Ledger.to_read(path) as ledger:
        return await ledger.space()


async def purge(folder: Path, teams: Iterable[str], before: float | None) -> dict[str, int]:
    """Delete calls that were kept, also while a service keeps more.

    Some are deleted at a time, so that others write in between.

    Args:
        teams: Whose; all by default.
        before: Only those kept before this time, in seconds since 1970; all by default.

    Returns:
        By team how many there were.

    Raises:
        ConfigError: no calls of a team are kept there.
        StoreError: the ledger is damaged.
    """
    space = await measure_space(folder)
    named = tuple(teams)
    if unknown := [team for team in named if team not in space]:
        raise ConfigError(
            f"{folder}: no calls of team {unknown[0]!r} are kept here",
            "look at its name, and --cache",
        )
    with contextlib.ExitStack() as resources:
        alone = True
        try:
            resources.enter_context(lock_folder(folder))
        except ConfigError:
            alone = False
        with Ledger(folder / FILE) as ledger:
            return {
                team: await ledger.purge(before, team=team, shrink=alone) for team in named or space
            }


@contextlib.asynccontextmanager
async def purge_periodically(
    folder: Path, seconds: float, say: Callable[[str], None], every: float = _PURGED_EVERY_SECONDS
) -> AsyncIterator[None]:
    """Delete calls of all teams once they are old, for the duration of a block.

    Args:
        folder: That a service of this process has.
        seconds: How long calls are kept, at least.
        say: Told where the ledger cannot be purged; it is tried again.
        every: Seconds from one look to the next.
    """

    async def purge_again() -> None:
        while True:
            if (folder / FILE).is_file():
                try:
                    await purge(folder, (), time.time() - seconds)
                except EditjudgeError as error:
                    say(f"old calls are still there: {error}")
            await asyncio.sleep(every)

    task = asyncio.create_task(purge_again())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def _size(path: Path) -> int:
    """Of a file; it may be gone meanwhile."""
    with contextlib.suppress(OSError):
        if path.is_file():
            return path.stat().st_size
    return 0
