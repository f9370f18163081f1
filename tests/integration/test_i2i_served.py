"""I2I-Bench's hybrid pipelines behind the real Triton, on untrained Sa2VA, DINOv3 and GOT-OCR2.

Sa2VA is one that always finds a region: see `speaking`.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from editjudge.base.config import Endpoint, Settings
from editjudge.base.contracts import Tensors
from editjudge.base.images import load_image, load_mask
from editjudge.base.item import Edit, Item
from editjudge.base.verdict import Score
from editjudge.benchmarks.i2i.taxonomy import TRACKS, usual
from editjudge.benchmarks.registry import load_benchmark
from editjudge.engine.judge import judge
from editjudge.panel import Panel
from editjudge.scorers.judge_scorer import JUDGE
from editjudge.scorers.region_similarity import RegionSimilarity
from editjudge.scorers.similarity import FeatureSimilarity
from editjudge.storage.store import RunStore, StoredVerdict
from editjudge_services.runtime.triton_server import TritonServer
from editjudge_services.segmentation.masks import encode_png

from ..e2e.conftest import run_in_process
from ..e2e.test_run import command
from ..fakes.openai import reply
from ..fakes.transport import ScriptedTransport, read_prompt, scripted_judge
from ..golden import cases, services
from .test_run_served import requests

pytestmark = [pytest.mark.triton, pytest.mark.timeout(400)]

SEGMENTER, FEATURES = "segmenter.sa2va", "features.dinov3"


@pytest.fixture
async def panel(stack: TritonServer) -> AsyncIterator[Panel]:
    async with Panel(Settings(endpoints={"local": Endpoint(url=stack.url)})) as panel:
        yield panel


def says(panel: Panel, *commands: Any) -> None:
    """Give the panel a judge with these commands, and a style score of 5."""

    def answer(prompt: Any) -> str:
        if "style_score" in read_prompt(prompt):
            return '{"reasoning": "neon", "style_score": 5}'
        return json.dumps({"commands": commands})

    panel.judges[JUDGE] = scripted_judge(ScriptedTransport(answer))


def photograph(seed: int) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(seed)
    coarse = rng.integers(0, 256, (6, 8, 3), dtype=np.uint8)
    return np.kron(coarse, np.ones((16, 16, 1), np.uint8))


class Cut(Panel):
    """The panel with a segmenter that always finds one region."""

    mask: np.ndarray[Any, Any]

    async def call(self, service: str, inputs: Any, parameters: Any = None) -> Tensors:
        if service == SEGMENTER:
            return {"MASK": encode_png(self.mask), "SCORE": np.ones(1, np.float32)}
        return await super().call(service, inputs, parameters)


@pytest.mark.parametrize("inverted", [False, True])
@pytest.mark.parametrize("found", ["each", "edited"])
async def test_a_region_by_command_is_a_region_by_mask(stack: TritonServer, found: Any, inverted: bool) -> None:
    mask = np.zeros((96, 128), bool)
    mask[20:70, 30:90] = True
    source, edited = photograph(1), photograph(2)
    edit = Edit.load(source=source, edited=edited, instruction="x", mask=mask)
    by_command = RegionSimilarity(JUDGE, "i2i/edited_region", found=found, inverted=inverted)
    region = "outside" if inverted else "inside"
    async with Cut(Settings(endpoints={"local": Endpoint(url=stack.url)})) as panel:
        panel.mask = mask
        says(panel, "the box")
        one = (await by_command.score(edit, panel, frozenset({"score"})))["score"]
        two = await FeatureSimilarity(FEATURES, "source").score(edit, panel, frozenset({region}))
    assert isinstance(one, Score)
    assert one.value == pytest.approx(two[region].value, abs=1e-6)  # type: ignore[union-attr]
    assert one.value < 0.9999


async def test_sa2va_and_got_are_asked_as_they_expect(panel: Panel) -> None:
    says(panel, {"source_index": 1, "phrase": "the red box"})
    sources = tuple(load_image(photograph(seed)) for seed in (1, 2))
    names = ["subject_consistency", "text_content_style_accuracy"]
    item = Item("1", "x", sources, target_text="A", task="basic_combination", extra={"dimensions": names})
    known = {d.id: d for d in load_benchmark("i2i").dimensions}
    asked = [known[f"i2i.me.{name}"] for name in names]
    done = await judge(Edit(item, "m", load_image(photograph(3))), asked, known, panel)
    assert done.untrained_ids == {d.id for d in asked}
    consistency, text = done.outcomes.values()
    assert isinstance(consistency, Score)
    regions: Any = consistency.evidence["regions"]
    (region,) = regions
    assert (region["command"], region["source_index"]) == ("the red box", 1)
    assert isinstance(text, Score)
    assert text.value in {0.1, 0.5, 0.8, 1.0}


# Nobody here serves these two.
UNSERVED = {"image_quality", "aesthetic_quality"}
OUTSIDE, SUBJECTS = "i2i.se.non_edited_region_fidelity", "i2i.se.subject_identity_fidelity"
REGIONS = {
    OUTSIDE,
    SUBJECTS,
    "i2i.me.non_edited_element_fidelity",
    "i2i.me.subject_consistency",
    "i2i.me.detail_fidelity",
}
SIGNED = REGIONS | {"i2i.me.subject_extraction_composition"}
"""Those that may be below 0: the last one is a product with one of the regions."""


COMMANDS: dict[str, list[Any]] = {
    "Find every place where the edited image differs": ["left part"],
    "must look the same afterwards": ["left part", "right part"],
    "take over without any change": [{"source_index": 1, "phrase": "left part"}],
    "and show again": [{"source_index": n, "phrase": "left part"} for n in (0, 1)],
    "make them recognisable": [{"source_index": 0, "phrase": "right part"}, {"source_index": 1, "phrase": "left part"}],
}
"""By a phrase of each prompt that no other one has: the regions that the judge names."""


class Judge(services.Judge):
    """Names the regions of `COMMANDS`; one item preserves nothing."""

    def make_reply(self) -> dict[str, Any]:
        text = services.text_of(self.requests[-1])
        for phrase, commands in COMMANDS.items():
            if phrase in text:
                lost = "without any change" in phrase and "do me-plain" in text
                return reply(json.dumps({"commands": [] if lost else commands}))
        return super().make_reply()


def write_data(folder: Path) -> list[Any]:
    """Two items of each track, which ask every dimension that can be scored here.

    In pictures of this size random masks of two phrases differ by more than a pixel or two.
    """
    made, items = cases.i2i(folder), []
    for line in map(json.loads, made.data.read_text().splitlines()):
        asked = line.get("dimensions") or usual(TRACKS[line["task"]], target_text=False, hint=False)
        names = [name for name in asked if name not in UNSERVED]
        if line["id"].endswith(("full", "plain")):
            items.append(json.dumps(line | {"dimensions": names}))
            for seed, model in enumerate(MODELS, 10 * len(items)):
                cases.draw_picture(folder / model / f"{line['id']}.png", seed, (120, 96))
    for seed, name in enumerate(("source", "other")):
        cases.draw_picture(folder / "data" / f"{name}.png", seed, (128, 96))
    made.data.write_text("\n".join(items))
    outputs = [part for m in MODELS for part in ("--outputs", f"{m}={folder / m}")]
    return ["i2i", "--data", made.data, *outputs]


MODELS = ("ours", "theirs")


async def test_a_whole_run_is_scored_and_asks_once(stack: TritonServer, tmp_path: Path) -> None:
    answering, out = Judge("model-judge", refuses=False), tmp_path / "run"
    async with answering.serving() as url:
        servers = ["--generalist", url, "--endpoint", stack.url]
        run = ["run", *write_data(tmp_path), "--out", out, *servers]
        before = requests(stack)
        done = await asyncio.to_thread(command, *run)
        assert done.code == 0, done.err
        made = len(answering.requests), requests(stack)
        assert made[1] > before
        again = await asyncio.to_thread(command, *run)
    assert again.code == 0, again.err
    assert (len(answering.requests), requests(stack)) == made

    table = run_in_process("summary", out, "--json").json["models"]
    for model in MODELS:
        row = {name: one for name, one in table[model].items() if "_less_" not in name}
        judged = {name for name, one in row.items() if one["scored"]}
        assert {f"i2i.{t}.image_quality" for t in ("se", "me")} & judged == set()
        assert judged >= REGIONS | SIGNED
        for name in judged:
            assert row[name]["scored"] == row[name]["asked"], f"full coverage of {name}"
            assert (-1 if name in SIGNED else 0) <= row[name]["value"] <= 1, name
    with RunStore.open(out, read_only=True) as store:
        found = [one for one in store.verdicts() if one.dimension in REGIONS]
    _regions_are_shown(found)
    _masks_are_of_the_phrase_and_the_picture(found)


def _regions_are_shown(found: list[StoredVerdict]) -> None:
    scored = [(one, one.verdict) for one in found if isinstance(one.verdict, Score)]
    # By its commands, one of the two multi-image items preserves nothing.
    assert (len(scored), len(found)) == (2 * 8, 2 * 9)
    for one, verdict in scored:
        assert re.search(r"segmenter_sa2va/1\([^)]*untrained=yes", one.signature)
        assert -1 <= verdict.value <= 1
        regions: Any = verdict.evidence["regions"]
        for region in regions:
            for side in ("source", "edited"):
                assert 0 < region[side]["share"] < 1
                assert load_mask(base64.b64decode(region[side]["mask"])).region.any()
            # Where only the edited image is segmented, its mask is laid over the source.
            sides = {"edited"} if one.dimension == OUTSIDE else {"source", "edited"}
            sure = {side: region[side]["score"] for side in sides}
            assert all(0 < score <= 1 for score in sure.values()), sure
            assert ("score" in region["source"]) == ("source" in sides)


def _masks_are_of_the_phrase_and_the_picture(found: list[StoredVerdict]) -> None:
    def regions(model: str, dimension: str) -> Any:
        place = (model, "se-full", dimension)
        (one,) = (v for v in found if (v.model, v.item, v.dimension) == place)
        return one.verdict.evidence["regions"]  # type: ignore[union-attr]

    edited = []
    for model in MODELS:
        left, right = regions(model, SUBJECTS)
        assert (left["command"], right["command"]) == ("left part", "right part")
        assert left["source"]["mask"] != right["source"]["mask"]
        edited.append(left["edited"]["mask"])
        (outside,) = regions(model, OUTSIDE)
        assert outside["command"] == "left part"
        both = left["edited"]["share"] + outside["edited"]["share"]
        assert both == pytest.approx(1, abs=2e-6), "one of them is inverted"
    assert edited[0] != edited[1]
