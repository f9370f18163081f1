"""What an item accepts, and when dimensions apply to it."""

from __future__ import annotations

import numpy as np
import pytest

from editjudge.base.errors import ImageError, TextError
from editjudge.base.item import MAX_TEXT_CHARACTERS, Edit

GREY = np.full((16, 16, 3), 90, np.uint8)

BAD_TEXTS = {
    "1 MB": ("x" * 1_000_000, "1,000,000 characters"),
    "bell": ("ring \x07", r"U\+0007 at 5"),
    "NUL": ("a\x00b", r"U\+0000 at 1"),
    "C1 control": ("a\x85b", r"U\+0085"),
    "not UTF-8": ("caf\udce9", "not UTF-8 at character 3"),
}


@pytest.mark.parametrize("case", BAD_TEXTS)
def test_bad_text_is_refused_with_its_place(case: str) -> None:
    text, reason = BAD_TEXTS[case]
    with pytest.raises(TextError, match=reason):
        Edit.load(source=GREY, edited=GREY, instruction=text)
    with pytest.raises(TextError, match=f"target text: .*{reason}"):
        Edit.load(source=GREY, edited=GREY, instruction="ok", target_text=text)


@pytest.mark.parametrize("text", ["", "two\nlines\tand a tab", "限时优惠 🎉", "e\u0301"])
def test_ordinary_text_is_kept_as_it_is(text: str) -> None:
    assert Edit.load(source=GREY, edited=GREY, instruction=text).item.instruction == text


def test_the_longest_text_is_accepted() -> None:
    Edit.load(source=GREY, edited=GREY, instruction="x" * MAX_TEXT_CHARACTERS)


def test_a_mask_must_fit_the_source() -> None:
    with pytest.raises(ImageError, match="mask of 16x4"):
        Edit.load(source=GREY, edited=GREY, instruction="", mask=np.ones((4, 16), bool))


def test_several_sources() -> None:
    edit = Edit.load(source=[GREY, GREY], edited=GREY, instruction="merge them")
    assert len(edit.item.sources) == 2
    assert edit.item.source is None
