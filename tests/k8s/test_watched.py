"""Mistakes in what is scraped, asked and scaled, planted in the chart's objects and found here."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest

from .chart import Object, rendered
from .rules import broken, of
from .test_chart import MONITORED, SCALED
from .test_mistakes import Mistake, first, found


@pytest.fixture(scope="module")
def watched() -> list[Object]:
    certificate = {"issuer": "letsencrypt", "names": ["judges.example.org"]}
    further = {"front.tlsSecret": "", "front.certificate": certificate}
    return rendered("single-gpu", values={**MONITORED, **SCALED, **further})


def alert(things: list[Object], name: str) -> Any:
    rules = (rule for group in first(things, "PrometheusRule")["groups"] for rule in group["rules"])
    return next(rule for rule in rules if rule.get("alert") == name)


def board(things: list[Object], change: Callable[[Any], Any]) -> None:
    """Change a panel of a dashboard."""
    (one,) = (x for x in of(things, "ConfigMap") if x["metadata"]["name"].endswith("-platform"))
    ((name, text),) = one["data"].items()
    shown = json.loads(text)
    change(shown["panels"][2])
    one["data"][name] = json.dumps(shown)


# What is wrong, how it is planted, and what the rules say.
UNWATCHED: dict[str, tuple[Mistake, str]] = {
    "port of a monitor": (
        lambda t: first(t, "ServiceMonitor", "triton")["endpoints"][0].update(port="http"),
        "no Service that it chooses has a port http",
    ),
    "labels of a monitor": (
        lambda t: first(t, "ServiceMonitor", "judge")["selector"]["matchLabels"].update(x="y"),
        "no Service that it chooses has a port http",
    ),
    "closed to Prometheus": (
        lambda t: t.remove(
            next(
                x
                for x in of(t, "NetworkPolicy")
                if x["metadata"]["name"].endswith("judge-from-metrics")
            )
        ),
        "no policy lets another namespace reach 8003",
    ),
    "two alerts of a name": (
        lambda t: alert(t, "EditjudgeSlow").update(alert="EditjudgeErrors"),
        "EditjudgeErrors is there twice",
    ),
    "no severity": (
        lambda t: alert(t, "EditjudgeSlow")["labels"].pop("severity"),
        "EditjudgeSlow has no severity",
    ),
    "no summary": (
        lambda t: alert(t, "EditjudgeSlow")["annotations"].pop("summary"),
        "EditjudgeSlow has no summary",
    ),
    "no runbook": (
        lambda t: alert(t, "EditjudgeSlow")["annotations"].update(runbook_url="x#slow"),
        "has no section slow",
    ),
    "any release": (
        lambda t: alert(t, "EditjudgeAuditLost").update(expr="editjudge_audit_lost_total > 0"),
        "editjudge_audit_lost_total of any release is asked",
    ),
    "panels on one place": (
        lambda t: board(t, lambda panel: panel["gridPos"].update(x=0)),
        "lies over",
    ),
    "panel beside the page": (
        lambda t: board(t, lambda panel: panel["gridPos"].update(x=20)),
        "is wider than the page",
    ),
    "number of a panel": (lambda t: board(t, lambda panel: panel.update(id=1)), "have one number"),
    "minReplicaCount": (
        lambda t: first(t, "ScaledObject").update(minReplicaCount=99),
        "minReplicaCount above maxReplicaCount",
    ),
    "nothing to scale": (
        lambda t: first(t, "ScaledObject")["scaleTargetRef"].update(name="another"),
        "what it scales is not there",
    ),
    "replicas twice": (
        lambda t: first(t, "Deployment", "triton-small").update(replicas=2),
        "says its replicas itself",
    ),
    "scaled by two": (
        lambda t: first(t, "ScaledObject", "triton-small")["scaleTargetRef"].update(
            name="judges-vllm-judge"
        ),
        "judges-vllm-judge: scaled by two",
    ),
    "no fallback": (
        lambda t: first(t, "ScaledObject").pop("fallback"),
        "without Prometheus its pods are taken away",
    ),
    "ends before it has loaded": (
        lambda t: first(t, "ScaledObject")["advanced"]["horizontalPodAutoscalerConfig"]["behavior"][
            "scaleDown"
        ].update(stabilizationWindowSeconds=60),
        "pods end after 60 s",
    ),
    "Secret of a certificate": (
        lambda t: first(t, "Certificate").update(secretName="judges-door"),
        "there is no Secret judges-front-tls",
    ),
}


@pytest.mark.parametrize("mistake", UNWATCHED)
def test_what_is_not_watched_as_it_seems_is_found(watched: list[Object], mistake: str) -> None:
    plant, told = UNWATCHED[mistake]
    things = copy.deepcopy(watched)
    plant(things)
    assert any(told in one for one in broken(things)), broken(things)


def test_what_is_watched_without_a_mistake_is_right(watched: list[Object]) -> None:
    assert not found(watched)
