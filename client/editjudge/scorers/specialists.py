"""Scorers that make one call to a specialist."""

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from itertools import groupby
from typing import ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from ..base.errors import Abstention, BadReply
from ..base.item import MAX_TEXT_CHARACTERS, Edit
from ..base.signature import implementation
from ..base.verdict import Score, Verdicts
from ..panel import Panel
from .scorer import ServiceScorer


@dataclass(frozen=True)
class Quality(ServiceScorer):
    """A no-reference quality specialist's score of the edited image alone.

    Field `score`, in [0, 1], higher is better.
    """

    name: ClassVar[str] = "quality"
    reads_pixels = False

    async def score(self, edit: Edit, panel: Panel, fields: frozenset[str]) -> Verdicts:
        """Call the specialist once."""
        reply = await panel.call(self.service, {"IMAGE": edit.output.encoded_bytes})
        value = float(cast("NDArray[np.float32]", reply["SCORE"])[0])
        return {"score": Score(value=value)}


@dataclass(frozen=True)
class TextContent(ServiceScorer):
    """How much of the target text the edited image shows (I2I-Bench, section 3.2).

    Field `accuracy` = 1 - Levenshtein(read, target) / max(len(read), len(target)), in
    [0, 1], over Unicode code points of both texts after `comparable`. No text read where
    some is due scores 0; it is an answer, not a failure. A target that is blank then is
    `degenerate`: an image without any text would be right to the letter. So is one of more than
    16,384 characters after `comparable`, in which one character may become 18.
    """

    name: ClassVar[str] = "text_content"
    reads_pixels = False

    def dependencies(self, field: str) -> tuple[Callable[..., object], ...]:
        """The function that compares the texts."""
        return (text_accuracy,)

    async def score(self, edit: Edit, panel: Panel, fields: frozenset[str]) -> Verdicts:
        """Read the text of the image once and compare it with the target text."""
        target = edit.item.target_text or ""
        if not 0 < (length := len(comparable(target))) <= MAX_TEXT_CHARACTERS:
            raise Abstention("degenerate", f"the target text {f'has {length:,} characters' if length else 'is blank'}")
        reply = await panel.call(self.service, {"IMAGE": edit.output.encoded_bytes})
        read = _text(self.service, cast("bytes", reply["TEXT"]))
        confidences = cast("NDArray[np.float32]", reply["CONFIDENCE"])
        accuracy = text_accuracy(read, target)
        numbers = [round(float(c), 4) for c in confidences]
        evidence = {"read": read, "target": target, "confidences": numbers}
        return {"accuracy": Score.model_validate({"value": accuracy, "evidence": evidence})}


def _text(service: str, read: bytes) -> str:
    """Decode the text; a ledger of an earlier version may hold bytes that are no UTF-8."""
    try:
        return read.decode()
    except UnicodeDecodeError as error:
        raise BadReply(f"TEXT is no UTF-8: {error.reason}", service=service) from error


@implementation(1)
def text_accuracy(read: str, target: str) -> float:
    """One minus the normalised Levenshtein distance of two texts made `comparable`.

    Returns:
        0 (nothing in common) to 1 (equal); 1 when both are empty.
    """
    from rapidfuzz.distance import Levenshtein  # an import of its own weight, for one metric

    return float(Levenshtein.normalized_similarity(comparable(read), comparable(target)))


def comparable(text: str) -> str:
    """Normalise a text for comparison: NFKC, single spaces, and no space beside CJK.

    Line breaks are layout, and CJK is written without spaces, so neither is a spelling
    mistake. Case and punctuation count.
    """
    words = " ".join(unicodedata.normalize("NFKC", _sort_marks(text)).split())
    return re.sub(_BESIDE_CJK, "", words)


def _sort_marks(text: str) -> str:
    """Decompose a text and put its marks in order; `normalize` takes the square of their number for it."""
    parts = "".join(unicodedata.normalize("NFKD", character) for character in text)
    runs = groupby(parts, lambda character: unicodedata.combining(character) > 0)
    return "".join(each for _, run in runs for each in sorted(run, key=unicodedata.combining))


# Radicals to CJK symbols and kana, ideographs with extensions, compatibility forms.
_CJK = "[\u2e80-\u30ff\u31c0-\u31ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
_BESIDE_CJK = f"(?<={_CJK}) | (?={_CJK})"
