"""Networks that are served by torch: what a part of them would gain from an export.

    python perf/exported_parts.py [--part sam] [--seconds 20] [--json]

Parts have their published size and random weights. Each is timed in turns, one picture at a time: by
torch, by ONNX Runtime and by OpenVINO, in fp32 on a CPU. `difference` is the largest one to torch,
divided by torch's largest value.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click
import numpy as np
import torch
from gpu import show
from torch import nn

from editjudge_services.runtime.onnx import open_network
from editjudge_services.zoo.torch_tools import export_to_onnx, randomise_weights


class Part(nn.Module):
    """A network of which one tensor is read."""

    def __init__(self, network: nn.Module, read: Callable[[Any], Any]) -> None:
        super().__init__()
        self.network, self.read = network, read

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        """Compute the tensor that is read."""
        features: torch.Tensor = self.read(self.network(pixels))
        return features


def make_sam() -> nn.Module:
    """The image encoder of SAM base."""
    from transformers import SamConfig, SamModel

    return Part(SamModel(SamConfig()).vision_encoder, lambda output: output.last_hidden_state)


def make_got() -> nn.Module:
    """The vision tower of GOT."""
    from transformers.models.got_ocr2 import modeling_got_ocr2 as got_ocr2

    return Part(got_ocr2.GotOcr2VisionEncoder(got_ocr2.GotOcr2VisionConfig()), lambda output: output.last_hidden_state)


def make_swin() -> nn.Module:
    """The backbone of Grounding DINO tiny."""
    from transformers import GroundingDinoConfig
    from transformers.backbone_utils import load_backbone

    return Part(load_backbone(GroundingDinoConfig()), lambda output: output.feature_maps[-1])


PARTS: Mapping[str, tuple[Callable[[], nn.Module], tuple[int, int]]] = {
    "sam": (make_sam, (1024, 1024)),
    "got": (make_got, (1024, 1024)),
    "grounding_dino": (make_swin, (800, 1066)),
}
"""What makes a part, and the height and width of its picture."""


def measure(name: str, seconds: float) -> dict[str, object]:
    """Export a part and time it; gives seconds per picture, or why it was not exported."""
    import openvino

    make, size = PARTS[name]
    module = randomise_weights(make)
    pixels = np.random.default_rng(0).normal(size=(1, 3, *size)).astype(np.float32)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "part.onnx"
        example = torch.from_numpy(np.concatenate([pixels, pixels]))
        start = time.perf_counter()
        try:
            export_to_onnx(module, [example], path, ["pixels"], ["features"], dynamic_axes={0: "batch"}, dynamo=True)
        except torch.onnx.OnnxExporterError as error:
            reason: BaseException = error
            while reason.__cause__ is not None:
                reason = reason.__cause__
            return {"part": name, "error": f"{type(reason).__name__}: {str(reason).strip().splitlines()[0]}"}
        export_seconds = time.perf_counter() - start
        in_onnxruntime = open_network(path, "fp32")
        network: Any = openvino.Core().compile_model(path, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})

    def in_torch(array: Any) -> Any:
        with torch.inference_mode():
            return module(torch.from_numpy(array)).numpy()

    engines: Mapping[str, Callable[[Any], Any]] = {
        "torch": in_torch,
        "onnxruntime": lambda array: in_onnxruntime(array)[0],
        "openvino": lambda array: np.asarray(network(array)[0]),
    }
    outputs = {engine: run(pixels) for engine, run in engines.items()}
    times: dict[str, list[float]] = {engine: [] for engine in engines}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or not times["openvino"]:
        for engine, run in engines.items():
            start = time.perf_counter()
            run(pixels)
            times[engine].append(time.perf_counter() - start)
    row: dict[str, object] = {"part": name, "export_seconds": export_seconds}
    reference = outputs["torch"]
    for engine in engines:
        row[engine] = float(np.median(times[engine]))
        if engine != "torch":
            row[f"{engine}_ratio"] = float(np.median(times["torch"]) / np.median(times[engine]))
            row[f"{engine}_difference"] = float(np.abs(outputs[engine] - reference).max() / np.abs(reference).max())
    return row


@click.command()
@click.option("--part", "names", multiple=True, type=click.Choice(list(PARTS)), default=tuple(PARTS))
@click.option("--seconds", default=30.0, show_default=True, help="For each part.")
@click.option("--json", "as_json", is_flag=True)
def main(names: tuple[str, ...], seconds: float, as_json: bool) -> None:
    """Time parts in torch, ONNX Runtime and OpenVINO."""
    show([measure(name, seconds) for name in names], as_json)


if __name__ == "__main__":
    main()
