"""What a checkpoint answers according to transformers, without any server."""

from __future__ import annotations

import io
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
import torch
from PIL import Image as Pil
from transformers import (
    AutoModelForImageTextToText,
    GotOcr2ImageProcessorPil,
    PreTrainedTokenizerFast,
    Qwen2VLImageProcessorPil,
)

from editjudge.panel.choices import list_labels, select_label_tokens
from editjudge.panel.prompt import Picture, Prompt, Text


def picture(seed: int, side: int = 64) -> Picture:
    """Coarse coloured squares; small enough not to be resized by anyone."""
    rng = np.random.default_rng(seed)
    small = Pil.fromarray(rng.integers(0, 256, (4, 4, 3), dtype=np.uint8))
    buffer = io.BytesIO()
    small.resize((side, side), Pil.Resampling.NEAREST).save(buffer, "PNG")
    return Picture(buffer.getvalue(), "image/png", (side, side))


@cache
def tokens_of(folder: Path) -> PreTrainedTokenizerFast:
    return PreTrainedTokenizerFast.from_pretrained(folder)


@cache
def _model(folder: Path) -> torch.nn.Module:
    return AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32).eval()


@cache
def logprobs(folder: Path, prompt: Prompt) -> torch.Tensor:
    """Log-probabilities of the first token of the reply, over the whole vocabulary."""
    qwen = "artimuse" not in folder.name
    image = "<|vision_start|><|image_pad|><|vision_end|>" if qwen else "<IMG_CONTEXT>"
    text = "".join(_turns(prompt, image))
    images = [Pil.open(io.BytesIO(one.data)).convert("RGB") for one in prompt.pictures]
    kind = Qwen2VLImageProcessorPil if qwen else GotOcr2ImageProcessorPil
    seen = kind.from_pretrained(folder)(images=images, return_tensors="pt")
    if qwen:
        pad = "<|image_pad|>"
        counts = [int(grid.prod()) // 4 for grid in seen["image_grid_thw"]]
        pads = [pad * count for count in counts]
    else:
        pad = "<IMG_CONTEXT>"
        count = _model(folder).config.image_seq_length
        pads = [f"<img>{pad * count}</img>"] * len(images)
        seen.pop("num_patches", None)
    head, *rest = text.split(pad)
    text = head + "".join(one + more for one, more in zip(pads, rest, strict=True))
    inputs = {**tokens_of(folder)(text, return_tensors="pt"), **seen}
    inputs.pop("token_type_ids", None)
    if qwen:
        inputs["mm_token_type_ids"] = (inputs["input_ids"] == tokens_of(folder).convert_tokens_to_ids(pad)).int()
    with torch.inference_mode():
        last = _model(folder)(**inputs, logits_to_keep=1).logits[0, -1].float()
    return torch.log_softmax(last, -1)


def choice_ids(folder: Path, choices: Sequence[str]) -> dict[int, str]:
    """Every token that stands for one choice, with that choice."""
    tokens = tokens_of(folder)
    ids = {text: tokens.encode(text, add_special_tokens=False) for text in list_labels(choices)}
    return select_label_tokens(choices, {text: of[0] if len(of) == 1 else None for text, of in ids.items()})


def spread_of(found: torch.Tensor, ids: dict[int, str], choices: Sequence[str]) -> tuple[dict[str, float], float]:
    """Probability of each choice, and what is left for all other tokens."""
    mass = {c: sum(float(found[i].exp()) for i, d in ids.items() if d == c) for c in choices}
    total = sum(mass.values())
    return {c: m / total for c, m in mass.items()}, 1 - total


def _turns(prompt: Prompt, image: str) -> list[str]:
    return [
        f"<|im_start|>system\n{prompt.system}<|im_end|>\n" if prompt.system else "",
        "<|im_start|>user\n",
        *(part.text if isinstance(part, Text) else image for part in prompt.parts),
        "<|im_end|>\n<|im_start|>assistant\n",
    ]
