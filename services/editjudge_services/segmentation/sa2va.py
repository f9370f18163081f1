"""Sa2VA composed from transformers' own Qwen3-VL and SAM-2.

Yuan et al., Sa2VA (2025), section 3: the language model answers with a token [SEG] for a region;
the hidden state of that token, through two linear layers, is an additional prompt token of SAM-2's
mask decoder. The official code needs CUDA and an older transformers. This module computes the same
on any device, with one exception: the official code rounds an image to multiples of 28 pixels
before the language model's own rounding to 32; here the image is resized once. The results have
not been compared with the official code on the published weights.

I2I-Bench separates subject and background with Sa2VA.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image as Pil
from torch import nn

from editjudge.base.images import RGB

from ..runtime.preprocess import BICUBIC, IMAGENET, Rule
from ..zoo.transformers_tools import load_settings, save_settings
from .masks import Segmentation, Select, clean_phrase, unite_masks

SEG = "[SEG]"
_IMAGE = "<|image_pad|>"
_BEFORE = "<|im_start|>user\n<|vision_start|>{image}<|vision_end|>"
_AFTER = "<|im_end|>\n<|im_start|>assistant\n"
_QUESTION = "Please segment {phrase} in this image."


SETTINGS: Mapping[str, int] = {"least_pixels": 512 * 28 * 28, "most_pixels": 2048 * 28 * 28, "max_new_tokens": 256}
"""Settings that the official code fixes: pixels of the language model's image, and tokens of an
answer. The official code allows 2048 tokens; an answer is one sentence, and longer ones only repeat
themselves."""


def make_linears(width: int, out: int) -> nn.Sequential:
    """Make the layers `text_hidden_fcs`, which turn a hidden state into a prompt token."""
    return nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, out))


class Sa2Va:
    """Qwen3-VL, the linear layers and SAM-2.

    Args:
        lmm: `Qwen3VLForConditionalGeneration`, any precision.
        tokenizer: Its tokenizer, with [SEG].
        head: As `make_linears` makes it, in the same precision.
        sam2: `Sam2Model` in fp32, since logits near 0 decide the edge of a mask.
    """

    def __init__(self, lmm: Any, tokenizer: Any, head: nn.Sequential, sam2: Any, settings: Mapping[str, int]) -> None:
        from transformers import Qwen2VLImageProcessorPil

        self.lmm, self._tokenizer, self.head, self.sam2 = lmm, tokenizer, head, sam2
        self.settings = settings
        self._side = int(sam2.config.prompt_encoder_config.image_size)
        self._squash = Rule(self._side, IMAGENET, BICUBIC)
        self.seg = int(tokenizer.convert_tokens_to_ids(SEG))
        self._ends = [int(tokenizer.convert_tokens_to_ids(one)) for one in ("<|im_end|>", "<|endoftext|>")]
        vision = lmm.config.vision_config
        pixels: Any = Qwen2VLImageProcessorPil
        self._pixels = pixels(
            patch_size=vision.patch_size,
            temporal_patch_size=vision.temporal_patch_size,
            merge_size=vision.spatial_merge_size,
            image_mean=[0.5] * 3,
            image_std=[0.5] * 3,
            size={"shortest_edge": self.settings["least_pixels"], "longest_edge": self.settings["most_pixels"]},
        )

    @classmethod
    def from_folder(cls, folder: Path, device: str = "cpu") -> Sa2Va:
        """Load the networks that `save` wrote."""
        from safetensors.torch import load_file
        from transformers import PreTrainedTokenizerFast, Qwen3VLForConditionalGeneration, Sam2Model

        lmm: Any = Qwen3VLForConditionalGeneration.from_pretrained(folder / "lmm", dtype="auto")
        sam2: Any = Sam2Model.from_pretrained(folder / "sam2", dtype=torch.float32)
        state = load_file(folder / "text_hidden_fcs.safetensors")
        head = make_linears(*reversed(state["2.weight"].shape)).to(lmm.dtype)
        head.load_state_dict(state)
        tokenizer = PreTrainedTokenizerFast.from_pretrained(folder / "lmm")
        lmm, head, sam2 = (one.to(device).eval() for one in (lmm, head, sam2))
        return cls(lmm, tokenizer, head, sam2, load_settings(folder))

    def save(self, folder: Path, dtype: torch.dtype) -> None:
        """Write the networks as safetensors; casts all but SAM-2 to `dtype`, in place."""
        from safetensors.torch import save_file

        self.lmm.to(dtype).save_pretrained(folder / "lmm")
        self._tokenizer.save_pretrained(folder / "lmm")
        self.sam2.save_pretrained(folder / "sam2")
        save_file(self.head.to(dtype).state_dict(), folder / "text_hidden_fcs.safetensors")
        save_settings(folder, self.settings)

    def segment(self, image: RGB, prompt: str, select: Select = "all") -> Segmentation:
        """Segment the things that a phrase names in an image.

        Args:
            image: uint8 (H, W, 3).
            prompt: A noun phrase.
            select: The union of the regions of all [SEG] in the answer, or the region with the
                highest predicted IoU.

        Returns:
            The segmentation; without a mask if the answer has no [SEG], since the model then
            found nothing.

        Raises:
            BadRequest: the prompt is empty.
        """
        answer = self.answer(image, prompt)
        logits, quality = self.mask_logits(image, prompt, answer)
        if len(quality) == 0:
            return Segmentation()
        if select == "best":
            best = int(quality.argmax())
            logits, quality = logits[best : best + 1], quality[best : best + 1]
        stretch = nn.functional.interpolate
        side = (self._side, self._side)
        full = stretch(logits[:, None], side, mode="bilinear", align_corners=False)
        original = stretch(full, image.shape[:2], mode="bilinear", align_corners=False)
        mask = unite_masks((original[:, 0] > 0).cpu().numpy())
        if mask is None:
            return Segmentation()
        return Segmentation(mask, float(quality.max().clamp(0, 1)))

    @torch.inference_mode()
    def answer(self, image: RGB, prompt: str) -> list[int]:
        """Generate the model's greedy answer, as token ids."""
        from transformers import GenerationConfig

        inputs = self._inputs(image, prompt, [])
        length = inputs["input_ids"].shape[1]
        config: Any = GenerationConfig
        sequences = self.lmm.generate(
            **inputs,
            # The checkpoint's own configuration would turn sampling on.
            generation_config=config(
                do_sample=False,
                max_new_tokens=self.settings["max_new_tokens"],
                eos_token_id=self._ends,
                pad_token_id=self._ends[-1],
            ),
        )
        ids: list[int] = sequences[0, length:].tolist()
        return ids

    @torch.inference_mode()
    def mask_logits(self, image: RGB, prompt: str, answer: Sequence[int]) -> tuple[torch.Tensor, torch.Tensor]:
        """Compute a region for each [SEG] of an answer: the most confident of SAM-2's three.

        Returns:
            Logits float32 (n, h, w) at SAM-2's own resolution, inside above 0; and the
            predicted IoU of each, float32 (n,).
        """
        states = self.states(image, prompt, answer)
        if len(states) == 0:
            return torch.zeros(0, 1, 1), torch.zeros(0)
        words = self.head(states).float()
        pixels = torch.from_numpy(self._squash(image))[None].to(words.device)
        fine, medium, coarse = self.sam2.get_image_embeddings(pixels)
        count = len(words)
        # As in the official code, SAM-2 gets one point marked as padding, then the prompt tokens.
        sparse, dense = self.sam2.prompt_encoder(
            input_points=torch.zeros(1, count, 1, 2, device=words.device),
            input_labels=-torch.ones(1, count, 1, dtype=torch.int32, device=words.device),
            input_boxes=None,
            input_masks=None,
        )
        masks, quality, _, _ = self.sam2.mask_decoder(
            image_embeddings=coarse,
            image_positional_embeddings=self.sam2.get_image_wide_positional_embeddings(),
            sparse_prompt_embeddings=torch.cat([sparse, words[None, :, None]], dim=2),
            dense_prompt_embeddings=dense,
            multimask_output=True,
            high_resolution_features=[fine, medium],
        )
        best = quality[0].argmax(-1)
        each = torch.arange(count, device=words.device)
        return masks[0, each, best], quality[0, each, best]

    @torch.inference_mode()
    def states(self, image: RGB, prompt: str, answer: Sequence[int]) -> torch.Tensor:
        """Compute the last layer's output (n, width) at each [SEG] of the answer.

        A second pass over prompt and answer gives the states of the generation (within 6e-7)
        without storing those of every layer and step. As in the official code, a [SEG] at the
        end of the answer has no state. Unlike there, a [SEG] in the prompt is plain text.
        """
        is_seg = torch.tensor([one == self.seg for one in answer[:-1]], dtype=torch.bool)
        if not is_seg.any():
            return torch.zeros(0, 1)
        inputs = self._inputs(image, prompt, answer[:-1])
        states = self.lmm.model(**inputs).last_hidden_state[0, -len(is_seg) :]
        seg_states: torch.Tensor = states[is_seg.to(states.device)]
        return seg_states

    def _inputs(self, image: RGB, prompt: str, answer: Sequence[int]) -> dict[str, torch.Tensor]:
        """Prepare the language model's inputs from prompt, image and the start of an answer."""
        pixels = self._pixels(images=[Pil.fromarray(image)], return_tensors="pt")
        grid: NDArray[np.int64] = pixels["image_grid_thw"]
        tokens = int(grid[0].prod()) // self._pixels.merge_size**2
        question = _QUESTION.format(phrase=clean_phrase(prompt))

        def encode(text: str, *, plain: bool = False) -> list[int]:
            ids: list[int] = self._tokenizer(text, add_special_tokens=False, split_special_tokens=plain)["input_ids"]
            return ids

        ids = encode(_BEFORE.format(image=_IMAGE * tokens))
        # The question is data, so that "[SEG]" or "<|im_end|>" in it are plain text.
        ids += encode(question, plain=True) + encode(_AFTER) + list(answer)
        rows = torch.tensor([ids])
        inputs = {
            "input_ids": rows,
            "attention_mask": torch.ones_like(rows),
            "mm_token_type_ids": (rows == self.lmm.config.image_token_id).int(),
            "pixel_values": pixels["pixel_values"].to(self.lmm.dtype),
            "image_grid_thw": grid,
        }
        return {name: value.to(self.lmm.device) for name, value in inputs.items()}
