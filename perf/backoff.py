"""What rare faults cost: the same calls to a judge, without faults and with some.

The judge is a scripted server of OpenAI's protocol in a process of its own. It answers after a
fixed time; of the requests a share is refused (429), a share breaks (500), at random, otherwise in
each round. Compared is how long all calls take.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import random
import statistics
import time
from multiprocessing.connection import Connection

import click
from aiohttp import web
from rich.console import Console
from rich.table import Table

from editjudge.answers.texts import Option
from editjudge.base.config import JudgeEndpoint, Settings
from editjudge.panel import Panel, PoolPolicy
from editjudge.panel.prompt import Prompt, Text

NAME = "generalist.judge"


def serve(pipe: Connection, milliseconds: float, refused_share: float, broken_share: float, seed: int) -> None:
    """Serve for ever; tells its port."""
    dice = random.Random(seed)

    async def models(request: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": "judge", "owned_by": "scripted"}]})

    async def chat(request: web.Request) -> web.Response:
        await request.read()
        chance = dice.random()
        if chance < refused_share:
            return web.json_response({"error": {"message": "slow down"}}, status=429)
        await asyncio.sleep(milliseconds / 1e3)
        if chance < refused_share + broken_share:
            return web.json_response({"error": {"message": "KeyError"}}, status=500)
        choice = {"message": {"content": "Yes"}, "finish_reason": "stop"}
        return web.json_response({"model": "judge", "choices": [choice]})

    async def run() -> None:
        app = web.Application()
        app.router.add_get("/v1/models", models)
        app.router.add_post("/v1/chat/completions", chat)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        pipe.send(runner.addresses[0][1])
        await asyncio.Event().wait()

    asyncio.run(run())


async def seconds_of(port: int, calls: int, concurrency: int) -> float:
    """Seconds that so many calls take, none of which may fail."""
    judge = JudgeEndpoint(url=f"http://127.0.0.1:{port}/v1", model="judge", logprobs="never", max_tokens=8)
    settings = Settings(judges={"judge": judge}, concurrency=concurrency)
    async with Panel(settings, policy=PoolPolicy(patience=settings.patience)) as panel:
        judge = panel.judge(NAME)
        start = time.perf_counter()
        prompts = [Prompt("", (Text(f"Question {number}"),)) for number in range(calls)]
        await asyncio.gather(*(judge.answer(one, Option(("Yes", "No"))) for one in prompts))
        return time.perf_counter() - start


def measure(milliseconds: float, faults: tuple[float, float], calls: int, concurrency: int, seed: int) -> float:
    """Seconds against a server that begins anew."""
    here, there = multiprocessing.Pipe()
    server = multiprocessing.Process(target=serve, args=(there, milliseconds, *faults, seed))
    server.daemon = True
    server.start()
    try:
        return asyncio.run(seconds_of(here.recv(), calls, concurrency))
    finally:
        server.terminate()
        server.join()


@click.command()
@click.option("--calls", default=1500, show_default=True)
@click.option("--milliseconds", default=200.0, show_default=True)
@click.option("--refused", "refused_share", default=0.02, show_default=True, help="Share of requests: 429.")
@click.option("--broken", "broken_share", default=0.02, show_default=True, help="Share of requests: 500.")
@click.option("--concurrency", default=32, show_default=True)
@click.option("--rounds", default=3, show_default=True)
@click.option("--json", "as_json", is_flag=True)
def main(
    calls: int,
    milliseconds: float,
    refused_share: float,
    broken_share: float,
    concurrency: int,
    rounds: int,
    as_json: bool,
) -> None:
    """Print how much longer calls take with faults."""
    ways = {"no faults": (0.0, 0.0), "429": (refused_share, 0.0), "500": (0.0, broken_share)}
    ways["both"] = (refused_share, broken_share)
    durations: dict[str, list[float]] = {name: [] for name in ways}
    for seed in range(rounds):
        for name, faults in ways.items():
            durations[name].append(measure(milliseconds, faults, calls, concurrency, seed))
    seconds = {name: statistics.median(each) for name, each in durations.items()}
    times = {name: each / seconds["no faults"] for name, each in seconds.items()}
    if as_json:
        print(json.dumps({"seconds": seconds, "times": times}, indent=2))
        return
    table = Table(title=f"{calls} calls of {milliseconds:g} ms, {concurrency} at once at most")
    for heading in ("faults", "seconds", "times as long"):
        table.add_column(heading, justify="right")
    for name in ways:
        table.add_row(name, f"{seconds[name]:.2f}", f"{times[name]:.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()
