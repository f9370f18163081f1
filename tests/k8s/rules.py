"""What no schema sees: objects that do not fit together, and what a platform team would not run.

Each rule takes all objects and says what is wrong, in words.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from .chart import RELEASE, Object, label, ray_pods

Rule: TypeAlias = Callable[[Sequence[Object]], Iterator[str]]
RULES: list[Rule] = []
SERVING = ("Deployment", "StatefulSet")
"""What makes pods that run until they are told to end."""
# Handlers that a probe may have; one of them.
_HANDLERS = frozenset({"exec", "grpc", "httpGet", "tcpSocket"})
_REMOVED = {
    "autoscaling/v2beta1",
    "autoscaling/v2beta2",
    "batch/v1beta1",
    "extensions/v1beta1",
    "flowcontrol.apiserver.k8s.io/v1beta3",
    "networking.k8s.io/v1beta1",
    "policy/v1beta1",
}
# What Pod Security `restricted` lets a volume be.
_VOLUMES = {
    *("configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image"),
    *("persistentVolumeClaim", "projected", "secret"),
}
# Binary and decimal suffixes: 16GB is none.
_QUANTITY = re.compile(r"[0-9]+([.][0-9]+)?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?")
# Where programs look for it.
_SHARED = "/dev/shm"  # noqa: S108
_DIGEST = re.compile(r"\S+@sha256:[0-9a-f]{64}")


def rule(function: Rule) -> Rule:
    """Have a rule asked by `find_faults`."""
    RULES.append(function)
    return function


def find_faults(things: Sequence[Object]) -> list[str]:
    """Everything that is wrong."""
    return sorted({told for one in RULES for told in one(things)})


def select_kinds(things: Sequence[Object], *kinds: str) -> list[Object]:
    """Objects of some kinds."""
    return [one for one in things if one.get("kind") in kinds]


def workloads(things: Sequence[Object]) -> Iterator[tuple[Object, Mapping[str, Any]]]:
    """Whatever makes pods, with their template."""
    for one in select_kinds(things, *SERVING, "Job"):
        yield one, one["spec"]["template"]
    for one in select_kinds(things, "RayJob"):
        yield from ((one, template) for template in ray_pods(one))


def containers(template: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """All containers of a pod."""
    spec = template["spec"]
    return [*spec.get("initContainers", ()), *spec["containers"]]


def names(things: Sequence[Object], kind: str) -> dict[str, Object]:
    """Objects of a kind by name."""
    return {one["metadata"]["name"]: one for one in select_kinds(things, kind)}


def pod(things: Sequence[Object], name: str) -> Any:
    """What the pods of a server are, by its name without the release's."""
    (one,) = (x for x in select_kinds(things, *SERVING) if x["metadata"]["name"] == f"{RELEASE}-{name}")
    return one["spec"]["template"]["spec"]


def prefix(one: Object) -> str:
    """What the names of a release begin with, of one that is a component's."""
    component = one["metadata"]["labels"]["app.kubernetes.io/component"]
    return str(one["metadata"]["name"].rpartition(component)[0])


def recorded_and_alerts(things: Sequence[Object]) -> list[Any]:
    """The rules of Prometheus."""
    groups = (group for one in select_kinds(things, "PrometheusRule") for group in one["spec"]["groups"])
    return [each for group in groups for each in group["rules"]]


def setting(things: Sequence[Object], name: str, file: str) -> str:
    """A file of a ConfigMap, by its name without the release's."""
    return str(names(things, "ConfigMap")[f"{RELEASE}-{name}"]["data"][file])


def each_container(things: Sequence[Object]) -> Iterator[tuple[Object, Any, Any]]:
    """Whatever makes pods, their template and each of their containers."""
    for one, template in workloads(things):
        yield from ((one, template, each) for each in containers(template))


def matches(selector: Mapping[str, Any], labels: Mapping[str, Any]) -> bool:
    """Whether labels have all that a selector wants; one that wants nothing matches."""
    return selector.get("matchLabels", {}).items() <= labels.items()


def _labels(things: Sequence[Object]) -> list[Mapping[str, Any]]:
    return [template["metadata"]["labels"] for _, template in workloads(things)]


@rule
def _kinds_are_there(things: Sequence[Object]) -> Iterator[str]:
    for one in things:
        if one["apiVersion"] in _REMOVED:
            yield f"{label(one)}: {one['apiVersion']} was removed"


@rule
def _nothing_is_there_twice(things: Sequence[Object]) -> Iterator[str]:
    seen = [label(one) for one in things]
    yield from (f"{one}: twice" for one in seen if seen.count(one) > 1)


@rule
def _names_are_names(things: Sequence[Object]) -> Iterator[str]:
    for one in things:
        name = one["metadata"]["name"]
        if not re.fullmatch(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?", str(name)):
            yield f"{label(one)}: too long for DNS, or no name"
        if one["kind"] == "PriorityClass" and name.startswith("system-"):
            yield f"{label(one)}: such names are the cluster's own"


@rule
def _names_are_text(things: Sequence[Object]) -> Iterator[str]:
    """What YAML takes for a number, a truth or a date is none of Kubernetes' names."""
    for one in things:
        for place, value in _leaves(one):
            text = re.search(r"([nN]ame|namespace|Class|claim|instance|kind|hostnames)$", place)
            if text and not isinstance(value, str):
                yield f"{label(one)}: {place} is {value!r}, and no text"


def _leaves(value: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """Everything of an object that has no parts, with the name of its place."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if not isinstance(key, str):
                yield "name", key
            yield from _leaves(inner, str(key))
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(inner, place)
    else:
        yield place, value


@rule
def _selectors_find_pods(things: Sequence[Object]) -> Iterator[str]:
    for one in select_kinds(things, *SERVING):
        spec = one["spec"]
        if not matches(spec["selector"], spec["template"]["metadata"]["labels"]):
            yield f"{label(one)}: its selector does not match its pods"
    for one in select_kinds(things, "PodDisruptionBudget", "NetworkPolicy"):
        selector = one["spec"].get("selector") or one["spec"].get("podSelector", {})
        if not any(matches(selector, labels) for labels in _labels(things)):
            yield f"{label(one)}: its selector finds no pod"


@rule
def _services_find_ports(things: Sequence[Object]) -> Iterator[str]:
    for one in select_kinds(things, "Service"):
        selector = {"matchLabels": one["spec"]["selector"]}
        behind = [t for _, t in workloads(things) if matches(selector, t["metadata"]["labels"])]
        if len(behind) != 1:
            yield f"{label(one)}: {len(behind)} workloads stand behind it"
        for template in behind:
            ports = [p for c in containers(template) for p in c.get("ports", ())]
            known = {p.get("name") for p in ports} | {p["containerPort"] for p in ports}
            for port in one["spec"]["ports"]:
                if port.get("targetPort", port["port"]) not in known:
                    yield f"{label(one)}: no container has port {port.get('targetPort')}"
        ports = one["spec"]["ports"]
        if len(ports) > 1 and not all("name" in port for port in ports):
            yield f"{label(one)}: ports without names"


@rule
def _addresses_lead_to_services(things: Sequence[Object]) -> Iterator[str]:
    services = {
        f"{name}.{one['metadata']['namespace']}.svc": {p["port"] for p in one["spec"]["ports"]}
        for name, one in names(things, "Service").items()
    }
    for host, port in re.findall(r"([a-z0-9.-]+\.svc):(\d+)", json.dumps(things)):
        if int(port) not in services.get(host, ()):
            yield f"{host}:{port}: there is no such Service, or it has no such port"


@rule
def _routes_lead_to_services(things: Sequence[Object]) -> Iterator[str]:
    services, gateways = names(things, "Service"), names(things, "Gateway")
    for one in select_kinds(things, "GRPCRoute", "HTTPRoute"):
        for parent in one["spec"]["parentRefs"]:
            if parent["name"] not in gateways:
                yield f"{label(one)}: there is no Gateway {parent['name']}"
        for each in (b for r in one["spec"]["rules"] for b in r["backendRefs"]):
            service = services.get(each["name"])
            if not service or each["port"] not in {p["port"] for p in service["spec"]["ports"]}:
                yield f"{label(one)}: there is no Service {each['name']}:{each['port']}"


@rule
def _volumes_are_declared(things: Sequence[Object]) -> Iterator[str]:
    for one, template in workloads(things):
        own = one["spec"].get("volumeClaimTemplates", ())
        volumes = {volume["name"] for volume in template["spec"].get("volumes", ())}
        volumes |= {claim["metadata"]["name"] for claim in own}
        mounted = {m["name"] for c in containers(template) for m in c.get("volumeMounts", ())}
        yield from (f"{label(one)}: volume {name} is not declared" for name in mounted - volumes)
        yield from (f"{label(one)}: volume {name} is not used" for name in volumes - mounted)


@rule
def _what_pods_name_is_there(things: Sequence[Object]) -> Iterator[str]:
    """Everything that is ours; what the user brings is told apart by its name."""
    accounts, classes = names(things, "ServiceAccount"), names(things, "PriorityClass")
    for one, template in workloads(things):
        spec = template["spec"]
        ours = prefix(one)
        for account in {spec["serviceAccountName"]} - accounts.keys():
            yield f"{label(one)}: there is no ServiceAccount {account}"
        priority = spec.get("priorityClassName", "")
        if f"-{ours[0]}" in priority and priority not in classes:
            yield f"{label(one)}: there is no PriorityClass {priority}"
        for volume in spec.get("volumes", ()):
            for part, key, kind in (
                ("configMap", "name", "ConfigMap"),
                ("persistentVolumeClaim", "claimName", "PersistentVolumeClaim"),
            ):
                name = volume.get(part, {}).get(key, "")
                if name.startswith(ours) and name not in names(things, kind):
                    yield f"{label(one)}: there is no {kind} {name}"


@rule
def _files_of_settings_are_there(things: Sequence[Object]) -> Iterator[str]:
    maps = names(things, "ConfigMap")
    for one, template in workloads(things):
        mounted = {
            volume["name"]: maps.get(volume["configMap"]["name"])
            for volume in template["spec"].get("volumes", ())
            if "configMap" in volume
        }
        for each in containers(template):
            words = " ".join([*each.get("command", ()), *each.get("args", ())])
            for mount in each.get("volumeMounts", ()):
                settings = mounted.get(mount["name"])
                for file in re.findall(rf"{re.escape(mount['mountPath'])}/([\w.-]+)", words):
                    if settings and file not in settings["data"]:
                        yield f"{label(one)}: there is no {file} in {label(settings)}"


@rule
def _probes_lead_to_ports(things: Sequence[Object]) -> Iterator[str]:
    for one, template, each in each_container(things):
        ports = each.get("ports", ())
        known = {p.get("name") for p in ports} | {p["containerPort"] for p in ports}
        for name in ("startupProbe", "readinessProbe", "livenessProbe"):
            probe = each.get(name)
            if probe is None:
                if one["kind"] in SERVING and each in template["spec"]["containers"]:
                    yield f"{label(one)}: {each['name']} has no {name}"
                continue
            handlers = _HANDLERS & probe.keys()
            if len(handlers) != 1:
                yield f"{label(one)}: {name} has {len(handlers)} handlers"
            for handler in handlers - {"exec"}:
                if probe[handler]["port"] not in known:
                    yield f"{label(one)}: {name} asks a port that is not there"


@rule
def _resources_are_said(things: Sequence[Object]) -> Iterator[str]:
    for one, _, each in each_container(things):
        limits = each.get("resources", {}).get("limits", {})
        requests = each.get("resources", {}).get("requests", {})
        for what in ("cpu", "memory"):
            if what not in limits or what not in requests:
                yield f"{label(one)}: {each['name']} says no {what}"
        for what in {*limits, *requests}:
            if "/" in what and limits.get(what) != requests.get(what):
                yield f"{label(one)}: {what}: request and limit differ"
        for what, much in (*limits.items(), *requests.items()):
            if not _QUANTITY.fullmatch(str(much)):
                yield f"{label(one)}: {what}: {much} is no quantity"


@rule
def _shared_memory_fits(things: Sequence[Object]) -> Iterator[str]:
    for one, template in workloads(things):
        for volume in template["spec"].get("volumes", ()):
            empty = volume.get("emptyDir")
            if empty is not None and "sizeLimit" not in empty:
                yield f"{label(one)}: volume {volume['name']} has no bound"
            if (empty or {}).get("medium") == "Memory":
                users = [
                    c for c in containers(template) if volume["name"] in {m["name"] for m in c.get("volumeMounts", ())}
                ]
                for each in users:
                    if 2 * _mib(empty["sizeLimit"]) > _memory(each):
                        yield f"{label(one)}: {volume['name']} takes more than half of the memory"


def _memory(container: Mapping[str, Any]) -> float:
    """MiB; without an end where none are said, which is told by another rule."""
    said = container.get("resources", {}).get("limits", {}).get("memory", "")
    return _mib(said) if _QUANTITY.fullmatch(said) else float("inf")


def _mib(quantity: str) -> int:
    return int(quantity[:-2]) * {"Mi": 1, "Gi": 1024}[quantity[-2:]]


@rule
def _pods_are_restricted(things: Sequence[Object]) -> Iterator[str]:
    """Pod Security, level `restricted`, and a root that cannot be written."""
    for one, template in workloads(things):
        spec = template["spec"]
        for field in ("hostNetwork", "hostPID", "hostIPC"):
            if spec.get(field):
                yield f"{label(one)}: {field}"
        for volume in spec.get("volumes", ()):
            if not _VOLUMES & volume.keys():
                yield f"{label(one)}: {volume['name']} is of a type that is not restricted"
        if spec.get("automountServiceAccountToken") is not False:
            yield f"{label(one)}: its account's token is mounted"


@rule
def _containers_are_restricted(things: Sequence[Object]) -> Iterator[str]:
    for one, template in workloads(things):
        pod = template["spec"].get("securityContext", {})
        for each in containers(template):
            own = {**pod, **each.get("securityContext", {})}
            wanted = {
                "runAsNonRoot": True,
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
                "seccompProfile": {"type": "RuntimeDefault"},
            }
            for field, value in wanted.items():
                if own.get(field) != value:
                    yield f"{label(one)}: {each['name']}: {field} is {own.get(field)}"
            if own.get("privileged") or own.get("runAsUser") == 0:
                yield f"{label(one)}: {each['name']} is privileged"
            if any(port.get("hostPort") for port in each.get("ports", ())):
                yield f"{label(one)}: {each['name']}: hostPort"


@rule
def _images_are_by_digest(things: Sequence[Object]) -> Iterator[str]:
    for one, _, each in each_container(things):
        if not _DIGEST.fullmatch(each["image"]):
            yield f"{label(one)}: image {each['image']} has no digest"
    for one, template in workloads(things):
        for volume in (v["image"] for v in template["spec"].get("volumes", ()) if "image" in v):
            if not _DIGEST.fullmatch(volume["reference"]):
                yield f"{label(one)}: image {volume['reference']} has no digest"


@rule
def _pods_have_time_to_end(things: Sequence[Object]) -> Iterator[str]:
    for one in select_kinds(things, *SERVING):
        spec = one["spec"]["template"]["spec"]
        for each in spec["containers"]:
            pause = each.get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
            words = " ".join([*each.get("command", ()), *each.get("args", ())])
            drains = re.findall(r"--(?:drain|notice|exit-timeout-secs|shutdown-timeout)=(\d+)", words)
            if spec["terminationGracePeriodSeconds"] <= pause + sum(map(int, drains)):
                yield f"{label(one)}: it is killed before it has drained"


@rule
def _budgets_can_be_kept(things: Sequence[Object]) -> Iterator[str]:
    covered = [one["spec"]["selector"] for one in select_kinds(things, "PodDisruptionBudget")]
    for one in select_kinds(things, "PodDisruptionBudget"):
        if {"minAvailable", "maxUnavailable"} <= one["spec"].keys():
            yield f"{label(one)}: both minAvailable and maxUnavailable"
    for one in select_kinds(things, *SERVING):
        if not any(matches(s, one["spec"]["template"]["metadata"]["labels"]) for s in covered):
            yield f"{label(one)}: no PodDisruptionBudget covers it"


@rule
def _policies_are_whole(things: Sequence[Object]) -> Iterator[str]:
    policies = select_kinds(things, "NetworkPolicy")
    for one in policies:
        for each in (*one["spec"].get("ingress", ()), *one["spec"].get("egress", ())):
            for port in each.get("ports", ()):
                if port.get("endPort", 65535) < port.get("port", 0):
                    yield f"{label(one)}: endPort below port"
    closed = [p["spec"] for p in policies if set(p["spec"]["policyTypes"]) == {"Ingress", "Egress"}]
    for one, template in workloads(things) if policies else ():
        labels = template["metadata"]["labels"]
        if not any(matches(p["podSelector"], labels) and not p.get("ingress") for p in closed):
            yield f"{label(one)}: nothing is closed before it"


@rule
def _calls_are_let_through(things: Sequence[Object]) -> Iterator[str]:
    """Every address that a pod has in its settings is one that its policies let it reach."""
    policies, services = select_kinds(things, "NetworkPolicy"), names(things, "Service")
    for one, template in workloads(things) if policies else ():
        maps = [
            names(things, "ConfigMap").get(volume["configMap"]["name"])
            for volume in template["spec"].get("volumes", ())
            if "configMap" in volume
        ]
        told = json.dumps([template, maps])
        for host, port in set(re.findall(r"([a-z0-9-]+)\.[a-z0-9-]+\.svc:(\d+)", told)):
            if host not in services:
                continue  # told by another rule
            behind = {**services[host]["spec"]["selector"]}
            called = [x for x in _labels(things) if behind.items() <= x.items()]
            own = template["metadata"]["labels"]
            if not all(_open(policies, own, other, int(port)) for other in called):
                yield f"{label(one)}: no policy lets it reach {host}:{port}"


def _open(policies: Sequence[Object], caller: Any, called: Any, port: int) -> bool:
    out = _lets(policies, caller, "egress", "to", called, port)
    return out and _lets(policies, called, "ingress", "from", caller, port)


def _lets(policies: Sequence[Object], pod: Any, way: str, peers: str, other: Any, port: int) -> bool:
    for one in policies:
        if not matches(one["spec"]["podSelector"], pod):
            continue
        for each in one["spec"].get(way, ()):
            ports = [p["port"] for p in each.get("ports", ())]
            meant = each.get(peers)
            met = meant is None or any(
                "namespaceSelector" not in p and matches(p.get("podSelector", {}), other) for p in meant
            )
            if met and port in ports:
                return True
    return False


@rule
def _sets_have_their_service(things: Sequence[Object]) -> Iterator[str]:
    for one in select_kinds(things, "StatefulSet"):
        service = names(things, "Service").get(one["spec"].get("serviceName", ""))
        if service is None or service["spec"].get("clusterIP") != "None":
            yield f"{label(one)}: its Service is not there, or has an address of its own"


@rule
def _numbers_are_written_out(things: Sequence[Object]) -> Iterator[str]:
    """Helm writes a large number of a file as 1e+06, which no flag of a whole number takes."""
    for one in things:
        for number in re.findall(r"(?<![\w.])[0-9][0-9.]*e[+][0-9]+", json.dumps(one)):
            yield f"{label(one)}: {number} is no whole number to who reads it"


@rule
def _what_cannot_be_changed_is_named_after_what_it_is(things: Sequence[Object]) -> Iterator[str]:
    for one in select_kinds(things, "Job", "RayJob", "ResourceClaimTemplate"):
        if not re.search(r"-[0-9a-f]{8}$", one["metadata"]["name"]):
            yield f"{label(one)}: it cannot be changed, and its name has no digest"


def start_seconds(template: Mapping[str, Any]) -> int:
    """How long a pod may take to start."""
    probes = [each["startupProbe"] for each in template["spec"]["containers"] if "startupProbe" in each]
    return max((p["periodSeconds"] * p["failureThreshold"] for p in probes), default=0)


@rule
def _pods_may_start_as_long_as_their_rollout_waits(things: Sequence[Object]) -> Iterator[str]:
    for one in select_kinds(things, "Deployment"):
        if start_seconds(one["spec"]["template"]) >= one["spec"].get("progressDeadlineSeconds", 600):
            yield f"{label(one)}: its rollout has failed before a pod may have started"


@rule
def _pods_with_gpus_go_where_gpus_are(things: Sequence[Object]) -> Iterator[str]:
    """Nodes with GPUs are tainted by the name of the resource."""
    for one, template, each in each_container(things):
        for what in (w for w in each["resources"]["limits"] if w not in ("cpu", "memory")):
            if not any(
                t.get("operator") == "Exists" and t.get("key", what) == what
                for t in template["spec"].get("tolerations", ())
            ):
                yield f"{label(one)}: nodes with {what} are closed to it"


@rule
def _shared_memory_is_where_it_is_looked_for(things: Sequence[Object]) -> Iterator[str]:
    for one, template in workloads(things):
        volumes = template["spec"].get("volumes", ())
        shared = {v["name"] for v in volumes if v.get("emptyDir", {}).get("medium") == "Memory"}
        for mount in (m for c in containers(template) for m in c.get("volumeMounts", ())):
            if (mount["name"] in shared) != (mount["mountPath"] == _SHARED):
                at = f"{mount['name']} is at {mount['mountPath']}"
                yield f"{label(one)}: {at}, and {_SHARED} is shared memory"


@rule
def _metrics_are_for_chosen_pods(things: Sequence[Object]) -> Iterator[str]:
    """Metrics and calls share a port, so not every pod of a namespace may come in."""
    for one in select_kinds(things, "NetworkPolicy"):
        if one["metadata"]["name"].endswith("-from-metrics"):
            for peer in (p for way in one["spec"]["ingress"] for p in way.get("from", [{}])):
                if not peer.get("podSelector"):
                    yield f"{label(one)}: it lets every pod of a namespace in"


@rule
def _what_is_merged_is_done(things: Sequence[Object]) -> Iterator[str]:
    """A Job that merges the whole first asks after what every shard leaves once it is done."""
    marks = {
        word.replace("$(SHARD)", str(index))
        for one in select_kinds(things, "Job")
        for each in containers(one["spec"]["template"])
        for word in each.get("command", ())
        if word.endswith(".done") and "$(SHARD)" in word
        for index in range(one["spec"].get("completions", 0))
    }
    for one in select_kinds(things, "Job"):
        words = [w for c in containers(one["spec"]["template"]) for w in c.get("command", ())]
        for out in (w for w in words if re.match(r"--out=.*/whole-", w)):
            folder = out.removeprefix("--out=").rpartition("/")[0]
            task = out.rpartition("-")[2]
            left = {m for m in marks if m.startswith(f"{folder}/") and f".{task}." in m}
            if not left or not left <= set(words):
                yield f"{label(one)}: it merges shards that may not be done"


@rule
def _jobs_can_be_retried(things: Sequence[Object]) -> Iterator[str]:
    """What an API server refuses of indexed Jobs, and what would make two pods write one run."""
    for one in select_kinds(things, "Job"):
        spec, pod = one["spec"], one["spec"]["template"]["spec"]
        told = json.dumps(pod)
        indexed = spec.get("completionMode") == "Indexed"
        if "job-completion-index" in told and not indexed:
            yield f"{label(one)}: its pods have no index"
        if indexed and "completions" not in spec:
            yield f"{label(one)}: it says not how many indexes there are"
        if "backoffLimitPerIndex" in spec and not indexed:
            yield f"{label(one)}: backoffLimitPerIndex of a Job that is not Indexed"
        if "podFailurePolicy" in spec and pod["restartPolicy"] != "Never":
            yield f"{label(one)}: podFailurePolicy needs restartPolicy Never"
        if indexed and spec.get("podReplacementPolicy") != "Failed":
            yield f"{label(one)}: a pod that ends and the one in its place write the same run"
        known = {each["name"] for each in containers(spec["template"])}
        for each in spec.get("podFailurePolicy", {}).get("rules", ()):
            name = each.get("onExitCodes", {}).get("containerName")
            if name is not None and name not in known:
                yield f"{label(one)}: podFailurePolicy speaks of {name}, which is not there"
            if each["action"] == "FailIndex" and "backoffLimitPerIndex" not in spec:
                yield f"{label(one)}: FailIndex without backoffLimitPerIndex"


@rule
def _servers_do_not_write_weights(things: Sequence[Object]) -> Iterator[str]:
    for one, template in workloads(things):
        claims = {volume["name"] for volume in template["spec"].get("volumes", ()) if "persistentVolumeClaim" in volume}
        for each in containers(template) if one["kind"] in SERVING else ():
            for mount in each.get("volumeMounts", ()):
                if mount["name"] in claims and not mount.get("readOnly"):
                    yield f"{label(one)}: {each['name']} may write the weights"
