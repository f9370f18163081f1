"""How long a team that asks for little waits beside eight that ask for all they can get.

The Judge service, in a process of its own, asks a scripted judge that answers after 200 ms. A small
team sends one edit after the other, first alone and then beside eight greedy teams, each of which
has thirty edits in flight: of 121 calls each, or of pictures of four megapixels that are
decoded and compared. The aim is a median of at most twice the time alone, times the teams that are
active. Who is refused asks again after a second, as the service says; that time counts.
"""

from __future__ import annotations

import asyncio
import itertools
import multiprocessing
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection

import click
import grpc
import numpy as np
from hostile import make_png
from rich.console import Console
from rich.table import Table
from scripted_judge import EDIT, Script, serve_script

from editjudge.base.config import JudgeEndpoint, Settings
from editjudge.v1 import judge_pb2 as pb
from editjudge.v1 import judge_pb2_grpc
from editjudge_services.gateway.server import serve_grpc
from editjudge_services.gateway.service import JudgeService

JUDGED_DIMENSIONS = ["kris.visual_consistency*"]
PIXEL_DIMENSIONS = ["core.psnr.source.whole", "core.ssim.source.whole"]
EDITS = 30
_numbers = itertools.count()
SIDES = {side: [pb.Picture(data=make_png(side, seed)) for seed in (0, 1)] for side in (64, 2048)}


@dataclass(frozen=True)
class Edits:
    """Edits that nobody has asked about: dimensions, the pictures' side, rounds of judging."""

    dimensions: list[str]
    side: int = 64
    rounds: int = 1

    def make_request(self) -> pb.ScoreRequest:
        """A request of the next edit."""
        source, output = SIDES[self.side]
        text = EDIT.format(next(_numbers))
        edit = pb.Edit(instruction=text, sources=[source], edited=output, task="count_change")
        benchmark = self.dimensions[0].partition(".")[0]
        protocol = pb.Protocol(benchmark=benchmark, rounds=self.rounds)
        return pb.ScoreRequest(edit=edit, dimensions=self.dimensions, protocol=protocol)


def _serve(pipe: Connection, judge: str) -> None:
    async def run() -> None:
        settings = Settings(judges={"judge": JudgeEndpoint(url=f"{judge}/v1")})
        service = JudgeService(settings)
        async with service, serve_grpc(service, "127.0.0.1:0") as address:
            await service.client.panel.probe_judges()
            pipe.send(address)
            await asyncio.Event().wait()

    asyncio.run(run())


@contextmanager
def serving(judge: str) -> Iterator[str]:
    """The service in a process of its own; gives its address."""
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    process = spawn.Process(target=_serve, args=(theirs, judge), daemon=True)
    process.start()
    try:
        yield ours.recv()
    finally:
        process.terminate()
        process.join()


async def ask(address: str, team: str, request: pb.ScoreRequest) -> float:
    """Seconds until an edit is judged."""
    began = time.perf_counter()
    async with grpc.aio.insecure_channel(address) as channel:
        score = judge_pb2_grpc.JudgeServiceStub(channel).Score
        while True:
            try:
                response = await score(request, metadata=[("x-team", team)], timeout=600)
                assert all(each.status == pb.STATUS_SCORED for each in response.outcomes), response
                return time.perf_counter() - began
            except grpc.aio.AioRpcError as error:
                if error.code() is not grpc.StatusCode.RESOURCE_EXHAUSTED:
                    raise
                await asyncio.sleep(1)


async def measure(
    address: str, teams: int, seconds: float, small: Edits, greedy: Edits
) -> tuple[list[float], list[float], int]:
    """The small team's times, alone and beside the greedy ones, and how many edits these had."""

    async def times(longest: float) -> list[float]:
        end = time.monotonic() + longest
        seconds_each = []
        while time.monotonic() < end or not seconds_each:
            seconds_each.append(await ask(address, "small", small.make_request()))
        return seconds_each

    edits = 0

    async def flood(team: str) -> None:
        nonlocal edits
        while True:
            await ask(address, team, greedy.make_request())
            edits += 1

    alone = await times(seconds / 4)
    tasks = [asyncio.create_task(flood(f"greedy-{n % teams}")) for n in range(teams * EDITS)]
    await asyncio.sleep(seconds / 4)  # until all that they can get is theirs
    beside = await times(seconds)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return alone, beside, edits


@click.command()
@click.option("--teams", default=8, show_default=True, help="Greedy teams.")
@click.option("--seconds", default=40.0, show_default=True)
def main(teams: int, seconds: float) -> None:
    """Print the small team's times alone and beside the others."""
    table = Table(title=f"{teams} greedy teams with {EDITS} edits each in flight")
    for heading in ("they ask for", "alone p50", "beside p50", "p99", "calls", "their edits"):
        table.add_column(heading, justify="right")
    table.add_column("p50 / (alone x teams)", justify="right")
    cases = {
        "121 calls": (Edits(JUDGED_DIMENSIONS), Edits(JUDGED_DIMENSIONS, rounds=121)),
        "4 megapixels": (Edits(PIXEL_DIMENSIONS), Edits(PIXEL_DIMENSIONS, 2048)),
    }
    for name, (small, greedy) in cases.items():
        with serve_script(Script(latency=0.2)) as judge, serving(judge) as address:
            alone, beside, edits = asyncio.run(measure(address, teams, seconds, small, greedy))
        p50, longest = statistics.median(beside), np.quantile(beside, 0.99)
        base = statistics.median(alone)
        figures = (f"{base:.3f} s", f"{p50:.3f} s", f"{longest:.3f} s", str(len(beside)), str(edits))
        table.add_row(name, *figures, f"{p50 / base / (teams + 1):.2f}")
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
