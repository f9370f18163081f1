"""What is to run on a GPU runs there or not at all, and says which ONNX Runtime computes."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import onnxruntime
import pytest

from editjudge.base.errors import ConfigError
from editjudge_services.features.vision_service import DinoV2
from editjudge_services.runtime import adaptor, onnx
from editjudge_services.runtime.specialist import Specialist

CUDA, CPU = "CUDAExecutionProvider", "CPUExecutionProvider"
TENSORRT = "TensorrtExecutionProvider"
CARD = "NVIDIA H100 80GB HBM3, 570.86.15"


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[Any]]:
    """A build of ONNX Runtime: what it has, what its sessions get, and the providers they were asked for."""
    build: dict[str, list[Any]] = {"has": [CPU], "gets": [CPU], "asked": [], "inputs": []}
    opened = SimpleNamespace(get_providers=lambda: build["gets"], get_inputs=lambda: build["inputs"])

    def open_session(*_: object, providers: list[Any]) -> object:
        build["asked"] = providers
        return opened

    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: build["has"])
    monkeypatch.setattr(onnxruntime, "InferenceSession", open_session)
    return build


@pytest.fixture
def tensorrt(session: dict[str, list[Any]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, list[Any]]:
    """A build with TensorRT, beside a card that `nvidia-smi` tells of, by the number that it is asked for."""
    pixels = SimpleNamespace(name="pixels", shape=["batch", 3, 224, 224])
    session |= {"has": [TENSORRT, CUDA, CPU], "gets": [TENSORRT, CUDA, CPU], "inputs": [pixels]}
    program = tmp_path / "bin" / "nvidia-smi"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\n[ "$1" = --id=3 ] && echo "{CARD}" || echo "NVIDIA L4, 570.86.15"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/bin:/usr/bin")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,4")
    monkeypatch.setenv("EDITJUDGE_ONNX_DEVICE", "tensorrt")
    monkeypatch.setenv("EDITJUDGE_ONNX_ENGINES", str(tmp_path / "engines"))
    return session


def test_engines_are_stored_by_card_and_driver_for_every_size_of_a_batch(
    tensorrt: dict[str, list[Any]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    flags = {}
    for precision in ("tf32", "fp16", "bf16"):
        onnx.open_network(Path("model.onnx"), precision)
        assert onnx.find_device(precision) == "tensorrt"
        (name, options), (cuda, _), cpu = tensorrt["asked"]
        assert (name, cuda, cpu) == (TENSORRT, CUDA, CPU)
        flags[precision] = options["trt_fp16_enable"], options["trt_bf16_enable"]
    assert flags == {"tf32": ("0", "0"), "fp16": ("1", "0"), "bf16": ("0", "1")}
    shapes = [options[f"trt_profile_{size}_shapes"] for size in ("min", "opt", "max")]
    assert shapes == ["pixels:1x3x224x224", *["pixels:8x3x224x224"] * 2]
    assert options["trt_engine_cache_path"] == str(tmp_path / "engines" / "NVIDIA-H100-80GB-HBM3-570.86.15")
    assert Path(options["trt_engine_cache_path"]).is_dir()
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    onnx.open_network(Path("model.onnx"), "fp16")
    assert tensorrt["asked"][0][1]["trt_engine_cache_path"] == str(tmp_path / "engines" / "NVIDIA-L4-570.86.15")
    assert DinoV2.max_batch == onnx.LARGEST_BATCH


@pytest.mark.parametrize(
    ("lacks", "told"),
    [
        ({"has": [CUDA, CPU]}, "this ONNX Runtime has no TensorRT; install onnxruntime-gpu .* or say device gpu"),
        ({"gets": [CUDA, CPU]}, "no TensorRT that works; give it a GPU and the libraries"),
        ({"inputs": [SimpleNamespace(name="a", shape=["batch", 3, "height", "width"])]}, "pictures of any size"),
        ({"card": []}, "nvidia-smi does not tell the GPU"),
        ({"precision": ["fp32"]}, "it does not compute in fp32; say tf32"),
    ],
)
def test_tensorrt_that_cannot_be_is_refused_by_what_it_lacks(
    tensorrt: dict[str, list[Any]],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    lacks: dict[str, list[Any]],
    told: str,
) -> None:
    tensorrt |= lacks
    if "card" in lacks:
        monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match=told) as error:
        onnx.open_network(Path("model.onnx"), *lacks.get("precision", ["fp16"]))
    assert "EDITJUDGE_ONNX" in str(error.value)


@pytest.mark.parametrize(
    ("has", "gets", "fix"),
    [
        ([CPU], [CPU], "install onnxruntime-gpu"),
        # The build for GPUs, its libraries missing: it says so in its log, and takes the CPU.
        ([CUDA, CPU], [CPU], "give it a GPU and the libraries"),
    ],
)
def test_a_network_for_a_gpu_never_runs_on_the_cpu(
    session: dict[str, list[Any]], monkeypatch: pytest.MonkeyPatch, has: list[str], gets: list[str], fix: str
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


def test_where_a_gpu_is_welcome_and_not_asked_for_the_cpu_does(session: dict[str, list[Any]]) -> None:
    session["has"] = [CUDA, CPU]
    for device in ("auto", "cpu"):
        onnx.open_network(adaptor.Path("model.onnx"), "fp32", onnx.OnnxSettings(device=device))
    session["gets"] = [CUDA, CPU]
    onnx.open_network(adaptor.Path("model.onnx"), "fp32", onnx.OnnxSettings(device="cuda"))


def test_torch_without_cuda_is_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    from editjudge_services.zoo.transformers_tools import choose_device

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

    class ExportedService(Specialist):
        engines = onnx.ENGINES

        def infer(self, batch: Sequence[Any]) -> Sequence[Any]:
            return []

    assert ExportedService.libraries("fp32") == told
    assert ExportedService.libraries("bf16", in_tensorrt=True) == {**told, "tensorrt": "absent"}
