"""What a whole run takes, against the same calls made one by one.

The demo set's edits on every dimension of `core` that the local stack serves: a real Triton with
PP-OCR and PIQE, and the pixels. `run` is a session of `editjudge run` with its ledger and its
store in a fresh folder; `one by one` awaits each dimension of each edit before it begins the next,
as a plain script would, and keeps nothing. Rounds are interleaved and the order changes.

    python perf/run.py [--rounds 5]
"""

from __future__ import annotations

import asyncio
import os
import random
import statistics
import tempfile
import time
from pathlib import Path

import click

from editjudge.app.client import Client
from editjudge.base.config import Settings
from editjudge.base.images import load_image
from editjudge.base.item import Edit
from editjudge.base.verdict import Failure, Score
from editjudge.benchmarks.registry import load_dimensions
from editjudge_services.demo import write_demo_set
from editjudge_services.demo.editors import EDITORS
from editjudge_services.runtime.triton_server import TritonServer


def whole_run(folder: Path, settings: Settings, selection) -> dict[tuple[str, str, str], float]:
    """A session; gives the scores."""
    import editjudge

    spec = editjudge.RunSpec(
        benchmark="core",
        data=folder / "items.jsonl",
        outputs={name: folder / "outputs" / name for name in EDITORS},
        dimensions=tuple(one.id for one in selection),
    )
    with tempfile.TemporaryDirectory() as out:
        event = editjudge.run(spec, out=Path(out) / "run", settings=settings).last_event
        if event.ended != "done" or event.first_failure:
            raise SystemExit(f"{event.ended}: {event.first_failure}")
        with editjudge.RunView(Path(out) / "run") as view:
            return {
                (one.model, one.item, one.dimension): one.verdict.value
                for one in view.verdicts(evidence=False)
                if isinstance(one.verdict, Score)
            }


async def one_by_one(client: Client, folder: Path, selection, *, edit_wise: bool) -> dict[tuple[str, str, str], float]:
    """The same, awaiting each dimension (or each edit with all its dimensions) in turn."""
    from editjudge.benchmarks.items import ItemsFile

    scores = {}
    data = ItemsFile(folder / "items.jsonl")
    groups = [selection] if edit_wise else [(one,) for one in selection]
    for ref in data.items(range(10**6)):
        item = data.load(ref)
        for name in EDITORS:
            image = load_image(folder / "outputs" / name / f"{ref.id}.jpg")
            for group in groups:
                judgement = await client.score(Edit(item, name, image), group)
                for dimension, outcome in judgement.outcomes.items():
                    if isinstance(outcome, Failure):
                        raise SystemExit(f"{dimension}: {outcome.error}")
                    if isinstance(outcome, Score):
                        scores[name, ref.id, dimension] = outcome.value
    return scores


def compare(folder: Path, settings: Settings, rounds: int) -> dict[str, list[float]]:
    """Seconds of each way, round by round; all must give the same scores."""
    services = ("ocr.ppocr", "quality.piqe")
    selection = tuple(one for one in load_dimensions().values() if one.id.startswith("core.") and _local(one, services))

    def loop(*, edit_wise: bool) -> dict[tuple[str, str, str], float]:
        async def ask() -> dict[tuple[str, str, str], float]:
            async with Client(settings) as client:
                return await one_by_one(client, folder, selection, edit_wise=edit_wise)

        return asyncio.run(ask())

    ways = {
        "run": lambda: whole_run(folder, settings, selection),
        "edit by edit": lambda: loop(edit_wise=True),
        "one by one": lambda: loop(edit_wise=False),
    }
    first = ways["run"]()
    click.echo(f"{len(first)} scores of {len(selection)} dimensions, {os.cpu_count()} cores")
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name in random.sample(list(ways), len(ways)):
            start = time.perf_counter()
            scores = ways[name]()
            seconds[name].append(time.perf_counter() - start)
            if scores != first:
                raise SystemExit(f"{name}: other scores than the first run")
    return seconds


def _local(dimension, services: tuple[str, ...]) -> bool:
    from editjudge.engine.judge import roles_of

    return roles_of(dimension, load_dimensions()) <= set(services)


@click.command()
@click.option("--rounds", default=5, show_default=True)
def main(rounds: int) -> None:
    """Print seconds and ratios."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_demo_set(folder / "set")
        server = TritonServer(folder / "triton.log")
        server.start()
        try:
            seconds = compare(folder / "set", Settings().at(server.url), rounds)
        finally:
            server.stop()
    for way, times in seconds.items():
        best, median = min(times), statistics.median(times)
        click.echo(f"{way:<14} best {best:6.2f} s, median {median:6.2f} s")
    for way in ("edit by edit", "one by one"):
        best = min(seconds[way]) / min(seconds["run"])
        ratios = [a / b for a, b in zip(seconds[way], seconds["run"], strict=True)]
        click.echo(f"{way} over run: best {best:.2f}, median {statistics.median(ratios):.2f}")


if __name__ == "__main__":
    main()
