"""How GOT-OCR2.0 is made: a tiny untrained checkpoint, and the export of any checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from editjudge.base.probes import fingerprint, text_image

from ..segmentation.checkpoints import DTYPES, byte_tokenizer, require, seen
from ..zoo.artefact import Precision
from ..zoo.checkpoint import SEED
from ..zoo.recipe import Exported, Recipe
from ..zoo.torch_tools import parity, spread
from .got import GotReader

_TOLERANCE = {"fp32": 1e-5, "bf16": 0.05}
"""Of the probability of any first token."""
_SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<img>", "</img>", "<imgpad>")


class GotRecipe:
    """The export is the checkpoint as safetensors of one precision."""

    precisions: tuple[Precision, ...] = ("fp32", "bf16")

    def untrained(self, folder: Path) -> None:
        """Save a network of 90 k random parameters and a tokenizer of bytes."""
        # Untyped: the library's type stubs do not know all of these arguments.
        import transformers

        library: Any = transformers
        tokenizer = byte_tokenizer(_SPECIAL, "<|im_end|>", "<|endoftext|>")
        token, side = tokenizer.convert_tokens_to_ids, 256
        config = library.GotOcr2Config(
            vision_config={
                "hidden_size": 32,
                "output_channels": 16,
                "num_hidden_layers": 2,
                "num_attention_heads": 2,
                "image_size": side,
                "patch_size": 16,
                "window_size": 2,
                "global_attn_indexes": [1],
                "mlp_dim": 64,
            },
            text_config={
                "model_type": "qwen2",
                "vocab_size": len(tokenizer),
                "hidden_size": 32,
                "intermediate_size": 64,
                "num_hidden_layers": 2,
                "num_attention_heads": 2,
                "num_key_value_heads": 2,
                "max_position_embeddings": 4096,
                "tie_word_embeddings": True,
                "bos_token_id": token("<|endoftext|>"),
                "eos_token_id": token("<|im_end|>"),
                "pad_token_id": token("<|endoftext|>"),
            },
            image_token_id=token("<imgpad>"),
            image_seq_length=(side // 16 // 4) ** 2,
        )
        network: Any = spread(lambda: library.GotOcr2ForConditionalGeneration(config), SEED)
        with torch.no_grad():
            # Input and output share this table: at full size each token would call for itself.
            network.get_input_embeddings().weight.mul_(0.1)
        network.save_pretrained(folder)
        tokenizer.save_pretrained(folder)

    def export(self, checkpoint: Path, folder: Path, precision: Precision) -> Exported:
        """Copy the checkpoint in one precision, read it back and compare with fp32."""
        dtype = DTYPES[precision]
        require(checkpoint, "config.json", "tokenizer.json")
        images = seen()
        source = GotReader.from_folder(checkpoint, dtype=torch.float32)
        before = source.first_words(images).numpy()
        source.network.to(dtype)
        source.save(folder)
        after = GotReader.from_folder(folder).first_words(images).numpy()
        return Exported(parity([(before, after)], _TOLERANCE[precision], len(images)))

    def fingerprint(self, folder: Path, precision: Precision) -> list[float]:
        """What an export says to the panel's probe."""
        reading = GotReader.from_folder(folder).read([text_image()])[0]
        return fingerprint("ocr", {"TEXT": reading.text.encode()})


RECIPES: dict[str, Recipe] = {"got-ocr2": GotRecipe()}
