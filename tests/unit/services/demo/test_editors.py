"""The editors must come out in the order their names promise, on every edit."""

import pytest

from editjudge.base.images import load_image
from editjudge.pixels.alignment import align, find_keypoints
from editjudge.pixels.metrics import mse, psnr
from editjudge.pixels.ssim import ssim
from editjudge_services.demo import EDITORS, edit_jpeg

IDS = """
bricks-sale-sign coffee-card grass-keep-off coffee-blue-crockery coffee-matcha cat-blue-eyes
motorcycle-green astronaut-teal-suit astronaut-green-flag astronaut-no-patch coins-without-largest
coins-without-second coins-without-third coins-without-first"""
FAITHFUL = ("exact", "no_edit")

# Measured minima: 9 dB and 0.07 (both once aligned), 3.6 times.
PSNR_MARGIN = 7.0
SSIM_MARGIN = 0.04
MSE_MARGIN = 2.5


@pytest.fixture(scope="module", params=IDS.split())
def edit(request, edits):
    return edits[request.param]


@pytest.fixture(scope="module")
def results(edit):
    return {name: load_image(edit_jpeg(name, edit)).rgb for name in EDITORS}


@pytest.fixture(scope="module")
def alignments(edit, results):
    """Results aligned to the source, and to the target; keypoints, which take most of the time, are found once."""
    keypoints = {name: find_keypoints(image) for name, image in results.items()}
    return tuple(
        {name: align(image, of, keypoints[name], of_keypoints).image for name, image in results.items()}
        for of in (edit.source, edit.target)
        for of_keypoints in [find_keypoints(of)]
    )


def test_ids_are_all(edits):
    assert [*edits] == IDS.split()


@pytest.mark.parametrize("is_aligned", [False, True])
def test_damage_shows_outside_the_mask(edit, results, alignments, is_aligned):
    images = alignments[0] if is_aligned else results
    outside = ~edit.mask
    kept = {name: psnr(edit.source, image, outside).value for name, image in images.items()}
    alike = {name: ssim(edit.source, image, outside) for name, image in images.items()}
    for name in FAITHFUL:
        assert kept[name] > kept["damaged"] + PSNR_MARGIN
        assert alike[name] > alike["damaged"] + SSIM_MARGIN


def test_inside_the_mask_damaged_is_between_exact_and_nothing(edit, alignments):
    off = {name: mse(edit.target, image, edit.mask) for name, image in alignments[1].items()}
    assert off["exact"] * MSE_MARGIN < off["damaged"]
    assert off["damaged"] * MSE_MARGIN < off["no_edit"]
