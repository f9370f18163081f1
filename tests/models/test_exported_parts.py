"""The parts of networks that stay in torch are timed beside their exports."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

PERF = Path(__file__).parents[2] / "perf"


class Running(nn.Module):
    """A network of which no exporter makes an ONNX graph."""

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        return pixels.cummax(dim=-1).values


def test_a_part_is_compared_and_one_that_is_not_exported_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(PERF)
    import exported_parts

    networks = {"convolution": lambda: nn.Conv2d(3, 4, 3), "maximum": Running}
    monkeypatch.setattr(exported_parts, "PARTS", {name: (make, (16, 24)) for name, make in networks.items()})
    row = exported_parts.measure("convolution", 0.0)
    for engine in ("onnxruntime", "openvino"):
        assert row[engine] > 0
        assert row[f"{engine}_ratio"] == pytest.approx(row["torch"] / row[engine])
        assert row[f"{engine}_difference"] < 1e-5
    refused = exported_parts.measure("maximum", 0.0)
    assert refused.keys() == {"part", "error"}
    assert "cummax" in refused["error"]
