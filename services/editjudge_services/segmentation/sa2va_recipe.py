"""How Sa2VA is made: a tiny untrained checkpoint under its published names, and the export."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from editjudge.base.errors import ConfigError
from editjudge.base.images import RGB
from editjudge.base.probes import fingerprint, probe_inputs, text_image

from ..zoo.artefact import Parity, Precision
from ..zoo.torch_tools import DTYPES, parity, spread, tiny
from .checkpoints import byte_tokenizer, require, seen
from .masks import Segmentation
from .sa2va import SETTINGS, Sa2Va, linears
from .sa2va_weights import LINEARS, LMM, SAM2, SAM2_LARGE, State, authors_names, split

_PROMPT = "the green bus"
_TINY = "editjudge_untrained"
_TOLERANCE = {"fp32": 1e-4, "bf16": 0.05}
"""Of the probability that a pixel is inside."""


class Sa2VaRecipe:
    """Parity is against the published weights in fp32, composed by this package.

    The official code needs CUDA: comparing with it is left to who has the weights.
    """

    precisions: tuple[Precision, ...] = ("fp32", "bf16")

    def untrained(self, folder: Path) -> None:
        """Save the networks with random weights under the published names."""
        from safetensors.torch import save_file
        from transformers import Qwen3VLForConditionalGeneration, Sam2Model

        folder.mkdir(parents=True, exist_ok=True)
        table = tiny("sa2va")
        byte_tokenizer(table["special"]).save_pretrained(folder)
        raw = table["config"]
        networks: dict[str, State] = {
            LMM: spread(lambda: Qwen3VLForConditionalGeneration(_lmm_config(raw))).state_dict(),
            LINEARS: spread(lambda: linears(32, 32)).state_dict(),
            SAM2: authors_names(spread(lambda: Sam2Model(_sam2_config(raw))).state_dict()),
        }
        published = {
            f"{prefix}{name}": weight.contiguous()
            for prefix, state in networks.items()
            for name, weight in state.items()
        }
        save_file(published, folder / "model.safetensors")
        (folder / "config.json").write_text(json.dumps(raw, indent=2))

    def export(self, checkpoint: Path, folder: Path, precision: Precision) -> Parity:
        """Rename the published weights and save them for transformers in one precision."""
        dtype = DTYPES[precision]
        source = load_published(checkpoint)
        images = seen()
        before = [_inside(source, image) for image in images]
        source.save(folder, dtype)
        exported = Sa2Va.from_folder(folder)
        after = [_inside(exported, image) for image in images]
        pairs = list(zip(before, after, strict=True))
        return parity(pairs, _TOLERANCE[precision], len(images))

    def fingerprint(self, folder: Path, precision: Precision) -> list[float]:
        """What an export says to the panel's probe."""
        return answer_to_probe(Sa2Va.from_folder(folder).segment)


def answer_to_probe(segment: Callable[[RGB, str], Segmentation]) -> list[float]:
    """What a segmenter says to the panel's probe."""
    prompt = probe_inputs("segmenter")["PROMPT"].decode()
    return fingerprint("segmenter", segment(text_image(), prompt).outputs)


def load_published(checkpoint: Path) -> Sa2Va:
    """Compose the networks of a published checkpoint, in fp32.

    Raises:
        ConfigError: it is not one of Sa2VA on Qwen3-VL.
    """
    from safetensors.torch import load_file
    from transformers import PreTrainedTokenizerFast, Qwen3VLForConditionalGeneration, Sam2Model

    require(checkpoint, "config.json")
    raw = json.loads((checkpoint / "config.json").read_text())
    if not {"text_config", "vision_config"} <= raw.keys():
        raise ConfigError(f"{checkpoint} is not Sa2VA on Qwen3-VL", "give its Qwen3-VL variant")
    published: dict[str, torch.Tensor] = {}
    for shard in sorted(checkpoint.glob("*.safetensors")):
        published |= load_file(shard)
    parts = split(published)
    lmm: Any = Qwen3VLForConditionalGeneration(_lmm_config(_untied(raw, parts[LMM])))
    sam2: Any = Sam2Model(_sam2_config(raw))
    head = linears(*reversed(parts[LINEARS]["2.weight"].shape))
    for network, prefix in ((lmm, LMM), (sam2, SAM2), (head, LINEARS)):
        try:
            network.load_state_dict(parts[prefix])
        except RuntimeError as error:
            first = str(error).splitlines()[1 if "\n" in str(error) else 0].strip()
            raise ConfigError(f"{checkpoint}: {first}", "give Sa2VA on Qwen3-VL") from error
    settings = {**SETTINGS, **raw.get(_TINY, {}).get("settings", {})}
    tokenizer = PreTrainedTokenizerFast.from_pretrained(checkpoint)
    return Sa2Va(lmm.eval(), tokenizer, head.eval(), sam2.eval(), settings)


def _inside(network: Sa2Va, image: Any) -> Any:
    """The probability of every pixel for an answer that is one [SEG]."""
    logits, _ = network.mask_logits(image, _PROMPT, [network.seg, network.seg])
    return logits.sigmoid().numpy()


def _untied(raw: dict[str, Any], lmm: State) -> dict[str, Any]:
    """The authors untie input and output embeddings, whatever the published config says."""
    rows = lmm["model.language_model.embed_tokens.weight"]
    tied = "lm_head.weight" not in lmm
    if tied:
        lmm["lm_head.weight"] = rows
    text = {**raw["text_config"], "vocab_size": len(rows), "tie_word_embeddings": tied}
    return {**raw, "text_config": text, "tie_word_embeddings": tied}


def _lmm_config(raw: dict[str, Any]) -> Any:
    from transformers import Qwen3VLConfig

    own = {"model_type", "architectures", "auto_map", "dtype", "torch_dtype", _TINY}
    return Qwen3VLConfig(**{name: value for name, value in raw.items() if name not in own})


def _sam2_config(raw: dict[str, Any]) -> Any:
    from transformers import Sam2Config

    return Sam2Config(**raw.get(_TINY, {}).get("sam2", SAM2_LARGE))
