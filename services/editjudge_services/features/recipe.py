"""Recipes of DINOv2, DINOv3 and CLIP; needs torch and transformers.

Each export has one graph, pixels (B, 3, side, side) → embedding (B, D), patches (B, N, E),
last-layer tokens row by row. CLIP has a second graph, the projection of its CLS token, which is
also applied to pooled tokens. The service pools, so that any number of masks cost one run.
"""

import json
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from transformers import (
    CLIPConfig,
    CLIPModel,
    CLIPVisionModelWithProjection,
    Dinov2Config,
    Dinov2Model,
    DINOv3ViTConfig,
    DINOv3ViTModel,
    PreTrainedModel,
)

from editjudge.base.errors import ConfigError
from editjudge.base.images import RGB
from editjudge.base.probes import fingerprint, texture_image

from ..runtime.onnx import LARGEST_BATCH, open_network
from ..runtime.preprocess import CLIP_CROP, DINOV2_CROP, DINOV3_SQUASH, Rule
from ..zoo.artefact import Parity, Precision
from ..zoo.recipe import Recipe
from ..zoo.torch_tools import (
    export_to_onnx,
    halve_products,
    load_tiny_config,
    make_parity_images,
    measure_parity,
    randomise_weights,
)
from ..zoo.transformers_tools import load_network
from .vision_service import HEAD, TRUNK

PROCESSOR = "preprocessor_config.json"
TOLERANCE: Mapping[Precision, float] = {"fp32": 1e-5, "tf32": 1e-3, "fp16": 1e-3, "bf16": 1e-3}
"""For fp32, the largest difference of any component of an L2-normalised embedding or patch token;
for the others, the largest distance 1 - cosine between those of export and source."""


class Trunk(nn.Module):
    """The exported part of a network: from pixels to the image's embedding and patch tokens.

    For DINOv2 and DINOv3 the embedding is the CLS token, and both outputs follow the final layer
    norm. CLIP projects its embedding, and its patches precede that norm.
    """

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model
        self.first = 1 + getattr(model.config, "num_register_tokens", 0)

    def forward(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        """Compute embedding (B, D) and patches (B, N, E) of pixels (B, 3, side, side)."""
        output = self.model(pixel_values=pixels)
        tokens = output.last_hidden_state
        image_embeds = getattr(output, "image_embeds", None)
        return tokens[:, 0] if image_embeds is None else image_embeds, tokens[:, self.first :]


def _clip_head(model: Any) -> nn.Module:
    """Return the layers that map pooled tokens (B, D) to CLIP's embeddings (B, P)."""
    norm, projection = model.vision_model.post_layernorm, model.visual_projection
    return nn.Sequential(OrderedDict(norm=norm, projection=projection))


@dataclass(slots=True)
class VisionRecipe:
    """Makes and exports vision transformers of one family.

    Attributes:
        model: Class that loads a checkpoint.
        kinds: Accepted values of `model_type` in config.json.
        tiny: Makes a small network of the same architecture.
        rule: How whole images are prepared.
        processor: Name of its image processor in config files.
        head: Further layers for pooled tokens, if any.
        dynamo: Use the newer exporter.
    """

    model: type[PreTrainedModel]
    kinds: frozenset[str]
    tiny: Callable[[], PreTrainedModel]
    rule: Rule
    processor: str
    head: Callable[[Any], nn.Module] | None = None
    dynamo: bool = False
    precisions: tuple[Precision, ...] = ("fp32", "tf32", "fp16", "bf16")

    def make_untrained(self, folder: Path) -> None:
        """Save a tiny checkpoint with random weights, in the hub's layout."""
        randomise_weights(self.tiny).save_pretrained(folder)
        _write_processor(folder, self.processor, self.rule)

    def load(self, checkpoint: Path) -> Any:
        """Load the model of a checkpoint, in fp32 and evaluation mode.

        Raises:
            ConfigError: the checkpoint has another architecture, lacks weights, or needs other
                preparation of images.
        """
        _check_processor(checkpoint, self.rule)
        kind = _read(checkpoint / "config.json").get("model_type")
        if kind not in self.kinds:
            raise ConfigError(f"{checkpoint}: model_type {kind!r}, not {min(self.kinds)!r}")
        return load_network(self.model, checkpoint, dtype=torch.float32).eval()

    def export(self, checkpoint: Path, folder: Path, precision: Precision, pictures: Sequence[RGB] | None) -> Parity:
        """Write `model.onnx`, for CLIP `head.onnx`, and compare them with the checkpoint.

        Raises:
            ConfigError: the checkpoint is not of this architecture, or this machine cannot compute
                in the precision.
            MissingExtra: OpenVINO, which runs bf16, is not installed.
        """
        model = self.load(checkpoint)
        images = pictures or make_parity_images()
        pixels = torch.from_numpy(np.stack([self.rule(image) for image in images]))
        names = ["pixels", "embedding", "patches"]
        pairs = _export(Trunk(model), pixels, folder / TRUNK, names, precision, dynamo=self.dynamo)
        if self.head is not None:
            mean_tokens = pairs[1][0].mean(1)
            pairs += _export(self.head(model), mean_tokens, folder / HEAD, ["pooled", "embedding"], precision)
        return _parity(pairs, precision, len(images))

    def fingerprint(self, folder: Path, precision: Precision) -> list[float]:
        """Compute an export's outputs for the probe of its role."""
        pixels = torch.from_numpy(self.rule(texture_image())[None])
        embedding = _unit(_run(folder / TRUNK, pixels, precision)[0])[0]
        return fingerprint("features", {"EMBEDDING": embedding})


def _export(
    module: nn.Module, inputs: Tensor, path: Path, names: Sequence[str], precision: Precision, *, dynamo: bool = False
) -> list[tuple[Tensor, Tensor]]:
    """Write the graph of a module.

    Args:
        inputs: A batch to compare the graph on.
        names: The names of the input and of the outputs.
        dynamo: Whether to use the newer exporter.

    Returns:
        For each output the module's value and the graph's.
    """
    example = torch.zeros(2, *inputs.shape[1:])
    export_to_onnx(module, [example], path, names[:1], names[1:], dynamic_axes={0: "batch"}, dynamo=dynamo)
    if precision == "fp16":
        halve_products(path)

    def run(part: Tensor) -> Sequence[Tensor]:
        outputs = module(part)
        return outputs if isinstance(outputs, tuple) else (outputs,)

    with torch.inference_mode():
        return list(zip(_in_parts(run, inputs), _run(path, inputs, precision), strict=True))


def _run(path: Path, inputs: Tensor, precision: Precision) -> list[Tensor]:
    """Run an exported graph on a batch."""
    network = open_network(path, precision)
    return _in_parts(lambda part: [torch.from_numpy(one) for one in network(part.numpy())], inputs)


def _in_parts(run: Callable[[Tensor], Sequence[Tensor]], inputs: Tensor) -> list[Tensor]:
    """Run a batch of any size, a few at once."""
    parts = [run(part) for part in torch.split(inputs, LARGEST_BATCH)]
    return [torch.cat(each) for each in zip(*parts, strict=True)]


def _parity(pairs: Sequence[tuple[Tensor, Tensor]], precision: Precision, images: int) -> Parity:
    """Measure parity from pairs of the source's and the export's outputs."""
    unit = [(_unit(source), _unit(export)) for source, export in pairs]
    if precision == "fp32":
        return measure_parity(unit, TOLERANCE[precision], images)
    cosines = [(source.astype(float) * export).sum(-1) for source, export in unit]
    return Parity(
        largest_difference=max(float(1 - one.min()) for one in cosines),
        tolerance=TOLERANCE[precision],
        images=images,
        measure="1 - cosine",
    )


def _unit(vectors: Tensor) -> np.ndarray[Any, np.dtype[np.float32]]:
    return nn.functional.normalize(vectors, dim=-1).numpy()


def _read(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: {error}") from error
    return content if isinstance(content, dict) else {}


def _write_processor(folder: Path, processor: str, rule: Rule) -> None:
    (folder / PROCESSOR).write_text(
        json.dumps(
            {"image_processor_type": processor, "image_mean": rule.statistics[0], "image_std": rule.statistics[1]},
            indent=2,
        )
    )


def _check_processor(checkpoint: Path, rule: Rule) -> None:
    """Refuse a checkpoint whose image normalisation differs from the service's."""
    settings = _read(checkpoint / PROCESSOR)
    for name, value in zip(("image_mean", "image_std"), rule.statistics, strict=True):
        if not np.allclose(settings.get(name, ()) or np.nan, value, atol=1e-4):
            raise ConfigError(f"{checkpoint / PROCESSOR}: {name} {settings.get(name)}, not {value}")


RECIPES: Mapping[str, Recipe] = {
    "dinov2-small": VisionRecipe(
        Dinov2Model,
        frozenset({"dinov2"}),
        lambda: Dinov2Model(Dinov2Config(**load_tiny_config("dinov2"))),
        DINOV2_CROP,
        "BitImageProcessor",
    ),
    "dinov3-vitb16": VisionRecipe(
        DINOv3ViTModel,
        frozenset({"dinov3_vit"}),
        lambda: DINOv3ViTModel(DINOv3ViTConfig(**load_tiny_config("dinov3"))),
        DINOV3_SQUASH,
        "DINOv3ViTImageProcessor",
        # The other exporter writes `If` nodes for the rotary embedding, which TensorRT
        # evaluates wrongly (NVIDIA/TensorRT#4742).
        dynamo=True,
    ),
    "clip-vit-base-patch32": VisionRecipe(
        CLIPVisionModelWithProjection,
        frozenset({"clip", "clip_vision_model"}),
        lambda: CLIPModel(CLIPConfig(**load_tiny_config("clip"))),
        CLIP_CROP,
        "CLIPImageProcessor",
        head=_clip_head,
    ),
}
"""Recipes by manifest entry."""
