"""An untrained Sa2VA that finds a region for every phrase; a plain untrained one never does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import PreTrainedTokenizerFast

from editjudge_services.segmentation.recipe import RECIPES
from editjudge_services.segmentation.sa2va import SEG
from editjudge_services.segmentation.sa2va_recipe import Sa2VaRecipe
from editjudge_services.segmentation.sa2va_weights import LINEARS, LMM
from editjudge_services.segmentation.segmenter_service import Sa2VaSegmenter

_END = "<|im_end|>"
_AT = 0
"""The coordinate of the language model's states that says whether the last token was [SEG]."""
# The layers move that coordinate by less than its first value, and so never turn its sign.
_FIRST, _SURE = 3.0, 30.0
# Random linears give almost the same word for every phrase; this much more, and masks differ.
_LOUD = 30.0


@contextmanager
def make_sa2va_speak() -> Iterator[None]:
    """An untrained Sa2VA that is made now is a `SpeakingSa2Va`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(RECIPES, Sa2VaSegmenter.entry, SpeakingSa2Va())
        yield


class SpeakingSa2Va(Sa2VaRecipe):
    """Its greedy answer to everything is [SEG] and the end of the turn.

    One coordinate is high in the embedding of every token but [SEG], and low in that one. The
    output row of [SEG] reads this coordinate, that of the end its opposite, and no other row
    reads it. All else is as random as before, the masks too: they cover 0.1 to 0.4 of a picture.
    """

    def make_untrained(self, folder: Path) -> None:
        """Save the tiny checkpoint with these rows set by hand."""
        super().make_untrained(folder)
        tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
        seg, end = (int(tokenizer.convert_tokens_to_ids(one)) for one in (SEG, _END))
        weights = load_file(folder / "model.safetensors")
        _let_speak(weights, seg, end)
        save_file(weights, folder / "model.safetensors")


def _let_speak(weights: dict[str, torch.Tensor], seg: int, end: int) -> None:
    read = weights[f"{LMM}model.language_model.embed_tokens.weight"]
    read[:, _AT] = _FIRST
    read[seg, _AT] = -_FIRST
    said = weights[f"{LMM}lm_head.weight"]
    said[:, _AT] = 0
    said[[seg, end]] = 0
    said[seg, _AT], said[end, _AT] = _SURE, -_SURE
    weights[f"{LINEARS}2.weight"] *= _LOUD
