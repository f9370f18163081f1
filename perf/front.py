"""What the front door and the Judge service cost, and what a greedy team costs the others.

The real Envoy with TLS and tokens stands before a gRPC server that answers at once, so that what is
measured is the way. Rounds are interleaved; medians over rounds are compared. Then the server has 8
places of 5 ms, 48 callers of class `batch` ask all the time, and one caller of class `interactive`
measures its calls: alone, beside them, beside them with a cap on their class, and beside a hostile
team, which sends bodies that are too large, no tokens, and far more calls than it may.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import struct
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import click
import numpy as np
from null_servers import serving
from rich.console import Console
from rich.table import Table

from editjudge.app.client import Client
from editjudge.base.config import Settings
from editjudge.base.item import Edit
from editjudge_services.front.identity import Authority, TeamKeys
from editjudge_services.front.server import EnvoyServer
from editjudge_services.front.values import CallClass, FrontValues

Call = Callable[[], Awaitable[object]]
IMAGE_BYTES = 100_000
PLACES, SECONDS = 8, 0.005
GREEDY = 48
MOST_BYTES = 1024 * 1024
DIMENSIONS = ("core.psnr.*", "core.ssim.*")
_TICKS = os.sysconf("SC_CLK_TCK")


def serve_null(pipe: Connection) -> None:
    """Triton's protocol, answered at once; the model `slow` has few places."""
    import grpc
    from grpc_health.v1 import health_pb2
    from tritonclient.grpc import service_pb2

    serving = health_pb2.HealthCheckResponse(status="SERVING").SerializeToString()
    reply = service_pb2.ModelInferResponse(raw_output_contents=[struct.pack("<f", 1)])
    data = reply.SerializeToString()

    async def run() -> None:
        places = asyncio.Semaphore(PLACES)

        async def infer(_: bytes, context: Any) -> bytes:
            if dict(context.invocation_metadata()).get("x-model") == "slow":
                async with places:
                    await asyncio.sleep(SECONDS)
            return data

        async def check(_: bytes, __: Any) -> bytes:
            return serving

        server = grpc.aio.server(options=[("grpc.max_receive_message_length", -1)])
        methods = {"inference.GRPCInferenceService": {"ModelInfer": infer}, "grpc.health.v1.Health": {"Check": check}}
        for name, each in methods.items():
            handlers = {m: grpc.unary_unary_rpc_method_handler(f) for m, f in each.items()}
            generic = grpc.method_handlers_generic_handler(name, handlers)
            server.add_generic_rpc_handlers((generic,))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        pipe.send(port)
        await server.wait_for_termination()

    asyncio.run(run())


def serve_judge(pipe: Connection) -> None:
    """The Judge service without other services: dimensions of pixels."""
    from editjudge_services.gateway.server import serve_grpc
    from editjudge_services.gateway.service import JudgeService

    async def run() -> None:
        async with JudgeService(Settings()) as service, serve_grpc(service, "127.0.0.1:0") as at:
            pipe.send(int(at.rpartition(":")[2]))
            await asyncio.Event().wait()

    asyncio.run(run())


@contextmanager
def door(server: str, batch: int = 64) -> Any:
    """An Envoy before a server; gives it, and its teams' keys."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        keys, authority = TeamKeys(folder), Authority(folder)
        authority.renew_certificate(("localhost", "127.0.0.1"))
        keys.publish()
        values = FrontValues.model_validate(
            {
                "listen": "127.0.0.1:0",
                "metrics": "127.0.0.1:0",
                "admin_port": 0,
                "certificate": authority.server,
                "private_key": authority.server_key,
                "tokens": {"keys": keys.public},
                "triton": {"null": {"addresses": [server]}},
                "rate": {"calls_per_second": 100_000, "burst": 100_000},
                "rates": {"hostile": {"calls_per_second": 1, "burst": 1}},
                "limits": {"batch": batch, "request_bytes": MOST_BYTES},
                "drain_seconds": 1,
            }
        )
        for team in ("quick", "greedy", "hostile"):
            keys.issue_token(team, 1, "batch", values.tokens)
        envoy = EnvoyServer(folder / "front.log", values, folder, authority.certificate)
        envoy.start()
        try:
            yield envoy, keys
        finally:
            envoy.stop()


@asynccontextmanager
async def channel_to(target: str, ca: bytes | None) -> AsyncIterator[Any]:
    """A connection of its own, with TLS where there is an authority."""
    import grpc

    own = [("grpc.use_local_subchannel_pool", 1)]
    if ca is None:
        channel = grpc.aio.insecure_channel(target, own)
    else:
        channel = grpc.aio.secure_channel(target, grpc.ssl_channel_credentials(ca), own)
    async with channel:
        yield channel


@asynccontextmanager
async def caller(server: str | tuple[EnvoyServer, TeamKeys], of: CallClass, model: str) -> Any:
    """How a team calls a model: directly, or through a door."""
    metadata = [("x-model", model)]
    target, ca = server, None
    if not isinstance(server, str):
        envoy, keys = server
        token = keys.issue_token("quick", 1, of, envoy.values.tokens)
        metadata.append(("authorization", f"Bearer {token}"))
        target, ca = envoy.url.removeprefix("grpcs://"), envoy.state.ca.read_bytes()
    async with channel_to(str(target), ca) as channel:
        yield calling(channel, metadata)


def calling(channel: Any, metadata: list[tuple[str, str]]) -> Call:
    """One call with an image; what is over a cap is asked again."""
    import grpc
    from tritonclient.grpc import service_pb2_grpc

    request = image(IMAGE_BYTES)
    stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)

    async def call() -> object:
        while True:
            try:
                return await stub.ModelInfer(request, metadata=metadata)
            except grpc.aio.AioRpcError as error:
                if error.code() != grpc.StatusCode.UNAVAILABLE:
                    raise
                await asyncio.sleep(0.05)

    return call


def image(size: int) -> Any:
    """A request with so many bytes."""
    from tritonclient.grpc import service_pb2

    request = service_pb2.ModelInferRequest(model_name="null")
    request.raw_input_contents.append(os.urandom(size))
    return request


async def measure(call: Call, calls: int, at_once: int = 1) -> tuple[float, float, float]:
    """Milliseconds of a call, median and p99, and calls per second."""
    milliseconds: list[float] = []
    left = iter(range(calls))

    async def worker() -> None:
        for _ in left:
            begin = time.perf_counter()
            await call()
            milliseconds.append(1e3 * (time.perf_counter() - begin))

    begin = time.perf_counter()
    await asyncio.gather(*(worker() for _ in range(at_once)))
    seconds = time.perf_counter() - begin
    p50, p99 = np.percentile(milliseconds, [50, 99])
    return float(p50), float(p99), calls / seconds


def processor_ms(pid: int) -> float:
    """What a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return 1e3 * (int(fields[11]) + int(fields[12])) / _TICKS


async def the_way(server: str, rounds: int, calls: int) -> Table:
    """Directly against through the door."""
    rows: dict[str, list[tuple[float, ...]]] = {"direct": [], "through the door": []}
    with door(server) as through:
        pid = through[0].pid
        for turn in range(2 * rounds):
            name = [*rows][turn % 2]
            behind = through if turn % 2 else server
            async with caller(behind, "interactive", "quick") as call:
                await measure(call, 50)
                one = await measure(call, calls)
                before = processor_ms(pid)
                many = await measure(call, calls, 32)
                cpu_ms = (processor_ms(pid) - before) / calls
            rows[name].append((one[0], one[1], many[2], cpu_ms))
    table = Table("", "p50 ms", "p99 ms", "calls/s, 32 at once", "Envoy's processor ms a call")
    means = {n: [statistics.median(c) for c in zip(*r, strict=True)] for n, r in rows.items()}
    for name, figures in means.items():
        table.add_row(name, *(f"{figure:.2f}" for figure in figures))
    direct, ours = means.values()
    table.add_row("ratio", *(f"{o / d:.2f}" for o, d in zip(ours[:3], direct[:3], strict=True)), "")
    return table


async def greedy(target: str, ca: bytes, token: str) -> None:
    """Callers of class batch that ask all the time."""
    async with channel_to(target, ca) as channel:
        call = calling(channel, [("x-model", "slow"), ("authorization", f"Bearer {token}")])

        async def ask() -> None:
            while True:
                await call()

        await asyncio.gather(*(ask() for _ in range(GREEDY)))


async def hostile(target: str, ca: bytes, token: str) -> None:
    """A team that does what nobody may, all the time."""
    from tritonclient.grpc import service_pb2_grpc

    headers = [("x-model", "slow"), ("authorization", f"Bearer {token}")]
    small, large = image(IMAGE_BYTES), image(4 * MOST_BYTES)

    async def act(request: Any, metadata: list[tuple[str, str]]) -> None:
        async with channel_to(target, ca) as channel:
            stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
            while True:
                await stub.ModelInfer(request, metadata=metadata).code()
                await asyncio.sleep(0.05)

    deeds = [(small, headers[:1]), (small, headers), (large, headers)]
    await asyncio.gather(*(act(*deed) for deed in deeds * 4))


def _in_process(team: str, *arguments: Any) -> None:
    asyncio.run({"greedy": greedy, "hostile": hostile}[team](*arguments))


@contextmanager
def others(team: str, through: tuple[EnvoyServer, TeamKeys]) -> Iterator[None]:
    """A team beside, in a process of its own; nobody where there is no name."""
    if not team:
        yield
        return
    envoy, keys = through
    token = keys.issue_token(team, 1, "batch", envoy.values.tokens)
    arguments = (team, envoy.url.removeprefix("grpcs://"), envoy.state.ca.read_bytes(), token)
    process = get_context("spawn").Process(target=_in_process, args=arguments, daemon=True)
    process.start()
    try:
        time.sleep(3)  # its Python has to start
        yield
    finally:
        process.terminate()
        process.join()


async def beside(server: str, calls: int) -> Table:
    """What one interactive caller waits, alone and beside greedy ones."""
    table = Table("one interactive caller", "p50 ms", "p99 ms", "p99 over alone")
    alone = 0.0
    cases = (
        ("alone", 4, ""),
        (f"beside {GREEDY} of batch", 256, "greedy"),
        (f"beside {GREEDY} of batch, cap of 4", 4, "greedy"),
        ("beside a hostile team", 4, "hostile"),
    )
    for name, cap, team in cases:
        with door(server, batch=cap) as through, others(team, through):
            async with caller(through, "interactive", "slow") as call:
                await measure(call, 50)
                p50, p99, _ = await measure(call, calls)
        alone = alone or p99
        table.add_row(name, f"{p50:.1f}", f"{p99:.1f}", f"{p99 / alone:.2f}")
    return table


async def the_service(calls: int) -> Table:
    """An edit judged by the service against the same by `Client.score`."""
    import io

    import grpc
    from PIL import Image

    from editjudge.v1 import judge_pb2 as pb
    from editjudge.v1 import judge_pb2_grpc

    def png(seed: int) -> bytes:
        pixels = np.random.default_rng(seed).integers(0, 255, (64, 64, 3), np.uint8)
        stream = io.BytesIO()
        Image.fromarray(pixels).resize((512, 512)).save(stream, "PNG")
        return stream.getvalue()

    before, after = png(0), png(1)
    with serving(serve_judge) as address:
        async with grpc.aio.insecure_channel(address) as channel, Client(Settings()) as client:
            stub = judge_pb2_grpc.JudgeServiceStub(channel)

            async def direct() -> object:
                edit = Edit.load(source=before, edited=after, instruction="x")
                return await client.score(edit, DIMENSIONS)

            async def send_probe() -> object:
                pictures = {"sources": [pb.Picture(data=before)], "edited": pb.Picture(data=after)}
                edit = pb.Edit(instruction="x", **pictures)
                return await stub.Score(pb.ScoreRequest(edit=edit, dimensions=DIMENSIONS))

            rounds: dict[str, list[float]] = {"Client.score": [], "the Judge service": []}
            for turn in range(6):
                call, name = (send_probe, "the Judge service") if turn % 2 else (direct, "Client.score")
                await measure(call, 3)
                rounds[name].append((await measure(call, calls))[0])
    table = Table("an edit of 512x512, PSNR and SSIM", "p50 ms")
    for name, figures in rounds.items():
        table.add_row(name, f"{statistics.median(figures):.1f}")
    return table


@click.command()
@click.option("--rounds", default=3, show_default=True)
@click.option("--calls", default=1000, show_default=True)
def main(rounds: int, calls: int) -> None:
    """Print the three tables."""

    async def run() -> None:
        with serving(serve_null) as server:
            for table in (
                await the_way(server, rounds, calls),
                await beside(server, calls),
                await the_service(calls // 20),
            ):
                Console().print(table)

    asyncio.run(run())


if __name__ == "__main__":
    main()
