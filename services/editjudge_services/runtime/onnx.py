"""Runs exported networks on numpy arrays.

fp32, tf32 and fp16 run on ONNX Runtime; tf32 on GPUs alone. On a CPU the products of fp16 are
computed in fp32, from inputs in fp16. bf16 runs the graph of fp32 on OpenVINO, on processors that
multiply bf16 themselves: others would quietly compute in fp32, and the signature would be wrong.

With TensorRT, tf32, fp16 and bf16 run on engines that are built for one GPU and driver.

Settings, read once for each network: `EDITJUDGE_ONNX_THREADS` (0, the default: as many as
there are cores), `EDITJUDGE_ONNX_DEVICE` (`auto`, `cpu`, `cuda` or `tensorrt`),
`EDITJUDGE_ONNX_GPU_MIB` and `EDITJUDGE_ONNX_ENGINES`.
"""

import os
import re
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from platformdirs import user_cache_path
from pydantic import Field

from editjudge.base.errors import ConfigError, MissingExtra
from editjudge.base.signature import ABSENT, package_version

from ..zoo.artefact import Artefact, Precision
from .serving import Variables

_TENSORRT = "TensorrtExecutionProvider"
_CUDA = "CUDAExecutionProvider"
_CPU = "CPUExecutionProvider"
_VARIABLES = "EDITJUDGE_ONNX_"
_NO_TENSORRT = "device tensorrt (EDITJUDGE_ONNX_DEVICE=tensorrt)"
_NEEDS: Mapping[str, tuple[str, str, str]] = {
    "cuda": (_CUDA, "device gpu (EDITJUDGE_ONNX_DEVICE=cuda): this ONNX Runtime has no CUDA", "say device cpu"),
    "tensorrt": (_TENSORRT, f"{_NO_TENSORRT}: this ONNX Runtime has no TensorRT", "say device gpu"),
}
"""By device: the provider, what is said where it is missing, and what is left then."""
ENGINES: Mapping[Precision, str] = {
    "fp32": "onnxruntime",
    "tf32": "onnxruntime",
    "fp16": "onnxruntime",
    "bf16": "openvino",
}
"""The distribution that computes in each precision."""
ON_GPU: frozenset[Precision] = frozenset({"fp32", "tf32", "fp16"})
"""Precisions in which exported networks run on a GPU."""
ON_TENSORRT: frozenset[Precision] = frozenset({"tf32", "fp16", "bf16"})
"""Precisions of TensorRT's engines, which compute fp32 as tf32."""
LARGEST_BATCH = 8
"""The batch that an engine is built for; a smaller one runs too."""
BUILDS: Mapping[str, tuple[str, ...]] = {"onnxruntime": ("onnxruntime", "onnxruntime-gpu")}
"""The distributions of a package, where it has several."""


def find_distribution(name: str) -> str:
    """The name of a package's installed distribution: ONNX Runtime has a second one, for GPUs.

    Where none is installed it is the first.
    """
    builds = BUILDS.get(name, (name,))
    return next((build for build in builds if package_version(build) != ABSENT), name)


class OnnxSettings(Variables):
    """How networks run, read from the variables `EDITJUDGE_ONNX_*`.

    Attributes:
        threads: Threads for each network; 0 means as many as there are cores.
        device: `auto` uses CUDA where ONNX Runtime was built with it and finds it. With `cuda` a
            network that would run on the CPU is refused, and with `tensorrt` one that would run
            without TensorRT.
        gpu_mib: MiB of the GPU that each network may take; 0 means all that is free.
        engines: Folder of TensorRT's engines.
    """

    threads: int = Field(default=0, ge=0)
    device: Literal["auto", "cpu", "cuda", "tensorrt"] = "auto"
    gpu_mib: int = Field(default=0, ge=0)
    engines: Path = Field(default_factory=lambda: user_cache_path("editjudge") / "engines")


Network: TypeAlias = "Callable[..., list[NDArray[np.float32]]]"
"""A function that runs an exported graph on a batch.

It takes the graph's inputs in order and returns its outputs in order, as float32. The first axis
is the batch, whose size may differ from call to call.
"""


def open_network(path: Path, precision: Precision, settings: OnnxSettings | None = None) -> Network:
    """Load an exported graph to run in a precision.

    Args:
        path: The `.onnx` file, with weights in fp32.
        settings: The settings; by default they are read from the environment.

    Raises:
        ConfigError: this machine cannot compute in the precision or on the device, or a setting is
            malformed.
        MissingExtra: OpenVINO is needed and not installed.
    """
    settings = settings or OnnxSettings.read(_VARIABLES)
    if precision == "bf16" and settings.device != "tensorrt":
        return _in_bf16(path, settings)
    return _in_onnxruntime(path, settings, precision)


def find_device(precision: Precision, settings: OnnxSettings | None = None) -> Literal["cpu", "cuda", "tensorrt"]:
    """Find where a network runs in a precision.

    Raises:
        ConfigError: a setting is malformed, or needs a GPU that ONNX Runtime does not have.
    """
    import onnxruntime

    settings = settings or OnnxSettings.read(_VARIABLES)
    device, providers = settings.device, onnxruntime.get_available_providers()
    if device == "tensorrt" and precision not in ON_TENSORRT:
        raise ConfigError(f"{_NO_TENSORRT}: it does not compute in {precision}", "say tf32, or device gpu")
    if precision == "bf16" and device != "tensorrt":
        return "cpu"
    if device == "auto":
        device = "cuda" if _CUDA in providers else "cpu"
    if device == "cpu" and precision == "tf32":
        raise ConfigError("tf32 is an arithmetic of GPUs, and this is a CPU", "serve fp32")
    if device != "cpu" and _NEEDS[device][0] not in providers:
        raise ConfigError(_NEEDS[device][1], f"install onnxruntime-gpu in place of onnxruntime, or {_NEEDS[device][2]}")
    return device


def check_device(artefact: Artefact) -> None:
    """Check that an export runs where it was compared with its source.

    Raises:
        ConfigError: it computes more coarsely than its source, and was compared on another device.
    """
    parity, precision = artefact.parity, artefact.precision
    if artefact.is_rounded and parity and parity.device != (device := find_device(precision)):
        raise ConfigError(
            f"{artefact.entry} in {precision} was compared with its source on {parity.device}, and"
            f" runs on {device} here",
            f"run here: editjudge models export {artefact.entry} --precision {precision}",
        )


def _in_onnxruntime(path: Path, settings: OnnxSettings, precision: Precision) -> Network:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = settings.threads
    # Several models share the cores: threads that spin while they wait would slow the others.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    # An arena would hold the memory of the largest picture for ever, and sizes differ from call to
    # call.
    options.enable_cpu_mem_arena = options.enable_mem_pattern = False
    # Errors only: what ONNX Runtime warns of is how it optimised the graph.
    options.log_severity_level = 3
    providers: list[Any] = [_CPU]
    if (device := find_device(precision, settings)) != "cpu":
        providers.insert(0, (_CUDA, _cuda_options(settings, precision)))
    if device == "tensorrt":
        providers.insert(0, (_TENSORRT, _tensorrt_options(path, settings, precision)))
    session: Any = onnxruntime.InferenceSession(str(path), options, providers=providers)
    # One whose libraries of CUDA do not load is a CPU's, and says so in its log alone.
    provider, what, instead = _NEEDS.get(settings.device, (_CPU, "", ""))
    if provider not in session.get_providers():
        raise ConfigError(f"{what} that works", f"give it a GPU and the libraries it is built for, or {instead}")
    names = [each.name for each in session.get_inputs()]

    def run(*inputs: NDArray[np.float32]) -> list[NDArray[np.float32]]:
        feed = dict(zip(names, inputs, strict=True))
        outputs: list[NDArray[np.float32]] = session.run(None, feed)
        return outputs

    return run


def _in_bf16(path: Path, settings: OnnxSettings) -> Network:
    try:
        import openvino
    except ImportError as error:
        raise MissingExtra("bf16 on the CPU", "bf16") from error
    core = openvino.Core()
    if "BF16" not in core.get_property("CPU", "OPTIMIZATION_CAPABILITIES"):
        raise ConfigError("this processor has no bf16 arithmetic", "serve fp32")
    threads = {"INFERENCE_NUM_THREADS": settings.threads} if settings.threads else {}
    network: Any = core.compile_model(path, "CPU", {"INFERENCE_PRECISION_HINT": "bf16", **threads})

    def run(*inputs: NDArray[np.float32]) -> list[NDArray[np.float32]]:
        answer = network(inputs)
        return [np.asarray(answer[index]) for index in range(len(network.outputs))]

    return run


def _cuda_options(settings: OnnxSettings, precision: Precision) -> dict[str, str]:
    limit = {"gpu_mem_limit": str(settings.gpu_mib << 20)} if settings.gpu_mib else {}
    return {
        # TF32 keeps 10 bits of the mantissa: results would not be those of fp32.
        "use_tf32": "1" if precision == "tf32" else "0",
        "cudnn_conv_algo_search": "HEURISTIC",
        # By default the arena doubles, and several models share a GPU.
        "arena_extend_strategy": "kSameAsRequested",
        **limit,
    }


def _tensorrt_options(path: Path, settings: OnnxSettings, precision: Precision) -> dict[str, str]:
    """Make the options of TensorRT, whose engines are stored by GPU and driver."""
    import onnxruntime

    inputs = onnxruntime.InferenceSession(str(path), providers=[_CPU]).get_inputs()
    if any(isinstance(size, str) for one in inputs for size in one.shape[1:]):
        raise ConfigError(f"{_NO_TENSORRT}: {path.name} takes pictures of any size", "say device gpu")
    shapes = ",".join(f"{one.name}:{{0}}x{'x'.join(map(str, one.shape[1:]))}" for one in inputs)
    folder = settings.engines / describe_gpu()
    folder.mkdir(parents=True, exist_ok=True)
    return {
        # Without these shapes an engine would be built anew for each size of a batch.
        "trt_profile_min_shapes": shapes.format(1),
        **{f"trt_profile_{one}_shapes": shapes.format(LARGEST_BATCH) for one in ("opt", "max")},
        **{f"trt_{one}_enable": "1" if precision == one else "0" for one in ("fp16", "bf16")},
        "trt_layer_norm_fp32_fallback": "1",
        "trt_engine_cache_enable": "1",
        "trt_engine_cache_path": str(folder),
    }


def describe_gpu() -> str:
    """The GPU of this process and its driver, as the name of a folder.

    Raises:
        ConfigError: `nvidia-smi` does not tell it.
    """
    gpu = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")[0] or "0"
    query = ("nvidia-smi", f"--id={gpu}", "--query-gpu=name,driver_version", "--format=csv,noheader")
    try:
        answer = subprocess.check_output(query, text=True, timeout=60)  # noqa: S603 - our own command line
    except (OSError, subprocess.SubprocessError) as error:
        fix = "run it where nvidia-smi works, or say device gpu"
        raise ConfigError(f"{_NO_TENSORRT}: nvidia-smi does not tell the GPU and its driver", fix) from error
    return re.sub(r"[^\w.]+", "-", answer.strip())
