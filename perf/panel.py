"""What the panel costs per call, against bare tritonclient and the bare stub.

A null model in the real Triton answers; all three send the same 100 KB image and read
the same output. The panel also checks the reply, retries and knows the identity of the
model. Rounds are interleaved and the order changes from round to round, so that a noisy
machine disturbs all alike. Medians over rounds are compared, and the best rounds, which
neighbours on the machine have disturbed least.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import statistics
import struct
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import click
import numpy as np
from rich.console import Console
from rich.table import Table

from editjudge.base.config import Endpoint, Settings
from editjudge.panel import Panel
from editjudge_services.quality.piqe_service import Piqe
from editjudge_services.runtime.repository import render_config
from editjudge_services.runtime.triton_server import TritonServer

Call = Callable[[], Awaitable[object]]
IMAGE_BYTES = 100_000
NULL_MODEL = """
import numpy as np
import triton_python_backend_utils as pb

class TritonPythonModel:
    def execute(self, requests):
        score = lambda: pb.Tensor("SCORE", np.zeros((1, 1), np.float32))
        return [pb.InferenceResponse([score()]) for _ in requests]
"""


class Null(Piqe):
    """The quality role, answering at once."""

    max_batch = 64
    max_queue = 1024


def repository(folder: Path) -> Path:
    """A model repository that holds the null model under the name of a known service."""
    model = folder / "quality_piqe"
    (model / "1").mkdir(parents=True)
    (model / "config.pbtxt").write_text(render_config(Null))
    (model / "1" / "model.py").write_text(NULL_MODEL)
    return folder


async def rate(call: Call, concurrency: int, calls: int) -> tuple[float, float]:
    """Calls per second, and the median milliseconds of one."""
    milliseconds: list[float] = []
    left = iter(range(calls))

    async def worker() -> None:
        for _ in left:
            start = time.perf_counter()
            await call()
            milliseconds.append(1e3 * (time.perf_counter() - start))

    start = time.perf_counter()
    await asyncio.gather(*(worker() for _ in range(concurrency)))
    return calls / (time.perf_counter() - start), statistics.median(milliseconds)


async def compare(url: str, rounds: int, calls: int) -> dict[str, dict[int, list[tuple[float, float]]]]:
    """Interleaved rounds of each client at concurrency 1 and 32."""
    import grpc.aio
    import tritonclient.grpc as tritonclient
    import tritonclient.grpc.aio as triton_aio
    from tritonclient.grpc import service_pb2, service_pb2_grpc

    address = url.removeprefix("grpc://")
    image = os.urandom(IMAGE_BYTES)
    array = np.array([[image]], dtype=np.object_)
    settings = Settings(endpoints={"null": Endpoint(url=url, services=("quality.piqe",))})
    results: dict[str, dict[int, list[tuple[float, float]]]] = {}
    async with (
        triton_aio.InferenceServerClient(address) as client,
        grpc.aio.insecure_channel(address) as channel,
        Panel(settings) as panel,
    ):
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)

        async def bare_client() -> object:
            picture = tritonclient.InferInput("IMAGE", [1, 1], "BYTES")
            picture.set_data_from_numpy(array)
            reply = await client.infer("quality_piqe", [picture])
            return reply.as_numpy("SCORE")

        async def bare_stub() -> object:
            request = service_pb2.ModelInferRequest(model_name="quality_piqe")
            request.inputs.add(name="IMAGE", datatype="BYTES", shape=(1, 1))
            request.raw_input_contents.append(struct.pack("<I", len(image)) + image)
            reply = await stub.ModelInfer(request)
            return np.frombuffer(reply.raw_output_contents[0], np.float32)

        async def through_panel() -> object:
            return (await panel.call("quality.piqe", {"IMAGE": image}))["SCORE"]

        clients: dict[str, Call] = {
            "tritonclient.aio": bare_client,
            "bare stub": bare_stub,
            "editjudge panel": through_panel,
        }
        for call in clients.values():
            await rate(call, 8, 200)
        order = [(name, c) for name in clients for c in (1, 32)]
        for _ in range(rounds):
            random.shuffle(order)
            for name, concurrency in order:
                share = calls // 4 if concurrency == 1 else calls
                rates = await rate(clients[name], concurrency, share)
                results.setdefault(name, {}).setdefault(concurrency, []).append(rates)
    return results


@click.command()
@click.option("--rounds", default=9, show_default=True)
@click.option("--calls", default=2000, show_default=True, help="Per round at concurrency 32.")
@click.option("--json", "as_json", is_flag=True)
def main(rounds: int, calls: int, as_json: bool) -> None:
    """Print calls per second and latency of each client, and the panel's ratios."""
    with tempfile.TemporaryDirectory() as folder:
        server = TritonServer(Path(folder) / "triton.log", repository=repository(Path(folder) / "repo"))
        server.start()
        try:
            results = asyncio.run(compare(server.url, rounds, calls))
        finally:
            server.stop()
    median = {
        name: {c: tuple(map(statistics.median, zip(*runs, strict=True))) for c, runs in by.items()}
        for name, by in results.items()
    }
    best = {name: max(rate for rate, _ in by[32]) for name, by in results.items()}
    panel = median["editjudge panel"]
    summary = {
        "best_rate_at_32_over_tritonclient": best["editjudge panel"] / best["tritonclient.aio"],
        "best_rate_at_32_over_stub": best["editjudge panel"] / best["bare stub"],
        "rate_at_32_over_tritonclient": panel[32][0] / median["tritonclient.aio"][32][0],
        "rate_at_32_over_stub": panel[32][0] / median["bare stub"][32][0],
        "p50_ms_at_1_over_stub": panel[1][1] - median["bare stub"][1][1],
    }
    if as_json:
        click.echo(json.dumps({"medians": median, **summary}, indent=2))
        return
    table = Table(title=f"{IMAGE_BYTES // 1000} KB images, medians of {rounds} rounds")
    for heading in ("client", "calls/s at 1", "p50 ms at 1", "calls/s at 32", "p50 ms at 32"):
        table.add_column(heading, justify="right")
    for name, by in median.items():
        table.add_row(name, f"{by[1][0]:.0f}", f"{by[1][1]:.3f}", f"{by[32][0]:.0f}", f"{by[32][1]:.2f}")
    Console(width=120).print(table)
    for name, value in summary.items():
        click.echo(f"{name}: {value:.3f}")


if __name__ == "__main__":
    main()
