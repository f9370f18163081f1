"""Networks of their published size with random weights: what they take and how fast they are is real.

Their answers are not, so that a comparison of precisions shows what it costs and proves nothing
about trained weights. Sa2VA, of five billion parameters, is left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any
from unittest.mock import patch

from editjudge.base.errors import EditjudgeError
from editjudge_services.features import recipe as features
from editjudge_services.ocr import recipe as ocr
from editjudge_services.segmentation import grounding_dino
from editjudge_services.segmentation import recipe as segmentation
from editjudge_services.zoo.artefact import Precision, checkpoint_dir, load_artefact
from editjudge_services.zoo.checkpoint import Checkpoint, hash_files, load_checkpoint
from editjudge_services.zoo.export import export
from editjudge_services.zoo.manifest import find_entry, load_recipe
from editjudge_services.zoo.torch_tools import load_tiny_config

SMALL_TEXT = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 64}
BASE = {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12}
HUGE = {"hidden_size": 1280, "num_hidden_layers": 32, "num_attention_heads": 16, "global_attn_indexes": [7, 15, 23, 31]}
QWEN = {"vocab_size": 151860, "hidden_size": 1024, "intermediate_size": 2816, "num_hidden_layers": 24}
GOT_TABLE = load_tiny_config("got")
# What is not named here has transformers' defaults, which are the published sizes.
SIZES: Mapping[str, Mapping[str, Any]] = {
    "dinov2-small": {
        "dinov2": {**BASE, "hidden_size": 384, "num_attention_heads": 6, "patch_size": 14, "image_size": 518}
    },
    "dinov3-vitb16": {"dinov3": {**BASE, "intermediate_size": 3072, "num_register_tokens": 4}},
    "clip-vit-base-patch32": {"clip": {"text_config": SMALL_TEXT}},
    "lpips-vgg": {},
    "lpips-alex": {},
    "grounded-sam": {"grounding_dino": {"disable_custom_kernels": True}, "sam": {}},
    "grounded-sam-huge": {"grounding_dino": {"disable_custom_kernels": True}, "sam": {"vision_config": HUGE}},
    "got-ocr2": {
        "got": {
            "special": GOT_TABLE["special"],
            "config": {
                "image_token_id": GOT_TABLE["config"]["image_token_id"],
                "text_config": {
                    **GOT_TABLE["config"]["text_config"],
                    **QWEN,
                    "num_attention_heads": 16,
                    "num_key_value_heads": 16,
                },
            },
        }
    },
}


def install(name: str) -> None:
    """Make the checkpoint of an entry."""
    sizes, entry, folder = SIZES[name], find_entry(name), checkpoint_dir(name)
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as patches:
        for module in (features, segmentation, ocr):
            patches.enter_context(patch.object(module, "load_tiny_config", sizes.get))
        load_recipe(entry).make_untrained(folder)
    if name.startswith("grounded-sam"):
        processor = folder / "detector" / "preprocessor_config.json"
        size = {"shortest_edge": 800, "longest_edge": 1333}
        processor.write_text(json.dumps({**json.loads(processor.read_text()), "size": size}))
    Checkpoint(entry=name, untrained=True, files=hash_files(folder)).save(folder)


def make_all(name: str, precisions: Sequence[Precision]) -> Iterator[tuple[Precision, str]]:
    """Make and export an entry in each precision, unless it is there; yields those it has not, and why."""
    entry = find_entry(name)
    if load_checkpoint(name) is None:
        install(name)
    for precision in precisions:
        # Random weights find a box for each of 900 queries, and the fingerprint would cut them all.
        with patch.object(grounding_dino, "BOX_THRESHOLD", 1.0):
            try:
                if load_artefact(name, precision) is None:
                    export(entry, precision)
            except EditjudgeError as error:
                yield precision, str(error)
