"""Recipe of GOT-OCR2.0."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rapidfuzz.distance import Levenshtein

from editjudge.base.images import RGB
from editjudge.base.probes import fingerprint, text_image

from ..zoo.artefact import Parity, Precision
from ..zoo.recipe import Recipe
from ..zoo.torch_tools import DTYPES, load_tiny_config, measure_parity, randomise_weights
from ..zoo.transformers_tools import make_byte_tokenizer, require_files
from .got_reader import GotReader

_TOLERANCE = {"fp32": 1e-5, "bf16": 0.02}
"""For fp32 the largest difference of the probability of any first token; for bf16 the largest share
of a picture's characters that are read differently."""


class GotRecipe:
    """Exports the checkpoint as safetensors of one precision."""

    precisions: tuple[Precision, ...] = ("fp32", "bf16")

    def make_untrained(self, folder: Path) -> None:
        """Save a network of 90 k random parameters and a tokenizer of bytes."""
        from transformers import GotOcr2Config, GotOcr2ForConditionalGeneration

        table = load_tiny_config("got")
        config = GotOcr2Config(**table["config"])
        network = randomise_weights(lambda: GotOcr2ForConditionalGeneration(config))
        with torch.no_grad():
            # Input and output share this table: at full scale each token would predict itself, and
            # at a tenth two tokens are so often near to each other that bf16 reads other texts.
            network.get_input_embeddings().weight.mul_(0.3)
        network.save_pretrained(folder)
        make_byte_tokenizer(table["special"]).save_pretrained(folder)

    def export(self, checkpoint: Path, folder: Path, precision: Precision, pictures: Sequence[RGB] | None) -> Parity:
        """Copy the checkpoint in one precision, read it back and compare with fp32."""
        dtype = DTYPES[precision]
        require_files(checkpoint, "config.json", "tokenizer.json")
        images = pictures or _text_images()
        is_exact = precision == "fp32"
        look: Callable[[GotReader, Sequence[RGB]], Any] = GotReader.first_words if is_exact else GotReader.read
        source = GotReader.from_folder(checkpoint, dtype=torch.float32)
        before = look(source, images)
        source.network.to(dtype)
        source.save(folder)
        after = look(GotReader.from_folder(folder), images)
        if is_exact:
            return measure_parity([(before.numpy(), after.numpy())], _TOLERANCE[precision], len(images))
        shares = np.array(list(map(Levenshtein.normalized_distance, before, after)))
        return measure_parity([(np.zeros_like(shares), shares)], _TOLERANCE[precision], len(images), "characters")

    def fingerprint(self, folder: Path, precision: Precision) -> list[float]:
        """Compute an export's outputs for the probe of its role."""
        text = GotReader.from_folder(folder).read([text_image()])[0]
        return fingerprint("ocr", {"TEXT": text.encode()})


def _text_images() -> list[RGB]:
    """Make the pictures to compare on, of one text; what a network reads where there is none is arbitrary."""
    text = text_image()
    return [text, text[20:100], text.repeat(2, 0).repeat(2, 1)]


RECIPES: dict[str, Recipe] = {"got-ocr2": GotRecipe()}
