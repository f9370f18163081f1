"""Geometric alignment of an edit to its reference, before pixels are compared."""

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
    """The SIFT keypoints of a picture: where they are, and what it looks like there.

    Attributes:
        points: float32 (n, 2), x and y in pixels; n may be 0.
        descriptors: float32 (n, 128).
    """

    points: _Points
    descriptors: NDArray[np.float32]

    @property
    def nbytes(self) -> int:
        """What they take in memory."""
        return self.points.nbytes + self.descriptors.nbytes


@dataclass(frozen=True, slots=True, eq=False)
class Alignment:
    """An edit drawn in the reference's frame, and the similarity transform that did it.

    Attributes:
        image: uint8 (H, W, 3), RGB, of the reference's size; what the edit does not cover is
            mirrored from it.
        matrix: float64 (2, 3), from pixels of the edit to pixels of the reference.
        matches: Keypoint matches the transform was fitted to.
        inliers: Matches that it brings within 1 % of the reference's diagonal of each other.
        residual: Median distance between matches that it leaves, in pixels of the reference.
        scale: Magnification of the edit; the sizes' ratio if the edit was merely resized.
        rotation_degrees: -180..180, positive turns the edit clockwise on the screen.
        translation: (dx, dy) in pixels of the reference, of the edit's top left corner.
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
    """Find a picture's SIFT keypoints, on grey: nine tenths of the time that `align` takes.

    Args:
        image: uint8 (H, W, 3), RGB, 0..255.

    Raises:
        ValueError: The shape or the dtype is another one.
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

    GIE-Bench, section 3.5, in the details of its official code: SIFT on grey images, FLANN
    matching (5 KD-trees, 50 checks) from the reference's keypoints to their two nearest in the
    edit, ratio test 0.7, at least 4 matches, least median of squares, bilinear warp with
    mirrored borders.

    Our deviation: least median of squares fits something to any matches, so the official code
    scores edits it has not aligned. A fit is refused unless

    - at least half of the matches (the breakdown point of the method), among them 5 at distinct
      places, end within 1 % of the reference's diagonal of their partners;
    - it magnifies the edit at most twice as much as the two sizes imply;
    - the edit covers at least half of the reference, the rest being mirrored pixels.

    No similarity transform undoes a squeeze to another aspect ratio: try it resized too. The first
    rule refuses it only beyond some 10 %; what is squeezed by less is taken and stays out of place
    by up to the rule's 1 %, which dwarfs what the editor changed. The keypoint search
    is randomised and seeded: equal inputs give equal bits in any thread or process. OpenCV's
    generator of the calling thread is left seeded.

    Memory: some 230 bytes a pixel of the larger image, nearly all of it SIFT's own.

    Args:
        output: uint8 (h, w, 3), RGB, 0..255.
        reference: uint8 (H, W, 3), RGB, 0..255; the sizes may differ.
        require_plausible: False leaves out the deviation, as the official code does.
        output_keypoints: The output's `find_keypoints`, if they are there already; the numbers are
            the same.
        reference_keypoints: Those of the reference, likewise.

    Returns:
        The edit in the reference's frame.

    Raises:
        ValueError: A shape or a dtype is another one.
        Degenerate: Too few keypoints or matches, or an implausible fit.
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
    """Match keypoints: positions (n, 2) in the edit and in the reference, n at least 4."""
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
    """Refuse a fit with too few inliers: `source` and `target` are their positions."""
    # One keypoint can have several orientations and be the partner of many: count places.
    distinct = min(len(np.unique(points.round(), axis=0)) for points in (source, target))
    if 2 * len(source) < matches or distinct < MIN_DISTINCT_INLIERS:
        raise Degenerate(
            f"the best fit brings {len(source)} of {matches} keypoint matches ({distinct} distinct)"
            f" within {tolerance:.1f} px, at least half and {MIN_DISTINCT_INLIERS} are needed"
        )


def _check_frame(matrix: _Matrix, output: RGB, reference: RGB) -> None:
    """Refuse a fit that shows the edit far too large, or leaves most of the reference bare."""
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
