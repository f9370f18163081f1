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
from editjudge.base.verdict import NoScore, Score, Verdict
from editjudge.scorers import pixels as module
from editjudge.scorers.keypoints import MemoryBudget
from editjudge.scorers.pixels import PixelComparison

MSE = frozenset({"mse.whole"})


def compared(edit: Edit, **how: Any) -> Verdict:
    return PixelComparison("source", **how).compare(edit, MSE)["mse.whole"]


@pytest.fixture
def corners() -> np.ndarray:
    """A picture with plenty of corners for SIFT, uint8 (320, 480, 3)."""
    coarse = np.random.default_rng(0).integers(0, 256, (40, 60, 3), dtype=np.uint8)
    return np.asarray(Pil.fromarray(coarse).resize((480, 320), Pil.Resampling.BICUBIC))


def squeezed(image: np.ndarray, share: float) -> np.ndarray:
    """A picture made narrower."""
    size = round(image.shape[1] * share), image.shape[0]
    return np.asarray(Pil.fromarray(image).resize(size, Pil.Resampling.LANCZOS))


@pytest.mark.parametrize("share", [0.97, 0.94, 0.8, 0.5])
def test_a_squeeze_is_undone_before_aligning(corners: np.ndarray, share: float) -> None:
    edit = Edit.load(source=corners, edited=squeezed(corners, share), instruction="x")
    got = compared(edit, aligned=True)
    plain = compared(edit)
    assert isinstance(got, Score)
    assert isinstance(plain, Score)
    assert got.value < 3 * plain.value + 1, "the SSIM beside it is of that"
    assert got.evidence["resized"].endswith(" to 480x320 (Lanczos)")
    assert got.evidence["scale"] == pytest.approx(1, abs=0.01)
    raw = compared(edit, aligned=True, as_is=True, plausible=False)
    assert isinstance(raw, NoScore) or raw.value > 5 * got.value


@pytest.mark.parametrize("changed", ["cropped", "low", "padded"])
def test_a_crop_is_not_taken_for_a_squeeze(corners: np.ndarray, changed: str) -> None:
    edited = {
        "cropped": corners[:, 14:-14],
        "low": corners[8:-8],
        "padded": np.pad(corners, ((0, 0), (0, 80), (0, 0))),
    }[changed]
    edit = Edit.load(source=corners, edited=np.ascontiguousarray(edited), instruction="x")
    got, raw = compared(edit, aligned=True), compared(edit, aligned=True, as_is=True)
    assert isinstance(got, Score)
    assert got == raw
    assert "resized" not in got.evidence
    assert got.evidence["residual"] < 0.1


def test_what_cannot_be_aligned_either_way_is_measured_resized(corners: np.ndarray) -> None:
    other = np.random.default_rng(9).integers(0, 256, (40, 40, 3), dtype=np.uint8)
    edited = np.asarray(Pil.fromarray(other).resize((320, 320), Pil.Resampling.BICUBIC))
    edit = Edit.load(source=corners, edited=edited, instruction="x")
    got, plain = compared(edit, aligned=True), compared(edit)
    assert isinstance(got, Score)
    assert isinstance(plain, Score)
    assert got.value == plain.value > 1000
    assert "4 are needed" in str(got.evidence["unaligned"])
    assert got.evidence["resized"] == "320x320 to 480x320 (Lanczos)"


def test_whether_it_was_aligned_is_a_field(corners: np.ndarray) -> None:
    flat = Edit.load(source=corners, edited=np.full_like(corners, 90), instruction="x")
    same = Edit.load(source=corners, edited=corners, instruction="x")
    scorer = PixelComparison("source", aligned=True)
    shares = [scorer.compare(edit, frozenset({"unaligned"}))["unaligned"] for edit in (flat, same)]
    assert [one.value for one in shares if isinstance(one, Score)] == [1, 0]


def test_the_worst_edits_do_not_leave_the_mean(corners: np.ndarray) -> None:
    """Half of the pictures replaced wholly must be worse than all of them blurred a little."""
    rng = np.random.default_rng(4)
    coarse = rng.integers(0, 256, (40, 60, 3), dtype=np.uint8)
    other = np.asarray(Pil.fromarray(coarse).resize((480, 320), Pil.Resampling.BICUBIC))
    blurred = np.asarray(Pil.fromarray(corners).filter(ImageFilter.GaussianBlur(1)))
    half = [
        compared(Edit.load(source=corners, edited=edited, instruction="x"), aligned=True)
        for edited in (other, corners)
    ]
    all_ = compared(Edit.load(source=corners, edited=blurred, instruction="x"), aligned=True)
    assert isinstance(all_, Score)
    values = [one.value for one in half if isinstance(one, Score)]
    assert len(values) == 2
    assert np.mean(values) > 10 * all_.value


def test_another_size_alone_is_left_to_the_alignment(corners: np.ndarray) -> None:
    for size in ((240, 160), (720, 480), (481, 320)):
        resized = np.asarray(Pil.fromarray(corners).resize(size, Pil.Resampling.LANCZOS))
        edit = Edit.load(source=corners, edited=resized, instruction="x")
        found = compared(edit, aligned=True)
        assert isinstance(found, Score)
        assert "resized" not in found.evidence


def test_the_signature_tells_how_it_is_aligned() -> None:
    specs = [PixelComparison("source", aligned=True, as_is=one).spec() for one in (False, True)]
    assert specs[0] != specs[1]


async def test_alignments_take_turns(corners: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twelve that take half of the budget: two at a time, whatever the number of threads."""
    working: list[int] = []
    most = []

    def counted(*given: Any, **more: Any) -> Any:
        working.append(1)
        most.append(len(working))
        time.sleep(0.02)
        found = align(*given, **more)
        working.pop()
        return found

    align = module.align
    monkeypatch.setattr(module, "align", counted)
    each = corners.shape[0] * corners.shape[1] * module.ALIGNING_BYTES_A_PIXEL
    monkeypatch.setattr(module, "_ALIGNING", MemoryBudget(2 * each))
    small = corners[::2, ::2].copy()
    edit = Edit.load(source=corners, edited=small, instruction="x")
    scorer, panel = PixelComparison("source", aligned=True), cast("Any", None)
    monkeypatch.setattr(module, "_ALIGNERS", ThreadPoolExecutor(12))
    await asyncio.gather(*(scorer.score(edit, panel, MSE) for _ in range(12)))
    assert len(most) == 12
    assert max(most) == 2
