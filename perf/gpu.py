"""What a node with a GPU does: every specialist by precision, batch and size, and a judge.

    python perf/gpu.py specialists          # what is installed; EDITJUDGE_MODELS_DIR
    python perf/gpu.py specialists --full-size FOLDER    # networks of published size, random weights
    python perf/gpu.py judge --url http://127.0.0.1:8000/v1 --model NAME

`parity` is what the export's comparison with its source found. A segmenter cuts its best box, since
random weights find hundreds. A row that could not be measured says why. Each specialist runs in a process of
its own, so that memory is its own; on a CPU the columns of a GPU stay empty. The judge is a vLLM
with one card. It is asked one question of two pictures and gives one token. `paper` is the ceiling
in requests per second that arithmetic gives for Qwen3-VL-8B in bf16 on one H100. Where no request
waits and the card is not busy, the CPU is the wall.
"""

from __future__ import annotations

import asyncio
import base64
import io
import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import click
import numpy as np
from PIL import Image as Pil
from rich.console import Console
from rich.table import Table

from editjudge.base.errors import ConfigError
from editjudge_services.runtime.repository import find_specialists
from editjudge_services.runtime.specialist import Request, Specialist
from editjudge_services.zoo.artefact import Precision, load_artefact
from editjudge_services.zoo.export import PRECISIONS

QUESTION = "Was the instruction followed? Reply with one number from 1 to 10."
RUBRIC = "Judge only what was asked for. " * 60
PAPER = {(512, 1): 35, (768, 1): 18, (1024, 1): 10, (512, 16): 53, (768, 16): 29, (1024, 16): 17}
SMI = ("utilization.gpu", "memory.used", "power.draw")


def read_card() -> tuple[float, ...] | None:
    """Busy share in percent, MiB and watts of the first card; None without one."""
    if (program := shutil.which("nvidia-smi")) is None:
        return None
    query = f"--query-gpu={','.join(SMI)}"
    command = [program, query, "--format=csv,noheader,nounits", "--id=0"]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        return tuple(float(one) for one in process.stdout.split(","))
    except ValueError:
        return None


def watch(stop: Event) -> dict[str, float]:
    """Read the card until `stop` is set: mean busy share and watts, most MiB."""
    readings = []
    while not stop.wait(0.2):
        if (reading := read_card()) is None:
            return {}
        readings.append(reading)
    if not readings:
        return {}
    busy, memory, watts = np.array(readings).T
    return {"gpu_busy": busy.mean(), "gpu_mib": memory.max(), "watts": watts.mean()}


def peak_mib() -> float:
    """The most memory that this process had, MiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


def make_picture(seed: int, megapixels: float) -> Any:
    """A picture of coarse squares, 4 by 3."""
    height = max(64, round((megapixels * 1e6 * 3 / 4) ** 0.5))
    width = height * 4 // 3
    rng = np.random.default_rng(seed)
    coarse = rng.integers(0, 256, (height // 16 + 1, width // 16 + 1, 3), dtype=np.uint8)
    return np.ascontiguousarray(coarse.repeat(16, 0).repeat(16, 1)[:height, :width])


def make_request(kind: type[Specialist], seed: int, megapixels: float) -> Request:
    """A request that fits a specialist's contract."""
    values = {"image": lambda index: make_picture(2 * seed + index, megapixels)}
    tensors = {
        one.name: None if one.optional else values.get(one.holds, lambda _: "the bus")(index)
        for index, one in enumerate(kind.contract.inputs)
    }
    parameters = {name: choices[0] for name, choices in kind.contract.parameters.items()}
    if "select" in parameters:
        parameters["select"] = "best"
    return Request(tensors, parameters)


def measure_specialist(name: str, precision: Any, batch: int, megapixels: float, seconds: float) -> dict[str, float]:
    """Load one specialist, and run batches of pictures that it has not seen."""
    (kind,) = [one for one in find_specialists() if one.name == name]
    specialist = kind()
    specialist.load({**kind.identity, **(kind.installed_identity(precision) or {})})
    loaded_mib = peak_mib()
    stop, calls, watcher = Event(), 0, ThreadPoolExecutor(1)
    specialist.infer([make_request(kind, 0, megapixels)])
    card: Future[dict[str, float]] = watcher.submit(watch, stop)
    wall = processor = 0.0
    while wall < seconds:
        requests = [make_request(kind, 1 + calls + i, megapixels) for i in range(batch)]
        start, before = time.perf_counter(), time.process_time()
        specialist.infer(requests)
        wall += time.perf_counter() - start
        processor += time.process_time() - before
        calls += batch
    stop.set()
    times = {"calls_per_second": calls / wall, "processor_seconds": processor / calls}
    return {**times, "loaded_mib": loaded_mib, "peak_mib": peak_mib(), **card.result()}


def run_apart(*arguments: object) -> Mapping[str, Any]:
    """Measure in a process of its own; what fails says why."""
    command = [sys.executable, __file__, "one", *map(str, arguments)]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    if process.returncode:
        return {"error": (process.stderr.strip().splitlines() or ["no reason"])[-1]}
    results: dict[str, Any] = json.loads(process.stdout)
    return results


def encode(picture: Any) -> dict[str, Any]:
    """A part of a message that holds a picture."""
    buffer = io.BytesIO()
    Pil.fromarray(picture).save(buffer, "PNG", compress_level=1)
    data = base64.b64encode(buffer.getvalue()).decode()
    return {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}


def make_bodies(model: str, side: int, siblings: int, order: str, count: int) -> list[Any]:
    """Questions about edits, of which `siblings` share a source."""
    bodies = []
    for index in range(count):
        seeds = (index // siblings, 10_000 + index)
        shape = (side // 16, side // 16, 3)
        grids = [np.random.default_rng(s).integers(0, 256, shape, dtype=np.uint8) for s in seeds]
        pictures = [encode(grid.repeat(16, 0).repeat(16, 1)) for grid in grids]
        rubric = {"type": "text", "text": RUBRIC}
        content = [rubric, *pictures] if order == "rubric" else [*pictures, rubric]
        message = {"role": "user", "content": [*content, {"type": "text", "text": QUESTION}]}
        bodies.append({"model": model, "messages": [message], "max_tokens": 1, "temperature": 0})
    return bodies


async def ask_all(url: str, bodies: Sequence[Any], in_flight: int) -> tuple[float, float]:
    """Ask all; requests per second, and the most that waited at vLLM."""
    import httpx2

    turns, queue_length, is_done = asyncio.Semaphore(in_flight), 0.0, asyncio.Event()
    async with httpx2.AsyncClient(timeout=600) as client:

        async def ask(body: Any) -> None:
            async with turns:
                (await client.post(f"{url}/chat/completions", json=body)).raise_for_status()

        async def look() -> None:
            nonlocal queue_length
            while not is_done.is_set():
                text = (await client.get(f"{url.removesuffix('/v1')}/metrics")).text
                lines = [x for x in text.splitlines() if x.startswith("vllm:num_requests_waiting{")]
                queue_length = max([queue_length, *(float(line.split()[-1]) for line in lines)])
                await asyncio.sleep(0.2)

        looking, start = asyncio.create_task(look()), time.perf_counter()
        await asyncio.gather(*map(ask, bodies))
        duration = time.perf_counter() - start
        is_done.set()
        await looking
    return len(bodies) / duration, queue_length


def show(rows: Sequence[Mapping[str, Any]], as_json: bool) -> None:
    """Print rows as JSON or as a table; a failure is a text, never a number."""
    if as_json:
        click.echo(json.dumps(list(rows)))
        return
    names = list(dict.fromkeys(name for row in rows for name in row))
    table = Table(*names)
    for row in rows:
        cells = (row.get(name, "") for name in names)
        table.add_row(*(f"{one:.3g}" if isinstance(one, float) else str(one) for one in cells))
    Console(width=160).print(table)


@click.group()
def main() -> None:
    """Measure specialists or a judge."""


@main.command()
@click.argument("name")
@click.argument("precision")
@click.argument("batch", type=int)
@click.argument("megapixels", type=float)
@click.argument("seconds", type=float)
def one(**arguments: Any) -> None:
    """Measure one specialist in this process, as JSON."""
    click.echo(json.dumps(measure_specialist(**arguments)))


@main.command()
@click.option("--name", "names", multiple=True, help="A model; by default all that are installed.")
@click.option("--batch", "batches", multiple=True, type=int, default=(1, 8), show_default=True)
@click.option("--megapixels", "sizes", multiple=True, type=float, default=(1,), show_default=True)
@click.option("--precision", "precisions", multiple=True, type=click.Choice(PRECISIONS), default=PRECISIONS)
@click.option("--seconds", default=10.0, show_default=True, help="For each row.")
@click.option("--full-size", "full_folder", type=Path, help="Make networks of published size there, unless they are.")
@click.option("--json", "as_json", is_flag=True)
def specialists(
    names: Sequence[str],
    batches: Sequence[int],
    sizes: Sequence[float],
    precisions: Sequence[Precision],
    seconds: float,
    full_folder: Path | None,
    as_json: bool,
) -> None:
    """Calls per second, processor time and memory of specialists; of a card also busy and watts."""
    rows: list[Mapping[str, Any]] = []
    kinds_by_name = {kind.name: kind for kind in find_specialists()}
    if missing := set(names) - kinds_by_name.keys():
        raise click.BadParameter(f"no model {', '.join(sorted(missing))}; there are {', '.join(kinds_by_name)}")
    kinds = [kind for name, kind in kinds_by_name.items() if not names or name in names]
    if full_folder:
        os.environ["EDITJUDGE_MODELS_DIR"] = str(full_folder)
        rows += make_full_size(kinds, precisions)
    for kind in kinds:
        for precision in precisions if kind.entry else ("fp32",):
            if (parity := find_parity(kind, precision)) is None:
                continue
            for batch in batches:
                for size in sizes:
                    what = {"model": kind.name, "precision": precision, "batch": batch, "MP": size}
                    rows.append({**what, **run_apart(kind.name, precision, batch, size, seconds), **parity})
        if all(row["model"] != kind.name for row in rows):
            why = "its weights are not installed" if kind.entry else "its variable names no vLLM"
            rows.append({"model": kind.name, "error": why})
    show(rows, as_json)


def make_full_size(kinds: Sequence[type[Specialist]], precisions: Sequence[Precision]) -> list[Mapping[str, Any]]:
    """Make and export networks of published size; gives a row for each that is refused or left out."""
    # It imports torch, which would count as memory of every specialist.
    import full_size

    rows = []
    for kind in filter(lambda kind: kind.entry, kinds):
        if kind.entry not in full_size.SIZES:
            rows.append({"model": kind.name, "error": "not made: it has five billion parameters"})
            continue
        errors = full_size.make_all(kind.entry, precisions)
        rows += [{"model": kind.name, "precision": precision, "error": error} for precision, error in errors]
    return rows


def find_parity(kind: type[Specialist], precision: Precision) -> Mapping[str, Any] | None:
    """What the export's comparison found; None where the model is not installed."""
    try:
        if kind.installed_identity(precision) is None:
            return None
        artefact = load_artefact(kind.entry, precision) if kind.entry else None
    except ConfigError:
        return None
    if artefact is None or artefact.parity is None:
        return {}
    return {"parity": artefact.parity.largest_difference, "measure": artefact.parity.measure}


@main.command()
@click.option("--url", required=True, help="vLLM's address, ending in /v1.")
@click.option("--model", required=True, help="The model's name there.")
@click.option("--precision", default="bf16", show_default=True, help="What vLLM was started with.")
@click.option("--side", "sides", multiple=True, type=int, default=(512, 768, 1024))
@click.option("--siblings", "families", multiple=True, type=int, default=(1, 16))
@click.option("--count", default=256, show_default=True, help="Edits of each row.")
@click.option("--in-flight", default=128, show_default=True)
@click.option("--json", "as_json", is_flag=True)
def judge(
    url: str,
    model: str,
    precision: str,
    sides: Sequence[int],
    families: Sequence[int],
    count: int,
    in_flight: int,
    as_json: bool,
) -> None:
    """Requests per second by size, siblings and order, beside the ceiling on paper."""
    rows = []
    cases = [(s, f, o) for s in sides for f in families for o in ("pictures", "rubric")]
    for side, siblings, order in random.Random(0).sample(cases, len(cases)):
        bodies = make_bodies(model, side, siblings, order, count)
        stop, watcher = Event(), ThreadPoolExecutor(1)
        card: Future[dict[str, float]] = watcher.submit(watch, stop)
        speed, queue_length = asyncio.run(ask_all(url, bodies, in_flight))
        stop.set()
        card_load = card.result()
        is_idle = card_load.get("gpu_busy", 100.0) < 70 and queue_length < 1
        wall = {"wall": "CPU"} if is_idle else {}
        what = {"precision": precision, "side": side, "siblings": siblings, "first": order}
        paper = PAPER.get((side, siblings), "")
        rows.append({**what, "requests_per_second": speed, "paper": paper, **card_load, **wall})
    show(sorted(rows, key=lambda row: (row["side"], row["siblings"], row["first"])), as_json)


if __name__ == "__main__":
    main()
