"""The chart before a real API server. See plane.py for what it needs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial

import pytest

from . import chart, test_mistakes
from .chart import CHART, OPTIONS, PARTS, RELEASE, Object, render_parts
from .plane import ASSETS, Plane, apply_dry, control_plane, find_absence, make_restricted
from .test_chart import UNCHECKED
from .test_mistakes import MISTAKES, plant

right = test_mistakes.render_right
pytestmark = pytest.mark.skipif(bool(find_absence()), reason=find_absence())
# The others of these it takes: what does not work then is found by rules alone.
OF_FURTHER = (
    *("device that is not claimed", "how many indexes", "name of a container", "no index"),
    *("one limit for all", "restart"),
)


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    assert ASSETS is not None
    with control_plane(ASSETS, tmp_path_factory.mktemp("plane")) as started:
        make_restricted(started, chart.NAMESPACE)
        yield started


@pytest.mark.parametrize("file", chart.FILES)
def test_the_server_takes_every_file_of_values(plane: Plane, file: str) -> None:
    assert not apply_dry(plane, chart.render_file(file))


@pytest.mark.parametrize("option", [name for name in OPTIONS if "gateway" not in name])
def test_the_server_takes_each_option(plane: Plane, option: str) -> None:
    things = render_parts(OPTIONS[option])
    known = [each for each in things if f"{each['apiVersion']} {each['kind']}" not in UNCHECKED]
    assert not apply_dry(plane, known)


@pytest.mark.parametrize(
    ("part", "mistake"), [*(("refused", each) for each in MISTAKES["refused"]), *(("further", e) for e in OF_FURTHER)]
)
def test_the_server_refuses_each_mistake(plane: Plane, right: dict[str, list[Object]], part: str, mistake: str) -> None:
    # Pod Security refuses pods; of what makes them it warns.
    assert apply_dry(plane, plant(right[part], MISTAKES[part][mistake]))


@pytest.mark.skipif(chart.CRDS is None, reason="EDITJUDGE_CRDS is not set")
@pytest.mark.parametrize("further", ["gateway", "KEDA", "certificate"])
def test_the_server_takes_objects_of_kinds_that_clusters_add(plane: Plane, further: str) -> None:
    for asked in (
        ("apply", "--server-side", "--recursive", "-f", str(chart.CRDS)),
        ("wait", "--for=condition=Established", "crd", "--all", "--timeout=60s"),
    ):
        done = plane.kubectl(*asked)
        assert done.returncode == 0, done.stderr
    known = plane.kubectl("api-versions").stdout.split()
    things = render_parts(OPTIONS[further])
    assert not apply_dry(plane, [each for each in things if each["apiVersion"] in known])


def test_a_release_is_installed_changed_taken_back_and_removed(plane: Plane) -> None:
    place = f"--namespace={chart.NAMESPACE}"
    changed, values = partial(chart.helm, **plane.env), partial(chart.select_values, "single-gpu")

    def replicas() -> int:
        found = plane.kubectl("get", "deployment", f"{RELEASE}-judge", place, "-o", "json")
        return int(json.loads(found.stdout)["spec"]["replicas"])

    def there(kinds: str) -> set[str]:
        return set(plane.kubectl("get", kinds, place, "-o", "name").stdout.split())

    changed("install", RELEASE, CHART, place, *values(values={"judge.replicas": 2}))
    assert replicas() == 2
    changed("upgrade", RELEASE, CHART, place, *values(values={"judge.replicas": 5}))
    assert replicas() == 5
    changed("rollback", RELEASE, "1", place)
    assert replicas() == 2
    made = "statefulsets,deployments,jobs"
    before = {each for each in there(made) if "weights" not in each}
    # With a cache the service is another object, and a run is one more.
    run = {**PARTS["run"], "merge": True}
    further = values(values={"judge.cache.enabled": True, "runs.first": run})
    changed("upgrade", RELEASE, CHART, place, *further)
    after = {each for each in there(made) if "weights" not in each}
    assert f"statefulset.apps/{RELEASE}-judge" in after
    assert f"deployment.apps/{RELEASE}-judge" not in after
    assert len({each for each in after if each.startswith("job")}) == 2
    # The same values again change nothing, though a Job cannot be changed.
    changed("upgrade", RELEASE, CHART, place, *further)
    changed("rollback", RELEASE, "1", place)
    assert {each for each in there(made) if "weights" not in each} == before
    changed("uninstall", RELEASE, place)
    assert not there("deployments,services,jobs")
    # Weights outlive their release.
    assert there("persistentvolumeclaims") == {f"persistentvolumeclaim/{RELEASE}-weights"}


def test_replicas_that_others_set_are_a_conflict_where_the_chart_says_them(plane: Plane) -> None:
    place = f"--namespace={chart.NAMESPACE}"
    changed, judge = partial(chart.helm, **plane.env), f"deployment/{RELEASE}-judge"

    def upgrade(replicas: int | str, *further: str) -> int:
        values = chart.select_values("single-gpu", values={"judge.replicas": replicas})
        changed("upgrade", "--install", RELEASE, CHART, place, *values, *further)
        found = plane.kubectl("get", judge, place, "-o", "json").stdout
        return int(json.loads(found)["spec"]["replicas"])

    assert upgrade(2) == 2
    assert plane.kubectl("scale", judge, "--replicas=4", place).returncode == 0
    with pytest.raises(chart.RenderError, match="conflict"):
        upgrade(3)
    assert upgrade("elsewhere") == 4
    assert upgrade(2, "--force-conflicts") == 2
    revision = {"vllm.servers.judge.source.revision": PARTS["revision"]}
    with pytest.raises(chart.RenderError, match="does not become ReadWriteMany"):
        changed("upgrade", RELEASE, CHART, place, *chart.select_values("production", values=revision))
    changed("uninstall", RELEASE, place)
