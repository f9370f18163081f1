"""What each file of values takes, as it and the page say; and that its node has that."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import yaml

from . import chart
from .chart import CHART, Object, render_file
from .rules import select_kinds, workloads

KNOWN: dict[str, Any] = json.loads((CHART / "files" / "models.json").read_text())
PAGE = (CHART.parents[1] / "docs" / "howto" / "deploying.md").read_text()
RESERVE_CPU, RESERVE_GIB = 1.0, 1.0
"""What the pods of a cluster take themselves: those of kind's one node 0.95 CPUs and 0.3 GiB."""


@dataclass(frozen=True)
class Pods:
    """The pods of one object, and what each of them requests."""

    kind: str
    count: int
    cpu: float
    gib: float
    gpus: int


def cpus(quantity: str) -> float:
    return int(quantity[:-1]) / 1000 if quantity.endswith("m") else float(quantity)


def gib(quantity: str) -> float:
    return int(quantity[:-2]) * {"Mi": 1 / 1024, "Gi": 1, "Ti": 1024}[quantity[-2:]]


def list_requests(things: list[Object]) -> Iterator[Pods]:
    """A pod takes what its containers do together, or the largest of those before them."""
    scaled = {
        one["spec"]["scaleTargetRef"]["name"]: one["spec"]["minReplicas"]
        for one in select_kinds(things, "HorizontalPodAutoscaler")
    }
    for one, template in workloads(things):
        count = one["spec"].get("replicas", scaled.get(one["metadata"]["name"], 1))
        needs = [
            [each["resources"]["requests"] for each in template["spec"].get(part, ())]
            for part in ("containers", "initContainers")
        ]
        most = {
            what: max(
                sum(read(each.get(what, nothing)) for each in needs[0]),
                *(read(each.get(what, nothing)) for each in needs[1]),
                0,
            )
            for what, read, nothing in (("cpu", cpus, "0"), ("memory", gib, "0Gi"), ("nvidia.com/gpu", int, "0"))
        }
        yield Pods(one["kind"], count, most["cpu"], most["memory"], int(most["nvidia.com/gpu"]))


def on_claim(values: dict[str, Any]) -> int:
    """GiB of the weights, as they are pulled and exported, without judges."""
    served = [
        (about["entry"], how.get("precision", "fp32"))
        for group in values["triton"]["servers"].values()
        for model, how in group["models"].items()
        if (about := KNOWN["models"][model])["entry"]
    ]
    entries = {entry for entry, _ in served} | set(of_vllm(values).values())
    sizes = {entry: KNOWN["weights"][entry]["mib"] for entry in entries}
    pulled = sum(size["checkpoint"] for size in sizes.values())
    return math.ceil((pulled + sum(sizes[entry][how] for entry, how in set(served))) / 1024)


def of_vllm(values: dict[str, Any]) -> dict[str, str]:
    servers = values.get("vllm", {}).get("servers", {})
    return {name: server["entry"] for name, server in servers.items() if "entry" in server}


def on_gpus(values: dict[str, Any]) -> dict[str, int]:
    """GiB of the weights on each GPU, by the group of servers, without judges."""
    sizes: dict[str, int] = {}
    for name, group in values["triton"]["servers"].items():
        for model, how in group["models"].items():
            if how["device"] == "gpu":
                size = KNOWN["weights"][KNOWN["models"][model]["entry"]]["mib"]
                sizes[name] = sizes.get(name, 0) + size[how.get("precision", "fp32")]
    for name, entry in of_vllm(values).items():
        sizes[name] = KNOWN["weights"][entry]["mib"]["bf16"]
    return {name: math.ceil(mib / 1024) for name, mib in sizes.items()}


@pytest.mark.parametrize("file", chart.FILES)
def test_what_a_file_of_values_takes_is_told_and_fits(file: str) -> None:
    told = (CHART / "values" / f"{file}.yaml").read_text()
    values = yaml.safe_load(told)
    pods = list(list_requests(render_file(file)))
    cpu, memory, gpus = (
        sum(each.count * amount for each, amount in zip(pods, amounts, strict=True))
        for amounts in ([each.cpu for each in pods], [each.gib for each in pods], [each.gpus for each in pods])
    )
    assert f"# In all: {cpu:g} CPUs, {memory:g}Gi of memory, {gpus} GPUs.\n" in told
    claim, gpu = on_claim(values), on_gpus(values)
    assert claim <= gib(values["weights"]["claim"]["size"])
    each_gpu = ", ".join(f"`{name}` {size}Gi" for name, size in gpu.items()) or "none"
    row = f"| `{file}.yaml` | {cpu:g} | {memory:g}Gi | {gpus} | {claim}Gi | {each_gpu} |\n"
    assert row in PAGE, row
    node = re.search(r"^# Node: (\d+) CPUs, (\d+)Gi of memory(?:, (\d+) GPU)?\.$", told, re.MULTILINE)
    if node is None:
        assert max(each.count for each in pods) > 1  # a cluster of several nodes
        return
    # What comes beside them: the Job, or a pod that an upgrade starts before the old one ends.
    jobs = [each for each in pods if each.kind == "Job"]
    further = [*jobs, *(each for each in pods if each.kind != "Job" and not each.gpus)]
    serving_cpu = cpu - sum(each.cpu for each in jobs)
    serving_gib = memory - sum(each.gib for each in jobs)
    assert serving_cpu + max(each.cpu for each in further) <= int(node[1]) - RESERVE_CPU
    assert serving_gib + max(each.gib for each in further) <= int(node[2]) - RESERVE_GIB
    assert gpus <= int(node[3] or 0)
