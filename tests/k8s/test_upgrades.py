"""Upgrades of what is there: what cannot be changed is refused before anything is."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from . import chart
from .chart import CHART, NAMESPACE, PARTS, RELEASE, Object, helm, render_file, render_parts
from .lookups import cluster
from .rules import names, select_kinds

WEIGHTS = f"{RELEASE}-weights"
CACHED = {"judge.cache": {"enabled": True, "size": "20Gi", "storageClass": "fast"}}
SMALL = {"weights.claim": {"size": "50Gi", "storageClass": "slow"}}


def upgrade(folder: Path, there: list[Object], *files: str, values: Mapping[str, Any]) -> list[Object]:
    """What helm would make of a release whose objects are there."""
    told = chart.select_values(*files, values=values)
    place = f"--namespace={NAMESPACE}"
    asks = ("--dry-run=server", "--disable-openapi-validation")
    with cluster(folder, there) as variables:
        return chart.parse_objects(helm("template", RELEASE, CHART, place, *asks, *told, **variables))


def size(things: list[Object]) -> str:
    return str(names(things, "PersistentVolumeClaim")[WEIGHTS]["spec"]["resources"]["requests"]["storage"])


def test_from_one_gpu_to_production_is_refused_with_what_to_do(tmp_path: Path) -> None:
    revision = {"vllm.servers.judge.source.revision": PARTS["revision"]}
    there = render_file("single-gpu")
    with pytest.raises(
        chart.RenderError,
        match=f"the claim {WEIGHTS} is ReadWriteOnce, and does not become ReadWriteMany: "
        "make a claim, name it in weights.claim.existing",
    ):
        upgrade(tmp_path, there, "production", values=revision)
    named = {**revision, "weights.claim.existing": "filled"}
    assert select_kinds(upgrade(tmp_path, there, "production", values=named), "Job")


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (SMALL, {"weights.claim.storageClass": "fast"}, "has slow, and does not come to fast"),
        (CACHED, {"judge.cache.size": "30Gi"}, 'has claims of 20Gi of class "fast", which it can'),
        (CACHED, {"judge.cache.storageClass": "slow"}, "--cascade=orphan, then upgrade"),
    ],
)
def test_what_cannot_be_changed_is_refused(
    tmp_path: Path, before: Mapping[str, Any], after: Mapping[str, Any], told: str
) -> None:
    with pytest.raises(chart.RenderError) as refused:
        upgrade(tmp_path, render_parts(before), values=PARTS["base"] | before | after)
    assert told in str(refused.value)


@pytest.mark.parametrize(
    ("there", "wanted", "becomes"),
    [
        ("50Gi", "50Gi", "50Gi"),
        ("50Gi", "100Gi", "100Gi"),
        ("100Gi", "50Gi", "100Gi"),
        ("1Ti", "50Gi", "1Ti"),
        ("60G", "50Gi", "60G"),
    ],
)
def test_a_claim_that_has_grown_does_not_shrink(tmp_path: Path, there: str, wanted: str, becomes: str) -> None:
    before = render_parts(SMALL)
    (claim,) = select_kinds(before, "PersistentVolumeClaim")
    claim["spec"]["resources"]["requests"]["storage"] = there
    values = PARTS["base"] | SMALL | {"weights.claim.size": wanted}
    assert size(upgrade(tmp_path, before, values=values)) == becomes


def test_a_claim_of_the_users_is_what_the_values_say(tmp_path: Path) -> None:
    (claim,) = select_kinds(render_parts(), "PersistentVolumeClaim")
    claim["metadata"]["name"] = "filled"
    claim["spec"]["accessModes"] = ["ReadWriteOnce"]
    values = PARTS["base"] | {"weights.claim.existing": "filled"}
    with pytest.raises(chart.RenderError, match="the claim filled is ReadWriteOnce.*say ReadWriteOnce"):
        upgrade(tmp_path, [claim], values=values)
    told = values | {"weights.claim.accessMode": "ReadWriteOnce"}
    assert not select_kinds(upgrade(tmp_path, [claim], values=told), "PersistentVolumeClaim")


def test_the_same_values_again_are_not_refused(tmp_path: Path) -> None:
    values = PARTS["base"] | SMALL | CACHED
    before = render_parts(values)
    assert upgrade(tmp_path, before, values=values) == before


def test_another_version_of_the_chart_makes_other_jobs(tmp_path: Path) -> None:
    """Its pods may be others, and a Job cannot be changed."""
    other = tmp_path / "chart"
    shutil.copytree(CHART, other)
    about = other / "Chart.yaml"
    about.write_text(about.read_text().replace("\nversion: ", "\nversion: 9"))
    models = {"triton.servers.small.models": {"features_dinov2": {}}}
    told = chart.select_values(values=PARTS["installed"] | models)
    jobs = [names(chart.parse_objects(helm("template", RELEASE, each, *told)), "Job").keys() for each in (CHART, other)]
    assert len(jobs[0]) == len(jobs[1]) == 3
    assert jobs[0].isdisjoint(jobs[1])
