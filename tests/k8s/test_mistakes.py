"""What a real API server refuses, each mistake planted in the chart's objects and found here."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from .chart import Object, checked, rendered
from .rules import broken, of
from .test_chart import BASE, OPTIONS

Mistake = Callable[[list[Object]], Any]


@pytest.fixture(scope="module")
def right() -> list[Object]:
    return rendered("single-gpu", values={"judge.autoscaling.enabled": True})


def first(things: list[Object], kind: str, name: str = "") -> Any:
    """The first object of a kind whose name ends so; its spec."""
    return next(one for one in of(things, kind) if one["metadata"]["name"].endswith(name))["spec"]


def pod(things: list[Object], name: str = "triton-small") -> Any:
    return first(things, "Deployment", name)["template"]["spec"]


def container(things: list[Object], name: str = "triton-small") -> Any:
    return pod(things, name)["containers"][0]


def removed(things: list[Object]) -> None:
    of(things, "PodDisruptionBudget")[0]["apiVersion"] = "policy/v1beta1"


def no_names(things: list[Object]) -> None:
    for port in first(things, "Service", "judge")["ports"]:
        del port["name"]


# What is wrong, how it is planted, and whether schemas or rules of ours find it.
REFUSED: dict[str, tuple[Mistake, str]] = {
    "unknown field": (lambda t: first(t, "Deployment").update(replica=1), "replica"),
    "number for text": (lambda t: container(t)["env"][0].update(value=1), "env"),
    "selector and labels": (
        lambda t: first(t, "Deployment")["selector"]["matchLabels"].update(
            {"app.kubernetes.io/component": "another"}
        ),
        "its selector does not match its pods",
    ),
    "GPU request and limit": (
        lambda t: container(t)["resources"]["requests"].update({"nvidia.com/gpu": 2}),
        "request and limit differ",
    ),
    "volume": (lambda t: pod(t)["volumes"].pop(), "shm is not declared"),
    "privileged": (
        lambda t: container(t)["securityContext"].update(privileged=True),
        "is privileged",
    ),
    "two handlers": (
        lambda t: container(t)["livenessProbe"].update(tcpSocket={"port": "grpc"}),
        "livenessProbe has 2 handlers",
    ),
    "endPort": (
        lambda t: first(t, "NetworkPolicy", "front-from-callers")["ingress"][0]["ports"][0].update(
            endPort=80
        ),
        "endPort below port",
    ),
    "minReplicas": (
        lambda t: first(t, "HorizontalPodAutoscaler").update(minReplicas=99),
        "minReplicas above maxReplicas",
    ),
    "both budgets": (
        lambda t: first(t, "PodDisruptionBudget").update(minAvailable=1),
        "both minAvailable and maxUnavailable",
    ),
    "16GB": (
        lambda t: container(t)["resources"]["limits"].update(memory="16GB"),
        "16GB is no quantity",
    ),
    "removed API": (removed, "was removed"),
    "ports without names": (no_names, "ports without names"),
}


def found(things: list[Object]) -> list[str]:
    """What schemas say; and rules, which are not asked of what has another form."""
    said = checked(things).wrong
    return [*said, *broken(things)]


@pytest.mark.parametrize("mistake", REFUSED)
def test_what_an_api_server_refuses_is_found(right: list[Object], mistake: str) -> None:
    plant, told = REFUSED[mistake]
    things = copy.deepcopy(right)
    plant(things)
    assert any(told in one for one in found(things)), found(things)


def test_schemas_alone_would_find_two(right: list[Object]) -> None:
    """So the rules are needed; the server finds all."""
    seen = set()
    for mistake, (plant, _) in REFUSED.items():
        things = copy.deepcopy(right)
        plant(things)
        if checked(things).wrong:
            seen.add(mistake)
    assert seen == {"unknown field", "number for text"}


# What an API server takes, and what then does not work.
TAKEN: dict[str, tuple[Mistake, str]] = {
    "port of a Service": (
        lambda t: first(t, "Service", "judge")["ports"][0].update(targetPort="grcp"),
        "no container has port grcp",
    ),
    "nobody behind a Service": (
        lambda t: first(t, "Service", "judge")["selector"].update(x="y"),
        "0 workloads stand behind it",
    ),
    "port of a probe": (
        lambda t: container(t)["readinessProbe"]["grpc"].update(port=8009),
        "readinessProbe asks a port",
    ),
    "no probe": (lambda t: container(t).pop("startupProbe"), "has no startupProbe"),
    "name of settings": (
        lambda t: pod(t)["volumes"][0]["configMap"].update(name="judges-another"),
        "there is no ConfigMap judges-another",
    ),
    "file of settings": (
        lambda t: container(t, "judges-judge").update(args=["--config=/etc/editjudge/judge.toml"]),
        "there is no judge.toml",
    ),
    "claim": (
        lambda t: pod(t)["volumes"][1]["persistentVolumeClaim"].update(claimName="judges-w"),
        "there is no PersistentVolumeClaim judges-w",
    ),
    "account": (
        lambda t: pod(t).update(serviceAccountName="another"),
        "there is no ServiceAccount another",
    ),
    "latest": (lambda t: container(t).update(image="triton:latest"), "has no digest"),
    "no limit": (lambda t: container(t)["resources"]["limits"].pop("memory"), "says no memory"),
    "root": (
        lambda t: container(t)["securityContext"].update(runAsNonRoot=False),
        "runAsNonRoot is False",
    ),
    "writable root": (
        lambda t: container(t)["securityContext"].update(readOnlyRootFilesystem=False),
        "readOnlyRootFilesystem is False",
    ),
    "token of the account": (
        lambda t: pod(t).update(automountServiceAccountToken=True),
        "its account's token is mounted",
    ),
    "a rollout that never ends": (
        lambda t: first(t, "Deployment", "triton-small").pop("strategy"),
        "its rollout needs a spare GPU",
    ),
    "killed early": (
        lambda t: pod(t).update(terminationGracePeriodSeconds=30),
        "it is killed before it has drained",
    ),
    "no budget": (
        lambda t: t.remove(of(t, "PodDisruptionBudget")[0]),
        "no PodDisruptionBudget covers it",
    ),
    "closed edge": (
        lambda t: t.remove(
            next(
                x
                for x in of(t, "NetworkPolicy")
                if x["metadata"]["name"].endswith("judge-to-triton")
            )
        ),
        "no policy lets it reach judges-triton-small:8001",
    ),
    "writable weights": (
        lambda t: container(t)["volumeMounts"][0].update(readOnly=False),
        "may write the weights",
    ),
    "nothing closed": (
        lambda t: t.remove(
            next(x for x in of(t, "NetworkPolicy") if x["metadata"]["name"].endswith("nothing"))
        ),
        "nothing is closed before it",
    ),
    "scaled twice": (
        lambda t: first(t, "Deployment", "judges-judge").update(replicas=2),
        "says its replicas itself",
    ),
    "shared memory": (
        lambda t: pod(t)["volumes"][-1]["emptyDir"].update(sizeLimit="30Gi"),
        "takes more than half of the memory",
    ),
}


@pytest.mark.parametrize("mistake", TAKEN)
def test_what_an_api_server_takes_and_does_not_work_is_found(
    right: list[Object], mistake: str
) -> None:
    plant, told = TAKEN[mistake]
    things = copy.deepcopy(right)
    plant(things)
    assert any(told in one for one in broken(things)), broken(things)


def with_further_parts() -> list[Object]:
    """With what is off by default: a cache, GPUs by claim, a run."""
    options = ("GPU by claim", "cache", "run", "run that is merged", "metrics")
    return rendered(values={**BASE, **{k: v for each in options for k, v in OPTIONS[each].items()}})


@pytest.fixture(scope="module")
def whole() -> list[Object]:
    return with_further_parts()


def job(things: list[Object]) -> Any:
    return next(x["spec"] for x in of(things, "Job") if "-run-" in x["metadata"]["name"])


def merger(things: list[Object]) -> Any:
    return next(x["spec"] for x in of(things, "Job") if "-merge-" in x["metadata"]["name"])


# The same of these parts.
FURTHER: dict[str, tuple[Mistake, str]] = {
    "number as helm writes it": (
        lambda t: container(t, "vllm-judge")["args"].append("--max-model-len=1.048576e+06"),
        "1.048576e+06 is no whole number",
    ),
    "devices by a name that stays": (
        lambda t: of(t, "ResourceClaimTemplate")[0]["metadata"].update(name="judges-triton-a"),
        "its name has no digest",
    ),
    "metrics for a whole namespace": (
        lambda t: first(t, "NetworkPolicy", "judge-from-metrics")["ingress"][0]["from"][0].pop(
            "podSelector"
        ),
        "lets every pod of a namespace in",
    ),
    "merged before it is done": (
        lambda t: merger(t)["template"]["spec"]["initContainers"][0]["command"].pop(),
        "it merges shards that may not be done",
    ),
    "Service of a set": (
        lambda t: first(t, "StatefulSet").update(serviceName="another"),
        "its Service is not there",
    ),
    "claim of a set": (
        lambda t: first(t, "StatefulSet").pop("volumeClaimTemplates"),
        "volume kept is not declared",
    ),
    "template of devices": (
        lambda t: pod(t)["resourceClaims"][0].update(resourceClaimTemplateName="another"),
        "ResourceClaimTemplate another: nobody takes it, or it is not there",
    ),
    "device that is not claimed": (
        lambda t: pod(t).pop("resourceClaims"),
        "device gpu is asked for, and not claimed",
    ),
    "a rollout that never ends": (
        lambda t: first(t, "Deployment", "triton-small").pop("strategy"),
        "its rollout needs a spare GPU",
    ),
    "no index": (lambda t: job(t).pop("completionMode"), "its pods have no index"),
    "how many indexes": (lambda t: job(t).pop("completions"), "says not how many indexes"),
    "two writers": (lambda t: job(t).pop("podReplacementPolicy"), "write the same run"),
    "restart": (
        lambda t: job(t)["template"]["spec"].update(restartPolicy="OnFailure"),
        "podFailurePolicy needs restartPolicy Never",
    ),
    "name of a container": (
        lambda t: job(t)["template"]["spec"]["initContainers"][0].update(name="another"),
        "podFailurePolicy speaks of run",
    ),
    "one limit for all": (
        lambda t: (
            job(t)["podFailurePolicy"]["rules"][1].update(action="FailIndex"),
            job(t).pop("backoffLimitPerIndex"),
        ),
        "FailIndex without backoffLimitPerIndex",
    ),
}


@pytest.mark.parametrize("mistake", FURTHER)
def test_what_is_wrong_with_further_parts_is_found(whole: list[Object], mistake: str) -> None:
    plant, told = FURTHER[mistake]
    things = copy.deepcopy(whole)
    plant(things)
    assert any(told in one for one in broken(things)), broken(things)


def test_the_objects_without_a_mistake_are_right(right: list[Object], whole: list[Object]) -> None:
    assert not found(right)
    assert not found(whole)
