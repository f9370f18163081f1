"""What serving costs: PP-OCR behind Triton against the same networks in this process.

The same images, one at a time; both sides start from encoded bytes. Rounds are
interleaved and medians compared.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from collections.abc import Awaitable, Callable

import click
import numpy as np
from PIL import Image, ImageDraw, ImageFont
from rich.console import Console
from rich.table import Table

from editjudge.config import Endpoint, Settings
from editjudge.images import RGB, decode, load_image
from editjudge.panel import Panel
from editjudge_services.ocr.ppocr import PpOcrReader
from editjudge_services.runtime.launcher import temporary_stack

LINES = ("SUMMER SALE", "50% off everything", "open 9 to 17", "no returns")


def poster(size: int) -> RGB:
    """Four lines of text on a soft gradient."""
    ramp = np.linspace(180, 250, size, dtype=np.uint8)
    picture = Image.fromarray(np.stack([np.tile(ramp, (size, 1))] * 3, axis=-1))
    draw = ImageDraw.Draw(picture)
    for index, line in enumerate(LINES):
        font = ImageFont.load_default(size // 14)
        draw.text((size // 12, size // 8 + index * size // 5), line, fill="black", font=font)
    return np.asarray(picture)


async def compare(url: str, size: int, rounds: int) -> dict[str, list[float]]:
    """Milliseconds of each side, round by round."""
    encoded = load_image(poster(size)).encoded
    reader = PpOcrReader()
    async with Panel(Settings(endpoints={"local": Endpoint(url=url)})) as panel:

        async def in_process() -> str:
            return reader.read([decode(encoded)[0]])[0].text

        async def served() -> str:
            return bytes((await panel.call("ocr.ppocr", {"IMAGE": encoded}))["TEXT"]).decode()

        assert await in_process() == await served() == "\n".join(LINES)
        sides: dict[str, Callable[[], Awaitable[str]]] = {
            "in process": in_process,
            "served": served,
        }
        times: dict[str, list[float]] = {name: [] for name in sides}
        for index in range(rounds):
            for name in sorted(sides, reverse=bool(index % 2)):
                start = time.perf_counter()
                await sides[name]()
                times[name].append(1e3 * (time.perf_counter() - start))
        return times


@click.command()
@click.option("--size", default=768, show_default=True, help="Side of the image in pixels.")
@click.option("--rounds", default=25, show_default=True)
@click.option("--json", "as_json", is_flag=True)
def main(size: int, rounds: int, as_json: bool) -> None:
    """Print the median time of both sides and the overhead of serving."""
    with temporary_stack() as server:
        times = asyncio.run(compare(server.url, size, rounds))
    medians = {name: statistics.median(values) for name, values in times.items()}
    overhead = medians["served"] / medians["in process"] - 1
    if as_json:
        click.echo(json.dumps({"median_ms": medians, "overhead": overhead}))
        return
    table = Table(
        "side", "median ms", title=f"PP-OCR on {size}x{size}, {rounds} interleaved rounds"
    )
    for name, value in medians.items():
        table.add_row(name, f"{value:.1f}")
    Console().print(table)
    click.echo(f"overhead of serving: {100 * overhead:+.1f} %")


if __name__ == "__main__":
    main()
