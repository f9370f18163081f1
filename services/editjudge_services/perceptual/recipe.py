"""Recipes of LPIPS; need torch and the data files of the package `lpips`.

There are two graphs, so that the first runs only once on an image that is compared with many
others: the trunk takes images, RGB in [-1, 1], (B, 3, H, W), and gives five taps (B, C, h, w); the
heads take the taps of two images and give their five weighted differences (B, 1, h, w). Every size
may vary.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file
from torch import nn

from editjudge.base.errors import ConfigError
from editjudge.base.images import RGB
from editjudge.base.probes import fingerprint, texture_image

from ..zoo.artefact import Parity, Precision
from ..zoo.recipe import Recipe
from ..zoo.torch_tools import export_to_onnx, halve_products, make_parity_images, measure_parity, randomise_weights
from .network import HEADS, TRUNK, LpipsNetwork, to_signed
from .torch_lpips import Heads, Lpips, Net, Trunk, load_published_heads, make_trunk

_SIDE = 512
TOLERANCE: Mapping[Precision, float] = {"fp32": 1e-5, "tf32": 1e-2, "fp16": 1e-2, "bf16": 1e-2}
"""For fp32, the largest difference of a distance or of any pixel of a map; for the others, of a
distance: bf16 keeps 8 bits of the mantissa in every product."""


@dataclass(slots=True)
class LpipsRecipe:
    """Makes and exports LPIPS with one trunk."""

    net: Net
    precisions: tuple[Precision, ...] = ("fp32", "tf32", "fp16", "bf16")

    def make_untrained(self, folder: Path) -> None:
        """Save a random trunk of full size, since the shapes of the heads are fixed."""
        model = nn.Module()
        # 2 ** 0.5 makes up for the loss of scale in each ReLU.
        model.features = randomise_weights(lambda: make_trunk(self.net)[0], gain=2**0.5)
        torch.save(model.state_dict(), folder / f"{self.net}-untrained.pth")

    def load(self, checkpoint: Path) -> Lpips:
        """Load the model with the trunk of a checkpoint, in evaluation mode.

        Args:
            checkpoint: A folder with one `.safetensors` or `.pth` file, keys as torchvision's;
                the classifier may be in it and is left out.

        Raises:
            ConfigError: there is no such file, or it holds another network.
            MissingExtra: the package `lpips` is not installed.
        """
        weights = _weights(checkpoint)
        model = Lpips(self.net, load_published_heads(self.net))
        prefix = "features."
        features = {k.removeprefix(prefix): v for k, v in weights.items() if k.startswith(prefix)}
        try:
            model.features.load_state_dict(features)
        except RuntimeError as error:
            raise ConfigError(f"{checkpoint}: not the layers of {self.net}: {error}") from error
        return model.float().eval()

    def export(self, checkpoint: Path, folder: Path, precision: Precision, pictures: Sequence[RGB] | None) -> Parity:
        """Write `trunk.onnx` and `layers.onnx`, and compare them with the checkpoint.

        Raises:
            ConfigError: the checkpoint is not of this trunk.
            MissingExtra: the package `lpips`, or for bf16 OpenVINO, is not installed.
        """
        model = self.load(checkpoint)
        examples = torch.rand(2, 3, 96, 112) * 2 - 1
        taps = model.taps_of(examples)
        names = [f"tap_{index}" for index in range(len(taps))]
        sizes = {0: "batch", 2: "height", 3: "width"}
        export_to_onnx(Trunk(model), [examples], folder / TRUNK, ["images"], names, dynamic_axes=sizes)
        tap_names = [f"{side}_{name}" for side in "ab" for name in names]
        outputs = [f"layer_{index}" for index in range(len(taps))]
        export_to_onnx(Heads(model), [*taps, *taps], folder / HEADS, tap_names, outputs, dynamic_axes=sizes)
        for graph in (TRUNK, HEADS):
            _separate_sizes(folder / graph)
        if precision == "fp16":
            # Sums of squares of VGG16's features are beyond fp16.
            halve_products(folder / TRUNK, ("Conv", "Relu", "MaxPool"))
        export = LpipsNetwork(folder, precision)
        output_count = 2 if precision == "fp32" else 1
        pairs: list[tuple[NDArray[np.float32], NDArray[np.float32]]] = []
        images = pictures or make_parity_images()
        for image in images:
            a, b = _pair(image[:_SIDE, :_SIDE])
            with torch.inference_mode():
                source = model(torch.from_numpy(a), torch.from_numpy(b))
            both = zip(source[:output_count], export(a, b)[:output_count], strict=True)
            pairs += [(s.numpy(), e) for s, e in both]
        measure = "difference" if precision == "fp32" else "distance"
        return measure_parity(pairs, TOLERANCE[precision], len(images), measure)

    def fingerprint(self, folder: Path, precision: Precision) -> list[float]:
        """Compute an export's outputs for the probe of its role."""
        distance = LpipsNetwork(folder, precision)(*_pair(texture_image()))[0]
        return fingerprint("lpips", {"DISTANCE": distance})


def _separate_sizes(path: Path) -> None:
    """Give every input its own names of sizes, since taps shrink from stage to stage.

    Equal names would count as equal sizes when memory is planned.
    """
    model = onnx.load(path)
    for tensor in model.graph.input:
        for axis in (2, 3):
            tensor.type.tensor_type.shape.dim[axis].dim_param = f"{tensor.name}_{axis}"
    for output in model.graph.output:
        for size in output.type.tensor_type.shape.dim[1:]:
            size.Clear()
    del model.graph.value_info[:]
    onnx.save(model, path)


def _pair(image: RGB) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Make a batch of one pair: an image, and the same image upside down."""
    return to_signed(image)[None], to_signed(np.ascontiguousarray(image[::-1]))[None]


def _weights(checkpoint: Path) -> Mapping[str, torch.Tensor]:
    files = sorted([*checkpoint.glob("*.safetensors"), *checkpoint.glob("*.pth")])
    if len(files) != 1:
        raise ConfigError(f"{checkpoint}: {len(files)} files of weights", "there must be one")
    if files[0].suffix == ".safetensors":
        return load_file(files[0])
    weights = torch.load(files[0], map_location="cpu", weights_only=True)
    if not isinstance(weights, Mapping):
        raise ConfigError(f"{files[0]} holds no weights by name")
    return weights


RECIPES: Mapping[str, Recipe] = {"lpips-vgg": LpipsRecipe("vgg"), "lpips-alex": LpipsRecipe("alex")}
"""Recipes by manifest entry."""
