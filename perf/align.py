"""How long GIE-Bench's alignment takes, of five models' edits of the same sources.

Three ways take turns within one process, item by item, on the same pictures, and their numbers are
equal to the bit: `align` for one edit after the other; the same for all edits of an item at once,
in the threads of the event loop, as runs had it before; and what a run does now, edits side by side
in as many threads as there are cores, and the keypoints of a source searched once for all models. A
fourth of the edits have another aspect ratio, and are aligned twice.

    python perf/align.py [sources] [side]

It prints how many times as fast the last is as the others, by the clock, which counts the cores,
and by processor time, which does not; then by part where the time of one alignment is.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import time
from collections.abc import Awaitable, Callable

import cv2
import numpy as np
import skimage.data

from editjudge.base.item import Edit
from editjudge.pixels import alignment
from editjudge.pixels.alignment import align, find_keypoints
from editjudge.pixels.metrics import mse, psnr_from_mse
from editjudge.scorers import pixels as scorers
from editjudge.scorers.pixels import KeypointCache, PixelComparison
from editjudge.scorers.regions import fitted

Timing = tuple[float, float]
"""MSE and PSNR."""

MODELS = 5
FIELDS = frozenset({"mse.whole", "psnr.whole"})
SCORER = PixelComparison("source", aligned=True)
PHOTOGRAPHS = ("astronaut", "chelsea", "coffee", "rocket", "cat")


def item(number: int, side: int) -> list[Edit]:
    """A photograph, and what five models made of it: turned a little, with a patch repainted."""
    photograph = getattr(skimage.data, PHOTOGRAPHS[number % len(PHOTOGRAPHS)])()
    source = cv2.resize(photograph, (side, side), interpolation=cv2.INTER_CUBIC)
    rng = np.random.default_rng(number)
    edits = []
    for model in range(MODELS):
        turn = cv2.getRotationMatrix2D((side / 2, side / 2), rng.uniform(-1, 1), 1.01)
        edit_pixels = cv2.warpAffine(source, turn, (side, side), borderMode=cv2.BORDER_REFLECT)
        noise = rng.integers(-4, 5, edit_pixels.shape)
        edit_pixels = np.clip(edit_pixels + noise, 0, 255).astype(np.uint8)
        edit_pixels[side // 3 : side // 2, side // 4 : side // 2] = rng.integers(0, 256, 3)
        if (number * MODELS + model) % 4 == 3:
            edit_pixels = np.ascontiguousarray(edit_pixels[: side - side // 8])
        edits.append(Edit.load(source=source, edited=edit_pixels, instruction="x", model=str(model)))
    first = edits[0].item
    return [Edit(first, edit.model, edit.image) for edit in edits]


async def one_by_one(edits: list[Edit]) -> list[Timing]:
    """With nothing kept, as with `align` on two pictures."""
    return [await asyncio.to_thread(anew, edit) for edit in edits]


async def side_by_side(edits: list[Edit]) -> list[Timing]:
    """Likewise, as runs had it."""
    return await asyncio.gather(*(asyncio.to_thread(anew, edit) for edit in edits))


def anew(edit: Edit) -> Timing:
    """What GIE-Bench's rules say, of `align` alone."""
    reference = edit.item.sources[0]
    ways = [edit.output.rgb]
    if edit.output.size != reference.size:  # of another aspect ratio: resized too
        ways.append(fitted(edit.output, reference)[0])
    fits = [align(pixels, reference.rgb) for pixels in ways]
    nearest = min(fits, key=lambda fit: fit.residual)
    error = mse(reference.rgb, nearest.image)
    return error, psnr_from_mse(error).value


async def together(edits: list[Edit]) -> list[Timing]:
    """As a run: all edits of an item at once, and nothing known of it before."""
    scorers._KEYPOINTS = KeypointCache(64 * 1024**2)
    verdicts = await asyncio.gather(*(SCORER.score(edit, None, FIELDS) for edit in edits))
    return [(one["mse.whole"].value, one["psnr.whole"].value) for one in verdicts]


def time_way(
    way: Callable[[list[Edit]], Awaitable[list[Timing]]], edits: list[Edit]
) -> tuple[float, float, list[Timing]]:
    """Seconds of the clock, seconds of processor time, and what was measured."""
    clock, processor = time.perf_counter(), time.process_time()
    results = asyncio.run(way(edits))
    return time.perf_counter() - clock, time.process_time() - processor, results


def parts(edit: Edit) -> dict[str, float]:
    """Seconds of processor time of one alignment, by part."""
    source, edit_pixels = edit.item.sources[0].rgb, edit.output.rgb
    seconds: dict[str, float] = {}

    def measure_part(name, call):
        start = time.process_time()
        value = call()
        seconds[name] = time.process_time() - start
        return value

    def detect_keypoints():
        grey = cv2.cvtColor(source, cv2.COLOR_RGB2GRAY)
        return cv2.SIFT.create().detect(grey, None)

    of_source = measure_part("keypoints of the source", lambda: find_keypoints(source))
    of_edited = measure_part("keypoints of the edit", lambda: find_keypoints(edit_pixels))
    measure_part("(of these, without descriptors)", detect_keypoints)
    pairs = measure_part("matching", lambda: alignment._match(of_edited, of_source))
    matrix = measure_part("fit", lambda: alignment._fit(*pairs))
    size = source.shape[1::-1]
    measure_part("warp", lambda: cv2.warpAffine(edit_pixels, matrix, size, borderMode=cv2.BORDER_REFLECT))
    return seconds


def main() -> None:
    """Measure, compare, print."""
    sources = int(sys.argv[1]) if len(sys.argv) > 1 else 8
    side = int(sys.argv[2]) if len(sys.argv) > 2 else 1024
    cv2.setNumThreads(1)  # as `editjudge run` has it
    items = [item(number, side) for number in range(sources)]
    ways = (one_by_one, side_by_side, together)
    for way in ways:
        asyncio.run(way(items[0]))
    runs = []
    for number, edits in enumerate(items):
        turn = number % len(ways)
        took = {way: time_way(way, edits) for way in (*ways[turn:], *ways[:turn])}
        assert took[one_by_one][2] == took[side_by_side][2] == took[together][2]
        runs.append(took)
    about = f"{sources} sources of {side}x{side}, {MODELS} models, {os.cpu_count()} cores"
    print(f"{about}; a run now is as many times as fast as")
    for way in ways[:2]:
        for place, unit in enumerate(("by the clock", "of processor time")):
            ratios = [took[way][place] / took[together][place] for took in runs]
            ends = f"{min(ratios):.2f} to {max(ratios):.2f}"
            label = f"{way.__name__.replace('_', ' ')}, {unit}"
            print(f"  {label:<32} {statistics.median(ratios):.2f} ({ends})")
    print("the numbers are equal to the bit")
    each = [parts(edits[0]) for edits in items]
    print("milliseconds of processor time of one alignment, medians")
    for name in each[0]:
        print(f"  {name:<32} {statistics.median(one[name] for one in each) * 1e3:6.1f}")


if __name__ == "__main__":
    main()
