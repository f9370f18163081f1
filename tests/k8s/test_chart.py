"""The chart: every set of values, each option alone and all together."""

from __future__ import annotations

import copy
import json
import re
import shlex
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from editjudge.base.config import Price, Settings
from editjudge.base.parse import parse_toml
from editjudge.base.proxy import find_proxy
from editjudge.cli import root
from editjudge.rewards.config import Listener, RewardConfig

from . import chart, value_paths
from .changes import find_unfollowed, unchangeable
from .chart import CHART, OPTIONS, PARTS, Object, check_schemas, helm, label, render, render_parts, render_text
from .rules import containers, each_container, find_faults, matches, names, pod, select_kinds, setting, workloads

# What no schema is at hand for; it is told, and never green.
UNCHECKED_OF_GATEWAYS = frozenset(
    f"gateway.{group} {kind}"
    for group, kinds in {
        "networking.k8s.io/v1": ("Gateway", "GRPCRoute", "HTTPRoute"),
        "envoyproxy.io/v1alpha1": ("BackendTrafficPolicy", "ClientTrafficPolicy", "SecurityPolicy"),
    }.items()
    for kind in kinds
)
UNCHECKED = UNCHECKED_OF_GATEWAYS | {
    "cert-manager.io/v1 Certificate",
    "keda.sh/v1alpha1 ScaledObject",
    "monitoring.coreos.com/v1 PrometheusRule",
    "monitoring.coreos.com/v1 ServiceMonitor",
}


def right(things: list[Object]) -> None:
    """Whether rules and schemas find nothing."""
    said = check_schemas(things)
    assert not said.wrong
    assert said.unchecked <= UNCHECKED
    assert not find_faults(things)


@pytest.mark.parametrize("file", chart.FILES)
def test_every_file_of_values_is_right(file: str) -> None:
    things = chart.render_file(file)
    right(things)
    assert not check_schemas(things).unchecked


@pytest.mark.parametrize("option", OPTIONS)
def test_each_option_alone_is_right(option: str) -> None:
    right(render_parts(OPTIONS[option]))


def test_all_options_together_are_right() -> None:
    apart = {
        *("gateway", "gateway of others", "no front door", "no policies", "no Judge service"),
        *("no job", "monitoring without rules", "HPA of servers", "HPA of the Judge service"),
        *("hosted judge and a run", "GPUs of one node"),
        *("hosted judge", "hosted judge by address", "hosted judge behind a proxy"),
        "claim for one node",
        *("weights in an image", "weights copied"),
    }
    together = [OPTIONS[option] for option in OPTIONS if option not in apart]
    right(render_parts(*together))
    # What a gateway of the cluster has to keep instead.
    own = {"front.clientCa": "", "front.tokenLimits.service": ""}
    right(render_parts(*together, own, "gateway"))


def test_the_key_of_a_hosted_judge_is_in_the_pods_of_the_judge_service_alone() -> None:
    things = render_parts(OPTIONS["hosted judge by address"])
    (settings,) = (
        one["data"]["editjudge.toml"]
        for one in select_kinds(things, "ConfigMap")
        if "[judges.judge]" in one.get("data", {}).get("editjudge.toml", "")
    )
    judge = Settings.model_validate(parse_toml(settings)).judges["judge"]
    assert judge.url == "https://llm.example.org:8443/v1"
    assert str(judge.api_key) == "env=None file=PosixPath('/secrets/judge/api')"
    assert (judge.send_images, judge.price) == (True, Price(input=2.5, output=10))
    assert (judge.max_tokens, judge.accept) == (8192, ("m-*",))
    assert judge.extra == {"reasoning": {"effort": "<low>", "on": True}}
    mounting = [
        one["metadata"]["name"]
        for one, template in workloads(things)
        if any(v.get("secret", {}).get("secretName") == "key" for v in template["spec"]["volumes"])
    ]
    assert mounting == ["judges-judge"]
    (edge,) = (n for n in select_kinds(things, "NetworkPolicy") if n["metadata"]["name"].endswith("judge-to-outside"))
    assert edge["spec"]["egress"] == [{"ports": [{"port": 8443, "protocol": "TCP"}]}]


def test_a_proxy_is_reached_by_who_goes_out_and_calls_inside_do_without() -> None:
    values = OPTIONS["hosted judge behind a proxy"]
    things = render_parts(values)
    out = {
        name.removeprefix("judges-"): [port["port"] for port in policy["spec"]["egress"][0]["ports"]]
        for name, policy in names(things, "NetworkPolicy").items()
        if name.endswith("-to-outside")
    }
    assert out == {"judge-to-outside": [443, 3128], "run-to-outside": [443, 3128], "weights-to-outside": [443, 80]}
    settings = parse_toml(setting(things, "judge", "editjudge.toml"))
    at = settings["endpoints"]["small"]["url"]
    with pytest.MonkeyPatch.context() as environment:
        environment.delenv("no_proxy", raising=False)
        environment.delenv("NO_PROXY", raising=False)
        environment.setenv("HTTPS_PROXY", proxy := values["pod.env"]["HTTPS_PROXY"])
        assert find_proxy(at) == proxy
        environment.setenv("no_proxy", values["pod.env"]["no_proxy"])
        assert find_proxy(at) is None
        assert find_proxy("https://api.openai.com/v1") == proxy


REWARDS = """\
[listener]
address = "0.0.0.0:8004"
team = "trainers"
[rewards.quality.parts]
"core.ssim.source.whole" = {}
"""


def test_trainers_alone_reach_the_port_of_rewards(tmp_path: Path) -> None:
    trainers = {"podSelector": {"matchLabels": {"app": "trainer"}}}
    values = {"judge.rewards.file": REWARDS, "judge.rewards.callers": [trainers]}
    things = render_parts(values)
    right(things)
    (tmp_path / "reward.toml").write_text(setting(things, "judge", "reward.toml"))
    listener = RewardConfig.load(tmp_path / "reward.toml").listener
    assert listener == Listener(address="0.0.0.0:8004", team="trainers")
    ports = {each["port"] for each in names(things, "Service")["judges-judge"]["spec"]["ports"]}
    assert ports == {8002, 8003, 8004}
    opening = {
        name: policy["spec"]["ingress"]
        for name, policy in names(things, "NetworkPolicy").items()
        if any(port.get("port") == 8004 for rule in policy["spec"].get("ingress", ()) for port in rule.get("ports", ()))
    }
    assert opening == {
        "judges-judge-from-trainers": [{"ports": [{"port": 8004, "protocol": "TCP"}], "from": [trainers]}]
    }
    closed = render_parts({**values, "judge.rewards.callers": []})
    assert "judges-judge-from-trainers" not in names(closed, "NetworkPolicy")


def test_triton_reaches_no_vllm_that_it_does_not_ask() -> None:
    assert "judges-triton-to-vllm" not in names(render_parts(OPTIONS["vllm"]), "NetworkPolicy")
    assert "judges-triton-to-vllm" in names(render_parts(OPTIONS["language model"]), "NetworkPolicy")


def test_names_are_looked_up_where_name_servers_listen() -> None:
    """Policies ask for the port of the pod: on OpenShift it is another than its Service's."""
    (egress,) = names(render_parts(), "NetworkPolicy")["judges-nothing"]["spec"]["egress"]
    open_ports = {(port["protocol"], port["port"]) for port in egress["ports"]}
    assert open_ports == {(way, port) for way in ("UDP", "TCP") for port in (53, 5353)}


def test_what_a_platform_sets_is_in_every_pod() -> None:
    values = OPTIONS["placed"]
    things = render_parts(values)
    wanted = values["pod"]
    for one, template in workloads(things):
        about, spec = template["metadata"], template["spec"]
        assert about["labels"].items() >= wanted["labels"].items()
        assert about["annotations"].items() >= wanted["annotations"].items()
        account = names(things, "ServiceAccount")[spec["serviceAccountName"]]
        assert account["metadata"]["annotations"] == wanted["accountAnnotations"]
        assert spec["nodeSelector"].items() >= wanted["nodeSelector"].items()
        assert wanted["tolerations"][0] in spec["tolerations"]
        assert spec["affinity"] == wanted["affinity"]
        assert (spec["schedulerName"], spec["priorityClassName"]) == ("volcano", "platform-high")
        assert not {"runAsUser", "runAsGroup", "fsGroup"} & spec["securityContext"].keys()
        (spread,) = spec["topologySpreadConstraints"]
        assert spread.items() >= wanted["topologySpread"][0].items()
        assert matches(spread["labelSelector"], about["labels"])
        for each in containers(template):
            if each["command"][0] in ("test", "touch"):  # what runs nothing of the project
                continue
            env = {variable["name"]: variable for variable in each["env"]}
            assert len(env) == len(each["env"])
            assert env["HTTPS_PROXY"]["value"] == wanted["env"]["HTTPS_PROXY"]
            assert env["NODE"]["valueFrom"] == wanted["env"]["NODE"]["valueFrom"]
            assert each["envFrom"] == wanted["envFrom"], label(one)
            assert wanted["volumeMounts"][0] in each["volumeMounts"]
    small = pod(things, "triton-small")
    assert small["nodeSelector"] == {"pool": "judges", "gpu": "yes"}
    assert [each["key"] for each in small["tolerations"]] == ["judges", "gpu"]


def test_what_the_chart_names_itself_no_platform_can_name() -> None:
    """Volumes, places and variables; two of a name an API server refuses."""
    schema = json.loads((CHART / "values.schema.json").read_text())["definitions"]["pod"]
    field = schema["properties"]
    closed = {
        "volumes": field["volumes"]["items"]["properties"]["name"]["not"],
        "mounts": field["volumeMounts"]["items"]["properties"]["name"]["not"],
        "places": field["volumeMounts"]["items"]["properties"]["mountPath"]["not"],
        "env": field["env"]["propertyNames"]["not"],
    }
    options = ("cache", "hosted judge", "certificates of clients", "GPU", "token", "mirror")
    run = {"runs.own": {**PARTS["run"], "merge": True, "settings": "own", "secret": "key"}}
    own = OPTIONS["vLLM's own protocol"] | {"vllm.servers.own.gpus": 0}
    things = [*render_parts(*(OPTIONS[each] for each in options)), *chart.render_file("production")]
    things += render_parts(own, run)
    for _, template in workloads(things):
        said = {"volumes": [each["name"] for each in template["spec"]["volumes"]]}
        mounts = [m for each in containers(template) for m in each["volumeMounts"]]
        said["mounts"] = [each["name"] for each in mounts]
        said["places"] = [each["mountPath"] for each in mounts]
        said["env"] = [v["name"] for each in containers(template) for v in each.get("env", ())]
        for what, those in said.items():
            assert [one for one in those if not re.search(closed[what]["pattern"], one)] == []


def test_pods_that_request_no_gpu_are_given_none() -> None:
    """Images with CUDA ask for all of a node, and its runtime may give them."""
    things = [*chart.render_file("production"), *render_parts(OPTIONS["generalist on a CPU"])]
    for one, template, each in each_container(select_kinds(things, "Deployment")):
        if one["metadata"]["labels"]["editjudge/tier"] in ("triton", "vllm") and "env" in each:
            (*_, server) = template["spec"]["containers"]
            gpus = {*server["resources"]["limits"]} - {"cpu", "memory"}
            seen = {v["name"]: v.get("value") for v in each["env"]}.get("NVIDIA_VISIBLE_DEVICES")
            assert seen == (None if gpus else "void"), label(one)


def test_outside_the_cluster_nobody_reaches_metrics() -> None:
    services = select_kinds(render_parts(OPTIONS["load balancer"]), "Service")
    of_metrics = [
        service["spec"].get("type", "ClusterIP")
        for service in services
        if any(port["name"] == "metrics" for port in service["spec"]["ports"])
    ]
    assert set(of_metrics) == {"ClusterIP"}
    (front,) = (one for one in services if one["metadata"]["name"] == "judges-front-metrics")
    (outside,) = (one for one in services if one["spec"].get("type") == "LoadBalancer")
    assert front["spec"]["selector"] == outside["spec"]["selector"]


def test_the_same_values_give_the_same_bytes() -> None:
    assert render_text("single-gpu") == render_text("single-gpu")


def test_a_kind_without_a_schema_is_told() -> None:
    things = render_parts("gateway", {"vllm.servers.judge": PARTS["server"]})
    assert check_schemas(things, definitions=None).unchecked == UNCHECKED_OF_GATEWAYS


def test_a_definition_that_the_user_gives_is_asked(tmp_path: Path) -> None:
    named = {"type": "object", "properties": {"name": {"type": "string"}}}
    spec = {"type": "object", "properties": {"parentRefs": {"type": "array", "items": named}}}
    schema = {"type": "object", "properties": {"spec": spec}}
    definition = {
        "kind": "CustomResourceDefinition",
        "spec": {
            "group": "gateway.networking.k8s.io",
            "names": {"kind": "GRPCRoute"},
            "versions": [{"name": "v1", "schema": {"openAPIV3Schema": schema}}],
        },
    }
    (tmp_path / "crd.yaml").write_text(yaml.safe_dump(definition))
    said = check_schemas(render_parts("gateway"), definitions=tmp_path)
    assert "gateway.networking.k8s.io/v1 GRPCRoute" not in said.unchecked
    # That schema knows the name of a gateway and nothing else.
    assert any("GRPCRoute" in told and "unexpected" in told for told in said.wrong)


@pytest.mark.parametrize(("told", "values"), chart.VALUES["refused"])
def test_what_cannot_be_used_is_refused_by_its_name(told: str, values: Mapping[str, Any]) -> None:
    with pytest.raises(chart.RenderError) as refused:
        render_parts(values)
    assert told in str(refused.value)


@pytest.mark.parametrize(("release", "namespace", "further"), chart.VALUES["hostile"], ids=lambda one: str(one)[:20])
def test_every_name_that_helm_takes_is_text_to_kubernetes(
    release: str, namespace: str, further: Mapping[str, Any]
) -> None:
    values = chart.select_values(values=PARTS["named"] | further)
    place = f"--namespace={namespace}"
    right(chart.parse_objects(helm("template", release, CHART, place, *values)))


@pytest.mark.parametrize(
    ("resource", "taints"),
    [
        ("nvidia.com/mig-1g.10gb", {"nvidia.com/mig-1g.10gb", "nvidia.com/gpu"}),
        ("nvidia.com/gpu", {"nvidia.com/gpu"}),
        ("amd.com/gpu", {"amd.com/gpu"}),
    ],
)
def test_nodes_with_parts_of_gpus_may_have_the_taint_of_whole_ones(resource: str, taints: set[str]) -> None:
    things = render_parts({"triton.servers.small": {**PARTS["small"], "gpus": 1, "gpuResource": resource}})
    tolerated = pod(things, "triton-small")["tolerations"]
    assert {one["key"] for one in tolerated} == taints
    assert {one["effect"] for one in tolerated} == {"NoSchedule"}


@pytest.mark.parametrize(
    ("further", "told"),
    [
        ({}, False),
        ({"priorityClasses.create": False}, True),
        ({"priorityClasses.create": False, "weights.job.enabled": False}, False),
        ({"priorityClasses.create": False, "weights.job.pod.priorityClass": "first"}, False),
        ({"pod.priorityClass": "high"}, True),
        ({"pod.priorityClass": "high", "weights.job.pod.priorityClass": "first"}, False),
    ],
)
def test_a_job_that_may_wait_for_ever_is_told(further: Mapping[str, Any], told: bool) -> None:
    values = PARTS["base"] | {"triton.servers.small.models.features_dinov2": {}} | further
    said = helm("install", "judges", CHART, "--dry-run=client", *chart.select_values(values=values))
    assert ("Without room for both, neither starts" in said) == told


@pytest.mark.parametrize("release", ["judges", "2026"])
def test_the_notes_lead_to_what_is_there(release: str) -> None:
    values = chart.select_values(values=PARTS["base"])
    things = chart.parse_objects(helm("template", release, CHART, *values))
    said = helm("install", release, CHART, "--dry-run=client", *values).split("NOTES:")[1]
    (service,), (panel,) = (re.findall(rf"{kind}([a-z0-9-]+)", said) for kind in ("service/", "configmap "))
    assert service in names(things, "Service")
    assert names(things, "ConfigMap")[panel]["data"].keys() == {"panel.json"}
    # A door is trusted by a file and wants a token, which no option names.
    assert "editjudge doctor --expect panel.json\n" in said
    assert "--endpoint" not in said


def test_two_releases_share_no_class_of_priority() -> None:
    """Classes are the whole cluster's, and cannot be changed."""
    longest = 62 * "n"
    installed = [("judges", f"{longest}a", 7), ("judges", f"{longest}b", 7), ("judges", "n", 7)]
    installed += [("other", "n", 7), ("judges", "n", 8)]
    classes: list[str] = []
    for release, namespace, value in installed:
        values = chart.select_values(values=PARTS["base"] | {"priorityClasses.front": value})
        things = chart.parse_objects(helm("template", release, CHART, f"--namespace={namespace}", *values))
        (front,) = (one for one in names(things, "PriorityClass") if "-front-" in one)
        classes.append(front)
    assert len(set(classes)) == len(installed)


@pytest.fixture(scope="module")
def before() -> list[Object]:
    return render_parts("installed")


def tasks(things: list[Object]) -> set[str]:
    return {name for name in names(things, "Job") if "-run-" in name}


@pytest.mark.parametrize("change", chart.VALUES["changes"], ids=str)
def test_a_change_of_values_can_be_upgraded_to(before: list[Object], change: Any) -> None:
    after = render_parts("installed", change)
    assert not [*unchangeable(before, after), *find_unfollowed(before, after)]


def test_an_upgrade_that_is_refused_is_found(before: list[Object]) -> None:
    after = copy.deepcopy(before)
    select_kinds(after, "ResourceClaimTemplate")[0]["spec"]["spec"] = {}
    assert list(unchangeable(before, after))


def test_what_decides_no_verdict_starts_no_run_and_no_pod_anew() -> None:
    """More replicas, another price, another limit of one call, fewer shards at a time."""
    before = render_parts("installed", {"vllm.servers.judge.replicas": 2})
    change = {
        "triton.servers.small.replicas": 3,
        "runs.first.parallel": 1,
        "vllm.servers.judge.replicas": 3,
        "judge.replicas": 3,
    }
    after = render_parts("installed", change)
    assert tasks(after) == tasks(before)
    pods = [{n: d["spec"]["template"] for n, d in names(t, "Deployment").items()} for t in (before, after)]
    assert pods[0] == pods[1]
    # From one pod of the judge to several, pods ask by the door from then on; runs go on.
    one = render_parts("installed")
    assert tasks(one) == tasks(before)
    dearer = {"judge.price": {"input": 1}, "judge.deadlineSeconds": 90}
    assert tasks(render_parts("installed", dearer)) == tasks(one)
    other = {"vllm.servers.judge.source.revision": PARTS["revision"][::-1]}
    assert tasks(render_parts("installed", other)).isdisjoint(tasks(before))


def test_pods_are_not_named_after_the_version_of_the_chart(before: list[Object]) -> None:
    for one in select_kinds(before, "Deployment", "Job"):
        labels = one["spec"]["template"]["metadata"]["labels"]
        assert not {"helm.sh/chart", "app.kubernetes.io/version"} & labels.keys()


def test_large_numbers_of_a_file_are_written_out(tmp_path: Path) -> None:
    """By a file: JSON of a flag has whole numbers as they are."""
    values = {
        "vllm": {"servers": {"judge": {**PARTS["server"], "maxModelLen": 1048576}}},
        "weights": {"job": {"deadlineSeconds": 1209600}},
        "priorityClasses": {"front": 1000000},
        "runs": {"first": {**PARTS["run"], "deadlineSeconds": 1209600}},
    }
    file = least_values(tmp_path / "values.yaml", **values)
    things = chart.parse_objects(helm("template", "judges", CHART, "--namespace=n", *chart.select_values(), file))
    assert not find_faults(things)
    (server,) = pod(things, "vllm-judge")["containers"]
    assert "--max-model-len=1048576" in server["args"]


def least_values(file: Path, **further: Any) -> str:
    """Helm's argument for a file of the least values and further ones."""
    front = {"tlsSecret": "t", "keys": {"configMap": "k"}}
    values = {"front": front, "triton": {"servers": {"small": PARTS["small"]}}, **further}
    file.write_text(yaml.safe_dump(values))
    return f"--values={file}"


def test_every_value_is_described() -> None:
    """Each default of values.yaml has its place in the schema, and the other way round."""
    schema = json.loads((CHART / "values.schema.json").read_text())
    shown = helm("show", "values", CHART)

    def places(one: Any) -> Any:
        if "$ref" in one:
            name = one["$ref"].rpartition("/")[2]
            one = {} if name in ("pod", "scale") else schema["definitions"][name]
        there = one.get("properties", {})
        # One that has moved says where to, and stands nowhere else.
        return {key: places(value) for key, value in there.items() if "const" not in value}

    def same(values: Any, wanted: Any, at: str) -> None:
        if wanted and isinstance(values, dict):
            assert values.keys() == wanted.keys(), at
            for key, value in values.items():
                same(value, wanted[key], f"{at}.{key}")

    wanted = {key: value for key, value in places(schema).items() if key != "global"}
    same(yaml.safe_load(shown), wanted, "values")
    # What a server may say is in words there: its servers are none by default.
    for kind in ("triton", "vllm", "serving", "run", "pod", "scale"):
        for name, value in schema["definitions"][kind]["properties"].items():
            assert name in shown or "const" in value, f"{kind}: {name}"


@pytest.mark.parametrize("file", ["images", "run", "ray", "next", "platform", "copy", "image", "laptop"])
def test_the_values_of_the_page_are_right(file: str) -> None:
    values = chart.read_page_values(file)
    right(render_parts(OPTIONS["hosted judge"], values))
    declared = (*root.commands["run"].params, *root.params)
    known = {name for option in declared for name in option.opts}
    for run in values.get("runs", {}).values():
        assert {name.partition("=")[0] for name in run["arguments"]} <= known


def test_the_tutorial_installs_what_it_says(tmp_path: Path) -> None:
    """With the files of the page and digests that no image has."""
    page = (CHART.parents[1] / "docs" / "tutorials" / "kubernetes.md").read_text()
    (command,) = re.findall(r"^helm install (.*?[^\\])$", page, re.MULTILINE | re.DOTALL)
    name, _, *options = shlex.split(command.replace("\\\n", " "))
    (tmp_path / "laptop.yaml").write_text(json.dumps(chart.read_page_values("laptop")))
    places = {"laptop.yaml": tmp_path / "laptop.yaml", "images.yaml": chart.IMAGES}
    things = chart.parse_objects(helm("template", name, CHART, *(places.get(o, o) for o in options)))
    right(things)
    ports = {
        port["port"]
        for thing in things
        if thing["kind"] == "Service" and thing["metadata"]["name"] == "judges-front"
        for port in thing["spec"]["ports"]
    }
    assert 443 in ports
    small = pod(things, "triton-small")["containers"][0]["resources"]["requests"]
    assert small == {"cpu": "1", "memory": "3Gi"}


def test_a_value_that_has_gone_says_where_to() -> None:
    """Those of the last release, in the schema and on the page."""
    there = value_paths.paths()
    moved = {path: to for path, to in there.items() if to}
    last = value_paths.FILE.read_text().split()
    assert [path for path in last if not _is_told(path, there)] == []
    assert not _is_told("judge.autoscaling.enabled", there.keys() - moved.keys())
    page = (CHART.parents[1] / "docs" / "howto" / "deploying.md").read_text()
    rows = set(re.findall(r"^\| `([^`]+)` \| ", page, re.MULTILINE))
    assert moved.keys() <= rows


def _is_told(path: str, there: Collection[str]) -> bool:
    """Whether a value is there, or one that it is a part of says where it went."""
    parents = [path.rsplit(".", times)[0] for times in range(path.count(".") + 1)]
    return path in there or any(value_paths.paths().get(each) for each in parents if each in there)


def test_helm_finds_no_fault(tmp_path: Path) -> None:
    values = least_values(tmp_path / "values.yaml")
    assert "0 chart(s) failed" in helm("lint", "--strict", CHART, values, f"--values={chart.IMAGES}")


def test_a_server_has_time_to_load_and_memory_for_a_batch() -> None:
    things = render("single-gpu")
    spec = pod(things, "triton-small")
    probe = spec["containers"][0]["startupProbe"]
    assert probe["periodSeconds"] * probe["failureThreshold"] >= 600
    known = json.loads((CHART / "files" / "models.json").read_text())["models"]
    served = json.loads(setting(things, "triton-small", "models.json"))
    least = sum(
        how.get("instances", 1) * known[name]["batch"] * known[name]["pictures"] * 16 for name, how in served.items()
    )
    (shm,) = [v["emptyDir"] for v in spec["volumes"] if v["name"] == "shm"]
    assert shm["medium"] == "Memory"
    assert int(shm["sizeLimit"].removesuffix("Mi")) >= least


def test_the_example_of_patching_gives_objects_that_are_right(tmp_path: Path) -> None:
    example = CHART.parent / "kustomize" / "kustomization.yaml"
    (tmp_path / example.name).write_text(example.read_text())
    (tmp_path / "rendered.yaml").write_text(render_text("single-gpu"))
    things = chart.parse_objects(chart.run_tool("kubectl", "kustomize", tmp_path).stdout)
    right(things)
    assert pod(things, "front")["dnsConfig"] == {"options": [{"name": "ndots", "value": "2"}]}
    (judge,) = pod(things, "judge")["containers"]
    probe = judge["startupProbe"]
    assert (probe["failureThreshold"], probe["grpc"]) == (45, {"port": 8002})
    assert all(one["metadata"]["labels"]["cost-centre"] == "research" for one in things)
