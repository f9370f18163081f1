"""How far alignment is from the truth: photographs that were moved by a known transform.

Photographs of scikit-image, each moved at random (shift to 40 pixels of 1024, zoom to 10 %,
rotation to 5 degrees) and changed: noise, JPEG 60, another light, a tenth to two fifths repainted,
all of it.
Five ways find the move, in turns on the same pictures: `align_coarse_to_fine`, `align` (GIE-Bench's
SIFT), OpenCV's ECC by itself and after the first, and SIFT with RANSAC as many write it. The error
is how far the frame's corners are from their true places, the largest of four, in pixels. A fit of
more than 14 pixels (1 % of the diagonal) is wrong: worse than none. Pairs of unrelated photographs
and mirrored ones have no fit at all.

    python perf/moves.py [moves of each kind] [side]
"""

from __future__ import annotations

import itertools
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import skimage.data
from rich.console import Console
from rich.table import Table

from editjudge.pixels.alignment import align, align_coarse_to_fine
from editjudge.pixels.drift import measure_drift
from editjudge.pixels.regions import Degenerate

NAMES = (
    *("astronaut", "chelsea", "coffee", "rocket", "cat", "camera", "retina", "coins", "moon"),
    *("hubble_deep_field", "immunohistochemistry", "grass", "brick", "gravel", "page", "clock"),
)
WRONG = 0.01
Pixels = Any
Way = Callable[[Pixels, Pixels], Any]
"""From an edit and its reference to the matrix from one to the other; None where there is none."""


def photograph(name: str, side: int) -> Pixels:
    """A photograph whose longer side has so many pixels."""
    image = getattr(skimage.data, name)()
    image = np.dstack([image] * 3) if image.ndim == 2 else image[..., :3]
    height, width = image.shape[:2]
    size = round(width * side / max(width, height)), round(height * side / max(width, height))
    how = cv2.INTER_AREA if max(width, height) > side else cv2.INTER_CUBIC
    return cv2.resize(np.ascontiguousarray(image), size, interpolation=how)


def change(image: Pixels, kind: str, rng: np.random.Generator) -> Pixels:
    """What an editor and its files add to a move."""
    height, width = image.shape[:2]
    everything = kind == "everything"
    if kind == "flat sky":
        image = image.copy()
        sky = np.linspace(200, 235, height // 2)[:, None] * np.array((0.8, 0.9, 1.0))
        image[: height // 2] = sky[:, None]
    if everything or kind == "light":
        image = image * rng.uniform(0.8, 1.2, 3) + rng.uniform(-15, 15, 3)
    if everything or kind == "noise":
        image = image + rng.normal(0, 8, image.shape)
    image = np.clip(image, 0, 255).astype(np.uint8)
    if everything or kind == "repainted":
        share = rng.uniform(0.1, 0.4) ** 0.5
        rows, columns = int(height * share), int(width * share)
        top, left = rng.integers(0, height - rows), rng.integers(0, width - columns)
        patch = rng.integers(0, 256, 3)
        if rng.random() < 0.5:
            patch = cv2.resize(photograph("grass", 512), (columns, rows))
        image[top : top + rows, left : left + columns] = patch
    if everything or kind == "JPEG 60":
        image = cv2.imdecode(cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, 60])[1], 1)
    return image


def moves(kind: str, count: int, side: int) -> Iterator[tuple[Pixels, Pixels, Any]]:
    """Pairs of an edit and its reference, and the matrix from one to the other."""
    rng = np.random.default_rng(0)
    for name in itertools.islice(itertools.cycle(NAMES), count):
        reference = photograph(name, side)
        height, width = reference.shape[:2]
        degrees, zoom = rng.uniform(-5, 5), rng.uniform(0.9, 1.1)
        if kind == "shift alone":
            degrees, zoom = 0, 1
        matrix = cv2.getRotationMatrix2D((width / 2, height / 2), degrees, zoom)
        matrix[:, 2] += rng.uniform(-40, 40, 2) * side / 1024
        edit = cv2.warpAffine(reference, matrix, (width, height), flags=cv2.INTER_CUBIC, borderMode=cv2.BORDER_REFLECT)
        yield change(edit, kind, rng), reference, cv2.invertAffineTransform(matrix)


def make_unrelated(count: int, side: int) -> Iterator[tuple[Pixels, Pixels, None]]:
    """Pairs without a move: neighbours in the list, and each photograph mirrored."""
    for name, other in itertools.pairwise(NAMES[: count + 1]):
        yield photograph(name, side), photograph(other, side), None
        reference = photograph(name, side)
        yield np.ascontiguousarray(reference[:, ::-1]), reference, None


def ours(way: Callable[..., Any]) -> Way:
    """One of our alignments; none where it refuses."""

    def find_move(edit: Pixels, reference: Pixels) -> Any:
        try:
            return way(edit, reference).matrix
        except Degenerate:
            return None

    return find_move


def ecc(edit: Pixels, reference: Pixels, start: Any = None) -> Any:
    """Enhanced correlation (Evangelidis and Psarakis), of an affine transform."""
    greys = [cv2.cvtColor(one, cv2.COLOR_RGB2GRAY) for one in (reference, edit)]
    first = np.eye(2, 3) if start is None else cv2.invertAffineTransform(start)
    until = (cv2.TERM_CRITERIA_EPS | cv2.TERM_CRITERIA_COUNT, 50, 1e-5)
    try:
        _, matrix = cv2.findTransformECC(*greys, first.astype(np.float32), cv2.MOTION_AFFINE, until, None, 5)
    except cv2.error:  # it did not converge
        return None
    return cv2.invertAffineTransform(matrix.astype(np.float64))


def ecc_after(edit: Pixels, reference: Pixels) -> Any:
    """The same, from where `align` ends."""
    start = ours(align)(edit, reference)
    return None if start is None else ecc(edit, reference, start)


def sift_ransac(edit: Pixels, reference: Pixels) -> Any:
    """SIFT, all pairs compared, ratio 0.75, RANSAC within 3 pixels: what many scripts do."""
    sift = cv2.SIFT.create()
    (a, of_a), (b, of_b) = (sift.detectAndCompute(one, None) for one in (edit, reference))
    if of_a is None or of_b is None or min(len(a), len(b)) < 2:
        return None
    pairs = cv2.BFMatcher().knnMatch(of_a, of_b, k=2)
    good = [one for one, other in pairs if one.distance < 0.75 * other.distance]
    if len(good) < 4:
        return None
    source = np.float32([a[one.queryIdx].pt for one in good])
    target = np.float32([b[one.trainIdx].pt for one in good])
    return cv2.estimateAffinePartial2D(source, target, method=cv2.RANSAC)[0]


def drift(edit: Pixels, reference: Pixels) -> Any:
    """What `core.drift` takes for right."""
    try:
        return measure_drift(edit, reference, align_coarse_to_fine(edit, reference)).matrix
    except Degenerate:
        return None


WAYS: dict[str, Way] = {
    "drift": drift,
    "coarse to fine": ours(align_coarse_to_fine),
    "align": ours(align),
    "ECC": ecc,
    "ECC after align": ecc_after,
    "SIFT, RANSAC": sift_ransac,
}
KINDS = ("shift alone", "move", "noise", "JPEG 60", "light", "repainted", "flat sky", "everything")


def error(matrix: Any, true: Any, image: Pixels) -> float:
    """How far the frame's corners are apart, in pixels, at most."""
    height, width = image.shape[:2]
    corners = np.array([(0, 0), (width, 0), (width, height), (0, height)], float)
    apart = [corners @ one[:, :2].T + one[:, 2] for one in (matrix, true)]
    return float(np.linalg.norm(apart[0] - apart[1], axis=1).max())


def memory(way: str, side: int) -> float:
    """The most memory of one alignment, in MiB, in a process of its own."""
    code = f"""
import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})
from pathlib import Path
import moves
def peak(): return int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0])
edit, reference, _ = next(moves.moves("move", 1, {side}))
small = edit[:64, :64].copy()
moves.WAYS[{way!r}](small, small)
Path("/proc/self/clear_refs").write_text("5")
before = peak()
moves.WAYS[{way!r}](edit, reference)
print((peak() - before) / 1024)
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    return float(ran.stdout)


def main() -> None:
    """Move, find, print."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else len(NAMES)
    side = int(sys.argv[2]) if len(sys.argv) > 2 else 1024
    cv2.setNumThreads(1)
    table = Table("pictures", *WAYS, title=f"{count} of each kind, {side} pixels, error in pixels")
    took: dict[str, list[float]] = {way: [] for way in WAYS}

    def cell(name: str, pairs: list[tuple[Pixels, Pixels, Any]]) -> str:
        errors, wrong = [], 0
        for edit, reference, true in pairs:
            start = time.process_time()
            matrix = WAYS[name](edit, reference)
            took[name].append(time.process_time() - start)
            apart = np.inf if true is None else error(matrix, true, edit) if matrix is not None else 0
            if matrix is None:
                continue
            if apart > WRONG * np.hypot(*edit.shape[:2]):
                wrong += 1
            else:
                errors.append(apart)
        right = f"{statistics.median(errors):.3f} ({max(errors):.2f}), " if errors else ""
        return f"{right}{len(pairs) - len(errors) - wrong} none, {wrong} wrong"

    for kind in KINDS:
        pairs = list(moves(kind, count, side))
        table.add_row(kind, *(cell(way, pairs) for way in WAYS))
    pairs = list(make_unrelated(count, side))
    table.add_row("unrelated, mirrored", *(cell(way, pairs) for way in WAYS))
    table.add_row("ms of processor time", *(f"{statistics.median(took[w]) * 1e3:.0f}" for w in WAYS))
    table.add_row("MiB", *(f"{memory(way, side):.0f}" for way in WAYS))
    Console(width=150).print(table)


if __name__ == "__main__":
    main()
