"""What serving costs: specialists behind Triton against the same code in this process.

The same images, one at a time; both sides start from the bytes of a JPEG and do the same work,
so the difference is the transport, the queue and the adaptor. PP-OCR with its own networks; the
others at their published size with random weights, made on the spot. Rounds are interleaved
and medians compared. The memory of each model's process is read after the rounds.

With --edits, what the Judge service costs an edit of two pictures that a judge sees in one
question, against a FastAPI service of 40 lines (pip install fastapi uvicorn): once one that reads
the heads of pictures alone, once one that decodes them. The judge answers at once, so that
processor time is what is compared.
Pictures are new in each edit, or the same in all. Then 200 edits are in flight, beside a judge that
takes its time, and the most memory of the service is read.
"""

from __future__ import annotations

import asyncio
import base64
import io
import itertools
import json
import os
import random
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import click
import grpc
import numpy as np
from gateway import serving
from hostile import Memory, make_request
from PIL import Image, ImageDraw, ImageFont
from rich.console import Console
from rich.table import Table
from scripted_judge import Script, serve_script
from specialists import FULL, install

from editjudge.base.config import Endpoint, Settings
from editjudge.base.images import RGB, decode
from editjudge.panel import Panel
from editjudge.v1 import judge_pb2 as pb
from editjudge.v1 import judge_pb2_grpc
from editjudge_services.features.recipe import RECIPES as VISION
from editjudge_services.perceptual.recipe import RECIPES as LPIPS
from editjudge_services.runtime.repository import find_specialists
from editjudge_services.runtime.specialist import Request, Specialist
from editjudge_services.runtime.triton_server import temporary_stack

SERVICES = ("ocr.ppocr", "features.dinov2", "features.dinov3", "clip.vit_b_32", "lpips.alex")
LINES = ("SUMMER SALE", "50% off everything", "open 9 to 17", "no returns")


def poster(size: int, seed: int) -> RGB:
    """Four lines of text on a soft gradient with a little noise: no two are equal."""
    ramp = np.linspace(180, 250, size)[None, :, None] + np.zeros((size, 1, 3))
    noise = np.random.default_rng(seed).integers(0, 4, (size, size, 1))
    picture = Image.fromarray((ramp + noise).astype(np.uint8))
    draw = ImageDraw.Draw(picture)
    for index, line in enumerate(LINES):
        font = ImageFont.load_default(size // 14)
        draw.text((size // 12, size // 8 + index * size // 5), line, fill="black", font=font)
    return np.asarray(picture)


def jpeg(picture: RGB) -> bytes:
    """What an editing model's output is usually stored as."""
    buffer = io.BytesIO()
    Image.fromarray(picture).save(buffer, "JPEG", quality=92)
    return buffer.getvalue()


def kind_of(service: str) -> type[Specialist]:
    """The specialist behind a service."""
    name = service.replace(".", "_")
    return next(kind for kind in find_specialists() if kind.name == name)


async def compare(panel: Panel, service: str, size: int, rounds: int) -> dict[str, float]:
    """Median milliseconds of each side; every round has an image of its own (no cache hits)."""
    specialist: Any = kind_of(service)()
    specialist.load(panel.specialists[service].identity.facts)
    names = [tensor.name for tensor in specialist.contract.inputs if not tensor.optional]
    parameters = {name: values[0] for name, values in specialist.contract.parameters.items()}

    async def in_process(inputs: Mapping[str, bytes]) -> None:
        tensors = {name: decode(data)[0] for name, data in inputs.items()}
        specialist.infer([Request({**tensors, "MASK": None}, parameters)])

    async def call_server(inputs: Mapping[str, bytes]) -> None:
        await panel.call(service, inputs)

    sides: dict[str, Callable[[Mapping[str, bytes]], Awaitable[None]]] = {
        "in process": in_process,
        "served": call_server,
    }
    times: dict[str, list[float]] = {name: [] for name in sides}
    for index in range(rounds + 1):
        pictures = [jpeg(poster(size, 2 * index + n)) for n in range(len(names))]
        inputs = dict(zip(names, pictures, strict=True))
        for name in sorted(sides, reverse=bool(index % 2)):
            start = time.perf_counter()
            await sides[name](inputs)
            if index:
                times[name].append(1e3 * (time.perf_counter() - start))
    medians = {name: statistics.median(values) for name, values in times.items()}
    return {**medians, "overhead": medians["served"] / medians["in process"] - 1}


def memory_mib(model: str) -> float:
    """Resident memory of the process that serves a model."""
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            command = (status.parent / "cmdline").read_bytes()
            if b"triton_python_backend_stub" in command and f"/{model}/".encode() in command:
                return int(re.findall(r"VmRSS:\s+(\d+)", status.read_text())[0]) / 1024
        except OSError:
            continue
    return float("nan")


async def measure(url: str, size: int, rounds: int) -> dict[str, dict[str, float]]:
    """Every service in turn."""
    rows = {}
    settings = Settings(endpoints={"local": Endpoint(url=url, services=SERVICES)})
    async with Panel(settings) as panel:
        for service in SERVICES:
            figures = await compare(panel, service, size, rounds)
            memory = memory_mib(service.replace(".", "_"))
            rows[service] = {**figures, "memory_mib": memory}
    return rows


Send = Callable[[bytes, bytes], Awaitable[object]]
IN_FLIGHT = 16


def mark(picture: bytes, number: int) -> bytes:
    """The same picture in a file that nobody has seen: its density is the number."""
    density = number.to_bytes(4) + number.to_bytes(4)
    if picture.startswith(b"\x89PNG"):
        body = b"pHYs" + density + b"\0"
        chunk = (9).to_bytes(4) + body + zlib.crc32(body).to_bytes(4)
        return picture[:33] + chunk + picture[33:]
    return picture[:14] + density[:4] + picture[18:]  # of the JFIF segment


def make_photograph(kind: str, seed: int) -> bytes:
    """1024x1024 pixels about as hard to compress as a photograph."""
    random_state = np.random.default_rng(seed)
    layers = [
        np.asarray(
            Image.fromarray(random_state.integers(0, 256, (n, n, 3), np.uint8)).resize((1024, 1024), 3), np.int16
        )
        for n in (8, 64, 256)
    ]
    pixels = sum(layer // 3 for layer in layers) + random_state.integers(-2, 3, (1024, 1024, 3))
    buffer = io.BytesIO()
    Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8)).save(buffer, kind, quality=90)
    return buffer.getvalue()


def read_processor_seconds(pid: int) -> tuple[float, float]:
    """The processor time of a process, and of its main thread, which has the event loop."""
    files = Path(f"/proc/{pid}/stat"), Path(f"/proc/{pid}/task/{pid}/stat")
    times = (file.read_text().rpartition(")")[2].split()[11:13] for file in files)
    whole, loop = (sum(map(int, each)) / os.sysconf("SC_CLK_TCK") for each in times)
    return whole, loop


@contextmanager
def contender(judge: str, kind: str) -> Iterator[tuple[int, str]]:
    """The FastAPI service in a process of its own; gives it, and its address."""
    with socket.create_server(("127.0.0.1", 0)) as place:
        port = place.getsockname()[1]
    script = Path(__file__).parent / "contenders" / "with_fastapi.py"
    process = subprocess.Popen([sys.executable, script, judge, str(port), kind])
    try:
        while True:
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except OSError:
                if process.poll() is not None:
                    raise SystemExit("the contender needs: pip install fastapi uvicorn") from None
                time.sleep(0.1)
        yield process.pid, f"http://127.0.0.1:{port}/score"
    finally:
        process.terminate()
        process.wait()


async def send_many(send: Send, pairs: Iterator[tuple[bytes, bytes]], at_once: int) -> None:
    """Send edits side by side."""

    async def work() -> None:
        for pair in pairs:
            await send(*pair)

    await asyncio.gather(*(work() for _ in range(at_once)))


def make_sends(session: aiohttp.ClientSession, address: str, web: str) -> dict[str, Send]:
    """The ways to send an edit to the Judge service."""
    options = [("grpc.max_send_message_length", -1)]
    stub = judge_pb2_grpc.JudgeServiceStub(grpc.aio.insecure_channel(address, options))

    def make(before: bytes, after: bytes) -> pb.ScoreRequest:
        request = make_request()
        request.edit.sources[0].data, request.edit.edited.data = before, after
        return request

    async def score(before: bytes, after: bytes) -> None:
        reply = await stub.Score(make(before, after), timeout=600)
        assert reply.outcomes[0].HasField("value"), reply

    async def post(before: bytes, after: bytes) -> None:
        edit = make(before, after).edit
        before64, after64 = (base64.b64encode(each).decode() for each in (before, after))
        body = {
            "edit": {
                "instruction": edit.instruction,
                "sources": [{"data": before64}],
                "edited": {"data": after64},
                "task": edit.task,
            },
            "dimensions": ["kris.visual_consistency"],
            "protocol": {"benchmark": "kris"},
        }
        async with session.post(f"{web}/v1/score", json=body) as reply:
            assert "value" in (text := await reply.text()), text

    return {"Score": score, "JSON": post}


def make_contender_send(session: aiohttp.ClientSession, url: str) -> Send:
    """The way to send an edit to the FastAPI service."""

    async def post(before: bytes, after: bytes) -> None:
        before64, after64 = (base64.b64encode(each).decode() for each in (before, after))
        text = make_request().edit.instruction
        body = {"instruction": text, "source": before64, "edited": after64}
        async with session.post(url, json=body) as reply:
            assert reply.status == 200, await reply.text()

    return post


async def measure_edits(rounds: int, edits: int) -> Table:
    """Processor milliseconds of an edit by service and picture, and memory at 200 in flight."""
    numbers = itertools.count(1)
    heads = "edits", "service", "CPU ms an edit, median", "least", "of it the event loop"
    table = Table(*heads, title="two of 1024x1024")
    session_options = {"timeout": aiohttp.ClientTimeout(600), "connector": aiohttp.TCPConnector(limit=0)}
    with tempfile.TemporaryDirectory(prefix="editjudge-perf-") as folder:
        with (
            serve_script(Script(latency=0)) as judge,
            serving(judge, 16, Path(folder), "--cache=one") as (service, address, web),
            contender(judge, "heads") as (heads_pid, heads_url),
            contender(judge, "decoding") as (decoding_pid, decoding_url),
        ):
            async with aiohttp.ClientSession(**session_options) as session:
                sides = {name: (service.pid, send) for name, send in make_sends(session, address, web).items()}
                for name, own_pid, url in (
                    ("FastAPI, heads", heads_pid, heads_url),
                    ("FastAPI, decoding", decoding_pid, decoding_url),
                ):
                    sides[name] = own_pid, make_contender_send(session, url)
                for kind, is_new in (("JPEG", True), ("JPEG", False), ("PNG", True)):
                    pair = make_photograph(kind, 0), make_photograph(kind, 1)
                    costs: dict[str, list[tuple[float, ...]]] = {name: [] for name in sides}
                    for index in range(rounds + 1):
                        for name in random.sample(list(sides), len(sides)):
                            own_pid, send = sides[name]
                            count = edits if index else 2 * IN_FLIGHT
                            pairs = (
                                (mark(pair[0], n), mark(pair[1], n)) if is_new else pair
                                for n in itertools.islice(numbers, count)
                            )
                            start = read_processor_seconds(own_pid)
                            await send_many(send, pairs, IN_FLIGHT)
                            if index:
                                both = zip(read_processor_seconds(own_pid), start, strict=True)
                                costs[name].append(tuple(1e3 * (a - b) / count for a, b in both))
                    age = "new" if is_new else "the same"
                    label = f"{kind} of {len(pair[0]) // 1000} kB, {age}"
                    for name, each in costs.items():
                        whole, loop = zip(*each, strict=True)
                        figures = statistics.median(whole), min(whole), statistics.median(loop)
                        table.add_row(label, name, *(f"{figure:.1f}" for figure in figures))
        with (
            serve_script(Script(latency=5)) as judge,
            serving(judge, 16, Path(folder), "--cache=two") as (service, address, web),
        ):
            async with aiohttp.ClientSession(**session_options) as session:
                memory = Memory(service.pid)
                watch = asyncio.create_task(memory.watch())
                pair = make_photograph("JPEG", 0), make_photograph("JPEG", 1)
                pairs = ((mark(pair[0], n), mark(pair[1], n)) for n in range(200))
                await send_many(make_sends(session, address, web)["Score"], pairs, 200)
                watch.cancel()
        table.add_row("JPEG, 200 in flight", "Score", f"{memory.most_mib:.0f} MiB at most", "", "")
    return table


@click.command()
@click.option("--size", default=768, show_default=True, help="Side of the images in pixels.")
@click.option("--rounds", default=15, show_default=True)
@click.option("--edits", default=0, help="Measure the Judge service, with so many edits a round.")
@click.option("--json", "as_json", is_flag=True)
def main(size: int, rounds: int, edits: int, as_json: bool) -> None:
    """Print the median time of both sides, the overhead of serving, and memory."""
    if edits:
        Console(width=120).print(asyncio.run(measure_edits(rounds, edits)))
        return
    with tempfile.TemporaryDirectory(prefix="editjudge-perf-") as folder:
        os.environ["EDITJUDGE_MODELS_DIR"] = folder
        for entry, tiny in FULL.items():
            install(entry, replace(VISION[entry], tiny=tiny))  # type: ignore[type-var]
        install("lpips-alex", LPIPS["lpips-alex"])
        with temporary_stack() as server:
            rows = asyncio.run(measure(server.url, size, rounds))
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return
    table = Table(title=f"{size}x{size}, {rounds} interleaved rounds")
    for heading in ("service", "in process ms", "served ms", "overhead", "memory MiB"):
        table.add_column(heading, justify="right")
    for service, one in rows.items():
        figures = (f"{one['in process']:.1f}", f"{one['served']:.1f}", f"{one['overhead']:+.1%}")
        table.add_row(service, *figures, f"{one['memory_mib']:.0f}")
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
