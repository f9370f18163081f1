"""`editjudge serve`: judge for callers without our client."""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from editjudge.app.wire.usage import UsedOnDay
from editjudge.base.config import Settings
from editjudge.base.console import console
from editjudge.base.errors import ConfigError, MissingExtra
from editjudge.base.screen import say, say_json, tell
from editjudge.base.strict import text_of
from editjudge.cli.options import PATH, settings_of, takes
from editjudge.cli.services import services_at_hand
from editjudge.report.table import Head, Row, Table

from ..judge.accounts import Day, Used, used_in
from ..judge.callers import alone_in, purge, purging

if TYPE_CHECKING:
    from ..judge.judging import Kept

_DAY_SECONDS = 86_400


@click.group("serve", invoke_without_command=True)
@takes(
    "generalist",
    "endpoint",
    address={
        "default": "127.0.0.1:8002",
        "show_default": True,
        "metavar": "HOST:PORT",
        "help": "Where callers come to. It asks nobody who he is: put the front door before it.",
    },
    http_address={
        "default": "127.0.0.1:8003",
        "show_default": True,
        "metavar": "HOST:PORT",
        "help": "The same as JSON over HTTP.",
    },
    edits={
        "type": click.IntRange(1),
        "default": 64,
        "show_default": True,
        "help": "At a time.",
    },
    edits_of_one={
        "type": click.IntRange(1),
        "default": 32,
        "show_default": True,
        "help": "At a time, of one caller.",
    },
    megapixels={
        "type": click.IntRange(2),
        "default": 128,
        "show_default": True,
        "help": "Of pictures that are judged at a time; a caller has half. They take up to 120 MB"
        " each.",
    },
    notice={
        "type": click.FloatRange(0),
        "default": 6.0,
        "show_default": True,
        "help": "Seconds between saying that it ends and ending.",
    },
    drain={
        "type": click.FloatRange(0),
        "default": 30.0,
        "show_default": True,
        "help": "Seconds for what is in flight then.",
    },
    cache={
        "type": PATH,
        "metavar": "FOLDER",
        "help": "Keep calls, which are not made again, and what each team has used. Without it both"
        " are gone with the service.",
    },
    cache_shared={
        "is_flag": True,
        "help": "What one team paid for answers the others too.",
    },
    keep_days={
        "type": click.FloatRange(0, min_open=True),
        "metavar": "DAYS",
        "help": "Delete calls from the cache so many days after they were kept.",
    },
    audit={
        "type": PATH,
        "metavar": "FILE",
        "help": "Add a line of JSON for each edit, without its content; - is standard error.",
    },
    max_cost_per_day={
        "type": click.FloatRange(0, min_open=True),
        "help": "Of each team, in the currency of the configured prices; days begin at 00:00 UTC.",
    },
)
@click.pass_context
def command(
    context: click.Context,
    /,
    address: str,
    http_address: str,
    edits: int,
    edits_of_one: int,
    megapixels: int,
    notice: float,
    drain: float,
    cache: Path | None,
    keep_days: float | None,
    audit: Path | None,
    *,
    cache_shared: bool,
    max_cost_per_day: float | None,
    **asked: Any,
) -> int:
    """Serve the Judge service over gRPC until SIGTERM; then it finishes what is in flight.

    docs/serving.md says what it answers.
    """
    if context.invoked_subcommand is not None:
        return 0
    for flag, value in (("--cache-shared", cache_shared), ("--keep-days", keep_days)):
        if value and cache is None:
            raise ConfigError(f"{flag} needs a cache", "give --cache FOLDER too")
    try:
        from ..judge.judging import Kept
    except ImportError as error:
        raise MissingExtra("the Judge service", "judge") from error
    settings = settings_of(asked)
    for name, instead in (("ledger", "--cache"), ("max_cost", "--max-cost-per-day")):
        if getattr(settings, name) is not None:
            tell(f"{name} of the settings is for runs; a service has {instead}")
    room: dict[str, Any] = {
        "edits": edits,
        "edits_of_one": edits_of_one,
        "max_cost": max_cost_per_day,
        "pixels": megapixels * 1024 * 1024,
    }
    kept = Kept(cache, cache_shared, audit, keep_days and keep_days * _DAY_SECONDS)
    _check(
        (address, http_address), kept, settings.model_copy(update={"max_cost": max_cost_per_day})
    )
    with services_at_hand(settings, start=True, say=tell) as at_hand:
        asyncio.run(_serve(at_hand, (address, http_address), (notice, drain), kept, **room))
    return 0


_TEAM = {"multiple": True, "metavar": "NAME", "help": "Only of this team."}


@command.command("purge")
@click.argument("folder", metavar="CACHE", type=PATH)
@takes(
    team=_TEAM,
    older_than={"type": click.FloatRange(0), "metavar": "DAYS", "help": "Kept so long ago."},
)
def purge_(folder: Path, team: tuple[str, ...], older_than: float | None) -> int:
    """Delete calls that a service has kept in CACHE, also while it runs.

    Say whose, or how old, or both. What teams have used stays on their accounts. Exit code 1 where
    a ledger is damaged: end the service and purge its team whole.
    """
    if not team and older_than is None:
        raise ConfigError("nothing says what to delete", "give --team NAME or --older-than DAYS")
    before = None if older_than is None else time.time() - older_than * _DAY_SECONDS
    purged = asyncio.run(purge(folder, team, before))
    for name, count in purged.items():
        told = f"{count:,} calls deleted" if isinstance(count, int) else str(count)
        say(f"{_named(name)}: {told}")
    return 0 if all(isinstance(count, int) for count in purged.values()) else 1


@command.command("usage")
@click.argument("folder", metavar="CACHE", type=PATH)
@takes("json", team=_TEAM, csv={"is_flag": True, "help": "Print CSV."})
def usage(folder: Path, team: tuple[str, ...], *, csv: bool, json: bool) -> int:
    """Show what each team has used on each day (UTC), also while the service runs.

    Calls that were made, those that the cache answered and those that failed; tokens of generalists
    and what they cost.
    """
    used = {day: each for day, each in used_in(folder).items() if not team or day[1] in team}
    rows = [_on_day(day, each) for day, each in used.items()]
    if json:
        say_json(text_of(rows))
        return 0
    cells = [Row(tuple(each.model_dump().values())) for each in rows]
    table = Table([Head(name) for name in UsedOnDay.model_fields], cells)
    if csv:
        say(table.written("csv"), nl=False)
    else:
        console().print(table.terminal())
    return 0


def _on_day(day: Day, used: Used) -> UsedOnDay:
    counts = {name: count for name, count in asdict(used).items() if name != "dearest"}
    return UsedOnDay(day=day[0], team=day[1], **counts)


def _named(team: str) -> str:
    return team or "(no team)"


def _check(addresses: tuple[str, str], kept: Kept, settings: Settings) -> None:
    """Refuse now what could not be served, for services may take long to start.

    Raises:
        ConfigError: an address, a file or a folder cannot be used, or a price is missing.
    """
    from editjudge.panel.bind import check_prices

    from ..judge.asking import Audit

    for address in addresses:
        parted(address)
    check_prices(settings)
    Audit(kept.audit)
    if kept.folder is not None:
        with alone_in(kept.folder):
            pass


async def _serve(
    settings: Settings,
    addresses: tuple[str, str],
    ending: tuple[float, float],
    kept: Kept,
    **room: Any,
) -> None:
    try:
        from ..judge.http import serving_json
        from ..judge.judging import Judging
        from ..judge.room import Room
        from ..judge.server import End, serving, until_told
    except ImportError as error:
        raise MissingExtra("the Judge service", "judge") from error
    end = End(*ending)
    async with (
        Judging(settings, Room(**room), kept=kept) as judging,
        contextlib.AsyncExitStack() as served,
    ):
        try:
            web = await served.enter_async_context(
                serving_json(judging, *parted(addresses[1]), end.drain)
            )
            at = await served.enter_async_context(serving(judging, addresses[0], end))
        except OSError as error:
            raise ConfigError(str(error), "give other addresses") from error
        if kept.folder is not None and kept.seconds is not None:
            await served.enter_async_context(purging(kept.folder, kept.seconds, tell))
        say(f"judging at {at} (gRPC) and {web} (JSON)")
        await until_told()
        tell("ending: what is in flight is finished")


def parted(address: str) -> tuple[str, int]:
    """The host and port of an address; one of IPv6 stands in brackets there.

    Raises:
        ConfigError: it is none.
    """
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise ConfigError(f"{address}: this is no address", "write it as HOST:PORT")
    return host.removeprefix("[").removesuffix("]"), int(port)
