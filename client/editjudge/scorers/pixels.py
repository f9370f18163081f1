"""Scorers that compare pixels with the source or the target: PSNR, SSIM and MSE."""

from __future__ import annotations

import math
import os
from abc import abstractmethod
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import Image as Pil

from ..base.images import RGB, Image, decode, load_mask
from ..base.item import Edit
from ..base.threads import FairThreads, MemoryBudget, in_thread
from ..base.verdict import Evidence, NoScore, Score, Verdict, Verdicts
from ..pixels.alignment import Alignment, Keypoints, align, align_coarse_to_fine, find_coarse_keypoints, find_keypoints
from ..pixels.drift import measure_drift, name_change
from ..pixels.metrics import METRICS
from ..pixels.opencv import missing_opencv
from ..pixels.regions import Degenerate
from ..pixels.ssim import ssim_blacked_out
from .regions import Reference, fitted, select_region, squashed
from .scorer import Scorer

if TYPE_CHECKING:
    from ..panel import Panel

_Key: TypeAlias = "tuple[str, tuple[int, int]]"


class KeypointCache:
    """A cache of images' keypoints, by digest and size; the least recently used go first.

    Threads that need the same image share one search, across all event loops of the process.

    Args:
        budget: Bytes that the cache holds at most; searches in progress come on top.
        find: Finds them; by default `find_keypoints`.
    """

    def __init__(self, budget: int, find: Callable[[RGB], Keypoints] | None = None) -> None:
        self._budget = budget
        self._find = find
        self._futures: dict[_Key, Future[Keypoints]] = {}
        self._lock = Lock()

    def of(self, image: Image) -> Future[Keypoints]:
        """Return a future of an image's keypoints, and search them in this thread if nobody has.

        A search in another thread is not waited for, so that this one can work meanwhile.
        """
        key = (image.digest, image.size)
        with self._lock:
            earlier = self._futures.pop(key, None)
            future = self._futures[key] = Future() if earlier is None else earlier
        if earlier is None:
            self._search(image, key, future)
        return future

    @property
    def nbytes(self) -> int:
        """The memory that the cached keypoints take, in bytes."""
        return sum(future.result().nbytes for future in self._futures.values() if future.done())

    def _search(self, image: Image, key: _Key, future: Future[Keypoints]) -> None:
        try:
            sought = (self._find or find_keypoints)(image.rgb)
        except BaseException as error:
            with self._lock:
                del self._futures[key]
            future.set_exception(error)
            raise
        with self._lock:
            future.set_result(sought)
            self._drop_beyond_budget()

    def _drop_beyond_budget(self) -> None:
        free = self._budget - self.nbytes
        for key in [key for key, future in self._futures.items() if future.done()]:
            if free >= 0:
                return
            free += self._futures.pop(key).result().nbytes


_CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
ALIGNING_MEMORY = max(2 * 1024**3, _CORES * 256 * 1024**2)
"""Bytes that alignments at work in one process may take, enough for a picture of 1024x1024 on each
core; of larger ones, one at a time works beside these."""
ALIGNING_BYTES_A_PIXEL = 250
"""Of the larger image: SIFT doubles it and keeps 11 float32 copies of each octave. Measured: 230
for photographs, 246 for noise."""
COARSE_ALIGNING_BYTES = 70 * 1024**2
"""What an alignment coarse to fine takes of a picture of any size, beside its result."""
_ALIGNING = MemoryBudget(ALIGNING_MEMORY)
# A pool of their own: more of them than cores would only take memory, and in the event loop's they
# would hold up the pictures that judges wait for.
ALIGNERS = FairThreads(_CORES, "editjudge-align")
_KEYPOINTS = KeypointCache(64 * 1024**2)  # a photograph of 1024x1024 has some 2 MB of them
_COARSE_KEYPOINTS = KeypointCache(16 * 1024**2, find_coarse_keypoints)  # some 0.5 MB each
NO_ALIGNMENT = "unaligned"
_DRIFT = "drift."
_Fit: TypeAlias = "tuple[Alignment, Evidence] | Degenerate"
"""An edit in its reference's frame, with a note of how it was resized; or why there is no such fit."""


class PixelScorer(Scorer):
    """A scorer that compares pixels in this process, with OpenCV."""

    @property
    def unavailable_reason(self) -> str:
        """Why OpenCV is missing; empty if it is installed."""
        return missing_opencv()

    async def score(self, edit: Edit, panel: Panel, fields: frozenset[str]) -> Verdicts:
        """Compare in a worker thread, since NumPy and OpenCV release the interpreter lock."""
        return await in_thread(self.compare, edit, fields)

    @abstractmethod
    def compare(self, edit: Edit, fields: frozenset[str]) -> Verdicts:
        """Return a verdict for every field."""


@dataclass(frozen=True)
class PixelComparison(PixelScorer):
    """The edited image against a reference, pixel by pixel, whole or within a region.

    Fields are `<metric>.<region>`: metric one of `mse`, `psnr`, `ssim`; region `whole`,
    `inside` (where the mask is white) or `outside`; and `unaligned`. An edited image of another
    size is first brought to the reference's: resized (Lanczos), or, where `aligned`, warped by
    the similarity transform that maps its keypoints onto the reference's. One of another aspect
    ratio was cropped, padded or squeezed: it is aligned as it is and resized, which alone undoes a
    squeeze, and what leaves matches closer together (their median distance) is taken.

    An edit of which no alignment is plausible is measured unaligned, resized: the editor moved or
    replaced what was to stay, and must not gain by it. The evidence says why (`unaligned`), and
    the field `unaligned` is 1, otherwise 0. By `plausible` off, where any alignment is taken, one
    without any is `NoScore("degenerate")`, as are a region without pixels or
    too thin for SSIM's window, and an image below that window.

    Attributes:
        reference: What to compare with.
        aligned: Align first (GIE-Bench, section 3.5).
        plausible: Take no alignment that cannot be right; the released code takes any.
        as_is: Align an edited image of another aspect ratio as it is only, as the released code
            does.
    """

    name: ClassVar[str] = "pixels"
    _coarse_to_fine: ClassVar[bool] = False

    reference: Reference
    aligned: bool = False
    plausible: bool = True
    as_is: bool = False

    def dependencies(self, field: str) -> tuple[Callable[..., object], ...]:
        """The decoder, what brings both images to one size, the region's mask, and the metric."""
        name, _, region = field.partition(".")
        metric = METRICS.get(name)
        return (
            decode,
            *((align_coarse_to_fine if self._coarse_to_fine else align,) if self.aligned else ()),
            *(() if self.aligned and self.as_is and not self.plausible else (fitted,)),
            *((load_mask,) if region in {"inside", "outside"} else ()),
            *(metric.implementations if metric else (measure_drift,) if name == _DRIFT.rstrip(".") else ()),
            *(metric.region_implementations if metric and region != "whole" else ()),
        )

    async def score(self, edit: Edit, panel: Panel, fields: frozenset[str]) -> Verdicts:
        """Compare in a worker thread, or align in a thread of a pool of its own.

        At most one alignment per core works at a time. Those that fit into `ALIGNING_MEMORY` hold
        no more in all, and one larger one works beside them (`MemoryBudget`). Edits with the same
        reference share its keypoints.
        """
        if not self.aligned:
            return await super().score(edit, panel, fields)
        return await in_thread(self._in_turn, edit, fields, executor=ALIGNERS)

    def _in_turn(self, edit: Edit, fields: frozenset[str]) -> Verdicts:
        reference: Image = getattr(edit.item, self.reference)
        pixels = max(math.prod(image.size) for image in (edit.output, reference))
        memory = pixels * ALIGNING_BYTES_A_PIXEL
        if self._coarse_to_fine:
            memory = min(memory, COARSE_ALIGNING_BYTES) + 16 * pixels  # the result; of drift, high frequencies
        with _ALIGNING.of(memory):
            return self.compare(edit, fields)

    def compare(self, edit: Edit, fields: frozenset[str]) -> Verdicts:
        """Bring both images to one size, then compare every field."""
        reference: Image = getattr(edit.item, self.reference)
        fit = self._align(edit.output, reference) if self.aligned else None
        drift_fields = frozenset(field for field in fields if field.startswith(_DRIFT))
        verdicts = _measure_drift(edit, reference, fit, drift_fields) if drift_fields and fit else {}
        if fields - drift_fields:
            verdicts |= self._compare(edit, reference, fit, fields - drift_fields)
        return verdicts

    def _compare(self, edit: Edit, reference: Image, fit: _Fit | None, fields: frozenset[str]) -> dict[str, Verdict]:
        try:
            edited_pixels, evidence = self._brought_to(edit.output, reference, fit)
        except Degenerate as degenerate:
            verdict = NoScore(kind="degenerate", reason=str(degenerate))
            return dict.fromkeys(fields, verdict)
        names = {field: field.rpartition(".")[2] for field in fields - {NO_ALIGNMENT}}
        regions = {f: select_region(edit, name, reference.size) for f, name in names.items()}
        verdicts = {
            field: _verdict(field, reference.rgb, edited_pixels, region, evidence) for field, region in regions.items()
        }
        if NO_ALIGNMENT in fields:
            verdicts[NO_ALIGNMENT] = Score(value=float(NO_ALIGNMENT in evidence), evidence=evidence)
        return verdicts

    def _brought_to(self, output: Image, reference: Image, fit: _Fit | None) -> tuple[RGB, Evidence]:
        if fit is None:
            return fitted(output, reference)
        if isinstance(fit, Degenerate):
            if not self.plausible:
                raise fit
            pixels, note = fitted(output, reference)
            return pixels, {**note, NO_ALIGNMENT: str(fit)}
        alignment, resize_note = fit
        return alignment.image, {
            **resize_note,
            "matches": alignment.matches,
            "inliers": alignment.inliers,
            "residual": round(alignment.residual, 3),
            "scale": round(alignment.scale, 4),
            "rotation_degrees": round(alignment.rotation_degrees, 3),
            "translation": [round(float(v), 2) for v in alignment.translation],
        }

    def _align(self, output: Image, reference: Image) -> _Fit:
        ways: list[tuple[RGB, Evidence]] = [(output.rgb, {})]
        if not self.as_is and not _same_aspect(output.size, reference.size):
            ways.append(fitted(output, reference))
        # They may be on their way: this edit's own come first.
        cache = _COARSE_KEYPOINTS if self._coarse_to_fine else _KEYPOINTS
        reference_keypoints = cache.of(reference)
        fits: list[tuple[Alignment, Evidence]] = []
        problems: list[Degenerate] = []
        for pixels, resize_note in ways:
            own = (find_coarse_keypoints if self._coarse_to_fine else find_keypoints)(pixels)
            try:
                inputs = (pixels, reference.rgb, own, reference_keypoints.result())
                fit = (
                    align_coarse_to_fine(*inputs)
                    if self._coarse_to_fine
                    else align(*inputs, require_plausible=self.plausible)
                )
            except Degenerate as problem:
                problems.append(problem)
            else:
                fits.append((fit, resize_note))
        if not fits:
            return problems[0]
        return min(fits, key=lambda each: each[0].residual)


@dataclass(frozen=True)
class CoarseToFineComparison(PixelComparison):
    """The same comparison after an alignment coarse to fine, which is no benchmark's own.

    It takes a third of the time of SIFT on whole pictures at 1024x1024, and no more for larger
    ones. All dimensions that read an equal scorer share one alignment of an edit. Fields `drift.…`
    are what `measure_drift` measures of an edit of the reference's aspect ratio.
    """

    _coarse_to_fine: ClassVar[bool] = True

    aligned: bool = True


@dataclass(frozen=True)
class BlackedOutSsim(PixelScorer):
    """SSIM of two grey squares of which a region is left and the rest is black.

    As GIE-Bench's released code has it (`pixels.ssim_blacked_out`): both images squashed to
    `side` (Lanczos), grey, black outside the region. Fields are the regions `inside` and
    `outside`; -1..1, higher is closer. An empty region leaves two black squares and the value 1,
    marked as imputed.

    Attributes:
        reference: What to compare with.
        side: Of the squares, pixels.
    """

    name: ClassVar[str] = "blacked_out_ssim"

    reference: Reference
    side: int = 224

    def dependencies(self, field: str) -> tuple[Callable[..., object], ...]:
        """The decoders of images and masks, the resizing and the metric."""
        return (decode, squashed, load_mask, ssim_blacked_out)

    def compare(self, edit: Edit, fields: frozenset[str]) -> Verdicts:
        """Resize both images to grey squares and compare them."""
        reference, output = (
            np.asarray(Pil.fromarray(squashed(image, self.side)).convert("L"))
            for image in (getattr(edit.item, self.reference), edit.output)
        )
        verdicts: dict[str, Verdict] = {}
        for name in fields:
            region = select_region(edit, name, (self.side, self.side))
            if region is None:
                raise ValueError(f"{self.name} has no field {name}")
            share = round(float(region.mean()), 6)
            value = ssim_blacked_out(reference, output, region)
            note: Evidence = {"region_share": share}
            verdicts[name] = Score(value=value, evidence=note, imputed=share == 0)
        return verdicts


def _measure_drift(edit: Edit, reference: Image, fit: _Fit, fields: frozenset[str]) -> dict[str, Verdict]:
    """Say how far the edit drifted, or why that cannot be told: then it is never 0."""
    output = edit.output
    mask = select_region(edit, "inside", reference.size) if edit.item.mask else None
    if not isinstance(fit, Degenerate) and not _same_aspect(output.size, reference.size):
        word = "squeezed" if fit[1] else "cropped or extended"
        fit = Degenerate(f"{word}: the edit has another aspect ratio than its source")
    try:
        if isinstance(fit, Degenerate):
            raise fit
        drift = measure_drift(output.rgb, reference.rgb, fit[0], mask)
    except Degenerate as problem:
        reason = name_change(output.rgb, reference.rgb) or str(problem)
        return dict.fromkeys(fields, NoScore(kind="degenerate", reason=reason))
    return {field: Score(value=getattr(drift, field.removeprefix(_DRIFT)), evidence=drift.evidence) for field in fields}


def _same_aspect(size: tuple[int, int], other: tuple[int, int]) -> bool:
    """Whether two sizes (width, height) have the same aspect ratio, to within one pixel."""
    (width, height), (w, h) = size, other
    return abs(width * h - height * w) <= max(*size, *other)


def _verdict(
    field: str, reference: RGB, edited_pixels: RGB, region: NDArray[np.bool_] | None, evidence: Evidence
) -> Verdict:
    name = field.partition(".")[0]
    if name not in METRICS:
        names = ", ".join(sorted(METRICS))
        raise ValueError(f"pixels have no metric {name!r} (there is {names})")
    if region is not None:
        evidence = {**evidence, "region_share": round(float(region.mean()), 6)}
    try:
        value, details = METRICS[name].compute(reference, edited_pixels, region)
    except Degenerate as degenerate:
        return NoScore(kind="degenerate", reason=str(degenerate), evidence=evidence)
    return Score(value=value, evidence={**evidence, **details})
