"""The chart before a real API server. See plane.py for what it needs."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from .chart import CHART, CRDS, NAMESPACE, RELEASE, chosen, helm, rendered
from .plane import ASSETS, Plane, control_plane, lacking, restricted, shown
from .test_chart import BASE, GATEWAY, OPTIONS, REVISION, RUN, UNCHECKED
from .test_mistakes import FURTHER, REFUSED, with_further_parts

ADDED = {"gateway": GATEWAY, **{name: OPTIONS[name] for name in ("KEDA", "certificate")}}
pytestmark = pytest.mark.skipif(bool(lacking()), reason=lacking())


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    assert ASSETS is not None
    with control_plane(ASSETS, tmp_path_factory.mktemp("plane")) as started:
        restricted(started, NAMESPACE)
        yield started


@pytest.mark.parametrize("file", sorted(path.stem for path in (CHART / "values").glob("*.yaml")))
def test_the_server_takes_every_file_of_values(plane: Plane, file: str) -> None:
    further = {"vllm.servers.judge.source.revision": REVISION} if file == "production" else {}
    assert not shown(plane, rendered(file, values=further))


@pytest.mark.parametrize("option", [name for name in OPTIONS if "gateway" not in name])
def test_the_server_takes_each_option(plane: Plane, option: str) -> None:
    things = rendered(values={**BASE, **OPTIONS[option]})
    assert not shown(
        plane, [each for each in things if f"{each['apiVersion']} {each['kind']}" not in UNCHECKED]
    )


# The others it takes: what does not work then is found by rules alone.
@pytest.mark.parametrize(
    "mistake",
    [
        "device that is not claimed",
        "how many indexes",
        "name of a container",
        "no index",
        "one limit for all",
        "restart",
    ],
)
def test_the_server_refuses_mistakes_in_further_parts(plane: Plane, mistake: str) -> None:
    things = with_further_parts()
    FURTHER[mistake][0](things)
    assert shown(plane, things)


@pytest.mark.parametrize("mistake", REFUSED)
def test_the_server_refuses_each_mistake(plane: Plane, mistake: str) -> None:
    # Pod Security refuses pods; of what makes them it warns.
    things = copy.deepcopy(rendered("single-gpu", values={"judge.autoscaling.enabled": True}))
    REFUSED[mistake][0](things)
    assert shown(plane, things)


@pytest.mark.skipif(CRDS is None, reason="EDITJUDGE_CRDS is not set: no kind of others was checked")
@pytest.mark.parametrize("further", ADDED)
def test_the_server_takes_objects_of_kinds_that_clusters_add(plane: Plane, further: str) -> None:
    done = plane.kubectl("apply", "--server-side", "--recursive", "-f", str(CRDS))
    assert done.returncode == 0, done.stderr
    waited = plane.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
    assert waited.returncode == 0, waited.stderr
    known = plane.kubectl("api-versions").stdout.split()
    things = rendered(values={**BASE, **ADDED[further]})
    assert not shown(plane, [each for each in things if each["apiVersion"] in known])


def test_a_release_is_installed_changed_taken_back_and_removed(
    plane: Plane, tmp_path: Path
) -> None:
    place = [f"--namespace={NAMESPACE}"]

    def replicas() -> int:
        found = plane.kubectl("get", "deployment", f"{RELEASE}-judge", *place, "-o", "json")
        return int(json.loads(found.stdout)["spec"]["replicas"])

    values = chosen("single-gpu", values={"judge.replicas": 2})
    helm("install", RELEASE, CHART, *place, *values, env=plane.env)
    assert replicas() == 2
    values = chosen("single-gpu", values={"judge.replicas": 5})
    helm("upgrade", RELEASE, CHART, *place, *values, env=plane.env)
    assert replicas() == 5
    helm("rollback", RELEASE, "1", *place, env=plane.env)
    assert replicas() == 2

    def there(kinds: str) -> set[str]:
        found = plane.kubectl("get", kinds, *place, "-o", "name").stdout.split()
        return {each for each in found if "weights" not in each}

    before = there("statefulsets,deployments,jobs")
    # With a cache the service is another object, and a run is one more.
    further = {"judge.cache.enabled": True, "runs.first": {**RUN, "merge": True}}
    values = chosen("single-gpu", values=further)
    helm("upgrade", RELEASE, CHART, *place, *values, env=plane.env)
    after = there("statefulsets,deployments,jobs")
    assert f"statefulset.apps/{RELEASE}-judge" in after
    assert f"deployment.apps/{RELEASE}-judge" not in after
    assert len({each for each in after if each.startswith("job")}) == 2
    # The same values again change nothing, though a Job cannot be changed.
    helm("upgrade", RELEASE, CHART, *place, *values, env=plane.env)
    helm("rollback", RELEASE, "1", *place, env=plane.env)
    assert there("statefulsets,deployments,jobs") == before
    helm("uninstall", RELEASE, *place, env=plane.env)
    left = plane.kubectl("get", "deployments,services,jobs", *place, "-o", "name").stdout
    assert not left.strip()
    # Weights outlive their release.
    claims = plane.kubectl("get", "persistentvolumeclaims", *place, "-o", "name").stdout
    assert claims.strip() == f"persistentvolumeclaim/{RELEASE}-weights"
