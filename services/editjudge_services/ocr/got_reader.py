"""GOT-OCR2.0: a vision encoder and a small language model that transcribes an image.

Wei et al., General OCR Theory (2024, arXiv:2409.01704), through transformers' own classes.
I2I-Bench reads edited text with it. It returns text without boxes or confidence.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from editjudge.base.images import RGB

from ..runtime.preprocess import BICUBIC, CLIP, Rule
from ..zoo.transformers_tools import load_network

_IMAGE = "<imgpad>"
_END = "<|im_end|>"
# The exact conversation that the network was trained on.
_PROMPT = (
    "<|im_start|>system\nYou should follow the instructions carefully and explain your answers"
    " in detail.<|im_end|><|im_start|>user\n<img>{image}</img>\n OCR: <|im_end|>"
    "<|im_start|>assistant\n"
)


MAX_NEW_TOKENS = 512
"""Most tokens for one image; a longer transcription is cut."""
_LONGEST_UNIT = 32
"""Most tokens of a piece whose repetition is detected."""
_REPETITIONS = 8
"""Fewest repetitions in a row that count as a loop."""
_SHORTEST_LOOP = 48
"""Fewest tokens of a loop, so that a row of dots is not one."""


def find_loop(tokens: Sequence[int]) -> int:
    """Return the length of the piece that repeats at the end of the tokens; 0 if none does.

    A piece counts as a loop from 8 repetitions in a row and 48 tokens in total.
    """
    for unit in range(1, _LONGEST_UNIT + 1):
        length = max(_REPETITIONS * unit, _SHORTEST_LOOP)
        tail = tokens[-length:]
        if len(tail) == length and all(a == b for a, b in zip(tail, tail[unit:], strict=False)):
            return unit
    return 0


def cut_loop(tokens: Sequence[int]) -> list[int]:
    """Reduce a loop at the end of the tokens to one piece."""
    unit = find_loop(tokens)
    if not unit:
        return list(tokens)
    start = len(tokens) - unit
    while start > 0 and tokens[start - 1] == tokens[start - 1 + unit]:
        start -= 1
    return list(tokens[: start + unit])


class GotReader:
    """Reads text with the network and its tokenizer.

    Args:
        network: `GotOcr2ForConditionalGeneration`.
        tokenizer: Its tokenizer.
    """

    def __init__(self, network: Any, tokenizer: Any, max_new_tokens: int) -> None:
        self.network, self._tokenizer = network, tokenizer
        self._max_new_tokens = max_new_tokens
        vision = network.config.vision_config
        self.pixels = Rule(int(vision.image_size), CLIP, BICUBIC)
        # The encoder's neck halves the grid of patches twice.
        tokens = (vision.image_size // vision.patch_size // 4) ** 2
        self.prompt: list[int] = tokenizer(_PROMPT.format(image=_IMAGE * tokens), add_special_tokens=False)["input_ids"]
        # The authors stop at this string, which is one token of the vocabulary.
        end = int(tokenizer.convert_tokens_to_ids(_END))
        self._ends = sorted({end, tokenizer.eos_token_id} - {None})
        self._pad = end if tokenizer.pad_token_id is None else int(tokenizer.pad_token_id)

    @classmethod
    def from_folder(
        cls, folder: Path, max_new_tokens: int = MAX_NEW_TOKENS, device: str = "cpu", dtype: torch.dtype | str = "auto"
    ) -> GotReader:
        """Load a checkpoint in the hub's layout."""
        import transformers

        library: Any = transformers
        network = load_network(library.GotOcr2ForConditionalGeneration, folder, dtype=dtype)
        tokenizer = library.PreTrainedTokenizerFast.from_pretrained(folder)
        return cls(network.to(device).eval(), tokenizer, max_new_tokens)

    def save(self, folder: Path) -> None:
        """Write network and tokenizer in the layout that `from_folder` reads."""
        self.network.save_pretrained(folder)
        self._tokenizer.save_pretrained(folder)

    def read(self, images: Sequence[RGB]) -> list[str]:
        """Read images, greedily.

        All prompts are equal, so that a batch needs no padding and the text of an image depends
        on the others only by rounding.

        Args:
            images: uint8 (H, W, 3), at least one.

        Returns:
            The text of each image as the network wrote it, without surrounding blanks; "" if it
            read nothing. If the text repeats itself, as on images without text, generation stops
            and the loop is reduced to one piece.
        """
        return [self._reading(tokens) for tokens in self._generate(images)]

    @torch.inference_mode()
    def first_words(self, images: Sequence[RGB]) -> torch.Tensor:
        """Compute the probability of each first token, float32 (B, vocabulary)."""
        inputs = self._inputs(images)
        logits: torch.Tensor = self.network(**inputs, logits_to_keep=1).logits[:, -1]
        return logits.float().softmax(-1).cpu()

    def _inputs(self, images: Sequence[RGB]) -> dict[str, torch.Tensor]:
        ids = torch.tensor([self.prompt] * len(images), device=self.network.device)
        pixels = torch.stack([torch.from_numpy(self.pixels(image)) for image in images])
        return {
            "input_ids": ids,
            "attention_mask": torch.ones_like(ids),
            "pixel_values": pixels.to(self.network.device, self.network.dtype),
        }

    @torch.inference_mode()
    def _generate(self, images: Sequence[RGB]) -> list[list[int]]:
        import transformers

        library: Any = transformers
        length = len(self.prompt)
        sequences = self.network.generate(
            **self._inputs(images),
            generation_config=library.GenerationConfig(
                do_sample=False, max_new_tokens=self._max_new_tokens, eos_token_id=self._ends, pad_token_id=self._pad
            ),
            stopping_criteria=library.StoppingCriteriaList([self._find_looping_rows]),
        )
        rows: list[list[int]] = sequences[:, length:].tolist()
        return rows

    def _find_looping_rows(self, ids: torch.Tensor, _scores: Any, **_: Any) -> torch.Tensor:
        """Stop the rows that repeat themselves (a stopping criterion)."""
        answers = ids[:, len(self.prompt) :].tolist()
        looping = [bool(find_loop(answer)) for answer in answers]
        return torch.tensor(looping, device=ids.device)

    def _reading(self, tokens: list[int]) -> str:
        ends = [at for at, token in enumerate(tokens) if token in self._ends]
        # Rows that ended early are padded with a token that also marks an end.
        answer = tokens[: ends[0]] if ends else [token for token in tokens if token != self._pad]
        text: str = self._tokenizer.decode(cut_loop(answer), skip_special_tokens=True)
        return text.strip()
