"""What is to run on a GPU runs there or not at all, and says which ONNX Runtime computes."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import onnxruntime
import pytest

from editjudge.base.errors import ConfigError
from editjudge_services.features.vision_service import DinoV2
from editjudge_services.runtime import adaptor, onnx
from editjudge_services.runtime.specialist import Specialist

CUDA, CPU = "CUDAExecutionProvider", "CPUExecutionProvider"


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """A build of ONNX Runtime: the providers that it has, and those that its sessions get."""
    build = {"has": [CPU], "gets": [CPU]}
    opened = SimpleNamespace(get_providers=lambda: build["gets"], get_inputs=list)
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: build["has"])
    monkeypatch.setattr(onnxruntime, "InferenceSession", lambda *_, **__: opened)
    return build


@pytest.mark.parametrize(
    ("has", "gets", "fix"),
    [
        ([CPU], [CPU], "install onnxruntime-gpu"),
        # The build for GPUs, its libraries missing: it says so in its log, and takes the CPU.
        ([CUDA, CPU], [CPU], "give it a GPU and the libraries of CUDA"),
    ],
)
def test_a_network_for_a_gpu_never_runs_on_the_cpu(
    session: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch, has: list[str], gets: list[str], fix: str
) -> None:
    session |= {"has": has, "gets": gets}
    monkeypatch.setitem(sys.modules, "triton_python_backend_utils", SimpleNamespace())
    monkeypatch.setattr(adaptor, "_end_with_server", lambda: None)
    monkeypatch.setattr(adaptor, "_counters", lambda *_: {})

    class Opens(DinoV2):
        def load(self, declared: Mapping[str, str]) -> None:
            onnx.open_network(adaptor.Path("model.onnx"), "fp32")

    started = {
        "model_config": json.dumps({"parameters": {"device": {"string_value": "gpu"}}}),
        "model_instance_kind": "GPU",
        "model_instance_device_id": "0",
    }
    for name in ("CUDA_VISIBLE_DEVICES", "EDITJUDGE_ONNX_DEVICE"):
        monkeypatch.setenv(name, "")
    with pytest.raises(RuntimeError, match=f"^features_dinov2: device gpu .*{fix}") as told:
        adaptor.serve(Opens)().initialize(started)
    assert "\n" not in str(told.value)


def test_where_a_gpu_is_welcome_and_not_asked_for_the_cpu_does(session: dict[str, list[str]]) -> None:
    session["has"] = [CUDA, CPU]
    for device in ("auto", "cpu"):
        onnx.open_network(adaptor.Path("model.onnx"), "fp32", onnx.OnnxSettings(device=device))
    session["gets"] = [CUDA, CPU]
    onnx.open_network(adaptor.Path("model.onnx"), "fp32", onnx.OnnxSettings(device="cuda"))


def test_torch_without_cuda_is_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    from editjudge_services.segmentation.checkpoints import choose_device

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert choose_device({}) == "cpu"
    with pytest.raises(ConfigError, match="torch .* has no CUDA here; give it a GPU"):
        choose_device({"device": "gpu"})


@pytest.mark.parametrize(
    ("installed", "told"),
    [
        ({"onnxruntime": "1.31.1"}, {"onnxruntime": "1.31.1"}),
        ({"onnxruntime-gpu": "1.30.0"}, {"onnxruntime-gpu": "1.30.0"}),
        ({}, {"onnxruntime": "absent"}),
    ],
)
def test_an_identity_names_the_build_that_is_installed(
    monkeypatch: pytest.MonkeyPatch, installed: dict[str, str], told: dict[str, str]
) -> None:
    def version(name: str) -> str:
        return installed.get(name, "absent")

    for module in ("onnx", "specialist"):
        monkeypatch.setattr(f"editjudge_services.runtime.{module}.package_version", version)

    class Exported(Specialist):
        engines = onnx.ENGINES

        def infer(self, batch: Sequence[Any]) -> Sequence[Any]:
            return []

    assert Exported.libraries("fp32") == told
