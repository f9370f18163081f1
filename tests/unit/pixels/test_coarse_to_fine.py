"""Alignment coarse to fine: as true as the ground truth that is made, and no fit that is wrong."""

from concurrent.futures import ThreadPoolExecutor
from functools import cache

import cv2
import numpy as np
import pytest
import skimage.data

from editjudge.pixels import alignment
from editjudge.pixels.alignment import align_coarse_to_fine, find_coarse_keypoints
from editjudge.pixels.metrics import mse
from editjudge.pixels.regions import Degenerate

from .test_alignment import IMPLAUSIBLE, PHOTOS, fingerprint, inner, similarity, spoil_matches, warp


def photograph(photo, name, side):
    """A photograph whose longer side has so many pixels."""
    image = photo(name)
    size = [round(one * side / max(image.shape[:2])) for one in image.shape[1::-1]]
    return cv2.resize(image, size, interpolation=cv2.INTER_AREA)


def displacement(aligned, motion, image):
    """How far the frame's corners are from where the inverse of a motion has them, at most."""
    width, height = image.shape[1::-1]
    corners = np.array([(0, 0), (width, 0), (width, height), (0, height)], float)
    true = cv2.invertAffineTransform(motion)
    apart = [corners @ one[:, :2].T + one[:, 2] for one in (aligned.matrix, true)]
    return np.linalg.norm(apart[0] - apart[1], axis=1).max()


def noisy(image):
    noise = np.random.default_rng(1).normal(0, 8, image.shape)
    return np.clip(image + noise, 0, 255).astype(np.uint8)


def compress(image):
    return cv2.imdecode(cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, 60])[1], 1)


def repaint(image):
    """Paint two fifths of an image over with bricks, which have corners of their own."""
    image = image.copy()
    height, width = (int(side * 0.63) for side in image.shape[:2])
    bricks = cv2.resize(np.dstack([skimage.data.brick()] * 3), (width, height))
    image[-height:, :width] = bricks
    return image


CHANGES = {
    "nothing": (lambda x: x, 0.05),
    "noise": (noisy, 0.1),
    "JPEG 60": (compress, 0.2),
    "light": (lambda x: cv2.convertScaleAbs(x, alpha=0.8, beta=20), 0.05),
    "two fifths": (repaint, 0.05),
    "all": (lambda x: compress(noisy(repaint(x))), 0.3),
}


@pytest.fixture(scope="module")
def keypoints(photo):
    """Keypoints of a photograph, which take most of the time, found once for each."""
    return cache(lambda name: find_coarse_keypoints(photograph(photo, name, 900)))


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize(
    ("name", "degrees", "scale", "shift"),
    [("astronaut", 0, 1, (3.0, -2.0)), ("coffee", -4, 0.93, (31, 18)), ("cat", 0.3, 1.01, (-0.4, 0.7))],
)
def test_coarse_to_fine_finds_a_move_to_a_fraction_of_a_pixel(photo, keypoints, name, degrees, scale, shift, change):
    reference = photograph(photo, name, 900)
    motion = similarity(reference, degrees=degrees, scale=scale, shift=shift)
    spoil, most = CHANGES[change]
    edited = spoil(warp(reference, motion))
    aligned = align_coarse_to_fine(edited, reference, reference_keypoints=keypoints(name))
    assert displacement(aligned, motion, reference) < most
    assert aligned.image.shape == reference.shape


@pytest.mark.parametrize("shift", [(0, 0), (7, -3)])
def test_whole_pixels_are_undone_to_the_bit(photo, shift):
    reference = photograph(photo, "astronaut", 900)
    edited = np.roll(reference, shift, (1, 0))
    edited[300:500, 200:600] = 40
    aligned = align_coarse_to_fine(edited, reference)
    assert aligned.translation == (-shift[0], -shift[1])
    same = inner(reference)
    same[280:520, 180:620] = False
    assert mse(reference, aligned.image, same) == 0


@pytest.mark.parametrize("size", [(450, 300), (900, 600), (2700, 1800)])
def test_coarse_to_fine_takes_edits_of_another_size(photo, size):
    reference = photograph(photo, "coffee", 900)
    edited = cv2.resize(warp(reference, similarity(reference, degrees=2)), size)
    aligned = align_coarse_to_fine(edited, reference)
    assert aligned.scale == pytest.approx(900 / size[0], rel=1e-3)
    assert aligned.rotation_degrees == pytest.approx(-2, abs=0.02)
    assert mse(reference, aligned.image, inner(reference)) < 40


@pytest.mark.parametrize("case", [*IMPLAUSIBLE, *PHOTOS.split(", ")])
def test_coarse_to_fine_refuses_what_cannot_be_right(photo, case):
    if case in IMPLAUSIBLE:
        reference = photo("astronaut")
        edited = IMPLAUSIBLE[case][0](reference)
    else:
        edited, reference = map(photo, case.split())
    with pytest.raises(Degenerate, match=r"the best fit|keypoint"):
        align_coarse_to_fine(edited, reference)


def test_a_picture_without_corners_that_can_be_followed_keeps_the_first_fit(photo, monkeypatch):
    reference = photograph(photo, "coffee", 900)
    motion = similarity(reference, degrees=2, shift=(5, 3))
    edited = warp(reference, motion)
    fine = displacement(align_coarse_to_fine(edited, reference), motion, reference)
    monkeypatch.setattr(alignment, "MIN_CORNERS", alignment.CORNERS + 1)
    coarse = displacement(align_coarse_to_fine(edited, reference), motion, reference)
    assert fine < coarse < 2


def test_coarse_keypoints_that_were_found_before_give_the_same_bits(photo):
    reference, edited = photo("coffee"), spoil_matches(photo("coffee"))
    first = fingerprint(align_coarse_to_fine(edited, reference))
    known = {"output_keypoints": find_coarse_keypoints(edited), "reference_keypoints": find_coarse_keypoints(reference)}
    with ThreadPoolExecutor(4) as pool:
        prints = set(pool.map(lambda _: fingerprint(align_coarse_to_fine(edited, reference, **known)), range(4)))
    assert prints == {first}
