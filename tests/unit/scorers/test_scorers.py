"""The pixel comparison and the text measure, as verdicts."""

from __future__ import annotations

import unicodedata
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from skimage.metrics import peak_signal_noise_ratio, structural_similarity

from editjudge.base.errors import BadReply
from editjudge.base.images import load_image
from editjudge.base.item import MAX_TEXT_CHARACTERS, Edit, Item
from editjudge.base.verdict import NoScore, Score
from editjudge.scorers.pixels import PixelComparison
from editjudge.scorers.specialists import TextContent, _sort_marks, comparable, text_accuracy

from ...verdicts import abstains, why_not
from .test_similarity import Recording

METRICS = ("mse", "psnr", "ssim")


def compare_pixels(source: np.ndarray, edited: np.ndarray, mask: Any = None) -> dict[str, Any]:
    edit = Edit.load(source=source, edited=edited, instruction="x", mask=mask)
    regions = ("whole",) if mask is None else ("whole", "inside", "outside")
    wanted = frozenset(f"{m}.{r}" for m in METRICS for r in regions)
    return dict(PixelComparison("source").compare(edit, wanted))


@pytest.fixture
def lighter_photo(photo: np.ndarray) -> np.ndarray:
    """The photo, lighter in its left half."""
    edited = photo.copy()
    edited[:, :64] = np.clip(edited[:, :64].astype(int) + 40, 0, 255)
    return edited


@pytest.fixture
def left() -> np.ndarray:
    mask = np.zeros((96, 128), bool)
    mask[:, :64] = True
    return mask


def test_inside_outside_and_whole(photo: Any, lighter_photo: Any, left: Any) -> None:
    got = compare_pixels(photo, lighter_photo, left)
    assert got["mse.outside"].value == 0
    assert got["mse.inside"].value == pytest.approx(2 * got["mse.whole"].value)
    assert got["psnr.whole"].value == pytest.approx(peak_signal_noise_ratio(photo, lighter_photo))
    assert got["ssim.whole"].value == pytest.approx(
        structural_similarity(photo, lighter_photo, channel_axis=2), abs=1e-6
    )
    assert got["ssim.outside"].value == 1 > got["ssim.whole"].value > got["ssim.inside"].value
    assert got["mse.inside"].evidence["region_share"] == 0.5


@pytest.mark.parametrize("field", ["mae.whole", "mse.around", "mse"])
def test_a_field_that_is_not_there_is_refused(photo: Any, left: Any, field: str) -> None:
    edit = Edit.load(source=photo, edited=photo, instruction="x", mask=left)
    with pytest.raises(ValueError, match="there is"):
        PixelComparison("source").compare(edit, frozenset({field}))


def test_identical_images_are_capped_and_flagged(photo: Any) -> None:
    got = compare_pixels(photo, photo)
    assert got["psnr.whole"].value == 100
    assert got["psnr.whole"].evidence["capped"] is True
    assert got["mse.whole"].value == 0
    assert got["ssim.whole"].value == 1


@pytest.mark.parametrize(("mask", "without"), [(False, "inside"), (True, "outside")])
def test_an_empty_region_is_no_number(photo: Any, mask: bool, without: str) -> None:
    everywhere = np.full((96, 128), mask)
    got = compare_pixels(photo, photo, everywhere)
    for metric in METRICS:
        why_not(got[f"{metric}.{without}"], "degenerate")
        assert isinstance(got[f"{metric}.whole"], Score)


def test_another_size_is_resized_and_noted(photo: Any) -> None:
    got = compare_pixels(photo, photo[::2, ::2].copy())
    assert got["psnr.whole"].evidence["resized"] == "64x48 to 128x96 (Lanczos)"


def test_a_mask_follows_the_references_size(photo: Any, lighter_photo: Any, left: Any) -> None:
    assert compare_pixels(photo, lighter_photo, left[::2, ::2].copy())["mse.outside"].value == 0


def test_a_region_too_thin_for_a_window_has_no_ssim(photo: Any, lighter_photo: Any) -> None:
    mask = np.ones((96, 128), bool)
    mask[:, :6] = False
    got = compare_pixels(photo, lighter_photo, mask)
    assert isinstance(got["mse.outside"], Score)
    assert "too thin for SSIM" in why_not(got["ssim.outside"], "degenerate")


@pytest.mark.parametrize("size", [(1, 1), (6, 40)])
def test_tiny_images_have_no_ssim(size: tuple[int, int]) -> None:
    image = np.full((*size, 3), 10, np.uint8)
    got = compare_pixels(image, image + 5)
    assert isinstance(got["ssim.whole"], NoScore)
    assert got["mse.whole"].value == 25


@pytest.mark.parametrize("plausible", [True, False])
def test_an_edit_that_cannot_be_aligned(photo: Any, plausible: bool) -> None:
    flat = np.full_like(photo, 127)
    edit = Edit.load(source=photo, edited=flat, instruction="x")
    scorer = PixelComparison("source", aligned=True, plausible=plausible)
    for name, verdict in scorer.compare(edit, frozenset({"mse.whole", "psnr.whole"})).items():
        if plausible:
            assert verdict.value == compare_pixels(photo, flat)[name].value
            assert "keypoints" in verdict.evidence["unaligned"]
        else:
            assert isinstance(verdict, NoScore)
            assert "keypoints" in verdict.reason


EQUAL = [
    ("SALE", "SALE"),
    ("SALE\n50%", "SALE 50%"),
    ("限时\n优惠", "限时优惠"),
    ("限时 优惠 50 %", "限时优惠 50 %"),
    ("ＳＡＬＥ", "SALE"),
    ("  two   words ", "two words"),
    ("ｶﾞ", "ガ"),
    ("", ""),
]
UNEQUAL = [
    ("SALE", "sale", 0.0),
    ("SALE", "SAIE", 0.75),
    ("", "SALE", 0.0),
    ("SALE", "", 0.0),
    ("twowords", "two words", 1 - 1 / 9),
    ("优惠", "优恵", 0.5),
]


@pytest.mark.parametrize(("read", "target"), EQUAL)
def test_layout_and_width_are_no_spelling_mistakes(read: str, target: str) -> None:
    assert text_accuracy(read, target) == 1


@pytest.mark.parametrize(("read", "target", "expected"), UNEQUAL)
def test_letters_are(read: str, target: str, expected: float) -> None:
    assert text_accuracy(read, target) == pytest.approx(expected)


async def content(target: str, text: bytes = b"") -> Any:
    """What becomes of a text that OCR reads."""
    image = load_image(np.zeros((8, 8, 3), np.uint8))
    edit = Edit(Item("1", "x", (image,), target_text=target), "m", image)
    reader = Recording(TEXT=text, CONFIDENCE=np.zeros(0, np.float32))
    return (await TextContent("ocr.got").score(edit, reader, frozenset({"accuracy"})))["accuracy"]


async def test_no_text_where_some_is_due_is_0() -> None:
    assert (await content("SALE")).value == 0


async def test_what_is_no_text_is_no_number() -> None:
    with pytest.raises(BadReply, match="no UTF-8"):
        await content("SALE", b"\xff\xfeS\x00A\x00")


@pytest.mark.parametrize("target", [" ", "\u3000", "\n\t "])
async def test_a_blank_target_is_no_number(target: str) -> None:
    """It would be right to the letter in an image without any text."""
    with abstains("degenerate", "blank"):
        await content(target)


async def test_a_target_that_unfolds_to_a_book_is_no_number() -> None:
    """One character of it becomes 18."""
    with abstains("degenerate", "294,912 characters"):
        await content("\ufdfa" * MAX_TEXT_CHARACTERS)


_MARKS = st.text(st.sampled_from("aé한ｶﾞﷺ \u0301\u0323\u0327\u0344\u0345\u3099\u0f71"))


@given(st.text() | _MARKS)
def test_the_order_of_marks_is_that_of_unicode(text: str) -> None:
    assert unicodedata.normalize("NFKC", _sort_marks(text)) == unicodedata.normalize("NFKC", text)


@pytest.mark.timeout(20)
def test_marks_on_one_letter_are_read_quickly() -> None:
    above, below = "\u0301" * 200_000, "\u0323" * 200_000
    assert comparable(f"a{above}{below}") == f"\u1ea1{below[1:]}{above}"


@given(st.text(), st.text())
def test_text_accuracy_is_bounded_and_symmetric(one: str, other: str) -> None:
    accuracy = text_accuracy(one, other)
    assert 0 <= accuracy <= 1
    assert accuracy == text_accuracy(other, one)
    assert (accuracy == 1) == (comparable(one) == comparable(other))


@given(st.text())
def test_comparable_is_idempotent(text: str) -> None:
    assert comparable(comparable(text)) == comparable(text)
