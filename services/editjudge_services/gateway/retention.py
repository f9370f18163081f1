"""What is kept of teams: how much it is, and its deletion by team and by age."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from editjudge.base.errors import ConfigError, EditjudgeError
from editjudge.base.text import format_count
from editjudge.service import Ledger

from . import calls, usage
from .audit import count_lines, delete_lines, find_logs

_INTERVAL_SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class Kept:
    """What is kept of a team.

    Attributes:
        reply_bytes: The size of its replies with their prompts, estimated.
        usage_days: The days of its usage.
        audit_lines: Its lines in audit logs.
    """

    reply_bytes: int
    usage_days: int
    audit_lines: int

    def __str__(self) -> str:
        days, lines = _count_days(self.usage_days), format_count(self.audit_lines, "audit line")
        return f"{self.reply_bytes / 1e6:.2f} MB of replies, {days}, {lines}"


@dataclass(frozen=True, slots=True)
class Deletion:
    """What was deleted.

    Attributes:
        replies: Replies to calls, with their prompts.
        usage_days: Days of usage, counted for each team.
        audit_lines: Lines of audit logs.
    """

    replies: int
    usage_days: int
    audit_lines: int

    def __str__(self) -> str:
        days, lines = _count_days(self.usage_days), format_count(self.audit_lines, "audit line")
        return f"{format_count(self.replies, 'reply', 'replies')}, {days} and {lines} deleted"


def _count_days(days: int) -> str:
    return f"{format_count(days, 'day')} of usage"


async def measure(folder: Path, audit: Iterable[Path] = ()) -> Mapping[str, Kept]:
    """Measure what is kept of each team; a Judge service may write meanwhile.

    Args:
        folder: The cache folder of the service.
        audit: Its audit logs.

    Raises:
        ConfigError: no service has a cache in the folder, or there is no such audit log.
        StoreError: a file is damaged.
    """
    if not any((folder / name).is_file() for name in (calls.FILE, usage.FILE)):
        raise ConfigError(f"{folder}: no Judge service has a cache here", "give its --cache")
    space: Mapping[str, int] = {}
    if (folder / calls.FILE).is_file():
        with Ledger.open_read_only(folder / calls.FILE) as ledger:
            space = await ledger.space()
    days: Counter[str] = Counter()
    if (folder / usage.FILE).is_file():
        days.update(team for _, team in usage.read_usage(folder))
    lines = sum(map(count_lines, find_logs(audit)[0]), Counter[str]())
    teams = sorted({*space, *days, *lines})
    return {team: Kept(space.get(team, 0), days[team], lines[team]) for team in teams}


async def purge(
    folder: Path | None, audit: Iterable[Path], team: str | None, before: float | None
) -> Deletion:
    """Delete what is kept of a team, or of all teams; a Judge service may use it meanwhile.

    A purge that was broken off is finished by the next one.

    Args:
        folder: The cache folder of the service; None if there is none.
        audit: Its audit logs. Those that log rotation compressed stay as they are.
        team: The team; None means all teams.
        before: Only what was stored before this time, in seconds since 1970: replies to the second,
            usage and audit lines by whole days (UTC). None means all.

    Raises:
        ConfigError: there is no such audit log.
        StoreError: a file is damaged, or cannot be written.
    """
    day = None if before is None else datetime.fromtimestamp(before, UTC).date().isoformat()
    replies = days = lines = 0
    if folder is not None and (folder / calls.FILE).is_file():
        replies = await calls.delete_calls(folder, team, before)
    if folder is not None and (folder / usage.FILE).is_file():
        days = await asyncio.to_thread(usage.delete_usage, folder, team, day)
    for path in find_logs(audit)[0]:
        lines += await asyncio.to_thread(delete_lines, path, team, day)
    return Deletion(replies, days, lines)


@contextlib.asynccontextmanager
async def purge_periodically(
    folder: Path | None,
    audit: Path | None,
    keep_days: float,
    say: Callable[[str], None],
    every: float = _INTERVAL_SECONDS,
) -> AsyncIterator[None]:
    """Delete what is old of all teams at regular intervals until the block is left.

    Args:
        folder: The cache folder of the Judge service in this process; None if there is none.
        audit: Its audit log; None if it has no file.
        keep_days: The age in days from which all is deleted, at the next purge; 0 deletes nothing.
        say: Called with a message of one line if a purge fails; the next purge tries again.
        every: The interval between purges in seconds.
    """
    logs = [] if audit is None else [audit]

    async def purge_again() -> None:
        while keep_days:
            try:
                await purge(folder, logs, None, time.time() - keep_days * calls.DAY_SECONDS)
            except EditjudgeError as error:
                say(f"what is old could not be deleted: {error}")
            await asyncio.sleep(every)

    task = asyncio.create_task(purge_again())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
