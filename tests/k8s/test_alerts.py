"""Each alert fires where it should and rests where it should not, by the real promtool."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from .chart import HERE, OPTIONS, Object, render_parts
from .prometheus import find_absence, promtool
from .queries import OURS
from .rules import recorded_and_alerts, select_kinds

TABLE = yaml.safe_load((HERE / "alerts.yaml").read_text())


@pytest.fixture(scope="module")
def things() -> list[Object]:
    """A release that has everything, two models in one group."""
    models = {"triton.servers.small.models": {"ocr_ppocr": {}, "quality_piqe": {}}}
    return render_parts("monitored", OPTIONS["vllm"], models)


def alerts(things: list[Object]) -> dict[str, Any]:
    """The alerts of a release by name."""
    return {rule["alert"]: rule for rule in recorded_and_alerts(things) if "alert" in rule}


def test_each_alert_has_its_cases(things: list[Object]) -> None:
    assert sorted(TABLE["alerts"]) == sorted(alerts(things))


def series(given: Mapping[str, str]) -> list[dict[str, str]]:
    """Series with the labels that all of a release have."""
    ours = ",".join(f'{name}="{value}"' for name, value in OURS.items())
    return [
        {"series": name.replace("{", f"{{{ours},", 1), "values": values}
        for name, values in {**TABLE["base"], **given}.items()
    ]


def expect_alert(name: str, case: Mapping[str, Any], rule: Mapping[str, Any]) -> dict[str, Any]:
    """The alert as it has to come: all its labels and words."""
    link = rule["annotations"]["runbook_url"]
    return {
        "exp_labels": {**rule["labels"], **case.get("labels", {})},
        "exp_annotations": {"summary": case["summary"], "runbook_url": link},
    }


@pytest.mark.skipif(bool(find_absence()), reason=find_absence())
def test_each_alert_fires_and_rests(things: list[Object], tmp_path: Path) -> None:
    (rules,) = select_kinds(things, "PrometheusRule")
    (tmp_path / "rules.yml").write_text(yaml.safe_dump(rules["spec"]))
    assert "SUCCESS" in promtool("check", "rules", tmp_path / "rules.yml")
    there = alerts(things)
    tests = [
        {
            "name": f"{name} {way}",
            "interval": "1m",
            "input_series": series(case[way]),
            "alert_rule_test": [
                {
                    "eval_time": case["at"],
                    "alertname": name,
                    "exp_alerts": [expect_alert(name, case, there[name])] if way == "fires" else [],
                }
            ],
        }
        for name, case in TABLE["alerts"].items()
        for way in ("fires", "rests")
    ]
    told = {"rule_files": ["rules.yml"], "evaluation_interval": "1m", "tests": tests}
    (tmp_path / "tests.yml").write_text(yaml.safe_dump(told))
    promtool("test", "rules", tmp_path / "tests.yml")
