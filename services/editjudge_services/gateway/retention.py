"""What is kept of teams: how much it is, and its deletion by team and by age."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from editjudge.base.config import LedgerPlace
from editjudge.base.text import format_count
from editjudge.service import open_database

from . import calls, usage
from .audit import count_lines, delete_lines, find_logs


@dataclass(frozen=True, slots=True)
class Holdings:
    """How much is kept of a team, or was deleted.

    Attributes:
        replies: Replies to calls, with their prompts.
        usage_days: Days of usage.
        audit_lines: Lines of audit logs.
    """

    replies: int
    usage_days: int
    audit_lines: int

    def __str__(self) -> str:
        replies = format_count(self.replies, "reply", "replies")
        days, lines = (self.usage_days, "day"), (self.audit_lines, "audit line")
        return f"{replies}, {format_count(*days)} of usage, {format_count(*lines)}"


async def read_usage(place: LedgerPlace) -> Mapping[usage.DayAndTeam, usage.TeamUsage]:
    """Read the usage of all teams by day and team; a Judge service may write meanwhile.

    Raises:
        ConfigError: no Judge service has stored usage there.
        StoreError: the file is damaged, or the database is lost.
    """
    if isinstance(place, Path):
        return usage.read_usage(place)
    with open_database(place, 0.0) as ledger:
        rows = await ledger.read_usage()
    return {(day, team): usage.TeamUsage(*counts) for day, team, *counts in rows}


async def measure(place: LedgerPlace, audit: Iterable[Path] = ()) -> Mapping[str, Holdings]:
    """Count what is kept of each team; a Judge service may write meanwhile.

    Args:
        place: The cache of the service, a folder or a database.
        audit: Its audit logs.

    Raises:
        ConfigError: no service has a cache in the folder, or there is no such audit log.
        StoreError: a file is damaged.
    """
    days = Counter(team for _, team in await read_usage(place))
    if isinstance(place, Path):
        replies = await calls.count_calls(place)
    else:
        with open_database(place, 0.0) as ledger:
            replies = await ledger.count_by_team()
    lines = sum(map(count_lines, find_logs(audit)[0]), Counter[str]())
    teams = sorted({*replies, *days, *lines})
    return {team: Holdings(replies[team], days[team], lines[team]) for team in teams}


async def purge(place: LedgerPlace | None, audit: Iterable[Path], team: str | None, before: float | None) -> Holdings:
    """Delete what is kept of a team, or of all teams; a Judge service may use it meanwhile.

    A purge that was broken off is finished by the next one.

    Args:
        place: The cache of the service, a folder or a database; None if there is none.
        audit: Its audit logs. Those that log rotation compressed stay as they are.
        team: The team; None means all teams.
        before: Only what was stored before this time, in seconds since 1970: replies to the second,
            usage and audit lines by whole days (UTC). None means all.

    Returns:
        How much was deleted.

    Raises:
        ConfigError: there is no such audit log.
        StoreError: a file is damaged, or cannot be written.
    """
    day = None if before is None else datetime.fromtimestamp(before, UTC).date().isoformat()
    replies = days = lines = 0
    if isinstance(place, Path):
        replies = await calls.delete_calls(place, team, before)
        days = await asyncio.to_thread(usage.delete_usage, place, team, day)
    elif place is not None:
        with await asyncio.to_thread(open_database, place, 0.0) as ledger:
            replies = await ledger.purge(before, team=team)
            days = await ledger.delete_usage(team, day)
    for path in find_logs(audit)[0]:
        lines += await asyncio.to_thread(delete_lines, path, team, day)
    return Holdings(replies, days, lines)
