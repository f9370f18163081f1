"""Recipes of the segmenters."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from editjudge.base.images import RGB

from ..zoo.artefact import Parity, Precision
from ..zoo.recipe import Recipe
from ..zoo.torch_tools import load_tiny_config, make_parity_images, measure_parity, randomise_weights
from ..zoo.transformers_tools import require_files
from .grounded_sam import GroundedSam
from .masks import measure_overlap
from .sa2va_recipe import Sa2VaRecipe, compute_fingerprint

_PROMPT = "the green bus"
_TOLERANCE = 1e-5


class GroundedSamRecipe:
    """Exports GroundingDINO and SAM as two folders; fp32 only, since half precision moves boxes."""

    precisions: tuple[Precision, ...] = ("fp32",)

    def make_untrained(self, folder: Path) -> None:
        """Save both networks with random weights, 600 k and 70 k parameters."""
        from transformers import SamConfig, SamModel

        _save_detector(folder / "detector")
        config = SamConfig(**load_tiny_config("sam"))
        randomise_weights(lambda: SamModel(config)).save_pretrained(folder / "sam")

    def export(self, checkpoint: Path, folder: Path, precision: Precision, pictures: Sequence[RGB] | None) -> Parity:
        """Write both networks as fp32 safetensors, read them back and compare."""
        processor = "detector/preprocessor_config.json"
        require_files(checkpoint, "detector/config.json", processor, "sam/config.json")
        size = json.loads((checkpoint / processor).read_text())["size"]
        sizes = {"shortest": size["shortest_edge"], "longest": size["longest_edge"]}
        source = GroundedSam.from_folder(checkpoint, sizes)
        source.save(folder)
        export = GroundedSam.from_folder(folder)
        images = pictures or make_parity_images()
        pairs = [pair for image in images for pair in _compare_outputs(source, export, image)]
        return measure_parity(pairs, _TOLERANCE, len(images), "score, 1 - IoU")

    def fingerprint(self, folder: Path, precision: Precision) -> list[float]:
        """Compute an export's outputs for the probe of its role."""
        return compute_fingerprint(GroundedSam.from_folder(folder).segment)


def _compare_outputs(
    source: GroundedSam, export: GroundedSam, image: RGB
) -> Iterator[tuple[NDArray[np.float32], NDArray[np.float32]]]:
    """Yield pairs of outputs: the scores of all queries, and how far two boxes' masks overlap."""
    height, width = image.shape[:2]
    halves = np.array([[0, 0, width / 2, height], [width / 4, height / 4, width, height]], np.float32)
    yield source.detector.scores(image, _PROMPT), export.detector.scores(image, _PROMPT)
    for one, other in zip(source.cutter.masks(image, halves), export.cutter.masks(image, halves), strict=True):
        yield np.ones(1, np.float32), np.array([measure_overlap(one, other)], np.float32)


def _save_detector(folder: Path) -> None:
    # Untyped, since the type stubs of transformers lack some of these arguments.
    import transformers

    library: Any = transformers
    config = library.GroundingDinoConfig(**load_tiny_config("grounding_dino"))
    build = library.GroundingDinoForObjectDetection._from_config
    network = randomise_weights(lambda: build(config, attn_implementation="eager"))
    network.save_pretrained(folder)
    library.BertTokenizerFast(vocab=_bert_vocabulary()).save_pretrained(folder)
    size = {"shortest_edge": 160, "longest_edge": 256}
    library.GroundingDinoImageProcessorPil(size=size).save_pretrained(folder)


def _bert_vocabulary() -> dict[str, int]:
    """Make WordPieces that spell any word, with BERT's ids of the five special tokens."""
    words = [f"[unused{i}]" for i in range(1200)]
    for at, word in {0: "[PAD]", 100: "[UNK]", 101: "[CLS]", 102: "[SEP]", 103: "[MASK]"}.items():
        words[at] = word
    words[1012], words[1029] = ".", "?"
    for i in range(26):
        words[1120 + i], words[1150 + i] = chr(97 + i), f"##{chr(97 + i)}"
    for i, word in enumerate(("a", "the", "green", "bus", "dog")):
        if len(word) > 1:
            words[1100 + i] = word
    return {word: at for at, word in enumerate(words)}


RECIPES: dict[str, Recipe] = {"grounded-sam": GroundedSamRecipe(), "sa2va-qwen3-vl-4b": Sa2VaRecipe()}
