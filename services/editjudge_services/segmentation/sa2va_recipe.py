"""Recipe of Sa2VA: a tiny untrained checkpoint under the published names, and the export."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from editjudge.base.errors import ConfigError
from editjudge.base.images import RGB
from editjudge.base.probes import fingerprint, probe_inputs, text_image

from ..zoo.artefact import Parity, Precision
from ..zoo.torch_tools import DTYPES, load_tiny_config, make_parity_images, measure_parity, randomise_weights
from ..zoo.transformers_tools import make_byte_tokenizer, require_files
from .masks import Segmentation, measure_overlap
from .sa2va import SETTINGS, Sa2Va, make_linears
from .sa2va_weights import LINEARS, LMM, SAM2, SAM2_LARGE, State, split_networks, to_author_state

_PROMPT = "the green bus"
_TINY = "editjudge_untrained"
_TOLERANCE = {"fp32": 1e-4, "bf16": 0.02}
"""For fp32 the largest difference of the probability that a pixel is inside; for bf16 the largest
1 - IoU of the masks."""


class Sa2VaRecipe:
    """Exports Sa2VA and compares with the published weights in fp32, run by this package.

    The export is not compared with the official code, which needs CUDA.
    """

    precisions: tuple[Precision, ...] = ("fp32", "bf16")

    def make_untrained(self, folder: Path) -> None:
        """Save the networks with random weights under the published names."""
        from safetensors.torch import save_file
        from transformers import Qwen3VLForConditionalGeneration, Sam2Model

        folder.mkdir(parents=True, exist_ok=True)
        table = load_tiny_config("sa2va")
        make_byte_tokenizer(table["special"]).save_pretrained(folder)
        raw = table["config"]
        networks: dict[str, State] = {
            LMM: randomise_weights(lambda: Qwen3VLForConditionalGeneration(_lmm_config(raw))).state_dict(),
            LINEARS: randomise_weights(lambda: make_linears(32, 32)).state_dict(),
            SAM2: to_author_state(randomise_weights(lambda: Sam2Model(_sam2_config(raw))).state_dict()),
        }
        weights = {
            f"{prefix}{name}": weight.contiguous()
            for prefix, state in networks.items()
            for name, weight in state.items()
        }
        save_file(weights, folder / "model.safetensors")
        (folder / "config.json").write_text(json.dumps(raw, indent=2))

    def export(self, checkpoint: Path, folder: Path, precision: Precision, pictures: Sequence[RGB] | None) -> Parity:
        """Rename the published weights and save them for transformers in one precision."""
        dtype = DTYPES[precision]
        source = load_published(checkpoint)
        images = pictures or make_parity_images()
        before = [_inside_probability(source, image) for image in images]
        source.save(folder, dtype)
        export = Sa2Va.from_folder(folder)
        after = [_inside_probability(export, image) for image in images]
        pairs = list(zip(before, after, strict=True))
        if precision == "fp32":
            return measure_parity(pairs, _TOLERANCE[precision], len(images))
        overlaps = np.array([measure_overlap(one > 0.5, other > 0.5) for one, other in pairs])
        return measure_parity([(np.ones_like(overlaps), overlaps)], _TOLERANCE[precision], len(images), "1 - IoU")

    def fingerprint(self, folder: Path, precision: Precision) -> list[float]:
        """Compute an export's outputs for the probe of its role."""
        return compute_fingerprint(Sa2Va.from_folder(folder).segment)


def compute_fingerprint(segment: Callable[[RGB, str], Segmentation]) -> list[float]:
    """Compute the fingerprint of a segmenter from the probe of its role."""
    prompt = probe_inputs("segmenter")["PROMPT"].decode()
    return fingerprint("segmenter", segment(text_image(), prompt).outputs)


def load_published(checkpoint: Path) -> Sa2Va:
    """Load the networks of a published checkpoint, in fp32.

    Raises:
        ConfigError: the checkpoint is not Sa2VA on Qwen3-VL.
    """
    from safetensors.torch import load_file
    from transformers import PreTrainedTokenizerFast, Qwen3VLForConditionalGeneration, Sam2Model

    require_files(checkpoint, "config.json")
    raw = json.loads((checkpoint / "config.json").read_text())
    if not {"text_config", "vision_config"} <= raw.keys():
        raise ConfigError(f"{checkpoint} is not Sa2VA on Qwen3-VL", "give its Qwen3-VL variant")
    weights: dict[str, torch.Tensor] = {}
    for shard in sorted(checkpoint.glob("*.safetensors")):
        weights |= load_file(shard)
    parts = split_networks(weights)
    lmm: Any = Qwen3VLForConditionalGeneration(_lmm_config(_untie_embeddings(raw, parts[LMM])))
    sam2: Any = Sam2Model(_sam2_config(raw))
    head = make_linears(*reversed(parts[LINEARS]["2.weight"].shape))
    for network, prefix in ((lmm, LMM), (sam2, SAM2), (head, LINEARS)):
        try:
            network.load_state_dict(parts[prefix])
        except RuntimeError as error:
            first = str(error).splitlines()[1 if "\n" in str(error) else 0].strip()
            raise ConfigError(f"{checkpoint}: {first}", "give Sa2VA on Qwen3-VL") from error
    settings = {**SETTINGS, **raw.get(_TINY, {}).get("settings", {})}
    tokenizer = PreTrainedTokenizerFast.from_pretrained(checkpoint)
    return Sa2Va(lmm.eval(), tokenizer, head.eval(), sam2.eval(), settings)


def _inside_probability(network: Sa2Va, image: Any) -> Any:
    """Compute the probability of every pixel for an answer that is one [SEG]."""
    logits, _ = network.mask_logits(image, _PROMPT, [network.seg, network.seg])
    return logits.sigmoid().numpy()


def _untie_embeddings(raw: dict[str, Any], lmm: State) -> dict[str, Any]:
    """Correct the config: the authors untie input and output embeddings."""
    rows = lmm["model.language_model.embed_tokens.weight"]
    is_tied = "lm_head.weight" not in lmm
    if is_tied:
        lmm["lm_head.weight"] = rows
    text = {**raw["text_config"], "vocab_size": len(rows), "tie_word_embeddings": is_tied}
    return {**raw, "text_config": text, "tie_word_embeddings": is_tied}


def _lmm_config(raw: dict[str, Any]) -> Any:
    from transformers import Qwen3VLConfig

    own = {"model_type", "architectures", "auto_map", "dtype", "torch_dtype", _TINY}
    return Qwen3VLConfig(**{name: value for name, value in raw.items() if name not in own})


def _sam2_config(raw: dict[str, Any]) -> Any:
    from transformers import Sam2Config

    return Sam2Config(**raw.get(_TINY, {}).get("sam2", SAM2_LARGE))
