"""Where calls of many teams are kept: in a ledger of each team, or in one that they share."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import re
import secrets
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextvars import Context
from dataclasses import dataclass
from pathlib import Path
from typing import Self, TypeVar

import numpy as np
from filelock import FileLock, Timeout
from numpy.typing import NDArray

from editjudge.base.contracts import Tensors
from editjudge.base.errors import Abstained, ConfigError, EditjudgeError
from editjudge.panel.calls import Call, RememberedReplies, Reply, Said, SpecialistCall
from editjudge.storage.ledger import Ledger
from editjudge.storage.private import made_private

T = TypeVar("T")
_LOCK = "service.lock"
_TEAMS = "teams"
_SHARED = "shared.sqlite"
_MOST_OPEN = 64
_REMEMBERED = 256
"""Replies of a team that are held in memory where they cannot be kept."""
_LEFT_ALONE_SECONDS = 300.0
_PURGED_EVERY_SECONDS = 3600.0
_TEAM = "team"
"""The fact that says whose a ledger is."""
_DIGITS = 16
_SHOWN = 40


def ledger_of(folder: Path, team: str) -> Path:
    """The file of a team.

    Its name has the beginning of the team's, for people; the digest tells teams apart, also where
    files that differ in case are one.
    """
    readable = re.sub(r"[^a-z0-9_-]", "_", team.lower())[:_SHOWN] or "nobody"
    digest = hashlib.sha256(team.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]
    return folder / _TEAMS / f"{readable}.{digest}.sqlite"


class CallCache:
    """The calls of all teams; use as an async context manager. One service has a folder at a time.

    Args:
        folder: None keeps the latest calls of each team in memory.
        shared: Whether what one team paid for answers another.
        say: Told where a ledger cannot be used: its team goes on without.
        most_open: Ledgers that are open at a time, beside those in use.

    Raises:
        ConfigError: on entry, where another service has the folder, or it cannot be written.
    """

    def __init__(
        self,
        folder: Path | None,
        *,
        shared: bool,
        say: Callable[[str], None],
        most_open: int = _MOST_OPEN,
    ) -> None:
        self.folder = folder
        self._shared = shared
        self._say = say
        self._most_open = most_open
        self._open: OrderedDict[str, _Held] = OrderedDict()
        self._secret = secrets.token_hex()
        self._resources = contextlib.ExitStack()

    async def __aenter__(self) -> Self:
        if self.folder is not None:
            self._resources.enter_context(alone_in(self.folder))
        return self

    async def __aexit__(self, *_: object) -> None:
        for held in self._open.values():
            await held.calls.close()
        self._open.clear()
        self._resources.close()

    @property
    def open(self) -> int:
        """How many ledgers are open."""
        return len(self._open)

    def bytes(self) -> int:
        """Its size on the disk."""
        return 0 if self.folder is None else sum(map(_size, self.folder.rglob("*")))

    @contextlib.asynccontextmanager
    async def of(self, team: str) -> AsyncIterator[tuple[CallsOfTeam, str]]:
        """The calls that answer a team, and no other, for as long as the block takes.

        With them the salt by which servers keep its cache of prefixes apart; see `CallContext`.
        """
        name = "" if self._shared else team
        held = self._open.setdefault(name, _Held(CallsOfTeam(self._opening(name), self._say)))
        self._open.move_to_end(name)
        held.users += 1
        try:
            await self._close_idle()
            yield held.calls, "" if self._shared else self._salt(team)
        finally:
            held.users -= 1

    def _salt(self, team: str) -> str:
        return hashlib.sha256(f"{self._secret} {team}".encode()).hexdigest()

    async def _close_idle(self) -> None:
        idle = [name for name, held in self._open.items() if not held.users]
        closed = [self._open.pop(n) for n in idle[: max(0, len(self._open) - self._most_open)]]
        if closed:
            closing = asyncio.create_task(_closed(closed), context=Context())
            await asyncio.shield(closing)

    def _opening(self, name: str) -> Callable[[], Awaitable[Ledger]] | None:
        """How to open the ledger of a team; None where none is kept."""
        if self.folder is None:
            return None
        path = self.folder / _SHARED if self._shared else ledger_of(self.folder, name)

        async def opened() -> Ledger:
            await asyncio.to_thread(made_private, path)
            ledger = await asyncio.to_thread(Ledger, path)
            try:
                if not self._shared and await ledger.fact(_TEAM) != name:
                    await ledger.keep_fact(_TEAM, name)
            except EditjudgeError:
                await asyncio.to_thread(ledger.close)
                raise
            return ledger

        return opened


class CallsOfTeam:
    """A `CallStore` over a ledger that may fail: that costs what it holds, and nothing else.

    A ledger that failed is told, left alone and tried again some minutes later. Meanwhile, and
    where there is none, the latest replies of generalists are held in memory.

    Args:
        opened: Opens the ledger; None where there is none.
        say: Told where it fails.
    """

    def __init__(
        self, opened: Callable[[], Awaitable[Ledger]] | None, say: Callable[[str], None]
    ) -> None:
        self._opened = opened
        self._opening: asyncio.Task[Ledger] | None = None
        self._say = say
        self._recent = RememberedReplies(_REMEMBERED)
        self._turn = asyncio.Lock()
        self._again = 0.0

    async def close(self) -> None:
        """Close the ledger; what is asked of it later is not kept."""
        async with self._turn:
            opening, self._opening, self._opened = self._opening, None, None
        if opening is not None:
            with contextlib.suppress(EditjudgeError):
                await asyncio.to_thread((await opening).close)

    async def get(self, call: Call) -> Reply | None:
        """The reply to a call that was made before, or None."""
        known = await self._recent.get(call)
        if known is None:
            known = await self._tried(lambda ledger: ledger.get(call), None)
        return known

    async def put(self, call: Call, reply: Reply) -> None:
        """Keep a reply, also where the caller is cancelled; the first one for a call stays."""
        await asyncio.shield(asyncio.create_task(self._put(call, reply)))

    async def _put(self, call: Call, reply: Reply) -> None:
        async def put(ledger: Ledger) -> bool:
            await ledger.put(call, reply)
            return True

        if not await self._tried(put, False):
            await self._recent.put(call, reply)

    async def outputs(self, call: SpecialistCall) -> Tensors | None:
        """What a specialist returned before, or None; raises what it abstained with."""
        return await self._tried(lambda ledger: ledger.outputs(call), None)

    async def keep_outputs(
        self,
        call: SpecialistCall,
        outputs: Mapping[str, NDArray[np.float32] | bytes],
        seconds: float,
    ) -> Tensors:
        """Keep what a specialist returned, and return it as it will come back from now on."""
        kept = await self._tried(lambda ledger: ledger.keep_outputs(call, outputs, seconds), None)
        return dict(outputs) if kept is None else kept

    async def keep_abstention(self, call: SpecialistCall, kind: str, reason: str) -> Abstained:
        """Keep that a specialist abstained, and return what `outputs` raises from now on."""
        kept = await self._tried(lambda ledger: ledger.keep_abstention(call, kind, reason), None)
        return kept or Abstained(kind, reason, calls=(call.key,))

    async def said(self, keys: Iterable[str]) -> Mapping[str, Said]:
        """What came back from calls, by key; those that are not known are left out."""
        asked = tuple(keys)
        kept: dict[str, Said] = await self._tried(lambda ledger: ledger.said(asked), {})
        return {**await self._recent.said(asked), **kept}

    async def fact(self, name: str) -> str | None:
        """Something found out about a service before, or None."""
        return await self._recent.fact(name)

    async def keep_fact(self, name: str, value: str) -> None:
        """Keep what was found out; the last stays."""
        await self._recent.keep_fact(name, value)

    async def drop(self, keys: Iterable[str]) -> int:
        """Forget replies, so that the calls are made again; returns how many there were."""
        asked = tuple(keys)
        return await self._tried(lambda ledger: ledger.drop(asked), 0)

    async def _tried(self, work: Callable[[Ledger], Awaitable[T]], otherwise: T) -> T:
        """What the ledger says; something else where it cannot be used now."""
        # One after another, so that a file that is locked is waited for once, not by every call.
        async with self._turn:
            if self._opened is None or time.monotonic() < self._again:
                return otherwise
            try:
                return await work(await self._ledger(self._opened))
            except Abstained:
                raise
            except Exception as error:  # noqa: BLE001 - whatever is wrong with it, judging is not
                self._again = time.monotonic() + _LEFT_ALONE_SECONDS
                self._say(f"calls are not kept for {_LEFT_ALONE_SECONDS:.0f} s: {error}")
                return otherwise

    async def _ledger(self, opened: Callable[[], Awaitable[Ledger]]) -> Ledger:
        """The ledger, opened by the first who asks, also where he is cancelled meanwhile."""
        if self._opening is None:
            # Not in the context of whoever asks: others wait for it too.
            self._opening = asyncio.create_task(_awaited(opened), context=Context())
        try:
            return await asyncio.shield(self._opening)
        except EditjudgeError:
            self._opening = None
            raise


async def _closed(several: Iterable[_Held]) -> None:
    for each in several:
        await each.calls.close()


async def _awaited(opened: Callable[[], Awaitable[Ledger]]) -> Ledger:
    return await opened()


@dataclass
class _Held:
    calls: CallsOfTeam
    users: int = 0


@contextlib.contextmanager
def alone_in(folder: Path) -> Iterator[None]:
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


async def purge(
    folder: Path, teams: Iterable[str], before: float | None
) -> dict[str, int | EditjudgeError]:
    """Delete calls that were kept, also while a service keeps more.

    Args:
        teams: Whose; all by default.
        before: Only those kept before this time, in seconds since 1970; all by default. Where no
            service has the folder, that takes ledgers that are damaged too.

    Returns:
        By team how many there were, or why its ledger cannot be purged; of those that teams share
        under "(shared)".

    Raises:
        ConfigError: no calls of a team are kept there.
    """
    named = {team: ledger_of(folder, team) for team in teams}
    for team, path in named.items():
        if not path.is_file():
            raise ConfigError(
                f"{folder}: no calls of team {team!r} are kept here",
                "look at its name, and --cache",
            )
    if not (folder / _LOCK).is_file():
        raise ConfigError(f"{folder}: no Judge service has kept calls here", "give its --cache")
    with contextlib.ExitStack() as resources:
        alone = True
        try:
            resources.enter_context(alone_in(folder))
        except ConfigError:
            alone = False
        whole = alone and before is None
        return {
            team: _deleted(path) if whole else await _purged(path, before, alone=alone)
            for team, path in (named or await _all_in(folder)).items()
        }


@contextlib.asynccontextmanager
async def purging(
    folder: Path, seconds: float, say: Callable[[str], None], every: float = _PURGED_EVERY_SECONDS
) -> AsyncIterator[None]:
    """Delete calls of all teams once they are old, for the duration of a block.

    Args:
        folder: That a service of this process has.
        seconds: How long calls are kept, at least.
        say: Told where a ledger cannot be purged; it is tried again.
        every: Seconds from one look to the next.
    """

    async def purge_again() -> None:
        while True:
            purged = await purge(folder, (), time.time() - seconds)
            for team, count in purged.items():
                if isinstance(count, EditjudgeError):
                    say(f"old calls of {team or '(no team)'} are still there: {count}")
            await asyncio.sleep(every)

    task = asyncio.create_task(purge_again())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def _all_in(folder: Path) -> dict[str, Path]:
    shared = {"(shared)": folder / _SHARED} if (folder / _SHARED).is_file() else {}
    files = sorted((folder / _TEAMS).glob("*.sqlite"))
    return shared | {await _team_of(path): path for path in files}


async def _team_of(path: Path) -> str:
    try:
        with Ledger.to_read(path) as ledger:
            team = await ledger.fact(_TEAM)
            return path.stem if team is None else team
    except EditjudgeError:
        return path.stem


async def _purged(path: Path, before: float | None, *, alone: bool) -> int | EditjudgeError:
    try:
        with Ledger(path) as ledger:
            return await ledger.purge(before, shrink=alone)
    except EditjudgeError as error:
        return error


def _deleted(path: Path) -> int:
    try:
        with Ledger.to_read(path) as ledger:
            count = ledger.count
    except EditjudgeError:
        count = 0
    for each in (path, *(path.with_name(path.name + end) for end in ("-wal", "-shm"))):
        each.unlink(missing_ok=True)
    return count


def _size(path: Path) -> int:
    """Of a file; it may be gone meanwhile."""
    with contextlib.suppress(OSError):
        if path.is_file():
            return path.stat().st_size
    return 0
