"""Squares that are compared with the target or the source, and their regions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from PIL import Image as Pil

from editjudge.base.images import decode, load_image
from editjudge.base.item import Edit
from editjudge.scorers.pixels import BlackedOutSsim
from editjudge.scorers.square_images import RegionClip, RegionLpips, RegionShare, squared

from ...encoded_pictures import encode
from ...verdicts import why_not
from .test_similarity import Recording

RNG = np.random.default_rng(5)
TARGET, OUTPUT = RNG.integers(0, 256, (2, 30, 60, 3), dtype=np.uint8)
LEFT = np.zeros((30, 60), bool)
LEFT[:, :15] = True
BOTH = frozenset({"foreground", "background"})
FEATURES = {"EMBEDDING": np.array([0.6, 0.8], np.float32)}


def edit_of(mask: Any = LEFT) -> Edit:
    """A region of a quarter by default."""
    return Edit.load(source=TARGET, edited=OUTPUT, target=TARGET, instruction="x", mask=mask)


async def test_each_side_of_the_mask_is_compared_within_itself() -> None:
    panel = Recording(**FEATURES)
    got = await RegionClip("clip.vit_b_32", side=16).score(edit_of(), panel, BOTH)
    assert {name: one.value for name, one in got.items()} == dict.fromkeys(BOTH, pytest.approx(1))
    shown = [decode(inputs["MASK"])[0][..., 0] > 0 for inputs, _ in panel.asked]
    assert sorted(mask.mean() for mask in shown) == [0.25, 0.25, 0.75, 0.75]
    assert {decode(inputs["IMAGE"])[0].shape for inputs, _ in panel.asked} == {(16, 16, 3)}
    shares = await RegionShare(side=16).score(edit_of(), panel, BOTH)
    assert (shares["foreground"].value, shares["background"].value) == (0.25, 0.75)


async def test_the_background_may_be_the_whole_as_released() -> None:
    panel = Recording(**FEATURES)
    released = RegionClip("clip.vit_b_32", whole_background=True, side=16)
    await released.score(edit_of(), panel, BOTH)
    assert sum("MASK" in inputs for inputs, _ in panel.asked) == 2, "of the foreground alone"


@pytest.mark.parametrize(("counts", "values"), [(True, (1.0, 0.0)), (False, None)])
async def test_an_empty_region_counts_as_released_or_has_no_number(
    counts: bool, values: tuple[float, float] | None
) -> None:
    panel = Recording(**FEATURES, DISTANCE=np.array([0.5], np.float32))
    clip = RegionClip("clip.vit_b_32", empty_counts=counts, side=16)
    lpips = RegionLpips("lpips.vgg", empty_counts=counts, side=16)
    for mask, region, place in ((LEFT & False, "foreground", 0), (LEFT | True, "background", 1)):
        for scorer, due in ((clip, values), (lpips, values and (0.0, 0.0))):
            got = (await scorer.score(edit_of(mask), panel, BOTH))[region]
            if due is None:
                assert why_not(got, "degenerate") == f"the {region} has no pixel"
            else:
                assert (got.value, got.imputed) == (due[place], True)
                assert got.evidence == {"empty": region}


async def test_only_a_background_as_good_as_empty_counts_as_empty() -> None:
    panel = Recording(**FEATURES)
    one = np.arange(160_000).reshape(400, 400) == 0
    released = RegionClip("clip.vit_b_32", empty_counts=True, side=400)
    for mask, region, imputed in ((one, "foreground", False), (~one, "background", True)):
        pictures = np.zeros((400, 400, 3), np.uint8)
        edit = Edit.load(source=pictures, edited=pictures, target=pictures, instruction="x", mask=mask)
        got = (await released.score(edit, panel, BOTH))[region]
        assert got.imputed == imputed


def test_transparency_is_laid_over_white_unless_it_is_dropped() -> None:
    clear = load_image(encode(Pil.new("RGBA", (8, 8), (0, 0, 0, 0))))
    assert squared(clear, 4).rgb.min() == 255
    assert squared(clear, 4, alpha_dropped=True).rgb.max() == 0


def test_a_square_is_made_once_and_reads_back() -> None:
    image = edit_of().output
    small = squared(image, 16)
    assert squared(image, 16) is small is squared(small, 16)
    assert squared(image, 8).size == (8, 8)
    assert np.array_equal(decode(small.encoded_bytes)[0], small.rgb)


def test_outside_the_region_both_are_black() -> None:
    def compare(mask: Any, *fields: str) -> Any:
        pair = TARGET[:, :30].copy(), OUTPUT[:, :30].copy()
        edit = Edit.load(source=pair[0], edited=pair[1], instruction="x", mask=mask[:, :30].copy())
        return BlackedOutSsim("source", 16).compare(edit, frozenset(fields))

    got, flipped = (compare(mask, "inside", "outside") for mask in (LEFT, ~LEFT))
    assert 0 < got["inside"].value != got["outside"].value < 1
    assert (got["inside"], got["outside"]) == (flipped["outside"], flipped["inside"])
    assert (got["inside"].evidence, got["inside"].imputed) == ({"region_share": 0.5}, False)
    empty = compare(LEFT & False, "inside")["inside"]
    assert (empty.value, empty.imputed) == (1, True)
    with pytest.raises(ValueError, match="has no field whole"):
        compare(LEFT, "whole")
