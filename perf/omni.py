"""Omni IIE Bench's metrics per second, against a script that makes one call after the other.

Per edit: PSNR and SSIM, LPIPS (vgg) and CLIP (ViT-B/32) of the whole picture, the foreground and
the background, at 768x768 against the target. The script does what one would write first:
scikit-image, eager torch in fp32, one image at a time. Ours are the benchmark's own dimensions on
a real Triton, from the same files, fp32 and bf16. Networks have their full size and random
weights, the same on both sides, and the numbers are compared before the times are.

Rounds are interleaved, so that a busy machine disturbs all sides alike; ratios are of each round,
then their median. The seconds of processors that a side takes are printed too: a machine that has
others to serve stretches them less than the clock.
"""

from __future__ import annotations

import asyncio
import io
import json
import os
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np
import skimage.metrics
import torch
from PIL import Image as Pil
from rich.console import Console
from rich.table import Table
from specialists import clip_base
from transformers import CLIPImageProcessorPil

from editjudge.base.config import Endpoint, Settings
from editjudge.base.errors import ConfigError, MissingExtra
from editjudge.base.images import load_image, load_mask
from editjudge.base.item import Edit, Item
from editjudge.base.verdict import Score
from editjudge.benchmarks.dimension import Dimension
from editjudge.benchmarks.registry import load_benchmark
from editjudge.engine.judge import judge
from editjudge.panel import Panel
from editjudge_services.features.recipe import RECIPES as VISION
from editjudge_services.perceptual.recipe import RECIPES as LPIPS
from editjudge_services.perceptual.torch_lpips import Lpips
from editjudge_services.runtime.triton_server import temporary_stack
from editjudge_services.zoo.artefact import RECORD, Artefact, Precision, checkpoint_dir, models_dir
from editjudge_services.zoo.checkpoint import hash_files

SIDE, GIVEN_SIDE = 768, 1024
MODELS = 5
VGG, CLIP = "lpips-vgg", "clip-vit-base-patch32"
PRECISIONS: tuple[Precision, ...] = ("fp32", "bf16")
TOLERANCE: Mapping[str, float] = {"fp32": 1e-3, "bf16": 3e-2}

Values = dict[str, float]
metrics: Any = skimage.metrics


@dataclass(frozen=True)
class Files:
    """One item as it lies on a disk: a target, its mask, and what several models made of it."""

    target: bytes
    mask: bytes
    outputs: tuple[bytes, ...]


def files_of(seed: int) -> Files:
    """Soft pictures with some noise, JPEG; the mask is a disc of a seventh of the picture."""
    rng = np.random.default_rng(seed)

    def encode(picture: Any, kind: str) -> bytes:
        buffer = io.BytesIO()
        Pil.fromarray(picture).save(buffer, kind)
        return buffer.getvalue()

    def picture(base: Any) -> bytes:
        coarse = Pil.fromarray(base).resize((GIVEN_SIDE, GIVEN_SIDE), Pil.Resampling.BICUBIC)
        noise = rng.integers(-9, 10, (GIVEN_SIDE, GIVEN_SIDE, 3))
        return encode(np.clip(np.asarray(coarse) + noise, 0, 255).astype(np.uint8), "JPEG")

    base = rng.integers(0, 256, (16, 16, 3), dtype=np.uint8)
    outputs = [base.copy() for _ in range(MODELS)]
    for one in outputs:
        one[4:10, 5:11] = rng.integers(0, 256, (6, 6, 3), dtype=np.uint8)
    y, x = np.mgrid[:GIVEN_SIDE, :GIVEN_SIDE] / GIVEN_SIDE
    disc = (x - 0.5) ** 2 + (y - 0.45) ** 2 < 1 / 7 / np.pi
    mask = encode((disc * 255).astype(np.uint8), "PNG")
    return Files(picture(base), mask, tuple(map(picture, outputs)))


class Script:
    """What one would write first: every metric of one edit, one call after the other."""

    def __init__(self) -> None:
        recipes: Any = (LPIPS[VGG], VISION[CLIP])
        self.lpips: Lpips
        self.lpips, self.clip = (
            recipe.load(checkpoint_dir(entry)) for recipe, entry in zip(recipes, (VGG, CLIP), strict=True)
        )
        self.processor = CLIPImageProcessorPil()

    def __call__(self, files: Files, models: Sequence[int]) -> list[Values]:
        """The edits of one item."""
        return [self.edit(files, model) for model in models]

    def edit(self, files: Files, model: int) -> Values:
        """One edit."""
        size = (SIDE, SIDE)
        target, output = (
            np.asarray(Pil.open(io.BytesIO(one)).convert("RGB").resize(size, Pil.Resampling.LANCZOS))
            for one in (files.target, files.outputs[model])
        )
        grey = Pil.open(io.BytesIO(files.mask)).resize(size, Pil.Resampling.NEAREST)
        inside = (np.asarray(grey) > 128)[..., None]
        scores = {
            "omni_iie.psnr": metrics.peak_signal_noise_ratio(target, output, data_range=255),
            "omni_iie.ssim": metrics.structural_similarity(target, output, channel_axis=-1, data_range=255),
        }
        for region, mask in (("whole", 1), ("foreground", inside), ("background", ~inside)):
            a, b = ((one * mask).astype(np.uint8) for one in (target, output))
            scores[f"omni_iie.lpips.{region}"] = self.distance(a, b)
            scores[f"omni_iie.clip.{region}"] = self.similarity(a, b)
        return {name: float(value) for name, value in scores.items()}

    def distance(self, a: Any, b: Any) -> float:
        """As the package `lpips` computes it: one image after the other, no map."""
        with torch.inference_mode():
            both = [
                self.lpips.taps_of(torch.from_numpy(one / 127.5 - 1).float().permute(2, 0, 1)[None]) for one in (a, b)
            ]
            distance = torch.zeros(())
            for x, y, head in zip(*both, self.lpips.heads, strict=True):
                distance += torch.nn.functional.conv2d((x - y).square(), head).mean()
            return float(distance)

    def similarity(self, a: Any, b: Any) -> float:
        """Cosine of the embeddings."""
        with torch.inference_mode():
            x, y = (self.clip(**self.processor(one, return_tensors="pt")).image_embeds for one in (a, b))
            return float(torch.nn.functional.cosine_similarity(x, y))


@dataclass
class Ours:
    """The benchmark's dimensions on one server."""

    panel: Panel
    dimensions: Sequence[Dimension]
    loop: asyncio.AbstractEventLoop

    def __call__(self, files: Files, models: Sequence[int]) -> list[Values]:
        """The edits of one item, side by side as a run has them."""
        mask, target = load_mask(files.mask), load_image(files.target)
        item = Item("a", "x", (target,), mask=mask, target=target)
        edits = [Edit(item, str(model), load_image(files.outputs[model])) for model in models]

        async def all_of_them() -> list[Any]:
            by_id = {d.id: d for d in self.dimensions}
            verdict_tasks = (judge(one, self.dimensions, by_id, self.panel) for one in edits)
            return await asyncio.gather(*verdict_tasks)

        return [
            {name: one.value for name, one in judgement.outcomes.items() if isinstance(one, Score)}
            for judgement in self.loop.run_until_complete(all_of_them())
        ]


@contextmanager
def serving(precision: Precision) -> Iterator[Ours]:
    """A server of its own, and a panel on it."""
    settings = Settings()
    settings = settings.model_copy(update={"stack": settings.stack.model_copy(update={"precision": precision})})
    loop = asyncio.new_event_loop()
    with temporary_stack(settings.stack) as server:
        panel = Panel(Settings(endpoints={"local": Endpoint(url=server.url)}, deadline=600))
        loop.run_until_complete(panel.__aenter__())
        dimensions = [d for d in load_benchmark("omni_iie").dimensions if d.id != "omni_iie.qa"]
        yield Ours(panel, dimensions, loop)
        loop.run_until_complete(panel.__aexit__(None, None, None))
    loop.close()


def install(entry: str, recipe: Any, precision: Precision) -> None:
    """Export random weights of full size, the same in every precision, and write the record."""
    checkpoint = checkpoint_dir(entry)
    if not checkpoint.is_dir():
        checkpoint.mkdir(parents=True)
        recipe.make_untrained(checkpoint)
    folder = models_dir() / entry / precision
    folder.mkdir()
    recipe.export(checkpoint, folder, precision, None)
    artefact = Artefact(entry=entry, precision=precision, source="untrained", untrained=True, files=hash_files(folder))
    (folder / RECORD).write_text(artefact.model_dump_json())


@dataclass
class Cost:
    """Seconds for each edit: by the clock, and of all processors."""

    clock: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)


def compare(ours: Mapping[str, Ours], script: Script, rounds: int) -> dict[str, Cost]:
    """What every side takes, by round; each round has an item of its own.

    A round takes minutes, so none is for warming up.

    Raises:
        ValueError: two sides give different numbers.
    """
    costs: dict[str, Cost] = {}
    for index in range(rounds):
        # Of one model another item: what is known of a target must not help there.
        files, alone = files_of(index), files_of(1000 + index)
        sides: dict[str, Callable[[], list[Values]]] = {"script": partial(script, files, [0])}
        for precision, one in ours.items():
            sides[f"{precision}, one model"] = partial(one, alone, [0])
            sides[f"{precision}, {MODELS} models"] = partial(one, files, range(MODELS))
        scores: dict[str, Values] = {}
        for name in sorted(sides, reverse=bool(index % 2)):
            start, before = time.perf_counter(), processor_seconds()
            values = sides[name]()
            one_side = costs.setdefault(name, Cost())
            one_side.clock.append((time.perf_counter() - start) / len(values))
            one_side.processor.append((processor_seconds() - before) / len(values))
            scores[name] = values[0]
            message = f"round {index + 1}: {name} {one_side.clock[-1]:.1f} s per edit"
            click.echo(f"{message}, {one_side.processor[-1]:.1f} s of processors", err=True)
        for precision in ours:
            check(scores["script"], scores[f"{precision}, {MODELS} models"], TOLERANCE[precision])
    return costs


def processor_seconds() -> float:
    """What this process and all below it have taken (Linux)."""
    seconds: dict[int, float] = {}
    below: dict[int, list[int]] = defaultdict(list)
    for process in Path("/proc").glob("[0-9]*/stat"):
        try:
            # After the name, which may hold anything, in parentheses.
            fields = process.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        pid = int(process.parent.name)
        below[int(fields[1])].append(pid)
        seconds[pid] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    ours = [os.getpid()]
    for pid in ours:
        ours.extend(below[pid])
    return sum(seconds.get(pid, 0.0) for pid in ours)


def check(reference: Values, values: Values, tolerance: float) -> None:
    """Both sides must have done the same."""
    if set(reference) != set(values):
        raise ValueError(f"other metrics: {set(reference) ^ set(values)}")
    for name, value in reference.items():
        if abs(value - values[name]) > tolerance:
            raise ValueError(f"{name} is {values[name]}, the script has {value}")


@click.command()
@click.option("--rounds", default=3, show_default=True)
@click.option("--json", "as_json", is_flag=True)
def main(rounds: int, as_json: bool) -> None:
    """Print seconds for each edit, and how many times as fast we are."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        os.environ["EDITJUDGE_MODELS_DIR"] = folder
        vision: Any = VISION[CLIP]
        recipes: dict[str, Any] = {CLIP: replace(vision, tiny=clip_base), VGG: LPIPS[VGG]}
        ours: dict[str, Ours] = {}
        for precision in PRECISIONS:
            try:
                for entry, recipe in recipes.items():
                    install(entry, recipe, precision)
                ours[precision] = stack.enter_context(serving(precision))
            except (ConfigError, MissingExtra) as error:
                Console(stderr=True).print(f"no {precision}: {error}")
        costs = compare(ours, Script(), rounds)
    ratios = {
        name: {
            kind: [a / b for a, b in zip(getattr(costs["script"], kind), times, strict=True)]
            for kind, times in vars(one).items()
        }
        for name, one in costs.items()
    }
    if as_json:
        seconds = {name: vars(one) for name, one in costs.items()}
        click.echo(json.dumps({"seconds": seconds, "ratios": ratios}))
        return
    table = Table("side", "s per edit", "times as fast", "by processor seconds", "rounds")
    for name, one in costs.items():
        clock, processor = ratios[name]["clock"], ratios[name]["processor"]
        table.add_row(
            name,
            f"{statistics.median(one.clock):.2f}",
            f"{statistics.median(clock):.2f}",
            f"{statistics.median(processor):.2f}",
            " ".join(f"{ratio:.2f}" for ratio in clock),
        )
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
