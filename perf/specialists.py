"""What ONNX Runtime and the feature cache save: served networks against eager torch.

Networks of their published size with random weights, made on the spot (about 1.5 GB in the
temporary folder); both sides start from the same float32 arrays. Rounds are interleaved and
medians compared. The cache is measured on pixels, as the service is asked: five edits of one
source, a region of both.
"""

from __future__ import annotations

import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from transformers import (
    CLIPConfig,
    CLIPModel,
    Dinov2Config,
    Dinov2Model,
    DINOv3ViTConfig,
    DINOv3ViTModel,
    PreTrainedModel,
)

from editjudge.base.errors import ConfigError, MissingExtra
from editjudge_services.features import vision_service
from editjudge_services.features.recipe import RECIPES as VISION
from editjudge_services.features.recipe import Trunk
from editjudge_services.features.vision_service import DinoV3
from editjudge_services.perceptual.network import LpipsNetwork
from editjudge_services.perceptual.recipe import RECIPES as LPIPS
from editjudge_services.runtime.onnx import open_network
from editjudge_services.runtime.specialist import Request
from editjudge_services.zoo.artefact import RECORD, Artefact, checkpoint_dir, models_dir
from editjudge_services.zoo.checkpoint import hash_files

EDITS = 5


def dinov2_base() -> PreTrainedModel:
    """ViT-B/14, positions for 518 pixels."""
    config = Dinov2Config(hidden_size=768, num_hidden_layers=12, num_attention_heads=12)
    config.patch_size, config.image_size = 14, 518
    return Dinov2Model(config)


def dinov3_base() -> PreTrainedModel:
    """ViT-B/16 with four registers."""
    config = DINOv3ViTConfig(
        hidden_size=768, intermediate_size=3072, num_hidden_layers=12, num_attention_heads=12, num_register_tokens=4
    )
    return DINOv3ViTModel(config)


def clip_base() -> PreTrainedModel:
    """The image tower of ViT-B/32, beside a text tower of one layer."""
    text = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 64}
    return CLIPModel(CLIPConfig(text_config=text))


FULL: Mapping[str, Callable[[], PreTrainedModel]] = {
    "dinov2-small": dinov2_base,
    "dinov3-vitb16": dinov3_base,
    "clip-vit-base-patch32": clip_base,
}
NAMES = {"dinov2-small": "DINOv2-base", "dinov3-vitb16": "DINOv3-base"}


@dataclass
class Timings:
    """Medians of one comparison, milliseconds; `ratio` is slower by faster."""

    what: str
    slow: str
    slow_ms: float
    fast: str
    fast_ms: float
    ratio: float


def install(entry: str, recipe: Any) -> None:
    """Make random weights of full size, export them and write the record."""
    checkpoint_dir(entry).mkdir(parents=True)
    recipe.make_untrained(checkpoint_dir(entry))
    folder = models_dir() / entry / "fp32"
    folder.mkdir()
    parity = recipe.export(checkpoint_dir(entry), folder, "fp32", None)
    assert parity.largest_difference < parity.tolerance, parity
    artefact = Artefact(entry=entry, precision="fp32", source="untrained", untrained=True, files=hash_files(folder))
    (folder / RECORD).write_text(artefact.model_dump_json())


def time_interleaved(what: str, sides: Mapping[str, Callable[[], object]], rounds: int, warm: bool = True) -> Timings:
    """Time two sides in turn, the first round not counted where they must warm up."""
    times: dict[str, list[float]] = {name: [] for name in sides}
    for index in range(rounds + warm):
        for name in sorted(sides, reverse=bool(index % 2)):
            start = time.perf_counter()
            sides[name]()
            if index or not warm:
                times[name].append(1e3 * (time.perf_counter() - start))
    (slow, a), (fast, b) = times.items()
    ratio = statistics.median(x / y for x, y in zip(a, b, strict=True))
    return Timings(what, slow, statistics.median(a), fast, statistics.median(b), ratio)


def against_torch(what: str, module: Any, graph: Path, inputs: list[Any], rounds: int) -> Timings:
    """Eager torch and ONNX Runtime on the same arrays, both with all cores."""
    network = open_network(graph, "fp32")
    tensors = [torch.from_numpy(one) for one in inputs]

    def eager() -> object:
        with torch.inference_mode():
            return module(*tensors)

    sides = {"torch eager": eager, "ONNX Runtime": lambda: network(*inputs)}
    return time_interleaved(what, sides, rounds)


def in_bf16(what: str, graph: Path, pixels: Any, rounds: int) -> Iterator[Timings]:
    """ONNX Runtime in fp32 and OpenVINO in bf16, where this machine can."""
    try:
        coarse = open_network(graph, "bf16")
    except (ConfigError, MissingExtra) as error:
        Console(stderr=True).print(f"no bf16: {error}")
        return
    exact = open_network(graph, "fp32")
    a, b = (one(pixels)[0] for one in (exact, coarse))
    cosines = (a * b).sum(-1) / np.linalg.norm(a, axis=-1) / np.linalg.norm(b, axis=-1)
    sides = {"ONNX Runtime": lambda: exact(pixels), "OpenVINO bf16": lambda: coarse(pixels)}
    yield time_interleaved(f"{what}, 1 - cosine <= {1 - cosines.min():.0e}", sides, rounds)


def time_cached(rounds: int) -> Timings:
    """A region of five edits and of their source, with and without the cache."""
    artefact = Artefact.model_validate_json((models_dir() / DinoV3.entry / "fp32" / "artefact.json").read_bytes())
    rng = np.random.default_rng(0)
    pictures = rng.integers(0, 256, (EDITS + 1, 768, 768, 3), dtype=np.uint8)
    mask = np.zeros((768, 768), dtype=bool)
    mask[200:500, 100:400] = True

    def score(budget: str) -> None:
        os.environ[vision_service.CACHE_MIB] = budget
        specialist = DinoV3()
        specialist.load(artefact.identity)
        start = time.perf_counter()
        for edit in pictures[1:]:
            pair = [{"IMAGE": one, "MASK": mask} for one in (pictures[0], edit)]
            specialist.infer([Request(one, {"region": "pool"}) for one in pair])
        seconds[budget].append(1e3 * (time.perf_counter() - start))

    seconds: dict[str, list[float]] = {"0": [], "256": []}
    for index in range(rounds):
        for budget in sorted(seconds, reverse=bool(index % 2)):
            score(budget)
    ratio = statistics.median(x / y for x, y in zip(seconds["0"], seconds["256"], strict=True))
    without, with_it = (statistics.median(seconds[budget]) for budget in ("0", "256"))
    what = f"DINOv3-base, a region of {EDITS} edits and their source, 768x768"
    return Timings(what, "no cache", without, "cache", with_it, ratio)


def measure(batch: int, pairs: int, side: int, rounds: int) -> list[Timings]:
    """Every comparison, in turn."""
    rng = np.random.default_rng(0)
    rows = []
    for entry, tiny in FULL.items():
        recipe: Any = replace(VISION[entry], tiny=tiny)  # type: ignore[type-var]
        install(entry, recipe)
        module = Trunk(recipe.load(checkpoint_dir(entry))).eval()
        pixels = rng.standard_normal((batch, 3, 224, 224), dtype=np.float32)
        graph = models_dir() / entry / "fp32" / vision_service.TRUNK
        what = f"{NAMES.get(entry, 'CLIP ViT-B/32')}, {batch} of 224x224"
        rows.append(against_torch(what, module, graph, [pixels], rounds))
        rows.extend(in_bf16(what, graph, pixels, rounds))
    rows.append(time_cached(rounds))
    for entry in LPIPS:
        lpips: Any = LPIPS[entry]
        install(entry, lpips)
        images = [rng.random((pairs, 3, side, side), dtype=np.float32) * 2 - 1 for _ in range(2)]
        graph = models_dir() / entry / "fp32"
        what = f"{entry}, {pairs} pairs of {side}x{side}"
        rows.extend(lpips_sides(what, lpips.load(checkpoint_dir(entry)), graph, images, rounds))
    return rows


def lpips_sides(what: str, module: Any, graph: Path, images: list[Any], rounds: int) -> Iterator[Timings]:
    """Eager torch on all pairs at once; ours pair by pair, as the service bounds its memory."""
    tensors = [torch.from_numpy(one) for one in images]

    def eager() -> object:
        with torch.inference_mode():
            return module(*tensors)

    def by_pairs(network: Callable[..., object]) -> Callable[[], object]:
        pairs = list(zip(*images, strict=True))
        return lambda: [network(a[None], b[None]) for a, b in pairs]

    exact = by_pairs(LpipsNetwork(graph, "fp32"))
    yield time_interleaved(what, {"torch eager": eager, "ONNX Runtime": exact}, rounds)
    try:
        coarse = by_pairs(LpipsNetwork(graph, "bf16"))
    except (ConfigError, MissingExtra) as error:
        Console(stderr=True).print(f"no bf16: {error}")
        return
    yield time_interleaved(what, {"ONNX Runtime": exact, "OpenVINO bf16": coarse}, rounds)


@click.command()
@click.option("--batch", default=8, show_default=True, help="Images at once.")
@click.option("--pairs", default=1, show_default=True, help="Pairs at once, for LPIPS.")
@click.option("--side", default=768, show_default=True, help="Of the images LPIPS compares.")
@click.option("--rounds", default=7, show_default=True)
@click.option("--json", "as_json", is_flag=True)
def main(batch: int, pairs: int, side: int, rounds: int, as_json: bool) -> None:
    """Print medians and ratios; needs about 8 GB of memory for the defaults."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["EDITJUDGE_MODELS_DIR"] = folder
        rows = measure(batch, pairs, side, rounds)
    if as_json:
        click.echo(json.dumps([vars(one) for one in rows]))
        return
    table = Table("what", "slower ms", "faster ms", "ratio", title=f"{rounds} interleaved rounds")
    for one in rows:
        table.add_row(one.what, f"{one.slow} {one.slow_ms:.0f}", f"{one.fast} {one.fast_ms:.0f}", f"{one.ratio:.2f}")
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
