"""Renames Sa2VA's published weights to the names of the same layers in transformers.

The published names are: `model.*` is Qwen3-VL, `text_hidden_fcs.*` the two linears, and
`grounding_encoder.sam2_model.*` SAM-2 under the names of its official code. `sam2.toml` has both
names of each of its layers.
"""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path

import torch

from editjudge.base.errors import ConfigError

State = dict[str, torch.Tensor]

LMM = "model."
LINEARS = "text_hidden_fcs."
SAM2 = "grounding_encoder.sam2_model."
_TABLE = tomllib.loads(Path(__file__).with_name("sam2.toml").read_text(encoding="utf-8"))
SAM2_LARGE = _TABLE["large"]
"""The configuration of SAM-2's large network."""
_FORMS = {"{n}": r"(\d+)", "{mlp}": r"(\w*(?:hypernetworks_mlps\.\d+|_head))"}
_POINT, _POINTS = "sam_prompt_encoder.point_embeddings.", "prompt_encoder.point_embed.weight"
_POSITIONS = "prompt_encoder.shared_embedding.positional_embedding"
_POSITIONS_AGAIN = "shared_image_embedding.positional_embedding"
"""Weights that transformers stores twice."""


def split_networks(weights: Mapping[str, torch.Tensor]) -> dict[str, State]:
    """Divide the weights of a published checkpoint among its networks.

    Returns:
        The weights of each by its prefix, under the names of transformers.

    Raises:
        ConfigError: a weight belongs to no network, or one of them is missing.
    """
    parts: dict[str, State] = {LMM: {}, LINEARS: {}, SAM2: {}}
    for name, weight in weights.items():
        prefix = next((one for one in parts if name.startswith(one)), None)
        if prefix is None:
            raise ConfigError(f"{name} is no weight of Sa2VA", "give its Qwen3-VL variant")
        parts[prefix][name.removeprefix(prefix)] = weight
    if empty := [prefix for prefix, state in parts.items() if not state]:
        raise ConfigError(f"no weight starts with {', '.join(empty)}", "give all shards")
    return {**parts, SAM2: to_sam2_state(parts[SAM2])}


def to_sam2_state(weights: Mapping[str, torch.Tensor]) -> State:
    """Rename SAM-2's weights for `Sam2Model` and join its four point embeddings.

    Args:
        weights: Weights by name, without the prefix `grounding_encoder.sam2_model.`.
    """
    used_weights = {n: w for n, w in weights.items() if not n.startswith(tuple(_TABLE["unused"]))}
    state = {_rename_layer(n): w for n, w in used_weights.items() if not n.startswith(_POINT)}
    if points := [used_weights[name] for name in sorted(used_weights) if name.startswith(_POINT)]:
        state[_POINTS] = torch.cat(points)
    if _POSITIONS in state:
        state[_POSITIONS_AGAIN] = state[_POSITIONS]
    return state


def to_author_state(state: Mapping[str, torch.Tensor]) -> State:
    """Reverse `to_sam2_state`, for tiny checkpoints."""
    left_out = {_POINTS, _POSITIONS_AGAIN}
    weights = {_rename_layer(n, back=True): w for n, w in state.items() if n not in left_out}
    for index, row in enumerate(state[_POINTS]):
        weights[f"{_POINT}{index}.weight"] = row[None].clone()
    return weights


def _rename_layer(name: str, *, back: bool = False) -> str:
    for pair in reversed(_TABLE["names"]) if back else _TABLE["names"]:
        before, after = reversed(pair) if back else pair
        pattern = re.escape(before).replace(r"\^", "^").replace(r"\$", "$")
        for form, expression in _FORMS.items():
            pattern = pattern.replace(re.escape(form), expression)
            after = after.replace(form, r"\1")
        name = re.sub(pattern, after.strip("^$"), name)
    return name
