"""There is room for every set of values: first for the weights, then for what waits for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from .chart import FILES, PARTS, RELEASE, Object, read_page_values, render, render_file, render_parts
from .rules import SERVING, select_kinds
from .scheduling import GPU, Node, Pod, add, install


def node(cpus: float, gib: float, gpus: int = 0, **further: Any) -> Node:
    """A node; half a CPU and half a GiB of it are the cluster's own."""
    room = {"cpu": cpus - 0.5, "memory": (gib - 0.5) * 2**30, GPU: float(gpus)}
    return Node(room, **further)


def laptop(gib: float) -> Node:
    """Four CPUs and kind, whose control plane asks for 0.95 of them, and for 0.3 GiB."""
    return Node({"cpu": 3.05, "memory": (gib - 0.8) * 2**30})


def objects(values: str) -> list[Object]:
    """Of a file of values, of the chart or of the page."""
    return render_file(values) if values in FILES else render(values=read_page_values(values))


PLACES: dict[str, tuple[str, Callable[[], list[Node]]]] = {
    "dev on a laptop": ("dev", lambda: [laptop(16)]),
    "what the page has for a small laptop": ("laptop", lambda: [laptop(8)]),
    "dev on 16 CPUs": ("dev", lambda: [node(16, 60)]),
    "single-gpu": ("single-gpu", lambda: [node(16, 60, 1)]),
    "single-gpu with a tainted node beside": ("single-gpu", lambda: [node(64, 256), node(16, 60, 1, taints=[GPU])]),
    "production": ("production", lambda: [node(64, 256), *(node(96, 768, 8, taints=[GPU]) for _ in range(2))]),
}


SMALL = {"cpu": "100m", "memory": "256Mi"}
SETS = ("dev", "single-gpu", "laptop")
"""Those of one node."""


def owners(pods: Sequence[Pod]) -> set[str]:
    return {pod.owner for pod in pods}


def job(things: Sequence[Object]) -> str:
    (one,) = select_kinds(things, "Job")
    return str(one["metadata"]["name"])


def full(things: Sequence[Object]) -> Node:
    """A node without more room than all servers take, or the Job beside the front door."""
    endless = Node(dict.fromkeys(("cpu", "memory", GPU), 1e18))
    pods = install(things, [endless]).placed_pods
    takes: dict[str, list[Pod]] = {"servers": [], "weights": []}
    for pod in pods:
        tier = pod.labels["editjudge/tier"]
        takes["weights"] += [pod] * (tier != "triton")
        takes["servers"] += [pod] * (tier != "weights")
    return Node(add([], [add([pod.requests for pod in each]) for each in takes.values()]))


@pytest.mark.parametrize("place", PLACES)
def test_the_weights_come_first_and_then_all_pods_have_room(place: str) -> None:
    file, nodes = PLACES[place]
    things = objects(file)
    cluster = install(things, nodes())
    assert job(things) in owners(cluster.placed_pods)
    assert all(pod.labels["editjudge/tier"] in {"triton", "vllm"} for pod in cluster.waiting)
    cluster.finish(job(things))
    assert not owners(cluster.waiting)


@pytest.mark.parametrize("file", SETS)
def test_where_servers_hold_all_room_the_weights_take_it(file: str) -> None:
    things = objects(file)
    cluster = install(things, [full(things)])
    assert job(things) in owners(cluster.placed_pods)
    assert set(cluster.evicted) == {f"{RELEASE}-triton-small"}
    cluster.finish(job(things))
    assert not owners(cluster.waiting)


@pytest.mark.parametrize("wrong", [{"value": 0}, {"preemptionPolicy": "Never"}])
@pytest.mark.parametrize("file", SETS)
def test_a_class_that_takes_no_room_is_found(file: str, wrong: Object) -> None:
    things = objects(file)
    for one in select_kinds(things, "PriorityClass"):
        if "-weights-" in one["metadata"]["name"]:
            one.update(wrong)
    assert job(things) in owners(install(things, [full(things)]).waiting)


@pytest.mark.parametrize("place", PLACES)
def test_rollouts_end_and_evict_nobody(place: str) -> None:
    file, nodes = PLACES[place]
    things = objects(file)
    cluster = install(things, nodes())
    cluster.finish(job(things))
    cluster.evicted.clear()
    for one in select_kinds(things, *SERVING):
        before = [pod.age for pod in cluster.placed_pods if pod.owner == one["metadata"]["name"]]
        cluster.roll(things, one)
        after = [pod.age for pod in cluster.placed_pods if pod.owner == one["metadata"]["name"]]
        assert len(before) == len(after)
        assert set(before).isdisjoint(after), f"{one['metadata']['name']}: its rollout never ends"
    assert not cluster.evicted
    assert not owners(cluster.waiting)


@pytest.mark.parametrize(("mode", "many"), [("ReadWriteOnce", 1), ("ReadWriteMany", 2)])
def test_what_mounts_a_claim_for_one_node_is_on_one(mode: str, many: int) -> None:
    things = render_parts(
        {
            "triton.servers.other": {**PARTS["small"], "models": {"features_dinov2": {}}},
            "weights": {"claim": {"accessMode": mode}, "job": {"resources": SMALL}},
            "judge.enabled": False,
            "front.envoy": {"replicas": 1, "resources": SMALL},
        }
    )
    # Each has room for one of the two servers.
    cluster = install(things, [node(2, 8) for _ in range(3)])
    mounting = [[p for p in n.pods if p.labels["editjudge/tier"] != "front"] for n in cluster.nodes]
    assert sum(map(bool, mounting)) == many
    assert len(cluster.waiting) == 2 - many


def test_the_job_lands_where_the_servers_are() -> None:
    """With a claim for one node: by their node selector, past their taints."""
    place = {"nodeSelector": {"pool": "gpus"}, "tolerations": [{"key": "dear", "operator": "Exists"}]}
    gpu = {**PARTS["small"], "models": {"features_dinov2": {}}, "gpus": 1, "pod": place}
    things = render_parts({"triton.servers.small": gpu, "weights.claim.accessMode": "ReadWriteOnce"})
    dear = node(8, 32, 1, labels={"pool": "gpus"}, taints=["dear", GPU])
    cluster = install(select_kinds(things, "Job", "PriorityClass"), [node(8, 32), dear])
    assert [len(one.pods) for one in cluster.nodes] == [0, 1]
