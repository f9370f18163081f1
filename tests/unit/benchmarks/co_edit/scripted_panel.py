"""Co-EditEval with replies that are set: of a judge, and of CLIP, DINO and LPIPS."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from editjudge.base.images import decode, load_image, load_mask
from editjudge.base.item import Edit, Item
from editjudge.base.verdict import NotApplicable, Outcome, Score
from editjudge.benchmarks.benchmark import Rules
from editjudge.benchmarks.co_edit import BENCHMARK
from editjudge.benchmarks.co_edit.dimensions import GROUPS
from editjudge.benchmarks.co_edit.taxonomy import SUBJECT_REGION
from editjudge.benchmarks.dimension import Dimension, Formula
from editjudge.engine.outcomes import derive

from ....fakes.transport import OneJudge, read_prompt
from .. import edit_outcomes

EDITING = ("editing_accuracy", "non_edited_semantic_preservation", "over_editing", "editing_plausibility")
LOOKS = ("visual_naturalness", "detail_realism", "visual_artifact", "color_lighting_fidelity")
"""The order of the lists, as tables 4 and 5 have it."""
GROUP_OF = {metric: group for group, of in GROUPS.items() for metric in of["metrics"]}
MEASURED = ("clip.subject", "dino.subject", "lpips.kept")
SCORES: Mapping[str, int] = dict(zip(EDITING + LOOKS, (8, 9, 6, 9, 7, 8, 9, 10), strict=True))
SEEN: Mapping[str, float] = dict(zip(MEASURED, (0.9, 0.4, 0.25), strict=True))
_SERVICES = {"clip.vit_b_32": "clip.subject", "features.dinov2": "dino.subject", "lpips.vgg": "lpips.kept"}
SEGMENTER = "segmenter.grounded_sam"
BEFORE, AFTER = 40, 90
"""The grey of the source and of the edit."""
SOURCE = load_image(np.full((8, 12, 3), BEFORE, np.uint8), "source")
OUTPUT = load_image(np.full((8, 12, 3), AFTER, np.uint8), "output")


def item(
    task: str = "subject_customization",
    region: str | None = "inside",
    columns: int | None = 4,
    sources: int = 1,
    **extra: str,
) -> Item:
    """An item whose mask has that many columns of 12; None for no mask."""
    mask = np.zeros((8, 12), bool)
    mask[:, :columns] = True
    return Item(
        "1",
        "make it red",
        (SOURCE,) * sources,
        mask=load_mask(mask) if columns is not None else None,
        task=task,
        extra=({SUBJECT_REGION: region} if region else {}) | extra,
    )


def reply_with(scores: Mapping[str, Any] = SCORES) -> Any:
    """What a judge replies to either call."""

    def reply(prompt: Any) -> str:
        text = read_prompt(prompt)
        listed = [scores[name] for name in (LOOKS if "visual_naturalness" in text else EDITING)]
        reasons = {"reasoning": "seen"} if '- "reasoning": text' in text else {}
        return json.dumps({**reasons, "score": listed})

    return reply


class Specialists(OneJudge):
    """One judge, and specialists that answer with what is set for them.

    `measured` may hold an exception, which is raised. `found` has, by the grey of a picture, the
    columns in which the segmenter finds what it is asked for; none where it finds nothing.
    """

    def __init__(
        self,
        *script: Any,
        measured: Mapping[str, Any] = SEEN,
        found: Mapping[int, slice] | None = None,
        **settings: Any,
    ) -> None:
        specialists = (*_SERVICES, SEGMENTER)
        super().__init__(*(script or (reply_with(),)), specialists=specialists, **settings)
        self.measured, self.found = measured, found or {}
        self.asked: list[tuple[str, dict[str, bytes], dict[str, str]]] = []

    async def call(self, service: str, inputs: Any, parameters: Any) -> dict[str, Any]:
        self.asked.append((service, dict(inputs), dict(parameters)))
        if service == SEGMENTER:
            return self._segment(decode(inputs["IMAGE"])[0])
        value = self.measured[_SERVICES[service]]
        if isinstance(value, Exception):
            raise value
        if service == "lpips.vgg":
            return {"DISTANCE": np.array([value])}
        # The source lies along the first axis, the edit at the angle that is set.
        if (decode(inputs["IMAGE"])[0] == BEFORE).any():
            return {"EMBEDDING": np.array([1.0, 0.0])}
        return {"EMBEDDING": np.array([value, math.sqrt(1 - value**2)])}

    def _segment(self, pixels: Any) -> dict[str, Any]:
        mask = np.zeros(pixels.shape[:2], bool)
        mask[:, self.found.get(int(pixels[0, 0, 0]), slice(0))] = True
        data = load_mask(mask).encoded_bytes if mask.any() else b""
        return {"MASK": data, "SCORE": np.array([0.5])}


def edit(of: Item) -> Edit:
    return Edit(of, "m", OUTPUT)


def rules(with_: Iterable[str] = (), without: Iterable[str] = ()) -> Rules:
    return BENCHMARK.rules(None, tuple(with_), tuple(without))


def derive_all(
    read: Mapping[str, Outcome | float], by: Rules | None = None, of: Item | None = None
) -> dict[str, Outcome]:
    """All outcomes without their benchmark's name, from those of the readings."""
    found: dict[str, Outcome] = {}
    of = of or item()
    for one in (by or rules()).dimensions:
        found[one.id] = _outcome(one, read, found, of)
    return {name.removeprefix("co_edit."): one for name, one in found.items()}


def _outcome(one: Dimension, read: Mapping[str, Outcome | float], found: Mapping[str, Outcome], of: Item) -> Outcome:
    if reason := one.why_not_applicable(of):
        return NotApplicable(reason=reason)
    if isinstance(one.how, Formula):
        return derive(one.how, {n: found[str(part)] for n, part in one.how.of.items()})
    given = read[one.id.removeprefix("co_edit.")]
    return Score(value=given) if isinstance(given, int | float) else given


def values(outcomes: Mapping[str, Outcome]) -> dict[str, float]:
    """Of those that have one."""
    return {name: one.value for name, one in outcomes.items() if isinstance(one, Score)}


def measure_mask(masked: Mapping[str, bytes]) -> float:
    return float((decode(masked["MASK"])[0] > 0).mean())


def list_requests(panel: Specialists, service: str) -> list[dict[str, bytes]]:
    """Of source and edit in this order; they are asked about side by side."""
    asked = [inputs for name, inputs, _ in panel.asked if name == service]
    return sorted(asked, key=lambda one: not (decode(one["IMAGE"])[0] == BEFORE).any())


async def judge_item(of: Item, panel: Specialists | None = None, **switches: Any) -> dict[str, Outcome]:
    done = await edit_outcomes.judge_edit(edit(of), rules(**switches), panel or Specialists())
    return {name.removeprefix("co_edit."): one for name, one in done.items()}
