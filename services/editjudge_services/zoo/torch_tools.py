"""Tools of recipes: random weights, ONNX export, and the fixed images of parity checks.

Only recipes import this module, never services.
"""

import contextlib
import io
import logging
import tomllib
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from torch import nn

from editjudge.base.images import RGB

from .artefact import Parity, Precision
from .checkpoint import SEED

DTYPES: Mapping[Precision, torch.dtype] = {
    "fp32": torch.float32,
    "tf32": torch.float32,
    "fp16": torch.float16,
    "bf16": torch.bfloat16,
}
PRODUCTS = ("Conv", "Gemm", "MatMul")
_SIZES = ((96, 128), (256, 192), (224, 224), (150, 420))


@cache
def load_tiny_config(network: str) -> dict[str, Any]:
    """Load the configuration of a tiny network from `untrained.toml`."""
    file = Path(__file__).with_name("untrained.toml")
    table: dict[str, Any] = tomllib.loads(file.read_text(encoding="utf-8"))[network]
    return table


def randomise_weights(build: Callable[[], nn.Module], gain: float = 1.0, seed: int = SEED) -> Any:
    """Build a model with random weights that make its outputs depend visibly on its inputs.

    The libraries' own initialisations leave biases, layer scales and some tables at 0 or
    1e-5, which hides mistakes in whatever they multiply.

    Args:
        build: Makes the model. Its own random buffers, such as SAM's frequencies, come from the
            same seed.
        gain: Scale of the weight matrices; 2 ** 0.5 keeps the scale through ReLUs.
        seed: The same seed gives the same weights.

    Returns:
        The model, in evaluation mode.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = build()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            random = torch.randn(parameter.shape, generator=generator)
            if parameter.ndim >= 2:
                # A row of an embedding table is a vector, not the sum of its products.
                table = parameter.ndim == 2 and "embed" in name
                fan = 1 if table else parameter[0].numel()
                parameter.copy_(random * gain * fan**-0.5)
            elif name.endswith("weight") or "lambda" in name:
                parameter.copy_(1 + 0.1 * random)
            else:
                parameter.copy_(0.1 * random)
    return model.eval()


def export_to_onnx(
    module: nn.Module,
    examples: Sequence[torch.Tensor],
    path: Path,
    inputs: Sequence[str],
    outputs: Sequence[str],
    *,
    dynamic_axes: Mapping[int, str],
    dynamo: bool = False,
) -> None:
    """Export a module as one `.onnx` file with the same bytes on every machine.

    Args:
        module: Put into evaluation mode: the exporter restores the wrapper's own mode
            afterwards, and that reaches into the model.
        examples: One for each input, with a batch of 2 or more.
        inputs: Their names.
        outputs: Names of what the module returns.
        dynamic_axes: Name of each axis whose size may change, the same for all inputs; axis 0 is
            the batch, also of the outputs.
        dynamo: Use the newer exporter; slower, and the only one without `If` nodes for
            rotary embeddings.
    """
    module.eval()
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        # Both exporters warn of their own deprecations and of intended constants.
        warnings.simplefilter("ignore")
        options: dict[str, Any] = {"input_names": list(inputs), "output_names": list(outputs)}
        if dynamo:
            axes = {axis: torch.export.Dim(name) for axis, name in dynamic_axes.items()}
            options |= {"dynamic_shapes": tuple(axes for _ in inputs), "external_data": False, "verbose": False}
        else:
            batch = {name: {0: dynamic_axes[0]} for name in outputs}
            options["dynamic_axes"] = {**{name: dict(dynamic_axes) for name in inputs}, **batch}
        torch.onnx.export(module, tuple(examples), path, dynamo=dynamo, **options)
    _strip_metadata(path)


def halve_products(path: Path, operators: Collection[str] = PRODUCTS) -> None:
    """Rewrite a graph so that some operators compute in fp16, and all else in fp32.

    Norms, softmax and sums of squares overflow or lose digits in fp16; casts between two of the
    operators are removed when the graph is loaded.

    Args:
        operators: Types of the nodes, each with inputs and outputs of one type.
    """
    model = onnx.load(path)
    weights = {one.name: one for one in model.graph.initializer}
    nodes: list[onnx.NodeProto] = []
    halves: dict[str, str] = {}

    def cast(name: str, to: str, kind: int) -> None:
        node = onnx.helper.make_node("Cast", [name], [to], name=f"cast_{to}", to=kind)
        nodes.append(node)

    for node in list(model.graph.node):
        if node.op_type not in operators:
            nodes.append(node)
            continue
        for index, name in enumerate(node.input):
            if name and name not in halves:
                halves[name] = f"{name}_fp16"
                if name in weights:
                    array = onnx.numpy_helper.to_array(weights[name]).astype(np.float16)
                    half = onnx.numpy_helper.from_array(array, halves[name])
                    model.graph.initializer.append(half)
                else:
                    cast(name, halves[name], onnx.TensorProto.FLOAT16)
            node.input[index] = halves.get(name, "")
        nodes.append(node)
        for index, name in enumerate(node.output):
            node.output[index] = f"{name}_product"
            cast(node.output[index], name, onnx.TensorProto.FLOAT)
    del model.graph.node[:], model.graph.value_info[:]
    model.graph.node.extend(nodes)
    inputs = {name for node in nodes for name in node.input}
    kept_weights = [one for one in model.graph.initializer if one.name in inputs]
    del model.graph.initializer[:]
    model.graph.initializer.extend(kept_weights)
    onnx.save(model, path)


def make_parity_images() -> list[RGB]:
    """Make the fixed images of parity checks, uint8 (H, W, 3), of several shapes.

    They are waves of several lengths with noise, made in integers and float64, so that they are
    equal on every machine.
    """
    images = []
    for seed, (height, width) in enumerate(_SIZES):
        rng = np.random.default_rng(seed)
        y, x = np.mgrid[:height, :width]
        picture = np.zeros((height, width, 3))
        for _ in range(6):
            across, down, phase = rng.uniform(-0.3, 0.3, 3)
            wave = np.sin(across * x + down * y + 20 * phase)
            picture += wave[..., None] * rng.uniform(0, 30, 3)
        noise = rng.integers(-12, 13, picture.shape)
        images.append(np.clip(np.round(128 + picture) + noise, 0, 255).astype(np.uint8))
    return images


def measure_parity(
    pairs: Sequence[tuple[NDArray[np.float32], NDArray[np.float32]]],
    tolerance: float,
    images: int,
    measure: str = "difference",
) -> Parity:
    """Measure the largest difference between the outputs of the source and of the export.

    Args:
        pairs: Outputs of the same shape, scaled as they are served.
    """
    largest = max(float(np.abs(source - export).max()) for source, export in pairs)
    return Parity(largest_difference=largest, tolerance=tolerance, images=images, measure=measure)


def _strip_metadata(path: Path) -> None:
    """Remove stack traces and paths, so that the digest depends on the network alone."""
    model = onnx.load(path)
    graph = model.graph
    parts = (model, graph, *graph.node, *graph.initializer, *graph.value_info)
    for message in (*parts, *graph.input, *graph.output):
        message.ClearField("doc_string")
        message.ClearField("metadata_props")
    onnx.save(model, path)
