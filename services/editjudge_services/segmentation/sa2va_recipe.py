"""How Sa2VA is made: a tiny untrained checkpoint under its published names, and the export."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Protocol

import torch

from editjudge.base.errors import ConfigError
from editjudge.base.images import RGB
from editjudge.base.probes import fingerprint, probe_inputs, text_image

from ..zoo.artefact import Precision
from ..zoo.checkpoint import SEED
from ..zoo.recipe import Exported
from ..zoo.torch_tools import parity, spread
from .checkpoints import DTYPES, byte_tokenizer, require, seen
from .masks import Segmentation
from .sa2va import SEG, Sa2Va, Settings, linears
from .sa2va_weights import LINEARS, LMM, SAM2, Parts, split

_PROMPT = "the green bus"
_TINY = "editjudge_untrained"
_TOLERANCE = {"fp32": 1e-4, "bf16": 0.05}
"""Of the probability that a pixel is inside."""

HIERA_LARGE: dict[str, Any] = {
    "hidden_size": 144,
    "num_attention_heads": 2,
    "blocks_per_stage": [2, 6, 36, 4],
    "embed_dim_per_stage": [144, 288, 576, 1152],
    "num_attention_heads_per_stage": [2, 4, 8, 16],
    "global_attention_blocks": [23, 33, 43],
    "window_positional_embedding_background_size": [7, 7],
    "window_size_per_stage": [8, 4, 16, 8],
}
"""SAM-2's large encoder, which the official code fixes (their `sam2_hiera_l.yaml`)."""

_SPECIAL = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|vision_pad|>",
    "<|image_pad|>",
    "<|video_pad|>",
    SEG,
)


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
        tokenizer = byte_tokenizer(_SPECIAL, "<|im_end|>", "<|endoftext|>")
        tokenizer.save_pretrained(folder)
        raw = _tiny_config(tokenizer)
        lmm = spread(lambda: Qwen3VLForConditionalGeneration(_lmm_config(raw)), SEED)
        sam2 = spread(lambda: Sam2Model(_sam2_config(raw)), SEED)
        head = spread(lambda: linears(32, 32), SEED)
        published = {f"{LMM}{name}": one for name, one in lmm.state_dict().items()}
        published |= {f"{LINEARS}{name}": one for name, one in head.state_dict().items()}
        published |= {
            f"{SAM2}{name}": one for name, one in authors_names(sam2.state_dict()).items()
        }
        save_file({k: v.contiguous() for k, v in published.items()}, folder / "model.safetensors")
        (folder / "config.json").write_text(json.dumps(raw, indent=2))

    def export(self, checkpoint: Path, folder: Path, precision: Precision) -> Exported:
        """Rename the published weights and save them for transformers in one precision."""
        dtype = DTYPES[precision]
        source = load_published(checkpoint)
        images = seen()
        before = [_inside(source, image) for image in images]
        source.save(folder, dtype)
        exported = Sa2Va.from_folder(folder)
        after = [_inside(exported, image) for image in images]
        pairs = list(zip(before, after, strict=True))
        return Exported(parity(pairs, _TOLERANCE[precision], len(images)))

    def fingerprint(self, folder: Path, precision: Precision) -> list[float]:
        """What an export says to the panel's probe."""
        return answer_to_probe(Sa2Va.from_folder(folder))


class _Segmenter(Protocol):
    def segment(self, image: RGB, prompt: str) -> Segmentation: ...


def answer_to_probe(network: _Segmenter) -> list[float]:
    """What a segmenter says to the panel's probe."""
    prompt = probe_inputs("segmenter")["PROMPT"].decode()
    return fingerprint("segmenter", network.segment(text_image(), prompt).outputs)


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
    lmm: Any = Qwen3VLForConditionalGeneration(_lmm_config(_untied(raw, parts)))
    sam2: Any = Sam2Model(_sam2_config(raw))
    head = linears(*reversed(parts.linears["2.weight"].shape))
    for network, state in ((lmm, parts.lmm), (sam2, parts.sam2), (head, parts.linears)):
        try:
            network.load_state_dict(state)
        except RuntimeError as error:
            first = str(error).splitlines()[1 if "\n" in str(error) else 0].strip()
            raise ConfigError(f"{checkpoint}: {first}", "give Sa2VA on Qwen3-VL") from error
    settings = Settings(**raw.get(_TINY, {}).get("settings", {}))
    tokenizer = PreTrainedTokenizerFast.from_pretrained(checkpoint)
    return Sa2Va(lmm.eval(), tokenizer, head.eval(), sam2.eval(), settings)


def authors_names(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The inverse of `sam2_names`, for the tiny checkpoint: SAM-2's authors' names."""
    named: dict[str, torch.Tensor] = {}
    for name, weight in state.items():
        if name.startswith("shared_image_embedding."):
            continue
        if name == "prompt_encoder.point_embed.weight":
            for index, row in enumerate(weight):
                named[f"sam_prompt_encoder.point_embeddings.{index}.weight"] = row[None].clone()
            continue
        named[_authors_name(name)] = weight
    return named


def _authors_name(name: str) -> str:
    if name == "no_memory_embedding":
        return "no_mem_embed"
    for ours, theirs in (
        (r"^vision_encoder\.backbone\.", "image_encoder.trunk."),
        (r"patch_embed\.projection", "patch_embed.proj"),
        (r"^vision_encoder\.neck\.convs\.(\d+)\.", r"image_encoder.neck.convs.\1.conv."),
        (r"^prompt_encoder\.", "sam_prompt_encoder."),
        (r"^mask_decoder\.", "sam_mask_decoder."),
        (r"shared_embedding\.positional_embedding", "pe_layer.positional_encoding_gaussian_matrix"),
        (r"mask_embed\.conv1", "mask_downscaling.0"),
        (r"mask_embed\.layer_norm1", "mask_downscaling.1"),
        (r"mask_embed\.conv2", "mask_downscaling.3"),
        (r"mask_embed\.layer_norm2", "mask_downscaling.4"),
        (r"mask_embed\.conv3", "mask_downscaling.6"),
        (r"upscale_conv1", "output_upscaling.0"),
        (r"upscale_layer_norm", "output_upscaling.1"),
        (r"upscale_conv2", "output_upscaling.3"),
        (r"layer_norm", "norm"),
        (r"o_proj", "out_proj"),
        (r"mlp\.proj_in", "mlp.layers.0"),
        (r"mlp\.proj_out", "mlp.layers.1"),
        (r"(mlps\.\d+|_head)\.layers\.0\.", r"\1.layers.1."),
        (r"(mlps\.\d+|_head)\.proj_in\.", r"\1.layers.0."),
        (r"(mlps\.\d+|_head)\.proj_out\.", r"\1.layers.2."),
    ):
        name = re.sub(ours, theirs, name)
    return name


def _inside(network: Sa2Va, image: Any) -> Any:
    """The probability of every pixel for an answer that is one [SEG]."""
    logits, _ = network.mask_logits(image, _PROMPT, [network.seg, network.seg])
    return logits.sigmoid().numpy()


def _untied(raw: dict[str, Any], parts: Parts) -> dict[str, Any]:
    """The authors untie input and output embeddings, whatever the published config says."""
    rows = parts.lmm["model.language_model.embed_tokens.weight"]
    tied = "lm_head.weight" not in parts.lmm
    if tied:
        parts.lmm["lm_head.weight"] = rows
    text = {**raw["text_config"], "vocab_size": len(rows), "tie_word_embeddings": tied}
    return {**raw, "text_config": text, "tie_word_embeddings": tied}


def _lmm_config(raw: dict[str, Any]) -> Any:
    from transformers import Qwen3VLConfig

    own = {"model_type", "architectures", "auto_map", "dtype", "torch_dtype", _TINY}
    return Qwen3VLConfig(**{name: value for name, value in raw.items() if name not in own})


def _sam2_config(raw: dict[str, Any]) -> Any:
    from transformers import Sam2Config

    large = {
        "vision_config": {
            "backbone_config": {"model_type": "sam2_hiera_det_model", **HIERA_LARGE},
            "backbone_channel_list": [1152, 576, 288, 144],
        }
    }
    return Sam2Config(**raw.get(_TINY, {}).get("sam2", large))


def _tiny_config(tokenizer: Any) -> dict[str, Any]:
    token = tokenizer.convert_tokens_to_ids
    side = 128
    hiera = {
        "model_type": "sam2_hiera_det_model",
        "hidden_size": 8,
        "num_attention_heads": 1,
        "image_size": [side, side],
        # One block in every stage would divide by 0.
        "blocks_per_stage": [1, 2, 2, 1],
        "embed_dim_per_stage": [8, 16, 32, 64],
        "num_attention_heads_per_stage": [1, 2, 4, 8],
        "window_size_per_stage": [8, 4, 4, 4],
        "window_positional_embedding_background_size": [7, 7],
        "global_attention_blocks": [4],
    }
    sam2 = {
        "vision_config": {
            "backbone_config": hiera,
            "backbone_channel_list": [64, 32, 16, 8],
            "backbone_feature_sizes": [[side // n, side // n] for n in (4, 8, 16)],
            "fpn_hidden_size": 32,
        },
        "prompt_encoder_config": {
            "hidden_size": 32,
            "image_size": side,
            "patch_size": 16,
            "mask_input_channels": 4,
        },
        "mask_decoder_config": {
            "hidden_size": 32,
            "mlp_dim": 64,
            "num_attention_heads": 2,
            "iou_head_hidden_dim": 32,
        },
    }
    return {
        "model_type": "sa2va_chat",
        "text_config": {
            "vocab_size": len(tokenizer),
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_hidden_layers": 3,
            "num_attention_heads": 2,
            "num_key_value_heads": 1,
            "head_dim": 16,
            "max_position_embeddings": 4096,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 5e6,
                "mrope_section": [4, 2, 2],
                "mrope_interleaved": True,
            },
            "bos_token_id": token("<|endoftext|>"),
            "eos_token_id": token("<|im_end|>"),
            "pad_token_id": token("<|endoftext|>"),
        },
        "vision_config": {
            "depth": 3,
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_heads": 2,
            "patch_size": 16,
            "out_hidden_size": 32,
            "num_position_embeddings": 64,
            "deepstack_visual_indexes": [0, 1, 2],
        },
        "image_token_id": token("<|image_pad|>"),
        "video_token_id": token("<|video_pad|>"),
        "vision_start_token_id": token("<|vision_start|>"),
        "vision_end_token_id": token("<|vision_end|>"),
        "tie_word_embeddings": False,
        _TINY: {
            "sam2": sam2,
            "settings": {"least_pixels": 4096, "most_pixels": 16384, "max_new_tokens": 12},
        },
    }
