"""`editjudge serve`: judge for callers without our client."""

from __future__ import annotations

import asyncio
import contextlib
import csv
import io
import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.table import Table

from editjudge.base.config import Settings
from editjudge.base.console import console
from editjudge.base.errors import ConfigError, MissingExtra
from editjudge.base.screen import say, say_json, tell
from editjudge.cli.options import ServiceOptions, json_option, options
from editjudge.cli.services import services_at_hand

from ..judge.calls import alone_in, purge, purging, space_in
from ..judge.usage import COUNTS, used_in

if TYPE_CHECKING:
    from ..judge.judging import Kept

_PATH = click.Path(path_type=Path)
_DAY_SECONDS = 86_400


@click.group("serve", invoke_without_command=True)
@click.option(
    "--address",
    default="127.0.0.1:8002",
    show_default=True,
    metavar="HOST:PORT",
    help="Where callers come to; it asks nobody who he is: put the front door before it.",
)
@click.option(
    "--http-address",
    default="127.0.0.1:8003",
    show_default=True,
    metavar="HOST:PORT",
    help="The same as JSON over HTTP.",
)
@click.option("--edits", type=click.IntRange(1), default=64, show_default=True, help="At a time.")
@click.option(
    "--edits-of-one",
    type=click.IntRange(1),
    default=32,
    show_default=True,
    help="At a time, of one caller.",
)
@click.option(
    "--megapixels",
    type=click.IntRange(2),
    default=128,
    show_default=True,
    help="Of pictures that are judged at a time; a caller has half. They take up to 120 MB each.",
)
@click.option(
    "--notice",
    type=click.FloatRange(0),
    default=6.0,
    show_default=True,
    help="Seconds between saying that it ends and ending.",
)
@click.option(
    "--drain",
    type=click.FloatRange(0),
    default=30.0,
    show_default=True,
    help="Seconds for what is in flight then.",
)
@click.option(
    "--cache",
    type=_PATH,
    metavar="FOLDER",
    help="Keep calls, which are not made again, and what each team has used; without, both are gone"
    " with the service.",
)
@click.option("--cache-shared", is_flag=True, help="What one team paid for answers the others too.")
@click.option(
    "--keep-days",
    type=click.FloatRange(0, min_open=True),
    metavar="DAYS",
    help="Delete calls from the cache so many days after they were kept.",
)
@click.option(
    "--audit",
    type=_PATH,
    metavar="FILE",
    help="Add a line of JSON for each edit, without its content; - is standard error.",
)
@options(ServiceOptions, "services")
@click.pass_context
def command(
    context: click.Context,
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
    services: ServiceOptions,
    *,
    cache_shared: bool,
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
    settings = services.settings()
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


@command.command("purge")
@click.argument("folder", metavar="CACHE", type=_PATH)
@click.option(
    "--team",
    "teams",
    multiple=True,
    metavar="NAME",
    help="Of this team; may be given several times.",
)
@click.option("--older-than", type=click.FloatRange(0), metavar="DAYS", help="Kept so long ago.")
def purge_(folder: Path, teams: tuple[str, ...], older_than: float | None) -> int:
    """Delete calls that a service has kept in CACHE, also while it runs.

    Say whose, or how old, or both; without, nothing is deleted, and the space that each team's
    calls take is told. What teams have used stays.
    """
    if not teams and older_than is None:
        for team, size in asyncio.run(space_in(folder)).items():
            say(f"{_named(team)}: {size / 1e6:.2f} MB")
        return 0
    before = None if older_than is None else time.time() - older_than * _DAY_SECONDS
    for team, count in asyncio.run(purge(folder, teams, before)).items():
        say(f"{_named(team)}: {count:,} calls deleted")
    return 0


@command.command("usage")
@click.argument("folder", metavar="CACHE", type=_PATH)
@click.option("--team", "teams", multiple=True, metavar="NAME", help="Only of this team.")
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV.")
@json_option
def usage(folder: Path, teams: tuple[str, ...], *, as_csv: bool, as_json: bool) -> int:
    """Show what each team has used on each day (UTC), also while the service runs.

    Calls that were made, those that the cache answered and those that failed; tokens of generalists
    and what they cost.
    """
    rows = [
        {"day": day, "team": team, **asdict(used)}
        for (day, team), used in used_in(folder).items()
        if not teams or team in teams
    ]
    columns = ("day", "team", *COUNTS)
    if as_json:
        say_json(json.dumps(rows, ensure_ascii=False, indent=2))
    elif as_csv:
        written = io.StringIO()
        writer = csv.DictWriter(written, columns)
        writer.writeheader()
        writer.writerows(rows)
        say(written.getvalue(), nl=False)
    else:
        table = Table(*columns)
        for row in rows:
            table.add_row(*(_told(name, one) for name, one in row.items()))
        console().print(table)
    return 0


def _told(name: str, value: object) -> str:
    if name == "team":
        return _named(str(value))
    if isinstance(value, float):
        return f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


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
