"""What the chart says of monitoring and scaling, beside what rules and schemas find."""

from __future__ import annotations

import json
from typing import Any

import pytest

from .chart import OPTIONS, Object, render_parts, run_script
from .monitoring import boards, list_queries
from .queries import EXPORTERS, OURS, data, exporter, fill_query, list_records, queries, selectors
from .rules import names, recorded_and_alerts, select_kinds


@pytest.fixture(scope="module")
def things() -> list[Object]:
    labels = {"monitoring.labels": {"release": "prometheus"}}
    return render_parts("monitored", "scaled", labels, {"judge.vllm": "judge"})


def test_objects_ask_what_the_data_says_and_nothing_else(things: list[Object]) -> None:
    said = {
        fill_query(query.text, "$team", job).replace("[1m]", "[$__rate_interval]")
        for query in queries()
        for job in ("judge", "triton-small", "vllm-judge")
    }
    told = {
        " ".join(query.split())
        for one in select_kinds(things, "PrometheusRule", "ScaledObject", "ConfigMap")
        for query in list_queries(one)
    }
    assert told <= said
    # But for the names of teams, which a page asks for.
    assert len({query.text for query in queries()}) - 1 == len(told)


def test_a_release_has_its_own_labels(things: list[Object]) -> None:
    for rule in recorded_and_alerts(things):
        assert OURS.items() <= rule["labels"].items()
    for one in select_kinds(things, "ServiceMonitor"):
        (endpoint,) = one["spec"]["endpoints"]
        (relabeled,) = endpoint["relabelings"]
        assert relabeled["targetLabel"] == "editjudge"
        assert relabeled["replacement"] == OURS["editjudge"]
        assert one["metadata"]["labels"]["release"] == "prometheus"


def by_job(things: list[Object], record: str) -> dict[str, str]:
    """The queries that are recorded by a name, by job."""
    rules = (rule for rule in recorded_and_alerts(things) if rule.get("record") == record)
    return {rule["labels"]["job"]: rule["expr"] for rule in rules}


def test_what_is_expected_is_what_is_deployed(things: list[Object]) -> None:
    pods = by_job(things, "editjudge:pods:expected")
    assert pods == {
        "front-metrics": "vector(2)",
        "judge": "vector(2)",
        "triton-small": "vector(1)",
        "vllm-judge": "vector(1)",
    }
    # A job is what a ServiceMonitor makes of its Service's label.
    components = {
        service["metadata"]["labels"]["app.kubernetes.io/component"] for service in select_kinds(things, "Service")
    }
    assert pods.keys() <= components


def test_rules_are_there_for_what_is_there() -> None:
    things = render_parts("monitored", "gateway", {"judge.enabled": False})
    told = {query for one in select_kinds(things, "PrometheusRule", "ConfigMap") for query in list_queries(one)}
    whose = {exporter(one.name) for query in told for one in selectors(query)}
    assert whose == {None, "triton"}
    assert {one["metadata"]["name"] for one in select_kinds(things, "ServiceMonitor")} == {"judges-triton"}


def test_limits_are_those_of_the_values() -> None:
    limits = {"monitoring.rules.limits.failedShare": 0.5}
    texts = [rule["expr"] for rule in recorded_and_alerts(render_parts("monitored", limits))]
    assert any("> 0.5" in text for text in texts)
    assert not any(word in text for text in texts for word in ("OURS", "JOB", "_SHARE", "_SECONDS"))


def test_dashboards_are_the_same_bytes_and_known_to_grafana(things: list[Object]) -> None:
    found = [board for one in select_kinds(things, "ConfigMap") for board in boards(one)]
    assert [board["title"].split(":")[0] for board in found] == ["editjudge", "editjudge, a team"]
    assert len({board["uid"] for board in found}) == 2
    wrong = json.loads(json.dumps(found[0]))
    wrong["panels"][1]["targets"][0]["legend"] = "x"
    said = run_script("boards.py", lines=map(json.dumps, (*found, wrong)))
    assert said == [[], [], [".panels[1].targets[0].legend"]]


def test_every_tier_has_a_row_and_rules() -> None:
    rows = {row["of"] for board in data("dashboards").values() for row in board["rows"]}
    assert rows == {*EXPORTERS, "all"}
    assert data("rules")["groups"].keys() == {*EXPORTERS, "all"}
    used = {one.name for query in queries() for one in selectors(query.text)}
    # What nobody asks for is for whoever serves it to an HPA.
    assert list_records().keys() - used == {"editjudge:load"}


def find_scaled(things: list[Object], kind: str, name: str) -> Any:
    return names(select_kinds(things, kind), kind)[f"judges-{name}"]["spec"]


def test_keda_keeps_what_is_there_when_it_knows_nothing(things: list[Object]) -> None:
    for name in ("judge", "triton-small", "vllm-judge"):
        spec = find_scaled(things, "ScaledObject", name)
        assert spec["fallback"]["behavior"] == "currentReplicasIfHigher"
        assert spec["fallback"]["replicas"] == spec["minReplicaCount"] >= 1
        (trigger,) = spec["triggers"]
        assert trigger["metricType"] == "AverageValue"
        assert trigger["metadata"]["ignoreNullValues"] == "false"
        assert all(isinstance(value, str) for value in trigger["metadata"].values())


def test_an_hpa_asks_for_what_the_rules_record(things: list[Object]) -> None:
    found = render_parts(OPTIONS["HPA of servers"])
    assert not select_kinds(found, "ScaledObject")
    loads = by_job(found, "editjudge:load")
    assert len(loads) == 3
    for name, query in loads.items():
        (metric,) = find_scaled(found, "HorizontalPodAutoscaler", name)["metrics"]
        wanted = {"editjudge": "judges", "job": name}
        assert metric["external"]["metric"]["selector"]["matchLabels"] == wanted
        (trigger,) = find_scaled(things, "ScaledObject", name)["triggers"]
        assert trigger["metadata"]["query"] == query
