"""Geometric alignment of an edit with its reference, before their pixels are compared."""

import math
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
    *,
    require_plausible: bool = True,
    output_keypoints: Keypoints | None = None,
    reference_keypoints: Keypoints | None = None,
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
        require_plausible: False leaves out our deviation, as the official code does.
        output_keypoints: The result of `find_keypoints` for the output, if there is one. It saves
            time and changes no number.
        reference_keypoints: The same for the reference.

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
    residuals = _residuals(matrix, source, target)
    inlying = residuals <= _tolerance(reference)
    if require_plausible:
        _check_support(source[inlying], target[inlying], len(source), _tolerance(reference))
        _check_frame(matrix, output, reference)
    height, width = reference.shape[:2]
    image = cv2.warpAffine(
        np.ascontiguousarray(output),
        matrix,
        (width, height),
        flags=cv2.INTER_LINEAR,
        borderMode=cv2.BORDER_REFLECT,
    )
    return Alignment(
        image=np.asarray(image, np.uint8),
        matrix=matrix,
        matches=len(source),
        inliers=int(np.count_nonzero(inlying)),
        residual=float(np.median(residuals)),
        scale=_scale(matrix),
        rotation_degrees=math.degrees(math.atan2(matrix[1, 0], matrix[0, 0])),
        translation=(float(matrix[0, 2]), float(matrix[1, 2])),
    )


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
            f"{len(good)} of {len(pairs)} keypoint matches pass the ratio test, "
            f"at least {MIN_MATCHES} are needed"
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
    projections = source @ matrix[:, :2].T + matrix[:, 2]
    distances: NDArray[np.float64] = np.linalg.norm(projections - target, axis=1)
    return distances


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
            f"the best fit magnifies the edit {magnification:.1f} times, "
            f"at most {MAX_MAGNIFICATION:g} is plausible"
        )
    frame = _corners(width, height)
    corners = _corners(edited_width, edited_height) @ matrix[:, :2].T + matrix[:, 2]
    area, _ = cv2.intersectConvexConvex(frame, corners.astype(np.float32))
    coverage = area / (width * height)
    if coverage < MIN_COVERED:
        raise Degenerate(
            f"the best fit covers {coverage:.0%} of the reference with the edit, "
            f"at least {MIN_COVERED:.0%} is needed"
        )


def _corners(width: int, height: int) -> _Points:
    return np.array([(0, 0), (width, 0), (width, height), (0, height)], np.float32)


def _scale(matrix: _Matrix) -> float:
    return math.hypot(matrix[0, 0], matrix[1, 0])
