"""Omni IIE Bench's metrics by untrained networks on a real server, against torch one by one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image as Pil
from transformers import CLIPImageProcessorPil

from editjudge.base.config import Endpoint, Settings
from editjudge.base.images import load_image, load_mask
from editjudge.base.item import Edit, Item
from editjudge.base.verdict import Score
from editjudge.benchmarks.registry import load_benchmark
from editjudge.engine.judge import judge
from editjudge.panel import Panel
from editjudge_services.features.recipe import RECIPES as VISION
from editjudge_services.perceptual.recipe import RECIPES as LPIPS
from editjudge_services.runtime.triton_server import TritonServer
from editjudge_services.zoo.artefact import checkpoint_dir

pytestmark = [pytest.mark.triton, pytest.mark.timeout(400)]

VGG, CLIP = "lpips-vgg", "clip-vit-base-patch32"
# VGG16 has its full size even untrained: at 768 pixels a pair takes seconds.
SIDE = 192


def picture(seed: int, size: tuple[int, int]) -> np.ndarray:
    coarse = np.random.default_rng(seed).integers(0, 256, (9, 12, 3), dtype=np.uint8)
    return np.asarray(Pil.fromarray(coarse).resize(size, Pil.Resampling.BICUBIC))


def edits() -> list[Edit]:
    """Three of one item, of odd sizes; its mask is of another size than its target."""
    mask = np.zeros((90, 120), bool)
    mask[20:60, 30:70] = True
    target = load_image(picture(0, (300, 220)))
    item = Item("a", "x", (target,), mask=load_mask(mask), target=target)
    return [Edit(item, str(n), load_image(picture(n, (200, 240)))) for n in (1, 2, 3)]


class Reference:
    """The paper's formulas and the released code's, in torch, one call after the other."""

    def __init__(self, edit: Edit) -> None:
        self.lpips: Any = LPIPS[VGG].load(checkpoint_dir(VGG))  # type: ignore[attr-defined]
        self.clip: Any = VISION[CLIP].load(checkpoint_dir(CLIP))  # type: ignore[attr-defined]
        assert edit.item.target is not None
        assert edit.item.mask is not None
        size = (SIDE, SIDE)
        self.pair = [
            np.asarray(Pil.fromarray(one.rgb).resize(size, Pil.Resampling.LANCZOS))
            for one in (edit.item.target, edit.output)
        ]
        grey = Pil.fromarray(edit.item.mask.region.astype(np.uint8) * 255)
        inside = np.asarray(grey.resize(size, Pil.Resampling.NEAREST)) > 128
        self.masks = {"foreground": inside, "background": ~inside, "whole": inside | True}

    def distance(self, region: str, *, normalize: bool) -> float:
        """Pixels to [-1, 1], outside 0; `normalize` as the package has it."""
        tensors = []
        for one in self.pair:
            if normalize:
                x = (one / 127.5 - 1) * self.masks[region][..., None]
                x = 2 * x - 1
            else:
                x = one * self.masks[region][..., None] / 127.5 - 1
            tensors.append(torch.from_numpy(x).float().permute(2, 0, 1)[None])
        with torch.inference_mode():
            return float(self.lpips(*tensors)[0])

    def similarity(self, region: str) -> float:
        pictures = [(one * self.masks[region][..., None]).astype(np.uint8) for one in self.pair]
        pixels = CLIPImageProcessorPil()(pictures, return_tensors="pt")
        with torch.inference_mode():
            x, y = self.clip(**pixels).image_embeds
        return float(torch.nn.functional.cosine_similarity(x, y, dim=0))


def at_side(dimension: Any) -> Any:
    """The same dimension at `SIDE`."""
    reading = dimension.how
    return replace(dimension, how=replace(reading, scorer=replace(reading.scorer, side=SIDE)))


@pytest.mark.parametrize("protocol", ["paper", "official"])
async def test_served_numbers_are_torchs(stack: TritonServer, protocol: str) -> None:
    kept = [d for d in load_benchmark("omni_iie").rules(protocol).dimensions if d.roles]
    dimensions = [at_side(d) for d in kept if d.id != "omni_iie.qa"]
    assert len(dimensions) == 6
    official = protocol == "official"
    async with Panel(Settings(endpoints={"local": Endpoint(url=stack.url)})) as panel:
        for edit in edits():
            judged = await judge(edit, dimensions, {}, panel)
            assert judged.untrained_ids == set(judged.outcomes)
            due = Reference(edit)
            for region in ("foreground", "background", "whole"):
                lpips = judged.outcomes[f"omni_iie.lpips.{region}"]
                clip = judged.outcomes[f"omni_iie.clip.{region}"]
                assert isinstance(lpips, Score), lpips
                assert isinstance(clip, Score), clip
                stretched = official and region != "whole"
                expected = due.distance(region, normalize=stretched)
                assert lpips.value == pytest.approx(expected, abs=1e-5)
                if stretched:
                    assert abs(expected - due.distance(region, normalize=False)) > 1e-3
                seen = "whole" if official and region == "background" else region
                assert clip.value == pytest.approx(due.similarity(seen), abs=1e-5)
