"""What the scheduler of Kubernetes does with objects, as far as the chart relies on it.

Pods fit by requests, node selectors, taints and affinity to pods. Of those that wait the one of the
highest priority goes first, and takes the room of lower ones where its class lets it: the newest
first. The rules are about what stands in the way of that.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .chart import Object
from .rules import SERVING, containers, label, matches, names, rule, select_kinds, workloads

_UNITS = {"m": 0.001, "Mi": 2.0**20, "Gi": 2.0**30}
GPU = "nvidia.com/gpu"


def amount(quantity: str | int) -> float:
    """CPUs, bytes or devices."""
    text = str(quantity)
    unit = next((unit for unit in _UNITS if text.endswith(unit)), "")
    return float(text.removesuffix(unit)) * _UNITS.get(unit, 1.0)


@dataclass(frozen=True, eq=False)
class Pod:
    """A pod that is placed, or waits.

    Attributes:
        owner: The name of what makes it.
        age: How many were made before it.
    """

    owner: str
    spec: Mapping[str, Any]
    labels: Mapping[str, str]
    priority: int
    preempts: bool
    age: int

    @property
    def requests(self) -> Mapping[str, float]:
        """Of its containers together, or of the largest that runs before them."""
        return add(
            [_requests(each) for each in self.spec["containers"]],
            [_requests(each) for each in self.spec.get("initContainers", ())],
        )


def _requests(container: Mapping[str, Any]) -> dict[str, float]:
    return {what: amount(much) for what, much in container["resources"]["requests"].items()}


def add(together: Sequence[Mapping[str, float]], apart: Sequence[Mapping[str, float]] = ()) -> dict[str, float]:
    """Sums by name; of each that comes alone the sum is at least its amount."""
    whole = {what for each in (*together, *apart) for what in each}
    return {
        what: max(sum(each.get(what, 0.0) for each in together), *(each.get(what, 0.0) for each in apart), 0.0)
        for what in whole
    }


@dataclass(eq=False)
class Node:
    """A node with the room that pods of ours may take."""

    room: Mapping[str, float]
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: Sequence[str] = ()
    pods: list[Pod] = field(default_factory=list)

    def fits(self, pod: Pod, others: Sequence[Pod]) -> bool:
        """Whether a pod may be placed beside what is here, and what is elsewhere."""
        used = add([one.requests for one in (*self.pods, pod)])
        tolerated = {one.get("key") for one in pod.spec.get("tolerations", ())}
        return (
            all(used[what] <= self.room.get(what, 0.0) for what in pod.requests)
            and pod.spec.get("nodeSelector", {}).items() <= self.labels.items()
            and tolerated.issuperset(self.taints)
            and all(self._is_beside(pod, term, others) for term in _terms(pod))
        )

    def _is_beside(self, pod: Pod, term: Mapping[str, Any], others: Sequence[Pod]) -> bool:
        selector = term["labelSelector"]
        if any(_selects(selector, one) for one in self.pods):
            return True
        # The first of them may go anywhere.
        return _selects(selector, pod) and not any(_selects(selector, one) for one in others)


def _terms(pod: Pod) -> Sequence[Mapping[str, Any]]:
    affinity = pod.spec.get("affinity", {}).get("podAffinity", {})
    terms: Sequence[Mapping[str, Any]] = affinity.get("requiredDuringSchedulingIgnoredDuringExecution", ())
    return terms


def _selects(selector: Mapping[str, Any], pod: Pod) -> bool:
    """By labels, and by expressions of the operator In."""
    return matches(selector, pod.labels) and all(
        pod.labels.get(each["key"]) in each["values"] for each in selector.get("matchExpressions", ())
    )


class Cluster:
    """Nodes, the pods on them, and those that wait."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self.nodes = list(nodes)
        self.waiting: list[Pod] = []
        self.evicted: list[str] = []
        self._ages = itertools.count()

    @property
    def placed_pods(self) -> list[Pod]:
        """The pods that are on a node."""
        return [pod for node in self.nodes for pod in node.pods]

    def create(self, things: Sequence[Object], *kinds: str) -> None:
        """Make the pods of objects, in the order in which helm makes objects."""
        for kind in kinds:
            for one in select_kinds(things, kind):
                for _ in range(_count(things, one)):
                    self.waiting.append(self._pod(things, one))
            self.schedule()

    def _pod(self, things: Sequence[Object], one: Object) -> Pod:
        template = one["spec"]["template"]
        about = names(things, "PriorityClass")[template["spec"]["priorityClassName"]]
        preempts = about.get("preemptionPolicy") != "Never"
        owner, labels = one["metadata"]["name"], template["metadata"]["labels"]
        age = next(self._ages)
        return Pod(owner, template["spec"], labels, about["value"], preempts, age)

    def finish(self, owner: str) -> None:
        """End the pods of a Job."""
        self._remove([pod for pod in self.placed_pods if pod.owner == owner])
        self.schedule()

    def roll(self, things: Sequence[Object], one: Object) -> None:
        """Replace the pods of a server one by one, as its strategy says."""
        strategy = one["spec"].get("strategy", {"type": "Recreate"})
        surges = strategy.get("rollingUpdate", {}).get("maxSurge", 0)
        for old in [pod for pod in self.placed_pods if pod.owner == one["metadata"]["name"]]:
            new = self._pod(things, one)
            if not surges:
                self._remove([old])
            self.waiting.append(new)
            self.schedule()
            if surges and new in self.placed_pods:
                self._remove([old])
                self.schedule()

    def _remove(self, pods: Sequence[Pod]) -> None:
        for node in self.nodes:
            node.pods = [pod for pod in node.pods if pod not in pods]

    def schedule(self) -> None:
        """Place what can be placed. What is evicted is made anew, and waits."""
        for pod in sorted(self.waiting, key=lambda one: (-one.priority, one.age)):
            node = next((n for n in self.nodes if n.fits(pod, self.placed_pods)), None)
            node = node or (self._make_room(pod) if pod.preempts else None)
            if node is not None:
                node.pods.append(pod)
                self.waiting.remove(pod)

    def _make_room(self, pod: Pod) -> Node | None:
        """Evict pods of lower priority where that helps, and no more than needed."""
        for node in self.nodes:
            before = list(node.pods)
            lower = [one for one in before if one.priority < pod.priority]
            node.pods = [one for one in before if one not in lower]
            elsewhere = [one for one in self.placed_pods if one not in before]
            if not node.fits(pod, [*node.pods, *elsewhere]):
                node.pods = before
                continue
            # Those of high priority, then the oldest, are kept where there is room after all.
            for one in sorted(lower, key=lambda one: (-one.priority, one.age)):
                node.pods.append(one)
                if not node.fits(pod, [*node.pods, *elsewhere]):
                    node.pods.remove(one)
                    self.evicted.append(one.owner)
                    self.waiting.append(one)
            return node
        return None


def _count(things: Sequence[Object], one: Object) -> int:
    if one["kind"] == "Job":
        return int(one["spec"].get("parallelism", 1))
    for scaler in select_kinds(things, "HorizontalPodAutoscaler", "ScaledObject"):
        spec = scaler["spec"]
        if spec["scaleTargetRef"]["name"] == one["metadata"]["name"]:
            return int(spec.get("minReplicas", spec.get("minReplicaCount", 1)))
    return int(one["spec"].get("replicas", 1))


def install(things: Sequence[Object], nodes: Iterable[Node]) -> Cluster:
    """A cluster in which all is made and nothing is done yet."""
    cluster = Cluster(nodes)
    cluster.create(things, *SERVING, "Job")
    return cluster


def _mounts(template: Mapping[str, Any]) -> set[str]:
    volumes = template["spec"].get("volumes", ())
    return {v["persistentVolumeClaim"]["claimName"] for v in volumes if "persistentVolumeClaim" in v}


@rule
def _rollouts_end(things: Sequence[Object]) -> Iterator[str]:
    for one in select_kinds(things, *SERVING):
        spec = one["spec"]["template"]["spec"]
        devices = spec.get("resourceClaims") or any(
            "/" in what for c in containers(one["spec"]["template"]) for what in c["resources"]["limits"]
        )
        strategy = one["spec"].get("strategy", {})
        rolling = strategy.get("rollingUpdate", {})
        in_place = {"maxSurge": 0, "maxUnavailable": 1}
        if devices and strategy.get("type") != "Recreate" and rolling != in_place:
            yield f"{label(one)}: its rollout needs a spare GPU"
        if rolling.get("maxUnavailable") and one["spec"].get("replicas") == 1:
            yield f"{label(one)}: it is Available without any pod that is ready"


@rule
def _rollouts_wait_for_weights(things: Sequence[Object]) -> Iterator[str]:
    for job in select_kinds(things, "Job"):
        weights, wait = job["spec"]["template"], job["spec"].get("activeDeadlineSeconds", 0)
        for one, template in workloads(things):
            if one["kind"] != "Deployment" or not _mounts(template) & _mounts(weights):
                continue
            probe = template["spec"]["containers"][0].get("startupProbe", {})
            loads = probe.get("periodSeconds", 10) * probe.get("failureThreshold", 3)
            if one["spec"].get("progressDeadlineSeconds", 600) <= wait + loads:
                yield f"{label(one)}: its rollout is given up before weights are there and loaded"
            classes = [names(things, "PriorityClass").get(_class(each)) for each in (weights, template)]
            first, then = (each["value"] if each else None for each in classes)
            # Of classes that are not the chart's nothing is known.
            if first is not None and then is not None and first <= then:
                yield f"{label(job)}: it waits for room that {label(one)} has while it waits for it"


def _class(template: Mapping[str, Any]) -> str:
    return str(template["spec"].get("priorityClassName"))


@rule
def _claims_for_one_node_are_on_one(things: Sequence[Object]) -> Iterator[str]:
    for name, claim in names(things, "PersistentVolumeClaim").items():
        for one, template in workloads(things):
            if claim["spec"]["accessModes"] != ["ReadWriteOnce"] or name not in _mounts(template):
                continue
            terms = template["spec"].get("affinity", {}).get("podAffinity", {})
            required = terms.get("requiredDuringSchedulingIgnoredDuringExecution", ())
            if "kubernetes.io/hostname" not in {each["topologyKey"] for each in required}:
                yield f"{label(one)}: it may be on another node than its claim {name}"


@rule
def _claims_of_devices_fit(things: Sequence[Object]) -> Iterator[str]:
    templates, used = names(things, "ResourceClaimTemplate"), set()
    for one, template in workloads(things):
        claims = {c["name"]: c for c in template["spec"].get("resourceClaims", ())}
        taken = {c["name"] for each in containers(template) for c in each["resources"].get("claims", ())}
        used |= {claim["resourceClaimTemplateName"] for claim in claims.values()}
        for name in taken ^ claims.keys():
            yield f"{label(one)}: device {name} is asked for, and not claimed or not used"
    for name in used ^ templates.keys():
        yield f"ResourceClaimTemplate {name}: nobody takes it, or it is not there"
