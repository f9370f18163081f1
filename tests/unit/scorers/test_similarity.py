"""What similarity scorers send, and what they make of the replies."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from editjudge.base.images import decode
from editjudge.base.item import Edit
from editjudge.base.verdict import NoScore, Score
from editjudge.scorers.similarity import FeatureSimilarity, Lpips


class Recording:
    """A panel that answers with what it is given, and keeps what it was asked."""

    def __init__(self, **reply: Any) -> None:
        self.reply = reply
        self.asked: list[tuple[dict[str, bytes], dict[str, str]]] = []

    async def call(self, service: str, inputs: Any, parameters: Any = None) -> dict[str, Any]:
        self.asked.append((inputs, parameters))
        return self.reply


WHOLE, INSIDE = frozenset({"whole"}), frozenset({"inside"})
LPIPS, FEATURES = Lpips("lpips.vgg", "source"), FeatureSimilarity("features.dinov2", "source")


def edit_of(source: np.ndarray, edited: np.ndarray, mask: Any = None) -> Edit:
    return Edit.load(source=source, edited=edited, instruction="x", mask=mask)


async def test_an_edit_of_the_same_size_travels_as_it_is(photo: np.ndarray) -> None:
    panel = Recording(DISTANCE=np.array([0.25], np.float32))
    edit = edit_of(photo, photo)
    got = await LPIPS.score(edit, panel, WHOLE)
    assert got == {"whole": Score(value=0.25)}
    ((inputs, parameters),) = panel.asked
    assert inputs["IMAGE_B"] is edit.output.encoded_bytes
    assert "MASK" not in inputs
    assert parameters == {"region": "weight"}


async def test_an_edit_of_another_size_is_resized_and_noted(photo: np.ndarray) -> None:
    panel = Recording(DISTANCE=np.array([0.25], np.float32))
    got = await LPIPS.score(edit_of(photo, photo[::2, ::2].copy()), panel, WHOLE)
    assert got["whole"].evidence == {"resized": "64x48 to 128x96 (Lanczos)"}
    assert decode(panel.asked[0][0]["IMAGE_B"])[0].shape == photo.shape


async def test_each_image_gets_the_mask_at_its_own_size(photo: np.ndarray) -> None:
    panel = Recording(EMBEDDING=np.array([0.6, 0.8], np.float32))
    mask = np.zeros(photo.shape[:2], bool)
    mask[:48] = True
    got = await FEATURES.score(edit_of(photo, photo[::2, ::2].copy(), mask), panel, INSIDE)
    assert got["inside"].value == pytest.approx(1)
    for inputs, parameters in panel.asked:
        assert decode(inputs["MASK"])[0].shape == decode(inputs["IMAGE"])[0].shape
        assert parameters == {"region": "pool"}


async def test_an_empty_region_is_not_asked(photo: np.ndarray) -> None:
    panel = Recording(EMBEDDING=np.array([1.0], np.float32))
    mask = np.zeros(photo.shape[:2], bool)
    got = await FEATURES.score(edit_of(photo, photo, mask), panel, INSIDE)
    assert isinstance(got["inside"], NoScore)
    assert panel.asked == []
