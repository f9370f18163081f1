"""A whole run through the Judge service, against the same run that asks the judge itself.

`editjudge run kris` on edits of two pictures, one question each, with a scripted judge that answers
after a while (`scripted_judge.py`), and the same with `--gateway` at an `editjudge serve` of its
own for each round, which knows no reply yet. Rounds are interleaved. Edits per second are those of
the whole command; memory and processor time are the client's, and the service's processor time.

    python perf/gateway.py [--latency 0.2] [--in-flight 32] [--edits 300] [--rounds 3]
"""

from __future__ import annotations

import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import click
from peers import DIMENSION, write_edits
from rich.console import Console
from rich.table import Table
from scripted_judge import Script, serve_script

EDITJUDGE = sys.executable, "-m", "editjudge"


class Cost(NamedTuple):
    """What a run took: edits per second, processor milliseconds an edit, MiB at most."""

    rate: float
    client_ms: float
    service_ms: float
    client_mib: float


@contextmanager
def serving(judge: str, in_flight: int, folder: Path, *how: str) -> Iterator[tuple[subprocess.Popen[str], str, str]]:
    """`editjudge serve` in a folder without settings; gives its process and its addresses."""
    command = *EDITJUDGE, "serve", "--judge", f"{judge}/v1", "--notice", "0", "--drain", "1"
    ports = "--address", "127.0.0.1:0", "--http-address", "127.0.0.1:0"
    more = "--set", f"concurrency={in_flight}"
    process = subprocess.Popen([*command, *ports, *more, *how], cwd=folder, stdout=-1, text=True)
    try:
        assert process.stdout is not None
        words = process.stdout.readline().split()
        yield process, words[2], words[5]
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait()


def run(folder: Path, out: Path, in_flight: int, *how: str) -> tuple[float, float, float]:
    """Seconds of a run, processor seconds and MiB at most of its process."""
    data = "--data", str(folder / "kris"), "--outputs", f"m={folder / 'outputs'}"
    more = "--dimension", DIMENSION, "--set", f"concurrency={in_flight}", "--out", str(out)
    start = time.perf_counter()
    quiet = subprocess.DEVNULL
    process = subprocess.Popen([*EDITJUDGE, "run", "kris", *data, *more, *how], cwd=folder, stdout=quiet, stderr=quiet)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"the run ended with {os.waitstatus_to_exitcode(status)}")
    seconds = time.perf_counter() - start
    return seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def measure(folder: Path, way: str, edits: int, in_flight: int, latency: float) -> Cost:
    """One run, one way."""
    with serve_script(Script(latency=latency)) as judge, tempfile.TemporaryDirectory() as name:
        out = Path(name) / "run"
        if way == "run":
            seconds, processor, mib = run(folder, out, in_flight, "--judge", f"{judge}/v1")
            return Cost(edits / seconds, 1e3 * processor / edits, 0, mib)
        with serving(judge, in_flight, folder) as (process, address, _):
            seconds, processor, mib = run(folder, out, in_flight, "--gateway", f"grpc://{address}")
            process.terminate()
            _, _, usage = os.wait4(process.pid, 0)
            process.returncode = 0
        processor_seconds = usage.ru_utime + usage.ru_stime
        return Cost(edits / seconds, 1e3 * processor / edits, 1e3 * processor_seconds / edits, mib)


@click.command()
@click.option("--latency", default=0.2, show_default=True, help="Seconds that the judge takes.")
@click.option("--in-flight", default=32, show_default=True)
@click.option("--edits", default=300, show_default=True)
@click.option("--rounds", default=3, show_default=True)
def main(latency: float, in_flight: int, edits: int, rounds: int) -> None:
    """Print medians of each way, and the ratios of each round."""
    ways = ("run", "run --gateway")
    costs: dict[str, list[Cost]] = {way: [] for way in ways}
    with tempfile.TemporaryDirectory(prefix="editjudge-perf-") as name:
        write_edits(Path(name), edits)
        for _ in range(rounds):
            for way in random.sample(ways, len(ways)):
                costs[way].append(measure(Path(name), way, edits, in_flight, latency))
    heads = "way", "edits/s", "CPU ms an edit", "of the service", "MiB at most"
    table = Table(*heads, title=f"{edits} edits, {in_flight} in flight, {latency} s a call")
    for way, each in costs.items():
        medians = map(statistics.median, zip(*each, strict=True))
        table.add_row(way, *(f"{figure:.1f}" for figure in medians))
    Console(width=100).print(table)
    for field in ("rate", "client_mib"):
        pairs = zip(costs["run --gateway"], costs["run"], strict=True)
        ratios = [getattr(a, field) / getattr(b, field) for a, b in pairs]
        click.echo(f"{field}: {', '.join(f'{ratio:.2f}' for ratio in ratios)} of `run`")


if __name__ == "__main__":
    main()
