"""Geometric alignment of an edit with its reference, before their pixels are compared."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..base.images import RGB, check_image
from ..base.signature import implementation
from .opencv import DISTRIBUTION, cv2
from .regions import Degenerate, size_of

RATIO = 0.7
MIN_MATCHES = 4

# What the plausibility check asks of a fit. Over the 342 ordered pairs of 19 of scikit-image's
# pictures, at 512 px, no fit had more than 2 distinct inliers; with four fifths of a photograph
# repainted, most keep 6 and more.
INLIER_TOLERANCE = 0.01
MIN_DISTINCT_INLIERS = 5
MIN_COVERED = 0.5
MAX_MAGNIFICATION = 2.0

FLANN_KDTREE = 1
SEED = 0

COARSE_SIDE = 512
"""The longer side at which `align_coarse_to_fine` looks for keypoints."""
FINE_SIDE = 1024
"""The longer side up to which it follows corners."""
CORNERS = 600
CONTRAST_SIDE = 31
CONTRAST_LEAST = 4.0
"""Grey levels: what varies less than this around a pixel is not stretched to full contrast."""
FOLLOW: Mapping[str, Any] = {"winSize": (21, 21), "maxLevel": 2, "criteria": (3, 30, 0.005)}
MOST_RETURN_ERROR = 0.3
"""How far from its start, in pixels, a corner may end that is followed there and back."""
MIN_CORNERS = 12
EXACT = 0.01
"""Pixels: keypoints fit whole ones as closely as this where they are those of the reference."""
MOST_ROUNDING = 0.05
"""Pixels: a shift this close to whole pixels is one, so that what was left alone is left alone."""

_Points = NDArray[np.float32]
_Matrix = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Keypoints:
    """SIFT keypoints of an image, with their descriptors.

    Attributes:
        points: float32 (n, 2), x and y in pixels; n may be 0.
        descriptors: float32 (n, 128).
    """

    points: _Points
    descriptors: NDArray[np.float32]

    @property
    def nbytes(self) -> int:
        """Memory that the arrays take, in bytes."""
        return self.points.nbytes + self.descriptors.nbytes


@dataclass(frozen=True, slots=True, eq=False)
class Alignment:
    """An edit warped into the frame of its reference by a similarity transform.

    Attributes:
        image: uint8 (H, W, 3), RGB, 0..255, in the reference's size. Pixels that the edit does not
            cover are mirrored from it.
        matrix: float64 (2, 3), from pixels of the edit to pixels of the reference.
        matches: Number of keypoint matches that the transform was fitted to.
        inliers: Number of matches whose two points, after the transform, are at most 1 % of the
            reference's diagonal apart.
        residual: Median distance between the two points of a match after the transform, in pixels
            of the reference.
        scale: Magnification of the edit. For an edit that was only resized it is the ratio of the
            two sizes.
        rotation_degrees: -180..180; a positive angle turns the edit clockwise on the screen.
        translation: (dx, dy), position of the edit's top left corner in pixels of the reference.
    """

    image: RGB
    matrix: _Matrix
    matches: int
    inliers: int
    residual: float
    scale: float
    rotation_degrees: float
    translation: tuple[float, float]


def find_keypoints(image: RGB) -> Keypoints:
    """Find the SIFT keypoints of an image, on its grey version.

    This takes nine tenths of the time of `align`, so callers may reuse the result.

    Args:
        image: uint8 (H, W, 3), RGB, 0..255.

    Raises:
        ValueError: The image has another shape or dtype.
    """
    check_image("image", image)
    grey = cv2.cvtColor(np.ascontiguousarray(image), cv2.COLOR_RGB2GRAY)
    sift: Any = cv2.SIFT.create()  # the stubs allow no mask of None
    places, descriptors = sift.detectAndCompute(grey, None)
    if not places:
        return Keypoints(np.empty((0, 2), np.float32), np.empty((0, 128), np.float32))
    return Keypoints(np.asarray(cv2.KeyPoint.convert(places), np.float32), descriptors)


# OpenCV 5 interpolates otherwise when it warps: squared errors move by some 1e-4 of themselves.
@implementation(1, moved_by=DISTRIBUTION, usual="4")
def align(
    output: RGB,
    reference: RGB,
    output_keypoints: Keypoints | None = None,
    reference_keypoints: Keypoints | None = None,
    *,
    require_plausible: bool = True,
) -> Alignment:
    """Align an edit to its reference by SIFT keypoints and a similarity transform.

    The method is that of GIE-Bench, section 3.5, with the details of its official code: SIFT on
    grey images, FLANN matching (5 KD-trees, 50 checks) from the reference's keypoints to their two
    nearest in the edit, ratio test 0.7, at least 4 matches, least median of squares, bilinear warp
    with mirrored borders.

    Our deviation: least median of squares fits a transform to any matches, so the official code
    also scores edits that it failed to align. We refuse a fit unless

    - at least half of the matches (the breakdown point of the method) are inliers, among them 5 at
      distinct places; a match is an inlier if its points end up within 1 % of the reference's
      diagonal;
    - it magnifies the edit at most twice as much as the two sizes imply;
    - the edit covers at least half of the reference; the rest are mirrored pixels.

    A similarity transform cannot undo a change of aspect ratio, so callers should also try the edit
    resized to the reference. The first rule refuses a squeeze only beyond some 10 %. A smaller one
    is accepted and leaves pixels up to 1 % of the diagonal out of place, which outweighs what the
    editor changed.

    The keypoint matching is randomised and seeded: equal inputs give equal bits in any thread or
    process. OpenCV's generator of the calling thread stays seeded.

    Memory: some 230 bytes per pixel of the larger image, nearly all of it for SIFT.

    Args:
        output: The edit: uint8 (h, w, 3), RGB, 0..255.
        reference: uint8 (H, W, 3), RGB, 0..255; the sizes may differ.
        output_keypoints: The result of `find_keypoints` for the output, if there is one. It saves
            time and changes no number.
        reference_keypoints: The same for the reference.
        require_plausible: False leaves out our deviation, as the official code does.

    Returns:
        The edit in the reference's frame.

    Raises:
        ValueError: An image has another shape or dtype.
        Degenerate: There are too few keypoints or matches, or the fit is implausible.
    """
    check_image("edited", output)
    check_image("reference", reference)
    target_points = _check_keypoints("reference", reference, reference_keypoints)
    source, target = _match(_check_keypoints("edited", output, output_keypoints), target_points)
    matrix = _fit(source, target)
    if require_plausible:
        _check_fit(matrix, source, target, output, reference)
    return _warp(matrix, source, target, output, reference)


def find_coarse_keypoints(image: RGB) -> Keypoints:
    """Find the SIFT keypoints of an image of at most 512 pixels a side, in pixels of the image.

    Args:
        image: uint8 (H, W, 3), RGB, 0..255; a larger one is reduced.

    Raises:
        ValueError: The image has another shape or dtype.
    """
    check_image("image", image)
    small = reduce_image(image, COARSE_SIDE)
    keypoints = find_keypoints(small)
    to_image = scaling_between(small, image)
    points = keypoints.points @ to_image[:2, :2] + to_image[:2, 2]
    return Keypoints(points.astype(np.float32), keypoints.descriptors)


@implementation(1, moved_by=DISTRIBUTION, usual="4")
def align_coarse_to_fine(
    output: RGB, reference: RGB, output_keypoints: Keypoints | None = None, reference_keypoints: Keypoints | None = None
) -> Alignment:
    """Align an edit to its reference: keypoints of a small copy, then corners of the picture.

    The first fit is that of `align`, with the same refusals, from keypoints of pictures of 512
    pixels. The second follows the reference's corners (Shi and Tomasi) in the edit that was moved
    so (Lucas and Kanade, pyramids of 3 levels, windows of 21 pixels), there and back. Both pictures
    are brought to equal contrast around each pixel before, for editors also change the light. The
    similarity transform that most corners agree on (RANSAC, 1 pixel) corrects the first fit. Where
    fewer than 12 corners can be followed, fewer than half of them agree, or they ask for more than
    the tolerance of the first fit, the first fit stays. A shift within 0.05 pixels of whole ones,
    at every corner of the frame, is one of whole pixels: what did not move stays as it is. A first
    fit within 0.01 pixels of them is not corrected.

    Equal inputs give equal bits in any thread or process.

    Memory: 70 MB, and the result.

    Args:
        output: The edit: uint8 (h, w, 3), RGB, 0..255.
        reference: uint8 (H, W, 3), RGB, 0..255; the sizes may differ.
        output_keypoints: The result of `find_coarse_keypoints` for the output, if there is one.
        reference_keypoints: The same for the reference.

    Raises:
        ValueError: An image has another shape or dtype.
        Degenerate: There are too few keypoints or matches, or the fit is implausible.
    """
    check_image("edited", output)
    check_image("reference", reference)
    target_points = _check_keypoints("reference", reference, reference_keypoints or find_coarse_keypoints(reference))
    points = _check_keypoints("edited", output, output_keypoints or find_coarse_keypoints(output))
    source, target = _match(points, target_points)
    matrix = _fit(source, target)
    _check_fit(matrix, source, target, output, reference)
    if not _is_whole(matrix, output, EXACT):
        matrix = _refine(matrix, output, reference)
    if _is_whole(matrix, output, MOST_ROUNDING):
        matrix = _round_shift(matrix)
    return _warp(matrix, source, target, output, reference)


def _refine(matrix: _Matrix, output: RGB, reference: RGB) -> _Matrix:
    """Correct a fit by corners that are followed; the fit itself where too few can be."""
    side = min(FINE_SIDE, max(reference.shape[:2]))
    edit_grey, reference_grey = (
        cv2.cvtColor(reduce_image(image, side), cv2.COLOR_RGB2GRAY) for image in (output, reference)
    )
    to_reference, from_output = scaling_between(reference_grey, reference), scaling_between(output, edit_grey)
    first = np.linalg.inv(to_reference) @ _square(matrix) @ np.linalg.inv(from_output)
    size = reference_grey.shape[1::-1]
    edit_warp = cv2.warpAffine(edit_grey, first[:2], size, flags=cv2.INTER_CUBIC, borderMode=cv2.BORDER_REFLECT)
    cover = cv2.warpAffine(np.full_like(edit_grey, 255), first[:2], size, flags=cv2.INTER_NEAREST)
    cover = cv2.erode(cover, np.ones((9, 9), np.uint8), borderValue=[0])
    edit_warp, reference_grey = equalise(edit_warp), equalise(reference_grey)
    apart = max(5.0, min(size) / 50)
    # The stubs promise corners, but there are none in an even picture.
    corners: Any = cv2.goodFeaturesToTrack(reference_grey, CORNERS, 0.01, apart, mask=cover)
    if corners is None or len(corners) < MIN_CORNERS:
        return matrix
    ends, status, _ = cv2.calcOpticalFlowPyrLK(reference_grey, edit_warp, corners, corners.copy(), **FOLLOW)
    back, status_back, _ = cv2.calcOpticalFlowPyrLK(edit_warp, reference_grey, ends, ends.copy(), **FOLLOW)
    is_back = np.linalg.norm((back - corners)[:, 0], axis=1) < MOST_RETURN_ERROR
    good = is_back & (status[:, 0] > 0) & (status_back[:, 0] > 0)
    if np.count_nonzero(good) < MIN_CORNERS:
        return matrix
    correction, agreeing = cv2.estimateAffinePartial2D(
        ends[good, 0], corners[good, 0], method=cv2.RANSAC, ransacReprojThreshold=1.0
    )
    if correction is None or 2 * np.count_nonzero(agreeing) < len(agreeing):
        return matrix
    finer = to_reference @ _square(correction) @ first @ from_output
    places = frame_corners(output.shape[1], output.shape[0])
    step = _residuals(finer[:2], places, _move(matrix, places))
    return finer[:2] if step.max() <= _tolerance(reference) else matrix


def _round_shift(matrix: _Matrix) -> _Matrix:
    return np.hstack([np.eye(2), matrix[:, 2:].round()])


def _is_whole(matrix: _Matrix, output: RGB, most: float) -> bool:
    """Whether the frame is shifted by whole pixels alone, at every corner within so many."""
    frame = frame_corners(output.shape[1], output.shape[0])
    return bool(_residuals(matrix, frame, _move(_round_shift(matrix), frame)).max() <= most)


def reduce_image(image: RGB, side: int) -> RGB:
    """Reduce an image whose longer side exceeds this many pixels, by means of areas."""
    height, width = image.shape[:2]
    factor = side / max(height, width)
    if factor >= 1:
        return np.ascontiguousarray(image)
    size = max(1, round(width * factor)), max(1, round(height * factor))
    return np.asarray(cv2.resize(image, size, interpolation=cv2.INTER_AREA), np.uint8)


def scaling_between(image: NDArray[Any], to: NDArray[Any]) -> _Matrix:
    """From pixels of an image to those of the same one at another size: float64 (3, 3)."""
    across, down = to.shape[1] / image.shape[1], to.shape[0] / image.shape[0]
    return np.array([(across, 0, across / 2 - 0.5), (0, down, down / 2 - 0.5), (0, 0, 1)])


def _square(matrix: _Matrix) -> _Matrix:
    """Return a transform (2, 3) as a matrix (3, 3)."""
    return np.vstack([matrix, (0, 0, 1)])


def equalise(grey: NDArray[Any]) -> NDArray[Any]:
    """Bring the contrast around each pixel to the same height: uint8 (H, W), 128 in the middle."""
    window = (CONTRAST_SIDE, CONTRAST_SIDE)
    values = grey.astype(np.float32)
    values -= cv2.blur(values, window)
    values /= cv2.sqrt(cv2.blur(values * values, window)) + np.float32(CONTRAST_LEAST)
    return np.asarray(cv2.convertScaleAbs(values, alpha=40, beta=128))


def _warp(matrix: _Matrix, source: _Points, target: _Points, output: RGB, reference: RGB) -> Alignment:
    residuals = _residuals(matrix, source, target)
    height, width = reference.shape[:2]
    image = cv2.warpAffine(
        np.ascontiguousarray(output), matrix, (width, height), flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_REFLECT
    )
    return Alignment(
        image=np.asarray(image, np.uint8),
        matrix=matrix,
        matches=len(source),
        inliers=int(np.count_nonzero(residuals <= _tolerance(reference))),
        residual=float(np.median(residuals)),
        scale=_scale(matrix),
        rotation_degrees=math.degrees(math.atan2(matrix[1, 0], matrix[0, 0])),
        translation=(float(matrix[0, 2]), float(matrix[1, 2])),
    )


def _check_fit(matrix: _Matrix, source: _Points, target: _Points, output: RGB, reference: RGB) -> None:
    tolerance = _tolerance(reference)
    inlying = _residuals(matrix, source, target) <= tolerance
    _check_support(source[inlying], target[inlying], len(source), tolerance)
    _check_frame(matrix, output, reference)


def _match(output: Keypoints, reference: Keypoints) -> tuple[_Points, _Points]:
    """Match keypoints.

    Returns:
        Positions (n, 2) of the matches in the edit and in the reference; n is at least 4.
    """
    cv2.setRNGSeed(SEED)  # the KD-trees split at random; the generator belongs to the thread
    matcher = cv2.FlannBasedMatcher({"algorithm": FLANN_KDTREE, "trees": 5}, {"checks": 50})
    pairs = matcher.knnMatch(reference.descriptors, output.descriptors, k=2)
    good = [best for best, second in pairs if best.distance < RATIO * second.distance]
    if len(good) < MIN_MATCHES:
        raise Degenerate(
            f"{len(good)} of {len(pairs)} keypoint matches pass the ratio test, at least {MIN_MATCHES} are needed"
        )
    source = output.points[[match.trainIdx for match in good]]
    target = reference.points[[match.queryIdx for match in good]]
    return source, target


def _check_keypoints(name: str, image: RGB, found_before: Keypoints | None) -> Keypoints:
    its = find_keypoints(image) if found_before is None else found_before
    # The ratio test compares the best match with the second best.
    if len(its.points) < 2:
        count = "no keypoints" if len(its.points) == 0 else "a single keypoint"
        raise Degenerate(f"{count} in the {name} image ({size_of(image)})")
    return its


def _fit(source: _Points, target: _Points) -> _Matrix:
    # The stubs promise a matrix, but there is none for points that coincide.
    matrix: Any = cv2.estimateAffinePartial2D(source, target, method=cv2.LMEDS)[0]
    if matrix is None or not np.isfinite(matrix).all():
        raise Degenerate(f"no transform fits the {len(source)} keypoint matches")
    return np.asarray(matrix, np.float64)


def _residuals(matrix: _Matrix, source: _Points, target: _Points) -> NDArray[np.float64]:
    distances: NDArray[np.float64] = np.linalg.norm(_move(matrix, source) - target, axis=1)
    return distances


def _move(matrix: _Matrix, points: NDArray[Any]) -> NDArray[Any]:
    """Apply a transform (2, 3) to points (n, 2)."""
    return np.asarray(points @ matrix[:, :2].T + matrix[:, 2])


def _tolerance(reference: RGB) -> float:
    return INLIER_TOLERANCE * math.hypot(*reference.shape[:2])


def _check_support(source: _Points, target: _Points, matches: int, tolerance: float) -> None:
    """Refuse a fit with too few inliers; `source` and `target` are the inliers' positions."""
    # One keypoint can have several orientations and be the partner of many: count places.
    distinct = min(len(np.unique(points.round(), axis=0)) for points in (source, target))
    if 2 * len(source) < matches or distinct < MIN_DISTINCT_INLIERS:
        raise Degenerate(
            f"the best fit brings {len(source)} of {matches} keypoint matches ({distinct} distinct)"
            f" within {tolerance:.1f} px, at least half and {MIN_DISTINCT_INLIERS} are needed"
        )


def _check_frame(matrix: _Matrix, output: RGB, reference: RGB) -> None:
    """Refuse a fit that magnifies the edit too much or covers too little of the reference."""
    height, width = reference.shape[:2]
    edited_height, edited_width = output.shape[:2]
    size_ratio = math.sqrt(height * width / (edited_height * edited_width))
    magnification = _scale(matrix) / size_ratio
    if magnification > MAX_MAGNIFICATION:
        raise Degenerate(
            f"the best fit magnifies the edit {magnification:.1f} times, at most {MAX_MAGNIFICATION:g} is plausible"
        )
    frame = frame_corners(width, height)
    corners = _move(matrix, frame_corners(edited_width, edited_height))
    area, _ = cv2.intersectConvexConvex(frame, corners.astype(np.float32))
    coverage = area / (width * height)
    if coverage < MIN_COVERED:
        raise Degenerate(
            f"the best fit covers {coverage:.0%} of the reference with the edit, at least {MIN_COVERED:.0%} is needed"
        )


def frame_corners(width: int, height: int) -> _Points:
    """Return the corners of a frame, clockwise from the top left: float32 (4, 2), x and y in pixels."""
    return np.array([(0, 0), (width, 0), (width, height), (0, height)], np.float32)


def _scale(matrix: _Matrix) -> float:
    """Return the magnification of a similarity transform (2, 3)."""
    return math.hypot(matrix[0, 0], matrix[1, 0])
