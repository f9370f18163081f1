"""Aligned pixels: what is done to an edit first, and how many are aligned at once."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import numpy as np
import pytest
from PIL import Image as Pil
from PIL import ImageFilter

from editjudge.base.item import Edit
from editjudge.base.threads import MemoryBudget
from editjudge.base.verdict import NoScore, Score
from editjudge.pixels.alignment import align_coarse_to_fine
from editjudge.scorers import pixels as module
from editjudge.scorers.pixels import CoarseToFineComparison, PixelComparison

MSE = frozenset({"mse.whole"})


def compare_edit(source: np.ndarray, edited: np.ndarray, **how: Any) -> Any:
    edit = Edit.load(source=source, edited=edited, instruction="x")
    return PixelComparison("source", **how).compare(edit, MSE)["mse.whole"]


def draw_picture(seed: int, width: int = 480) -> np.ndarray:
    """A picture with plenty of corners for SIFT, uint8 (320, width, 3)."""
    size = (40, width // 8, 3)
    coarse = np.random.default_rng(seed).integers(0, 256, size, dtype=np.uint8)
    return np.asarray(Pil.fromarray(coarse).resize((width, 320), Pil.Resampling.BICUBIC))


@pytest.fixture
def corners() -> np.ndarray:
    return draw_picture(0)


def resize(image: np.ndarray, width: int, height: int) -> np.ndarray:
    return np.asarray(Pil.fromarray(image).resize((width, height), Pil.Resampling.LANCZOS))


@pytest.mark.parametrize("share", [0.97, 0.94, 0.8, 0.5])
def test_a_squeeze_is_undone_before_aligning(corners: np.ndarray, share: float) -> None:
    squeezed = resize(corners, round(480 * share), 320)
    got, plain = compare_edit(corners, squeezed, aligned=True), compare_edit(corners, squeezed)
    assert got.value < 3 * plain.value + 1, "the SSIM beside it is of that"
    assert got.evidence["resized"].endswith(" to 480x320 (Lanczos)")
    assert got.evidence["scale"] == pytest.approx(1, abs=0.01)
    raw = compare_edit(corners, squeezed, aligned=True, as_is=True, plausible=False)
    assert isinstance(raw, NoScore) or raw.value > 5 * got.value


def test_a_crop_is_not_taken_for_a_squeeze(corners: np.ndarray) -> None:
    padded = np.pad(corners, ((0, 0), (0, 80), (0, 0)))
    for edited in map(np.ascontiguousarray, (corners[:, 14:-14], corners[8:-8], padded)):
        got = compare_edit(corners, edited, aligned=True)
        assert got == compare_edit(corners, edited, aligned=True, as_is=True)
        assert "resized" not in got.evidence
        assert got.evidence["residual"] < 0.1


def test_what_cannot_be_aligned_either_way_is_measured_resized(corners: np.ndarray) -> None:
    edited = draw_picture(9, 320)
    got, plain = compare_edit(corners, edited, aligned=True), compare_edit(corners, edited)
    assert got.value == plain.value > 1000
    assert "4 are needed" in str(got.evidence["unaligned"])
    assert got.evidence["resized"] == "320x320 to 480x320 (Lanczos)"


DRIFT = frozenset({"drift.shift", "drift.color"})


def test_drift_shares_the_alignment(corners: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    fits = []
    monkeypatch.setattr(module, "align_coarse_to_fine", lambda *given: fits.append(0) or align_coarse_to_fine(*given))
    edit = Edit.load(source=corners, edited=np.roll(corners, 3, 1), instruction="x")
    verdicts = CoarseToFineComparison("source").compare(edit, DRIFT | MSE)
    assert len(fits) == 1
    assert verdicts["drift.shift"].value == pytest.approx(3, abs=0.05)
    assert verdicts["mse.whole"].evidence["translation"] == pytest.approx([-3, 0], abs=0.05)


def test_what_has_no_drift_says_what_it_is(corners: np.ndarray) -> None:
    words = {
        "mirrored": corners[:, ::-1],
        "tiled": np.tile(resize(corners, 240, 160), (2, 2, 1)),
        "cropped or extended": np.pad(corners, ((0, 0), (0, 80), (0, 0))),
        "squeezed": resize(corners, 400, 320),
        "no keypoints": np.full_like(corners, 90),
    }
    for word, edited in words.items():
        edit = Edit.load(source=corners, edited=np.ascontiguousarray(edited), instruction="x")
        for verdict in CoarseToFineComparison("source").compare(edit, DRIFT).values():
            assert isinstance(verdict, NoScore), word
            assert verdict.reason.startswith(word)


def test_whether_it_was_aligned_is_a_field(corners: np.ndarray) -> None:
    scorer = PixelComparison("source", aligned=True)
    for edited, share in ((np.full_like(corners, 90), 1), (corners, 0)):
        edit = Edit.load(source=corners, edited=edited, instruction="x")
        assert scorer.compare(edit, frozenset({"unaligned"}))["unaligned"].value == share


def test_the_worst_edits_do_not_leave_the_mean(corners: np.ndarray) -> None:
    """Half of the pictures replaced wholly must be worse than all of them blurred a little."""
    blurred = np.asarray(Pil.fromarray(corners).filter(ImageFilter.GaussianBlur(1)))
    replaced, same, soft = (
        compare_edit(corners, edited, aligned=True).value for edited in (draw_picture(4), corners, blurred)
    )
    assert (replaced + same) / 2 > 10 * soft


def test_another_size_alone_is_left_to_the_alignment(corners: np.ndarray) -> None:
    for size in ((240, 160), (720, 480), (481, 320)):
        found = compare_edit(corners, resize(corners, *size), aligned=True)
        assert isinstance(found, Score)
        assert "resized" not in found.evidence


def test_the_signature_tells_how_it_is_aligned() -> None:
    specs = [PixelComparison("source", aligned=True, as_is=one).spec() for one in (False, True)]
    assert specs[0] != specs[1]


async def test_alignments_take_turns(corners: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twelve that take half of the budget: two at a time, whatever the number of threads."""
    working: list[int] = []
    most = []

    def count_alignment(*given: Any, **more: Any) -> Any:
        working.append(1)
        most.append(len(working))
        time.sleep(0.02)
        found = align(*given, **more)
        working.pop()
        return found

    align = module.align
    monkeypatch.setattr(module, "align", count_alignment)
    each = corners.shape[0] * corners.shape[1] * module.ALIGNING_BYTES_A_PIXEL
    monkeypatch.setattr(module, "_ALIGNING", MemoryBudget(2 * each))
    small = corners[::2, ::2].copy()
    edit = Edit.load(source=corners, edited=small, instruction="x")
    scorer, panel = PixelComparison("source", aligned=True), cast("Any", None)
    monkeypatch.setattr(module, "ALIGNERS", ThreadPoolExecutor(12))
    await asyncio.gather(*(scorer.score(edit, panel, MSE) for _ in range(12)))
    assert len(most) == 12
    assert max(most) == 2
