"""Rules of what is scraped, asked and scaled: more of those in rules.py."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

from .chart import CHART, Object, label
from .queries import selectors
from .rules import containers, matches, names, prefix, recorded_and_alerts, rule, select_kinds, workloads

RUNBOOKS = CHART.parents[1] / "docs" / "howto" / "runbooks.md"
_GRID = 24
"""Columns of a dashboard."""


def anchors(page: str) -> set[str]:
    """The sections of a page, as links name them."""
    heads = re.findall(r"^#+ (.+)$", page, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", head).strip().lower().replace(" ", "-") for head in heads}


@rule
def _what_is_scraped_is_there(things: Sequence[Object]) -> Iterator[str]:
    for one in select_kinds(things, "ServiceMonitor"):
        selector = one["spec"]["selector"]
        services = [
            service for service in select_kinds(things, "Service") if matches(selector, service["metadata"]["labels"])
        ]
        for endpoint in one["spec"]["endpoints"]:
            ports = [p.get("name") for s in services for p in s["spec"]["ports"]]
            if endpoint["port"] not in ports:
                yield f"{label(one)}: no Service that it chooses has a port {endpoint['port']}"


@rule
def _prometheus_is_let_in(things: Sequence[Object]) -> Iterator[str]:
    policies = select_kinds(things, "NetworkPolicy")
    for one in select_kinds(things, "ServiceMonitor") if policies else ():
        wanted = {endpoint["port"] for endpoint in one["spec"]["endpoints"]}
        for service in select_kinds(things, "Service"):
            if not matches(one["spec"]["selector"], service["metadata"]["labels"]):
                continue
            named = {p["targetPort"] for p in service["spec"]["ports"] if p.get("name") in wanted}
            chosen = {"matchLabels": service["spec"]["selector"]}
            for _, template in workloads(things):
                labels = template["metadata"]["labels"]
                ports = [p for c in containers(template) for p in c.get("ports", ())]
                for port in (p["containerPort"] for p in ports if p["name"] in named):
                    if matches(chosen, labels) and not _from_elsewhere(policies, labels, port):
                        yield f"{label(one)}: no policy lets another namespace reach {port}"


def _from_elsewhere(policies: Sequence[Object], labels: Mapping[str, Any], port: int) -> bool:
    return any(
        matches(policy["spec"]["podSelector"], labels)
        and port in {p["port"] for p in each.get("ports", ())}
        and any("namespaceSelector" in peer for peer in each.get("from", ()))
        for policy in policies
        for each in policy["spec"].get("ingress", ())
    )


@rule
def _alerts_lead_to_their_runbook(things: Sequence[Object]) -> Iterator[str]:
    there = anchors(RUNBOOKS.read_text(encoding="utf-8"))
    seen = set()
    for one in select_kinds(things, "PrometheusRule"):
        for alert in (each for each in recorded_and_alerts([one]) if "alert" in each):
            name = alert["alert"]
            if name in seen:
                yield f"{label(one)}: {name} is there twice"
            seen.add(name)
            if alert["labels"].get("severity") not in {"warning", "critical"}:
                yield f"{label(one)}: {name} has no severity"
            if not alert["annotations"].get("summary"):
                yield f"{label(one)}: {name} has no summary"
            _, _, anchor = alert["annotations"].get("runbook_url", "").partition("#")
            if anchor not in there:
                yield f"{label(one)}: {name}: {RUNBOOKS.name} has no section {anchor}"


@rule
def _queries_ask_this_release_alone(things: Sequence[Object]) -> Iterator[str]:
    for one in select_kinds(things, "PrometheusRule", "ConfigMap", "ScaledObject"):
        ours = {
            ("namespace", one["metadata"]["namespace"]),
            ("editjudge", one["metadata"]["labels"]["app.kubernetes.io/instance"]),
        }
        for query in list_queries(one):
            for each in selectors(query):
                said = {(matcher.name, matcher.value) for matcher in each.matchers}
                if not ours <= said:
                    yield f"{label(one)}: {each.name} of any release is asked"


def list_queries(one: Object) -> Iterator[str]:
    """All queries of an object."""
    if one["kind"] == "PrometheusRule":
        texts = (rule["expr"] for rule in recorded_and_alerts([one]))
        yield from (text for text in texts if not text.startswith("vector("))
    elif one["kind"] == "ScaledObject":
        yield from (trigger["metadata"]["query"] for trigger in one["spec"]["triggers"])
    else:
        for panel in (panel for board in boards(one) for panel in board["panels"]):
            yield from (target["expr"] for target in panel.get("targets", ()))


def boards(one: Object) -> list[Any]:
    """The dashboards of a ConfigMap."""
    if "-dashboard-" not in one["metadata"]["name"]:
        return []
    return [json.loads(text) for text in one["data"].values()]


@rule
def _panels_have_room(things: Sequence[Object]) -> Iterator[str]:
    for one in select_kinds(things, "ConfigMap"):
        for board in boards(one):
            numbers = [panel["id"] for panel in board["panels"]]
            if len(set(numbers)) < len(numbers):
                yield f"{label(one)}: two panels have one number"
            for panel in board["panels"]:
                if panel["gridPos"]["x"] + panel["gridPos"]["w"] > _GRID:
                    yield f"{label(one)}: {panel['title']} is wider than the page"
            for first, second in combinations(board["panels"], 2):
                if _overlap(first["gridPos"], second["gridPos"]):
                    yield f"{label(one)}: {first['title']} lies over {second['title']}"


def _overlap(one: Mapping[str, int], other: Mapping[str, int]) -> bool:
    return all(
        one[at] < other[at] + other[size] and other[at] < one[at] + one[size] for at, size in (("x", "w"), ("y", "h"))
    )


@rule
def _scaling_has_room(things: Sequence[Object]) -> Iterator[str]:
    scalers = select_kinds(things, "ScaledObject", "HorizontalPodAutoscaler")
    targets = [one["spec"]["scaleTargetRef"]["name"] for one in scalers]
    yield from (f"{name}: scaled by two" for name in targets if targets.count(name) > 1)
    for one, name in zip(scalers, targets, strict=True):
        count = "ReplicaCount" if one["kind"] == "ScaledObject" else "Replicas"
        if one["spec"].get(f"min{count}", 1) > one["spec"][f"max{count}"]:
            yield f"{label(one)}: min{count} above max{count}"
        kind = one["spec"]["scaleTargetRef"].get("kind", "Deployment")
        scaled = names(things, kind).get(name)
        if scaled is None:
            yield f"{label(one)}: what it scales is not there"
        elif "replicas" in scaled["spec"]:
            yield f"{label(one)}: {label(scaled)} says its replicas itself"
        if one["kind"] == "ScaledObject" and "fallback" not in one["spec"]:
            yield f"{label(one)}: without Prometheus its pods are taken away"


@rule
def _pods_end_later_than_they_load(things: Sequence[Object]) -> Iterator[str]:
    for one in select_kinds(things, "ScaledObject", "HorizontalPodAutoscaler"):
        scaled = names(things, "Deployment").get(one["spec"]["scaleTargetRef"]["name"])
        each = containers(scaled["spec"]["template"]) if scaled else ()
        probes = [container["startupProbe"] for container in each if "startupProbe" in container]
        load = max((p["periodSeconds"] * p["failureThreshold"] for p in probes), default=0)
        config = one["spec"].get("advanced", {}).get("horizontalPodAutoscalerConfig", one["spec"])
        window = config["behavior"]["scaleDown"]["stabilizationWindowSeconds"]
        if not load <= window <= 3600:
            yield f"{label(one)}: pods end after {window} s, and load for {load} s"


@rule
def _certificates_are_used(things: Sequence[Object]) -> Iterator[str]:
    made = {one["spec"]["secretName"] for one in select_kinds(things, "Certificate")}
    pods, doors = json.dumps([t for _, t in workloads(things)]), json.dumps(select_kinds(things, "Gateway"))
    used = set(re.findall(r'"secretName": "([^"]+)"', pods))
    used |= set(re.findall(r'"kind": "Secret", "name": "([^"]+)"', doors))
    yield from (f"Certificate: nobody uses {name}" for name in made - used)
    ours = {prefix(one) for one, _ in workloads(things)}
    for name in used - made:
        if name.startswith(tuple(ours)):
            yield f"there is no Secret {name}"
