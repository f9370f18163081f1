"""Sa2VA's published weights under the names that transformers has for the same layers.

Published: `model.*` is Qwen3-VL, `text_hidden_fcs.*` the two linears, and
`grounding_encoder.sam2_model.*` SAM-2 under the names of its official code.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import torch

from editjudge.base.errors import ConfigError

State = dict[str, torch.Tensor]
Rules = tuple[tuple[str, str], ...]

LMM = "model."
LINEARS = "text_hidden_fcs."
SAM2 = "grounding_encoder.sam2_model."

UNUSED = (
    "memory_attention.",
    "memory_encoder.",
    "mask_downsample.",
    "maskmem_tpos_enc",
    "no_mem_pos_enc",
    "no_obj_embed_spatial",
    "no_obj_ptr",
    "obj_ptr_proj.",
    "obj_ptr_tpos_proj.",
)
"""Prefixes of SAM-2's video memory, which a still image does not use."""

_MLP = r"(\w*(?:hypernetworks_mlps\.\d+|_head))\.layers\."
RULES: Rules = (
    (r"^no_mem_embed$", "no_memory_embedding"),
    (
        r"^image_encoder\.trunk\.patch_embed\.proj\.",
        "vision_encoder.backbone.patch_embed.projection.",
    ),
    (r"^image_encoder\.trunk\.", "vision_encoder.backbone."),
    (r"^image_encoder\.neck\.convs\.(\d+)\.conv\.", r"vision_encoder.neck.convs.\1."),
    (r"^sam_prompt_encoder\.", "prompt_encoder."),
    (r"^sam_mask_decoder\.", "mask_decoder."),
    (r"\.pe_layer\.positional_encoding_gaussian_matrix$", ".shared_embedding.positional_embedding"),
    (r"\.mask_downscaling\.0\.", ".mask_embed.conv1."),
    (r"\.mask_downscaling\.1\.", ".mask_embed.layer_norm1."),
    (r"\.mask_downscaling\.3\.", ".mask_embed.conv2."),
    (r"\.mask_downscaling\.4\.", ".mask_embed.layer_norm2."),
    (r"\.mask_downscaling\.6\.", ".mask_embed.conv3."),
    (r"\.output_upscaling\.0\.", ".upscale_conv1."),
    (r"\.output_upscaling\.1\.", ".upscale_layer_norm."),
    (r"\.output_upscaling\.3\.", ".upscale_conv2."),
    (r"\.norm_final_attn\.", ".layer_norm_final_attn."),
    (r"\.norm(\d)\.", r".layer_norm\1."),
    (r"\.out_proj\.", ".o_proj."),
    (r"\.mlp\.layers\.0\.", ".mlp.proj_in."),
    (r"\.mlp\.layers\.1\.", ".mlp.proj_out."),
    (rf"\.{_MLP}0\.", r".\1.proj_in."),
    (rf"\.{_MLP}1\.", r".\1.layers.0."),
    (rf"\.{_MLP}2\.", r".\1.proj_out."),
)
"""Pattern and replacement, tried on every SAM-2 name in this order; all that match apply."""

_POINTS = re.compile(r"^prompt_encoder\.point_embeddings\.(\d+)\.weight$")
_POSITIONS = "shared_embedding.positional_embedding"


@dataclass(frozen=True, slots=True)
class Parts:
    """The three networks' weights under the names of transformers."""

    lmm: State
    linears: State
    sam2: State


def split(published: Mapping[str, torch.Tensor]) -> Parts:
    """Divide a published checkpoint into its networks, and rename.

    Raises:
        ConfigError: a weight belongs to no network, or one of them is missing.
    """
    parts: dict[str, State] = {LMM: {}, LINEARS: {}, SAM2: {}}
    for name, weight in published.items():
        prefix = next((one for one in parts if name.startswith(one)), None)
        if prefix is None:
            raise ConfigError(f"{name} is no weight of Sa2VA", "give its Qwen3-VL variant")
        parts[prefix][name.removeprefix(prefix)] = weight
    if empty := [prefix for prefix, state in parts.items() if not state]:
        raise ConfigError(f"no weight starts with {', '.join(empty)}", "give all shards")
    return Parts(parts[LMM], parts[LINEARS], sam2_names(parts[SAM2]))


def sam2_names(published: Mapping[str, torch.Tensor]) -> State:
    """SAM-2's weights for `Sam2Model`: renamed, its four point embeddings as one table.

    Args:
        published: By name without the prefix `grounding_encoder.sam2_model.`.
    """
    renamed: State = {}
    points: dict[int, torch.Tensor] = {}
    for name, weight in published.items():
        if name.startswith(UNUSED):
            continue
        for pattern, replacement in RULES:
            name = re.sub(pattern, replacement, name)
        if point := _POINTS.match(name):
            points[int(point[1])] = weight
        else:
            renamed[name] = weight
    if points:
        renamed["prompt_encoder.point_embed.weight"] = torch.cat(
            [points[index] for index in sorted(points)]
        )
    if (positions := renamed.get(f"prompt_encoder.{_POSITIONS}")) is not None:
        # transformers keeps the same matrix twice.
        renamed[f"shared_image_embedding.{_POSITIONS.removeprefix('shared_embedding.')}"] = (
            positions
        )
    return renamed
