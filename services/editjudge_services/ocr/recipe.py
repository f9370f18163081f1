"""Recipe of GOT-OCR2.0."""

from collections.abc import Sequence
from pathlib import Path

import torch

from editjudge.base.images import RGB
from editjudge.base.probes import fingerprint, text_image

from ..segmentation.checkpoints import make_byte_tokenizer, parity_images, require_files
from ..zoo.artefact import Parity, Precision
from ..zoo.recipe import Recipe
from ..zoo.torch_tools import DTYPES, load_tiny_config, measure_parity, randomise_weights
from .got_reader import GotReader

_TOLERANCE = {"fp32": 1e-5, "bf16": 0.05}
"""Largest difference of the probability of any first token."""


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
            # Input and output share this table: at full scale each token would predict itself.
            network.get_input_embeddings().weight.mul_(0.1)
        network.save_pretrained(folder)
        make_byte_tokenizer(table["special"]).save_pretrained(folder)

    def export(
        self, checkpoint: Path, folder: Path, precision: Precision, pictures: Sequence[RGB] | None = None
    ) -> Parity:
        """Copy the checkpoint in one precision, read it back and compare with fp32."""
        dtype = DTYPES[precision]
        require_files(checkpoint, "config.json", "tokenizer.json")
        images = pictures or parity_images()
        source = GotReader.from_folder(checkpoint, dtype=torch.float32)
        before = source.first_words(images).numpy()
        source.network.to(dtype)
        source.save(folder)
        after = GotReader.from_folder(folder).first_words(images).numpy()
        return measure_parity([(before, after)], _TOLERANCE[precision], len(images))

    def fingerprint(self, folder: Path, precision: Precision) -> list[float]:
        """Compute an export's outputs for the probe of its role."""
        text = GotReader.from_folder(folder).read([text_image()])[0]
        return fingerprint("ocr", {"TEXT": text.encode()})


RECIPES: dict[str, Recipe] = {"got-ocr2": GotRecipe()}
