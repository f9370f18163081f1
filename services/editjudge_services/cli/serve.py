"""`editjudge serve`: judge for callers without our client."""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import astuple
from pathlib import Path
from typing import TYPE_CHECKING, Any

from editjudge.base.config import Settings
from editjudge.base.errors import ConfigError, MissingExtra
from editjudge.base.screen import say, tell
from editjudge.cli.options import settings_of
from editjudge.cli.output import print_json, print_tables
from editjudge.cli.services import services_at_hand
from editjudge.report.table import Head, Row, Table

from ..judge.calls import alone_in, purge, purging, space_in
from ..judge.usage import COUNTS, used_in

if TYPE_CHECKING:
    from ..judge.judging import Kept

_DAY_SECONDS = 86_400


def serve_command(
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
    **options: Any,
) -> None:
    """Serve the Judge service until SIGTERM; then it finishes what is in flight."""
    for name, value in (("--cache-shared", cache_shared), ("--keep-days", keep_days)):
        if value and cache is None:
            raise ConfigError(f"{name} needs a cache", "give --cache FOLDER too")
    try:
        from ..judge.judging import Kept
    except ImportError as error:
        raise MissingExtra("the Judge service", "judge") from error
    settings = settings_of(options)
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


def purge_command(folder: Path, team: tuple[str, ...], older_than: float | None) -> None:
    """Delete calls that a service has kept; without a team or an age, say what space they take."""
    if not team and older_than is None:
        for name, size in asyncio.run(space_in(folder)).items():
            say(f"{_named(name)}: {size / 1e6:.2f} MB")
        return
    before = None if older_than is None else time.time() - older_than * _DAY_SECONDS
    for name, count in asyncio.run(purge(folder, team, before)).items():
        say(f"{_named(name)}: {count:,} calls deleted")


def usage_command(folder: Path, team: tuple[str, ...], *, csv: bool, json: bool) -> None:
    """Show what each team has used on each day (UTC)."""
    rows = [
        (*day, *astuple(used))
        for day, used in used_in(folder).items()
        if not team or day[1] in team
    ]
    columns = ("day", "team", *COUNTS)
    if json:
        print_json([dict(zip(columns, row, strict=True)) for row in rows])
        return
    table = Table(list(map(Head, columns)), list(map(Row, rows)))
    if csv:
        say(table.written("csv"), nl=False)
    else:
        print_tables([table])


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
