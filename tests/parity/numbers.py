"""What our implementations make of fixed pictures, by name and number of the implementation.

Pictures are made with integers alone, or lie in `pictures`, so that they are the same everywhere.
Little is imported: it runs in an environment with NumPy, OpenCV, Pillow, rapidfuzz, pydantic and
platformdirs alone.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from editjudge.base.images import Mask, decode, load_image, load_mask
from editjudge.base.item import Edit, Item
from editjudge.base.signature import name_implementation
from editjudge.base.verdict import Score, Verdict
from editjudge.benchmarks.co_edit.specialists import framed, off_canvas
from editjudge.benchmarks.dimension import Reading
from editjudge.pixels.alignment import Alignment, align, align_coarse_to_fine
from editjudge.pixels.drift import measure_drift
from editjudge.pixels.metrics import METRICS, mse, psnr_from_mse
from editjudge.pixels.ssim import ssim, ssim_blacked_out, windows_within
from editjudge.scorers.pixels import BlackedOutSsim, PixelComparison
from editjudge.scorers.regions import fitted, squashed
from editjudge.scorers.specialists import text_accuracy
from editjudge.scorers.square_images import SquaredPixels, squared

Pixels = NDArray[np.uint8]
PICTURES = Path(__file__).parent / "pictures"
TABLE = Path(__file__).parent / "numbers.json"
TOLERANCE = 1e-9
"""The tightest of the dimensions that rest on these."""


def digest(pixels: NDArray[Any]) -> str:
    """Shape and values, to the bit."""
    data = repr(pixels.shape).encode() + np.ascontiguousarray(pixels).tobytes()
    return hashlib.sha256(data).hexdigest()[:16]


def noise(width: int, height: int, seed: int) -> Pixels:
    """Pixels (H, W, 3) that hang together in no way."""
    index = np.arange(width * height * 3, dtype=np.uint64) + np.uint64(seed * 1_000_003)
    index = (index ^ (index >> np.uint64(7))) * np.uint64(0x9E3779B97F4A7C15)
    index = (index ^ (index >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    return (index >> np.uint64(56)).astype(np.uint8).reshape(height, width, 3)


@lru_cache(8)
def scene(width: int = 320, height: int = 240, seed: int = 1) -> Pixels:
    """Overlapping discs and boxes of several sizes: what keypoints are found in, (H, W, 3)."""
    image = np.full((height, width, 3), 96, np.int64)
    y, x = np.mgrid[:height, :width].astype(np.int64)
    drawn = noise(90, 3, seed).astype(np.int64).reshape(90, 9)
    for number, (a, b, c, d, *colour) in enumerate(drawn):
        at_x, at_y, size = a * width // 255, b * height // 255, 4 + c * (6 + number % 5) // 64
        inside = (x - at_x) ** 2 + (y - at_y) ** 2 < size**2
        if d % 2:
            inside = (abs(x - at_x) < size) & (abs(y - at_y) < 2 + size * d // 255)
        image[inside] = (image[inside] + 3 * np.array(colour[:3])) // 4
    return (image + noise(width, height, seed + 7) // 32).clip(0, 255).astype(np.uint8)


def move_picture(image: Pixels, over: int = 1000, across: int = 0, by: tuple[int, int] = (9, 5)) -> Pixels:
    """A picture turned, magnified and shifted, by integers: nearest neighbour, mirrored."""
    height, width = image.shape[:2]
    y, x = np.mgrid[:height, :width].astype(np.int64)
    at_x = (x * over + y * across) // 1000 + by[0]
    at_y = (y * over - x * across) // 1000 + by[1]
    at_x, at_y = (np.abs((at + size) % (2 * size) - size) for at, size in
                  ((at_x, width - 1), (at_y, height - 1)))  # fmt: skip
    return image[at_y, at_x]


def edit_picture(image: Pixels) -> Pixels:
    """A picture of which a part is painted over and the rest is a little noisy."""
    height, width = image.shape[:2]
    shifted = image.astype(np.int64) + noise(width, height, 5) // 64 - 2
    shifted[height // 3 : height // 2, width // 4 : width // 2] = (200, 40, 90)
    return shifted.clip(0, 255).astype(np.uint8)


def mask_of(image: Pixels) -> Mask:
    """The part that `edited` paints over, and a ragged border."""
    height, width = image.shape[:2]
    selected = noise(width, height, 11)[..., 0] < 8
    selected[height // 3 : height // 2, width // 4 : width // 2] = True
    return load_mask(selected)


def outcome(verdict: Verdict) -> Any:
    return verdict.value if isinstance(verdict, Score) else verdict.status


def edit_of(source: Pixels, output: Pixels, mask: Mask | None = None) -> Edit:
    image = load_image(source)
    item = Item("i", sources=(image,), instruction="", mask=mask, target=image)
    return Edit(item, "m", load_image(output))


def _decode_files() -> dict[str, Any]:
    files = sorted(PICTURES.glob("[!m]*.*"))
    return {file.name: digest(decode(file.read_bytes())[0]) for file in files}


def _masks() -> dict[str, Any]:
    masks = {file.name: load_mask(file) for file in sorted(PICTURES.glob("mask*.*"))}
    masks["smaller"] = mask_of(scene()).resize((200, 150))
    return {name: digest(one.region) for name, one in masks.items()}


def _fit_sizes() -> dict[str, Any]:
    image = load_image(scene())
    sizes = {"smaller": (200, 150), "larger": (512, 333), "squeezed": (100, 240)}
    return {name: digest(fitted(image, load_image(np.zeros((h, w, 3), np.uint8)))[0]) for name, (w, h) in sizes.items()}


def _pairs() -> dict[str, tuple[Pixels, Pixels]]:
    image = scene()
    return {
        "edited": (image, edit_picture(image)),
        "noise": (noise(64, 48, 1), noise(64, 48, 2)),
        "equal": (image, image),
    }


def _metric(of: Callable[..., float]) -> dict[str, Any]:
    found = {}
    for name, (image, other) in _pairs().items():
        region = mask_of(image).region
        found[name] = of(image, other)
        found[f"{name}, inside"] = of(image, other, region)
        found[f"{name}, outside"] = of(image, other, ~region)
    return found


def _windows() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, (image, other) in _pairs().items():
        region = ~mask_of(image).region
        region[: len(region) // 2] = True
        found[f"{name}, windows"] = digest(windows_within(region.astype(np.uint8)))
        found[f"{name}, ssim"] = ssim(image, other, region)
    return found


def _frame_mask() -> dict[str, Any]:
    square, within = framed(scene(), mask_of(scene()).region)
    return {"square": digest(square), "within": digest(within)}


def _psnr() -> dict[str, Any]:
    return {str(error): psnr_from_mse(error).value for error in (0.0, 1e-9, 0.25, 77.7, 65025.0)}


def _blacked_out() -> dict[str, Any]:
    return {
        name: ssim_blacked_out(image[..., 0], other[..., 0], mask_of(image).region)
        for name, (image, other) in _pairs().items()
    }


def _moves() -> dict[str, Pixels]:
    image = edit_picture(scene())
    return {
        "shifted": move_picture(image),
        "turned": move_picture(image, 996, 87, (3, 30)),
        "magnified": move_picture(image, 830, 0, (20, 14)),
        "both": move_picture(image, 900, 160, (0, 40)),
    }


def _align_moves(by: Callable[[Pixels, Pixels], Alignment]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, image in _moves().items():
        fit = by(image, scene())
        found[f"{name}, matches"] = fit.matches
        found[f"{name}, inliers"] = fit.inliers
        found[f"{name}, mse"] = mse(scene(), fit.image)
        found[f"{name}, mse outside"] = mse(scene(), fit.image, ~mask_of(scene()).region)
    return found


def _drifts() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, image in _moves().items():
        drift = measure_drift(image, scene(), align_coarse_to_fine(image, scene()))
        found |= {f"{name}, {field}": round(getattr(drift, field), 3) for field in ("shift", "zoom", "color", "detail")}
    return found


def _pixels(metric: str) -> dict[str, Any]:
    source = scene()
    half = np.asarray(fitted(load_image(edit_picture(source)), load_image(source[::2, ::2]))[0])
    outputs = {"edited": edit_picture(source), "half": half}
    fields = frozenset({f"{metric}.outside"})
    edits = {name: edit_of(source, output, mask_of(source)) for name, output in outputs.items()}
    return {
        f"{name}, {field}": outcome(verdict)
        for name, edit in edits.items()
        for field, verdict in sorted(PixelComparison("source").compare(edit, fields).items())
    }


def _squares(metric: str) -> dict[str, Any]:
    edit = edit_of(scene(), edit_picture(scene()))
    said = SquaredPixels().compare(edit, frozenset({metric}))
    return {field: outcome(verdict) for field, verdict in said.items()}


def _black_squares() -> dict[str, Any]:
    image = scene(256, 256)
    edit = edit_of(image, edit_picture(image), mask_of(image))
    said = BlackedOutSsim("source").compare(edit, frozenset({"inside", "outside"}))
    return {field: outcome(verdict) for field, verdict in sorted(said.items())}


def _texts() -> dict[str, Any]:
    pairs = (("OPEN 24", "OPEN 24 H"), ("ﬁne", "fine"), ("新 年", "新年"), ("", "x"), ("ab", "ba"))
    return {f"{read} / {due}": text_accuracy(read, due) for read, due in pairs}


COMPUTED: Mapping[Callable[..., object], Callable[[], dict[str, Any]]] = {
    decode: _decode_files,
    load_mask: _masks,
    fitted: _fit_sizes,
    squashed: lambda: {str(n): digest(squashed(load_image(scene()), n)) for n in (64, 224)},
    squared: lambda: {"scene": digest(squared(load_image(scene())).rgb)},
    **{one.implementations[0]: partial(_metric, one.implementations[0]) for one in METRICS.values()},
    psnr_from_mse: _psnr,
    ssim: lambda: {name: ssim(image, other) for name, (image, other) in _pairs().items()},
    windows_within: _windows,
    framed: _frame_mask,
    off_canvas: lambda: {"cut": digest(off_canvas(edit_of(scene(), scene(256, 256))).output.rgb)},
    ssim_blacked_out: _blacked_out,
    align: partial(_align_moves, align),
    align_coarse_to_fine: partial(_align_moves, align_coarse_to_fine),
    measure_drift: _drifts,
    text_accuracy: _texts,
}
WHOLE: Mapping[Reading, Callable[[], dict[str, Any]]] = {
    Reading(PixelComparison("source"), "psnr.outside"): lambda: _pixels("psnr"),
    Reading(PixelComparison("source"), "ssim.outside"): lambda: _pixels("ssim"),
    Reading(SquaredPixels(), "psnr"): lambda: _squares("psnr"),
    Reading(SquaredPixels(), "ssim"): lambda: _squares("ssim"),
    Reading(BlackedOutSsim("source"), "outside"): _black_squares,
}
"""Ways of judging from picture to number, with all that they rest on."""


def compute_numbers() -> dict[str, dict[str, Any]]:
    """Numbers by implementation; a digest where bits are to be the same."""
    alone = {name_implementation(of): make() for of, make in COMPUTED.items()}
    return alone | {"+".join(sorted(of.implementations)): make() for of, make in WHOLE.items()}


def load_numbers() -> dict[str, dict[str, Any]]:
    """The numbers that are due, by implementation: of each number there was, and there is."""
    return json.loads(TABLE.read_text(encoding="utf-8")) if TABLE.exists() else {}


def differences(due: Mapping[str, Mapping[str, Any]], there: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """What is not as it is due, a line each."""
    for name, numbers in there.items():
        if name not in due:
            yield f"{name}: has no numbers yet; python -m tests.parity --write adds them"
        for what in sorted(due.get(name, {}).keys() | numbers.keys()) if name in due else ():
            old, new = due[name].get(what), numbers.get(what)
            if not _same(old, new):
                yield f"{name}: {what} is {new}, due is {old}; raise its number if that is meant"


def _same(old: Any, new: Any) -> bool:
    if isinstance(old, float) and isinstance(new, float):
        return abs(old - new) <= TOLERANCE
    return bool(old == new)
