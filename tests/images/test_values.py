"""Every group of every file of the chart's values, served by a real Triton from its variant's lock.

Weights are untrained, by the commands of the chart's own Job. Devices are set to CPU; a variant for
GPUs is its twin for CPUs, of which the end of the output names the packages that differ.
"""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from ..k8s import chart
from ..k8s.chart import CHART, Object
from ..k8s.local_pod import Pod, make_pod, serving
from ..k8s.rules import containers, setting, workloads
from .conftest import TOLD
from .dockerfile import read_whole_lock
from .layers import Layer

pytestmark = [
    pytest.mark.triton,
    pytest.mark.timeout(1500),  # the environments are made first
    pytest.mark.skipif(not (chart.TOOLS / "bin" / "helm").is_file(), reason="no helm: make k8s"),
]
VALUES: dict[str, Any] = {file: yaml.safe_load((CHART / "values" / f"{file}.yaml").read_text()) for file in chart.FILES}
KNOWN = json.loads((CHART / "files" / "models.json").read_text())["models"]
GROUPS = [
    (file, group)
    for file, values in VALUES.items()
    for group, server in values["triton"]["servers"].items()
    # The authors' prompts are nobody's to bring; the real vLLM has these two in tests/vllm.
    if not any(KNOWN[model]["vllm"] for model in server["models"])
]
ENTRIES = {about["entry"] for about in KNOWN.values() if about["entry"]}
CUDA = re.compile(r"(onnxruntime-gpu|torch|triton|nvidia-.*|cuda-.*)$")


def on_cpu(file: str) -> list[Object]:
    """The objects of a file, with untrained weights and all of them on processors."""
    values: dict[str, Any] = {"weights.job.untrained": True}
    for group, server in VALUES[file]["triton"]["servers"].items():
        for model, how in server["models"].items():
            if how.get("device") == "gpu":
                values[f"triton.servers.{group}.models.{model}.device"] = "cpu"
    return chart.render_file(file, values)


@pytest.fixture(scope="session")
def weights(fetch: Layer, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The variable of a folder with what the Jobs make, but for what they pull from the hub."""
    steps: dict[tuple[str, ...], list[str]] = {}
    for _, template in (each for file in VALUES for each in workloads(on_cpu(file))):
        for each in containers(template):
            if each["name"] == "untrained" or each["name"].startswith("export-"):
                entries = [word for word in each["command"] if word in ENTRIES]
                steps.setdefault(tuple(w for w in each["command"] if w not in ENTRIES), []).extend(entries)
    folder = {"EDITJUDGE_MODELS_DIR": str(tmp_path_factory.mktemp("weights"))}
    for command, entries in steps.items():
        fetch.print_of(*command, *dict.fromkeys(entries), **folder)
    return folder


@dataclass(frozen=True)
class Twin:
    """A variant's environment for processors, with the NumPy that the Triton here takes."""

    layer: Layer
    programs: Path


@pytest.fixture(scope="session")
def twins(triton: Layer, triton_torch: Layer, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Twin]:
    layers = {"cpu": triton, "torch-cpu": triton_torch}
    folder = tmp_path_factory.mktemp("older")
    return {name: Twin(layer, layer.with_older_numpy(folder / name)) for name, layer in layers.items()}


def twin_of(variant: str) -> str:
    """The variant for processors with the same packages, but for those that bring CUDA."""
    twin = variant.replace("gpu", "cpu")
    own, other = read_whole_lock(f"triton-{variant}"), read_whole_lock(f"triton-{twin}")
    gone = {package for package in own if own[package] != other.get(package)}
    come = {package for package in other if other[package] != own.get(package)}
    assert all(CUDA.match(package) for package in gone)
    assert come <= {"onnxruntime", "torch"}
    if gone:
        left = ", ".join(f"{package} {own[package]}" for package in sorted(gone))
        taken = ", ".join(f"{package} {other[package]}" for package in sorted(come))
        TOLD[f"NOT INSTALLED, variant {variant}"] = f"{left}; in their place {taken}"
    return twin


def run_doctor(pod: Pod, things: list[Object]) -> subprocess.CompletedProcess[str]:
    """What doctor says of the models of a group, of all that the release expects."""
    panel = json.loads(setting(things, "panel", "panel.json"))
    own = json.loads((pod.folder / "models.json").read_text())
    named = {name: facts for name, facts in panel.items() if name.replace(".", "_", 1) in own}
    (pod.folder / "panel.json").write_text(json.dumps(named))
    return pod.run(["editjudge", "doctor", "--endpoint", pod.url, "--expect", "panel.json"])


@pytest.mark.parametrize(("file", "group"), GROUPS)
def test_every_group_is_served_by_its_variant(
    file: str, group: str, twins: dict[str, Twin], weights: dict[str, str], tmp_path: Path
) -> None:
    things = on_cpu(file)
    server = VALUES[file]["triton"]["servers"][group]
    twin = twins[twin_of(server["variant"])]
    variables = twin.layer.variables(weights)
    pod = make_pod(things, f"triton-{group}", tmp_path, variables, twin.programs)
    with serving(pod):
        assert pod.ready == server["models"].keys(), pod.log[-4000:]
        said = run_doctor(pod, things)
        assert said.returncode == 0, said.stdout + said.stderr
        assert said.stdout.count("✓") >= len(server["models"])


def test_a_variant_without_torch_costs_the_models_that_need_it(
    twins: dict[str, Twin], weights: dict[str, str], tmp_path: Path
) -> None:
    """The chart refuses it; an image may be another one than its name in the values says."""
    things = on_cpu("dev")
    twin = twins["cpu"]
    pod = make_pod(things, "triton-small", tmp_path, twin.layer.variables(weights), twin.programs)
    with serving(pod):
        models = VALUES["dev"]["triton"]["servers"]["small"]["models"].keys()
        assert pod.ready == models - {"segmenter_grounded_sam"}
        assert "No module named 'torch'" in pod.log
        said = run_doctor(pod, things)
        assert said.returncode == 1
        assert "✗ segmenter.grounded_sam" in said.stdout
        assert said.stdout.count("✗") == 1, said.stdout
