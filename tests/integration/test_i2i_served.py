"""I2I-Bench's hybrid pipelines behind the real Triton, on untrained Sa2VA, DINOv3 and GOT-OCR2."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import numpy as np
import pytest

from editjudge.benchmarks.registry import benchmark
from editjudge.client import make_edit
from editjudge.config import Endpoint, Settings
from editjudge.images import load_image
from editjudge.item import Edit, Item
from editjudge.panel import Panel
from editjudge.panel.triton import Reply
from editjudge.run.judge import judge
from editjudge.scorers.generalist import JUDGE
from editjudge.scorers.region_similarity import RegionSimilarity
from editjudge.scorers.similarity import FeatureSimilarity
from editjudge.verdict import Scored, Unscored
from editjudge_services.runtime.launcher import TritonServer
from editjudge_services.segmentation.masks import png

from ..unit.panel.scripted_transport import ScriptedTransport, generalist, seen

pytestmark = [pytest.mark.triton, pytest.mark.timeout(400)]

SEGMENTER, FEATURES = "segmenter.sa2va", "features.dinov3"


@pytest.fixture
async def panel(stack: TritonServer) -> AsyncIterator[Panel]:
    async with Panel(Settings(endpoints={"local": Endpoint(url=stack.url)})) as panel:
        yield panel


def says(panel: Panel, *commands: Any) -> None:
    """Give the panel a judge with these commands, and a style score of 5."""

    def answer(prompt: Any) -> str:
        if "style_score" in seen(prompt):
            return '{"reasoning": "neon", "style_score": 5}'
        return json.dumps({"commands": commands})

    panel.generalists[JUDGE] = generalist(ScriptedTransport(answer))


def photograph(seed: int) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(seed)
    coarse = rng.integers(0, 256, (6, 8, 3), dtype=np.uint8)
    return np.kron(coarse, np.ones((16, 16, 1), np.uint8))


class Cut(Panel):
    """The panel with a segmenter that always finds one region."""

    mask: np.ndarray[Any, Any]

    async def call(self, service: str, inputs: Any, parameters: Any = None) -> Reply:
        if service == SEGMENTER:
            return {"MASK": png(self.mask), "SCORE": np.ones(1, np.float32)}
        return await super().call(service, inputs, parameters)


@pytest.mark.parametrize("inverted", [False, True])
@pytest.mark.parametrize("found", ["each", "edited"])
async def test_a_region_by_command_is_a_region_by_mask(
    stack: TritonServer, found: Any, inverted: bool
) -> None:
    mask = np.zeros((96, 128), bool)
    mask[20:70, 30:90] = True
    source, edited = photograph(1), photograph(2)
    edit = make_edit(source=source, edited=edited, instruction="x", mask=mask)
    by_command = RegionSimilarity(JUDGE, "i2i/edited_region", found=found, inverted=inverted)
    region = "outside" if inverted else "inside"
    async with Cut(Settings(endpoints={"local": Endpoint(url=stack.url)})) as panel:
        panel.mask = mask
        says(panel, "the box")
        one = (await by_command.score(edit, panel, frozenset({"score"})))["score"]
        two = await FeatureSimilarity(FEATURES, "source").score(edit, panel, frozenset({region}))
    assert isinstance(one, Scored)
    assert one.value == pytest.approx(two[region].value, abs=1e-6)  # type: ignore[union-attr]
    assert one.value < 0.9999


async def test_sa2va_and_got_are_asked_as_they_expect(panel: Panel) -> None:
    says(panel, {"source_index": 1, "phrase": "the red box"})
    sources = tuple(load_image(photograph(seed)) for seed in (1, 2))
    names = ["subject_consistency", "text_content_style_accuracy"]
    item = Item(
        "1", "x", sources, target_text="A", task="basic_combination", extra={"dimensions": names}
    )
    known = {d.id: d for d in benchmark("i2i").dimensions}
    asked = [known[f"i2i.me.{name}"] for name in names]
    done = await judge(Edit(item, "m", load_image(photograph(3))), asked, known, panel)
    assert done.untrained == {d.id for d in asked}
    consistency, text = done.outcomes.values()
    # Untrained, Sa2VA never answers that there is a region.
    assert isinstance(consistency, Unscored)
    assert consistency.kind == "degenerate"
    assert consistency.reason.startswith("'the red box' was not found in the source image 2; ")
    assert isinstance(text, Scored)
    assert text.value in {0.1, 0.5, 0.8, 1.0}
