import hashlib
import math
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from editjudge.pixels.alignment import align, find_keypoints
from editjudge.pixels.metrics import mse
from editjudge.pixels.regions import Degenerate

SHIFT = 6.0
FLAT = np.full((256, 256, 3), 128, np.uint8)
NOISE = np.random.default_rng(3).integers(0, 256, (256, 256, 3), dtype=np.uint8)


@pytest.fixture(scope="module")
def keypoints(photo):
    """Keypoints of a photograph, which take nine tenths of the time, found once for each."""
    return cache(lambda name: find_keypoints(photo(name)))


def similarity(image, *, degrees=0.0, scale=1.0, shift=(0.0, 0.0)):
    """Build the 2x3 matrix of a clockwise turn and a magnification about the centre."""
    centre = image.shape[1] / 2, image.shape[0] / 2
    matrix = cv2.getRotationMatrix2D(centre, -degrees, scale)
    matrix[:, 2] += shift
    return matrix


def warp(image, matrix, size=None):
    size = size or image.shape[1::-1]
    return cv2.warpAffine(image, matrix, size, flags=cv2.INTER_CUBIC, borderMode=cv2.BORDER_REFLECT)


def inner(image):
    margin = 48
    region = np.zeros(image.shape[:2], bool)
    region[margin:-margin, margin:-margin] = True
    return region


def fingerprint(aligned):
    return hashlib.sha256(aligned.matrix.tobytes() + aligned.image.tobytes()).hexdigest()


def spoil_matches(image):
    """Move an image and repaint its upper 60 %, so that many matches are wrong."""
    edited = warp(image, similarity(image, degrees=3, shift=(5, 2)))
    height = int(0.6 * len(edited))
    edited[:height] = edited[:height][::-1, ::-1]
    return edited


@pytest.mark.parametrize("name", ["astronaut", "chelsea", "coffee", "rocket", "coins"])
@pytest.mark.parametrize(
    ("degrees", "scale", "shift"), [(0, 1, (SHIFT, -SHIFT)), (5, 1, (0, 0)), (0, 1.1, (0, 0)), (-3, 0.95, (4, 9))]
)
def test_a_known_motion_is_undone(photo, keypoints, name, degrees, scale, shift):
    reference = photo(name)
    motion = similarity(reference, degrees=degrees, scale=scale, shift=shift)
    edited = warp(reference, motion)
    aligned = align(edited, reference, reference_keypoints=keypoints(name))
    assert (aligned.image.shape, aligned.image.dtype) == (reference.shape, np.uint8)
    assert aligned.scale == pytest.approx(1 / scale, abs=2e-3)
    assert aligned.rotation_degrees == pytest.approx(-degrees, abs=0.1)
    assert aligned.translation == tuple(aligned.matrix[:, 2])
    if degrees == 0 and scale == 1:
        assert aligned.translation == pytest.approx((-SHIFT, SHIFT), abs=0.3)
    assert 5 <= aligned.inliers <= aligned.matches
    region = inner(reference)
    assert mse(reference, aligned.image, region) < mse(reference, edited, region) / 4


@pytest.mark.parametrize("factor", [0.5, 0.75, 1.6])
def test_sizes_may_differ(photo, factor):
    reference = photo("astronaut")
    size = tuple(round(side * factor) for side in reference.shape[1::-1])
    turn = warp(reference, similarity(reference, degrees=4))
    aligned = align(cv2.resize(turn, size, interpolation=cv2.INTER_AREA), reference)
    assert aligned.image.shape == reference.shape
    assert aligned.scale == pytest.approx(1 / factor, rel=0.01)
    assert aligned.rotation_degrees == pytest.approx(-4, abs=0.1)


def test_a_local_edit_does_not_disturb_the_rest(photo):
    reference = photo("astronaut")
    edited = warp(reference, similarity(reference, shift=(SHIFT, 0)))
    edited[:250] = photo("coffee")[:250, :512]
    aligned = align(edited, reference)
    assert aligned.translation == pytest.approx((-SHIFT, 0), abs=0.3)


def test_an_identical_image_stays_as_it_is(photo):
    reference = photo("chelsea")
    aligned = align(reference, reference)
    assert aligned.matrix == pytest.approx(np.eye(2, 3), abs=1e-6)
    assert aligned.inliers == aligned.matches
    np.testing.assert_array_equal(aligned.image, reference)


PHOTOS = "astronaut coffee, chelsea astronaut, coffee rocket, rocket coins, camera brick, page text"
UNRELATED = [(NOISE, "chelsea"), ("chelsea", NOISE), *(pair.split() for pair in PHOTOS.split(","))]


@pytest.mark.parametrize(
    ("edited", "reference", "says"),
    [
        (FLAT, "coffee", "no keypoints in the edited image .256x256."),
        ("coffee", FLAT, "no keypoints in the reference image"),
        (FLAT[:1, :1], "coffee", "no keypoints in the edited image .1x1."),
        *((*pair, "keypoint matches") for pair in UNRELATED),
    ],
)
def test_what_cannot_be_aligned_is_refused(photo, edited, reference, says):
    edited, reference = (photo(x) if isinstance(x, str) else x for x in (edited, reference))
    with pytest.raises(Degenerate, match=rf"\A.*{says}.*\Z"):  # in one line
        align(edited, reference)


def test_too_few_matches_are_counted(photo):
    with pytest.raises(match=r"^[0-3] of \d+ keypoint matches pass the ratio"):
        align(NOISE, photo("chelsea"), require_plausible=False)


IMPLAUSIBLE = {
    "squeezed": (lambda x: cv2.resize(x, (512, 300)), "brings"),
    "mirrored": (lambda x: np.ascontiguousarray(x[:, ::-1]), "brings"),
    "zoomed in": (lambda x: warp(x, similarity(x, scale=1.8)), "covers 3.%"),
    "moved away": (lambda x: warp(x, similarity(x, shift=(300, 0))), "covers 41%"),
    "zoomed out": (lambda x: np.pad(x, ((320,) * 2, (320,) * 2, (0, 0))), "magnifies .* 2.2 times"),
}


@pytest.mark.parametrize("case", IMPLAUSIBLE)
def test_an_implausible_fit_is_refused(photo, keypoints, case):
    change, says = IMPLAUSIBLE[case]
    reference = photo("astronaut")
    edited = change(reference)
    known = find_keypoints(edited), keypoints("astronaut")
    with pytest.raises(Degenerate, match=f"the best fit {says}"):
        align(edited, reference, *known)
    as_released = align(edited, reference, *known, require_plausible=False)
    assert as_released.image.shape == reference.shape


def test_a_small_squeeze_is_taken_and_stays_distorted(photo):
    """So it has to be undone before: no similarity transform does."""
    reference = photo("astronaut")
    squeezed = cv2.resize(reference, (497, 512), interpolation=cv2.INTER_AREA)
    resized = cv2.resize(squeezed, (512, 512))
    as_it_is, first = (mse(reference, align(x, reference).image) for x in (squeezed, resized))
    assert as_it_is > 10 * first


def test_repeated_letters_are_not_an_alignment():
    def page(seed):
        letters = np.random.default_rng(seed).choice(list("abcdefghijklmnop"), (12, 22))
        image = np.full((512, 512, 3), 255, np.uint8)
        for row, line in enumerate(letters):
            at = (10, 40 + 40 * row)
            cv2.putText(image, "".join(line), at, cv2.FONT_HERSHEY_SIMPLEX, 1, (0, 0, 0), 2)
        return image

    with pytest.raises(match="the best fit brings"):
        align(page(1), page(2))


def test_equal_inputs_give_equal_bits_in_any_thread(photo):
    reference = photo("coffee")
    edited = spoil_matches(reference)
    cv2.setRNGSeed(99)
    first = fingerprint(align(edited, reference))
    cv2.setRNGSeed(5)
    cv2.randu(np.zeros(100, np.uint8), 0, 255)
    with ThreadPoolExecutor(4) as pool:
        prints = set(pool.map(lambda _: fingerprint(align(edited, reference)), range(8)))
    assert prints == {first}


def test_equal_inputs_give_equal_bits_in_any_process(photo, tmp_path):
    reference = photo("coffee")
    edited = spoil_matches(reference)
    inputs = tmp_path / "pair.npz"
    np.savez(inputs, edited=edited, reference=reference)
    code = """
import hashlib, sys, cv2, numpy as np
from editjudge.pixels.alignment import align
pair, threads = np.load(sys.argv[1]), int(sys.argv[2])
cv2.setNumThreads(threads)
a = align(pair["edited"], pair["reference"])
print(hashlib.sha256(a.matrix.tobytes() + a.image.tobytes()).hexdigest())
"""
    for threads in ("1", "3"):
        command = [sys.executable, "-c", code, str(inputs), threads]
        ran = subprocess.run(command, check=True, capture_output=True, text=True)
        assert ran.stdout.strip() == fingerprint(align(edited, reference))


@pytest.mark.parametrize("bad", [FLAT[..., 0], FLAT.astype(float), FLAT[:0]])
def test_malformed_input_is_refused(bad):
    for pair in ((bad, FLAT), (FLAT, bad)):
        with pytest.raises(ValueError, match="must be uint8 of shape"):
            align(*pair)


def test_scale_and_rotation_describe_the_matrix(photo):
    reference = photo("rocket")
    turn = warp(reference, similarity(reference, degrees=7, scale=0.9))
    aligned = align(turn, reference)
    angle = math.radians(aligned.rotation_degrees)
    turn = [[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]]
    expected = aligned.scale * np.array(turn)
    assert aligned.matrix[:, :2] == pytest.approx(expected)


def plainly(edited, reference):
    """Align as it was first written: each picture's keypoints anew, read one by one."""
    sift = cv2.SIFT.create()
    of = []
    for name, image in (("reference", reference), ("edited", edited)):
        of.append(sift.detectAndCompute(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY), None))
        if len(of[-1][0]) < 2:
            count = "no keypoints" if len(of[-1][0]) == 0 else "a single keypoint"
            return f"{count} in the {name} image ({image.shape[1]}x{image.shape[0]})"
    (points, descriptors), (edited_points, edited_descriptors) = of
    cv2.setRNGSeed(0)
    matcher = cv2.FlannBasedMatcher({"algorithm": 1, "trees": 5}, {"checks": 50})
    pairs = matcher.knnMatch(descriptors, edited_descriptors, k=2)
    good = [best for best, second in pairs if best.distance < 0.7 * second.distance]
    if len(good) < 4:
        return f"{len(good)} of {len(pairs)} keypoint matches pass the ratio test, at least 4"
    source = np.array([edited_points[match.trainIdx].pt for match in good], np.float32)
    target = np.array([points[match.queryIdx].pt for match in good], np.float32)
    matrix = cv2.estimateAffinePartial2D(source, target, method=cv2.LMEDS)[0]
    if matrix is None or not np.isfinite(matrix).all():
        return f"no transform fits the {len(good)} keypoint matches"
    how = {"flags": cv2.INTER_LINEAR, "borderMode": cv2.BORDER_REFLECT}
    image = cv2.warpAffine(edited, matrix, reference.shape[1::-1], **how)
    return hashlib.sha256(matrix.tobytes() + image.tobytes()).hexdigest()


def draw_spots(seed, grain, size):
    """Make a picture of soft spots, `grain` pixels wide."""
    width, height = size
    spots = (height // grain + 2, width // grain + 2, 3)
    coarse = np.random.default_rng(seed).integers(0, 256, spots, dtype=np.uint8)
    return cv2.resize(coarse, size, interpolation=cv2.INTER_CUBIC)


@given(
    seed=st.integers(0, 2**16),
    grain=st.sampled_from([6, 12, 40, 90]),
    size=st.tuples(st.integers(60, 220), st.integers(60, 220)),
    degrees=st.sampled_from([0.0, 4.0]),
    scale=st.sampled_from([0.6, 1.0, 1.3]),
    repainted=st.sampled_from([0.0, 0.3, 1.0]),
)
@settings(max_examples=25)
def test_keypoints_that_were_found_before_give_the_same_bits(seed, grain, size, degrees, scale, repainted):
    """Those of a reference serve all of its edits."""
    reference = draw_spots(seed, grain, size)
    turned = warp(reference, similarity(reference, degrees=degrees))
    width, height = round(size[0] * scale), round(size[1] * scale)
    edited = cv2.resize(turned, (width, height), interpolation=cv2.INTER_AREA)
    upper = slice(round(repainted * height))
    edited[upper] = draw_spots(seed + 1, grain, (width, height))[upper]
    before = find_keypoints(reference)
    cv2.setRNGSeed(seed)
    of_output = find_keypoints(edited)
    for known in ({}, {"reference_keypoints": before}, {"output_keypoints": of_output}):
        try:
            got = fingerprint(align(edited, reference, require_plausible=False, **known))
        except Degenerate as failed:
            got = str(failed)
        assert got.startswith(plainly(edited, reference))
