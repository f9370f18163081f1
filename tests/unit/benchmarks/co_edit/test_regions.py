"""Where Co-EditEval looks: the subject, what is kept, and the regions of a mask."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from editjudge.base.images import decode, load_image
from editjudge.benchmarks.co_edit.specialists import FILL, framed, off_canvas
from editjudge.engine.judge import judge
from editjudge_services.runtime.preprocess import CLIP_CROP, DINOV2_CROP, Rule

from .scripted_panel import (
    AFTER,
    BEFORE,
    OUTPUT,
    SOURCE,
    Specialists,
    edit,
    item,
    judge_item,
    list_requests,
    measure_mask,
    rules,
    values,
)

REGIONS = {"inside": (0, 4), "outside": (4, 12)}
"""The columns of 12 that the subject has, by the mask of the first four."""


@pytest.mark.parametrize("region", REGIONS)
async def test_the_subject_is_where_the_item_says(region: str) -> None:
    panel = Specialists()
    got = await judge_item(item(region=region), panel)
    assert got["clip.subject"].evidence == {"region": region}  # type: ignore[union-attr]
    assert sorted(service for service, _, _ in panel.asked) == [
        "clip.vit_b_32", "clip.vit_b_32", "features.dinov2", "features.dinov2", "lpips.vgg",
    ]  # fmt: skip
    first, last = REGIONS[region]
    for service in ("clip.vit_b_32", "features.dinov2"):
        for inputs, grey in zip(list_requests(panel, service), (BEFORE, AFTER), strict=True):
            assert set(inputs) == {"IMAGE"}
            square = decode(inputs["IMAGE"])[0]
            # A box of `last - first` by 8, a tenth of the longer side around it.
            assert square.shape == (10, 10, 3)
            assert (square == grey).all(-1).sum() == 8 * (last - first)
            assert (square[[0, -1]] == FILL).all()
            assert (square[:, [0, -1]] == FILL).all()


@pytest.mark.parametrize("side", [slice(0, 130), slice(1470, 1600)])
@pytest.mark.parametrize("rule", [CLIP_CROP, DINOV2_CROP])
def test_a_subject_at_the_side_is_seen_whole(side: slice, rule: Rule) -> None:
    """The networks' own processors take the middle of a picture."""
    region = np.zeros((900, 1600), bool)
    region[20:880, side] = True
    pixels = np.where(region[..., None], np.uint8(250), np.uint8(0)).repeat(3, axis=2)
    square, within = framed(pixels, region)
    assert square.shape[0] == square.shape[1] == within.shape[0] == 860 + 2 * 86
    assert within.sum() == region.sum()
    assert rule.crop_mask(within).sum() == within.sum(), "the centre crop cuts nothing off"
    assert (square[within] == 250).all()
    assert (square[~within] == FILL).all(), "one colour, whatever was there"
    assert rule.crop_mask(region).sum() < 0.1 * region.sum(), "in place next to nothing is seen"


async def test_a_subject_in_place() -> None:
    panel = Specialists()
    await judge_item(item(), panel, with_=["subject_in_place"])
    for service in ("clip.vit_b_32", "features.dinov2"):
        source, edited = list_requests(panel, service)
        assert source["IMAGE"] == SOURCE.encoded_bytes
        assert edited["IMAGE"] == OUTPUT.encoded_bytes
        assert measure_mask(source) == measure_mask(edited) == pytest.approx(4 / 12)
    assert all(p == {"region": "zero"} for s, _, p in panel.asked if s != "lpips.vgg")


@pytest.mark.parametrize(
    ("switches", "reference", "edited", "averaged"),
    [
        ((), BEFORE, BEFORE, 8 / 12),
        (("blacked_out",), 0, 0, 8 / 12),
        (("whole_frame",), BEFORE, BEFORE, None),
        (("blacked_out", "whole_frame"), 0, 0, None),
    ],
)
async def test_what_is_kept_is_compared(
    switches: tuple[str, ...], reference: int, edited: int, averaged: float | None
) -> None:
    """By the mask of the first four columns, in which both pictures show the same."""
    panel = Specialists()
    await judge_item(item(), panel, with_=switches)
    (inputs,) = (inputs for name, inputs, _ in panel.asked if name == "lpips.vgg")
    for name, there, kept in (("IMAGE_A", reference, BEFORE), ("IMAGE_B", edited, AFTER)):
        pixels = decode(inputs[name])[0]
        assert (pixels[:, :4] == there).all()
        assert (pixels[:, 4:] == kept).all()
    assert (measure_mask(inputs) if averaged else inputs.get("MASK")) == averaged
    if not switches:
        assert inputs["IMAGE_A"] == SOURCE.encoded_bytes, "as it is, so that its features are kept"


class MeanDifference(Specialists):
    """An LPIPS that is the mean difference of the pixels it is given, over the mask if any."""

    async def call(self, service: str, inputs: Any, parameters: Any) -> dict[str, Any]:
        if service != "lpips.vgg":
            return await super().call(service, inputs, parameters)
        one, other = (decode(inputs[name])[0].astype(float) for name in ("IMAGE_A", "IMAGE_B"))
        each = np.abs(one - other).mean(-1) / 100
        mask = decode(inputs["MASK"])[0][..., 0] > 0 if "MASK" in inputs else np.True_
        return {"DISTANCE": np.array([each[mask].mean()])}


@pytest.mark.parametrize("whole_frame", [False, True])
async def test_preservation_does_not_rise_with_the_mask(whole_frame: bool) -> None:
    """Everything that is kept is off by the same: it is no better kept where less is."""
    switches = ["whole_frame", "blacked_out"] if whole_frame else []
    kept = []
    for columns in (2, 6, 10):
        got = await judge_item(item(columns=columns), MeanDifference(), with_=switches)
        kept.append(values(got)["non_edited_detail_preservation"])
    off = (AFTER - BEFORE) / 100
    shares = (10 / 12, 6 / 12, 2 / 12) if whole_frame else (1, 1, 1)
    assert kept == pytest.approx([10 * (1 - share * off) for share in shares])


async def test_a_padded_canvas_is_undone() -> None:
    """A source of 12 by 8 on a square of 24: rows 4 to 20 are the edit, the rest is white."""
    canvas = np.full((24, 24, 3), 255, np.uint8)
    canvas[4:20] = AFTER
    padded = replace(edit(item()), image=load_image(canvas, "output"))
    cut = off_canvas(padded).output
    assert cut.size == (24, 16)
    assert (cut.rgb == AFTER).all()
    for stays in (edit(item()), replace(padded, item=replace(item(), sources=(cut, cut)))):
        assert off_canvas(stays) is stays
    square = load_image(np.zeros((9, 9, 3), np.uint8))
    assert off_canvas(replace(padded, item=replace(item(), sources=(square,)))).output.size[1] == 24

    for switches, white in (((), True), (("padded_canvas",), False)):
        asked = rules(switches).dimensions
        panel = Specialists()
        known = {one.id: one for one in asked}
        done = await judge(padded, asked, known, panel)  # type: ignore[arg-type]
        assert "co_edit.overall" in values(done.outcomes)
        (inputs,) = (inputs for name, inputs, _ in panel.asked if name == "lpips.vgg")
        assert (decode(inputs["IMAGE_B"])[0] > 200).any() == white
        pictures = [p for prompt in panel.transport.asked for p in prompt.parts]
        sizes = {one.size for one in pictures if hasattr(one, "size")}
        assert ((24, 24) in sizes) == white
