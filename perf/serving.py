"""What serving costs: specialists behind Triton against the same code in this process.

The same images, one at a time; both sides start from the bytes of a JPEG and do the same work,
so the difference is the transport, the queue and the adaptor. PP-OCR with its own networks; the
others at their published size with random weights, made on the spot. Rounds are interleaved
and medians compared. The memory of each model's process is read after the rounds.
"""

from __future__ import annotations

import asyncio
import io
import json
import os
import re
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import numpy as np
from PIL import Image, ImageDraw, ImageFont
from rich.console import Console
from rich.table import Table
from specialists import FULL, install

from editjudge.base.config import Endpoint, Settings
from editjudge.base.images import RGB, decode
from editjudge.panel import Panel
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

    async def served(inputs: Mapping[str, bytes]) -> None:
        await panel.call(service, inputs)

    sides: dict[str, Callable[[Mapping[str, bytes]], Awaitable[None]]] = {
        "in process": in_process,
        "served": served,
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
    found = {}
    settings = Settings(endpoints={"local": Endpoint(url=url, services=SERVICES)})
    async with Panel(settings) as panel:
        for service in SERVICES:
            figures = await compare(panel, service, size, rounds)
            memory = memory_mib(service.replace(".", "_"))
            found[service] = {**figures, "memory_mib": memory}
    return found


@click.command()
@click.option("--size", default=768, show_default=True, help="Side of the images in pixels.")
@click.option("--rounds", default=15, show_default=True)
@click.option("--json", "as_json", is_flag=True)
def main(size: int, rounds: int, as_json: bool) -> None:
    """Print the median time of both sides, the overhead of serving, and memory."""
    with tempfile.TemporaryDirectory(prefix="editjudge-perf-") as folder:
        os.environ["EDITJUDGE_MODELS_DIR"] = folder
        for entry, tiny in FULL.items():
            install(entry, replace(VISION[entry], tiny=tiny))  # type: ignore[type-var]
        install("lpips-alex", LPIPS["lpips-alex"])
        with temporary_stack() as server:
            found = asyncio.run(measure(server.url, size, rounds))
    if as_json:
        click.echo(json.dumps(found, indent=2))
        return
    table = Table(title=f"{size}x{size}, {rounds} interleaved rounds")
    for heading in ("service", "in process ms", "served ms", "overhead", "memory MiB"):
        table.add_column(heading, justify="right")
    for service, one in found.items():
        figures = (f"{one['in process']:.1f}", f"{one['served']:.1f}", f"{one['overhead']:+.1%}")
        table.add_row(service, *figures, f"{one['memory_mib']:.0f}")
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
