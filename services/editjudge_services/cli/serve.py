"""`editjudge serve`: judge for callers without our client."""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import astuple
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from editjudge.base.config import Settings
from editjudge.base.console import console
from editjudge.base.errors import ConfigError, MissingExtra
from editjudge.base.screen import say, say_json, tell
from editjudge.base.strict import text_of
from editjudge.cli.options import PATH, flag, number, path, settings_of, takes, text, texts
from editjudge.cli.services import services_at_hand
from editjudge.report.table import Head, Row, Table

from ..judge.calls import alone_in, purge, purging, space_in
from ..judge.usage import COUNTS, used_in

if TYPE_CHECKING:
    from ..judge.judging import Kept

_DAY_SECONDS = 86_400


@click.group("serve", invoke_without_command=True)
@takes(
    "generalist",
    "endpoint",
    address=text(
        "HOST:PORT",
        "Where callers come to. It asks nobody who he is: put the front door before it.",
        default="127.0.0.1:8002",
        show_default=True,
    ),
    http_address=text(
        "HOST:PORT", "The same as JSON over HTTP.", default="127.0.0.1:8003", show_default=True
    ),
    edits=number(click.IntRange(1), "At a time.", 64),
    edits_of_one=number(click.IntRange(1), "At a time, of one caller.", 32),
    megapixels=number(
        click.IntRange(2),
        "Of pictures that are judged at a time; a caller has half. They take up to 120 MB each.",
        128,
    ),
    notice=number(click.FloatRange(0), "Seconds between saying that it ends and ending.", 6.0),
    drain=number(click.FloatRange(0), "Seconds for what is in flight then.", 30.0),
    cache=path(
        "FOLDER",
        "Keep calls, which are not made again, and what each team has used. Without it both are"
        " gone with the service.",
    ),
    cache_shared=flag("What one team paid for answers the others too."),
    keep_days=text(
        "DAYS",
        "Delete calls from the cache so many days after they were kept.",
        type=click.FloatRange(0, min_open=True),
    ),
    audit=path(
        "FILE", "Add a line of JSON for each edit, without its content; - is standard error."
    ),
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
    **asked: Any,
) -> int:
    """Serve the Judge service over gRPC until SIGTERM; then it finishes what is in flight.

    docs/serving.md says what it answers.
    """
    if context.invoked_subcommand is not None:
        return 0
    for name, value in (("--cache-shared", cache_shared), ("--keep-days", keep_days)):
        if value and cache is None:
            raise ConfigError(f"{name} needs a cache", "give --cache FOLDER too")
    try:
        from ..judge.judging import Kept
    except ImportError as error:
        raise MissingExtra("the Judge service", "judge") from error
    settings = settings_of(asked)
    for name, instead in (("ledger", "--cache"), ("max_cost", "limits at its front door")):
        if getattr(settings, name) is not None:
            tell(f"{name} of the settings is for runs; a service has {instead}")
    room: dict[str, Any] = {
        "edits": edits,
        "edits_of_one": edits_of_one,
        "pixels": megapixels * 1024 * 1024,
    }
    kept = Kept(cache, cache_shared, audit, keep_days and keep_days * _DAY_SECONDS)
    _check((address, http_address), kept)
    with services_at_hand(settings, start=True, say=tell) as at_hand:
        asyncio.run(_serve(at_hand, (address, http_address), (notice, drain), kept, **room))
    return 0


_TEAM = texts("NAME", "Only of this team.")


@command.command("purge")
@click.argument("folder", metavar="CACHE", type=PATH)
@takes(
    team=_TEAM,
    older_than=text("DAYS", "Kept so long ago.", type=click.FloatRange(0)),
)
def purge_(folder: Path, team: tuple[str, ...], older_than: float | None) -> int:
    """Delete calls that a service has kept in CACHE, also while it runs.

    Say whose, or how old, or both. Without either nothing is deleted, and the space that each
    team's calls take is told. What teams have used stays.
    """
    if not team and older_than is None:
        for name, size in asyncio.run(space_in(folder)).items():
            say(f"{_named(name)}: {size / 1e6:.2f} MB")
        return 0
    before = None if older_than is None else time.time() - older_than * _DAY_SECONDS
    for name, count in asyncio.run(purge(folder, team, before)).items():
        say(f"{_named(name)}: {count:,} calls deleted")
    return 0


@command.command("usage")
@click.argument("folder", metavar="CACHE", type=PATH)
@takes("json", team=_TEAM, csv=flag("Print CSV."))
def usage(folder: Path, team: tuple[str, ...], *, csv: bool, json: bool) -> int:
    """Show what each team has used on each day (UTC), also while the service runs.

    Calls that were made, those that the cache answered and those that failed; tokens of generalists
    and what they cost.
    """
    rows = [
        (*day, *astuple(used))
        for day, used in used_in(folder).items()
        if not team or day[1] in team
    ]
    columns = ("day", "team", *COUNTS)
    if json:
        say_json(text_of([dict(zip(columns, row, strict=True)) for row in rows]))
        return 0
    table = Table(list(map(Head, columns)), list(map(Row, rows)))
    if csv:
        say(table.written("csv"), nl=False)
    else:
        console().print(table.terminal())
    return 0


def _named(team: str) -> str:
    return team or "(no team)"


def _check(addresses: tuple[str, str], kept: Kept) -> None:
    """Refuse now what could not be served, for services may take long to start.

    Raises:
        ConfigError: an address, a file or a folder cannot be used.
    """
    from ..judge.asking import Audit

    for address in addresses:
        parted(address)
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
