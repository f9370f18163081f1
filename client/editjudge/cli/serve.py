"""`editjudge serve`: judge for callers without our client."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Any

import click

from ..base.config import Settings
from ..base.errors import ConfigError, MissingExtra
from ..base.screen import say, tell
from .options import ServiceOptions, cost_option, ledger_option, options, services_at_hand


@click.command("serve")
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
@options(ServiceOptions, "services")
@cost_option
@ledger_option
def command(
    address: str,
    http_address: str,
    edits: int,
    edits_of_one: int,
    megapixels: int,
    notice: float,
    drain: float,
    services: ServiceOptions,
    max_cost: float | None,
    ledger: Path | None,
) -> int:
    """Serve the Judge service over gRPC until SIGTERM; then it finishes what is in flight.

    docs/serving.md says what it answers. --max-cost is of each caller.
    """
    settings = services.settings(ledger=ledger)
    room: dict[str, Any] = {"edits": edits, "edits_of_one": edits_of_one, "max_cost": max_cost}
    room["pixels"] = megapixels * 1024 * 1024
    with services_at_hand(settings, start=True, say=tell) as at_hand:
        asyncio.run(_serve(at_hand, (address, http_address), (notice, drain), **room))
    return 0


async def _serve(
    settings: Settings, addresses: tuple[str, str], ending: tuple[float, float], **room: Any
) -> None:
    try:
        from ..serve.http import serving_json
        from ..serve.judging import Judging
        from ..serve.room import Room
        from ..serve.server import End, serving, until_told
    except ImportError as error:
        raise MissingExtra("the Judge service", "judge") from error
    end = End(*ending)
    async with Judging(settings, Room(**room)) as judging, contextlib.AsyncExitStack() as served:
        try:
            web = await served.enter_async_context(
                serving_json(judging, *_parted(addresses[1]), end.drain)
            )
            at = await served.enter_async_context(serving(judging, addresses[0], end))
        except OSError as error:
            raise ConfigError(str(error), "give other addresses") from error
        say(f"judging at {at} (gRPC) and {web} (JSON)")
        await until_told()
        tell("ending: what is in flight is finished")


def _parted(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise ConfigError(f"{address}: this is no address", "write it as HOST:PORT")
    return host, int(port)
