"""`editjudge view`: runs in the browser, also while they go on."""

from __future__ import annotations

import asyncio
import signal
import webbrowser
from pathlib import Path

import click

from ..base.screen import say
from ..report.view import LiveRuns, serving


@click.command("view")
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RUN...")
@click.option("--published", is_flag=True, help="Also the rows that the papers print.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Instead of a free one.")
@click.option("--open", "open_it", is_flag=True, help="Open the page in the browser.")
def command(runs: tuple[Path, ...], published: bool, port: int, open_it: bool) -> None:
    """Show runs as a page for the browser, on this machine alone; new while a run goes on.

    Prints the address, which holds a secret, and serves until Ctrl-C. Nothing is called and
    nothing is written; see report for a page to be passed on.
    """
    with LiveRuns(runs, published=published) as live:
        asyncio.run(_serve(live, port, open_it=open_it))


async def _serve(live: LiveRuns, port: int, *, open_it: bool) -> None:
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for name in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(name, ended.set)
    async with serving(live, port) as address:
        say(f"{live.snapshot.title}\n{address}\nCtrl-C ends it.")
        if open_it:
            await asyncio.to_thread(webbrowser.open, address)
        await ended.wait()
