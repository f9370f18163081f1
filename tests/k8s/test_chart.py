"""The chart: every set of values, each option alone and all together."""

from __future__ import annotations

import copy
import json
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from editjudge.cli import root

from .chart import CHART, HERE, TOOLS, Object, Refused, checked, chosen, helm, rendered, text
from .rules import broken, containers, names, of, unchangeable

REVISION = "0123456789abcdef0123456789abcdef01234567"
SOURCE = {"repository": "an/example", "revision": REVISION}
FRONT = {"front.tlsSecret": "front-tls", "front.keys.configMap": "front-keys"}
ROOM = {"cpu": "1", "memory": "4Gi"}
SMALL = {"models": {"quality_piqe": {}}, "resources": ROOM}
SERVER = {"source": SOURCE, "resources": ROOM}
RUN = {
    "benchmark": "core",
    "data": {"claim": "edits", "path": "items.jsonl"},
    "outputs": {"ours": "out/ours", "theirs": "out/theirs"},
    "arguments": ["--dimension=core.psnr.source.whole"],
    "claim": "runs",
    "shards": 2,
    "resources": ROOM,
}
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
BASE: Mapping[str, Any] = {**FRONT, "triton.servers.small": SMALL}
GATEWAY = {
    "front.kind": "gateway",
    "front.gateway.className": "eg",
    "front.gateway.hostname": "judges.example.org",
    "front.gateway.namespace": "envoy-gateway-system",
}
MONITORED = {"monitoring.enabled": True, "network.metricsNamespace": "monitoring"}
SCALED: Mapping[str, Any] = {
    "autoscaling": {
        "kind": "keda",
        "prometheus": "http://prometheus.monitoring.svc.cluster.local:9090",
    },
    "triton.servers.small.scale": {"maxReplicas": 4, "load": 16},
    "vllm.servers.judge": {**SERVER, "scale": {"maxReplicas": 4, "load": 32}},
}
OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "pull secrets": {"imagePullSecrets": ["registry"]},
    "own claim": {"weights.claim.existing": "filled"},
    "class of storage": {"weights.claim.storageClass": "fast"},
    "no job": {"weights.job.enabled": False, "triton.servers.small.models.features_dinov2": {}},
    "token": {
        "weights.job.tokenSecret": "hub-token",
        "triton.servers.small.models.features_dinov2": {},
    },
    "mirror": {
        "weights.job.mirror": "http://hub.example.org:8080",
        "triton.servers.small.models.features_dinov2": {},
    },
    "untrained": {
        "weights.job.untrained": True,
        "triton.servers.small.models.lpips_vgg": {"precision": "bf16", "device": "cpu"},
    },
    "GPU": {
        "triton.servers.small.gpus": 2,
        "triton.servers.small.runtimeClass": "nvidia",
        "triton.servers.small.resources.memory": "16Gi",
        "triton.servers.small.gpuResource": "nvidia.com/mig-1g.10gb",
        "triton.servers.small.models.features_dinov2": {"device": "gpu", "instances": 2},
    },
    "placed": {
        "triton.servers.small.nodeSelector": {"pool": "judges"},
        "triton.servers.small.tolerations": [{"key": "judges", "operator": "Exists"}],
    },
    "vllm": {"vllm.servers.judge": SERVER, "judge.vllm": "judge"},
    "generalist on a CPU": {
        "vllm.servers.judge": {**SERVER, "gpus": 0, "arguments": ["--dtype=float32"]}
    },
    "language model": {
        "vllm.servers.q": {"entry": "q-insight", "prompts": "prompts", "resources": ROOM},
        "triton.servers.small.models.quality_qinsight": {},
    },
    "no Judge service": {"judge.enabled": False},
    "autoscaling": {"judge.autoscaling.enabled": True},
    "keys of others": {"front.keys": {"configMap": "", "url": "https://id.example.org/jwks.json"}},
    "GPU by claim": {
        "triton.servers.small.gpus": 1,
        "triton.servers.small.gpuClaim": {"deviceClass": "gpu.nvidia.com"},
        "vllm.servers.judge": {
            **SERVER,
            "gpus": 2,
            "gpuClaim": {
                "deviceClass": "gpu.nvidia.com",
                "cel": "device.capacity['gpu.nvidia.com'].memory.compareTo(quantity('40Gi')) >= 0",
            },
        },
    },
    "vLLM's own protocol": {
        "vllm.servers.own": {**SERVER, "protocol": "grpc"},
        "judge.vllm": "own",
    },
    "cache": {
        "judge.cache.enabled": True,
        "judge.cache.storageClass": "fast",
        "judge.cache.keepDays": 30,
        "judge.audit": "claim",
    },
    "cost": {
        "vllm.servers.judge": SERVER,
        "judge.vllm": "judge",
        "judge.cache": {"enabled": True, "shared": True},
        "judge.price": {"input": 0.5, "output": 1},
    },
    "no audit": {"judge.audit": "none"},
    "certificates of clients": {"front.clientCa": "clients"},
    "tokens per day": {
        "front.tokenLimits.service": "limits.platform:8081",
        "front.tokenLimits.uncounted": ["nightly"],
    },
    "limits of the door": {"front.limits.connections": 100, "front.limits.requestMiB": 8},
    "run": {"runs.first": RUN},
    "run with settings of its own": {
        "runs.own": {**RUN, "settings": "own-settings", "secret": "team-token", "ports": [443]},
    },
    "run that is merged": {
        "runs.done": {**RUN, "merge": True, "parallel": 1, "retries": 0, "deadlineSeconds": 3600},
    },
    "run that is merged unfinished": {"runs.part": {**RUN, "merge": "unfinished"}},
    "rates and spans": {
        "front.rates": {"vision": {"callsPerSecond": 5, "burst": 10}},
        "front.otlp": "collector.monitoring:4317",
    },
    "load balancer": {
        "front.envoy.service": {"type": "LoadBalancer", "port": 8443, "annotations": {"a": "b"}}
    },
    "gateway": GATEWAY,
    "gateway of others": {**GATEWAY, "front.gateway.policies": "elsewhere"},
    "no front door": {"front.kind": "none", "network.callers": [{"podSelector": {}}]},
    "no policies": {"network.policies": False},
    "metrics": {"network.metricsNamespace": "monitoring"},
    "monitoring": MONITORED,
    "monitoring without rules": {
        **MONITORED,
        "monitoring.rules.enabled": False,
        "monitoring.dashboards.enabled": False,
    },
    "KEDA": {**MONITORED, **SCALED},
    "KEDA that says who it is": {
        **MONITORED,
        **SCALED,
        "autoscaling.authentication": {"name": "prometheus", "modes": "bearer"},
    },
    "HPA of servers": {**MONITORED, **SCALED, "autoscaling": {"kind": "hpa", "prometheus": ""}},
    "certificate": {
        "front.tlsSecret": "",
        "front.certificate": {"issuer": "letsencrypt", "names": ["judges.example.org"]},
    },
    "no priorities": {"priorityClasses.create": False},
}


def right(things: list[Object]) -> None:
    """Whether rules and schemas find nothing."""
    said = checked(things)
    assert not said.wrong
    assert said.unchecked <= UNCHECKED
    assert not broken(things)


@pytest.mark.parametrize("file", sorted(path.stem for path in (CHART / "values").glob("*.yaml")))
def test_every_file_of_values_is_right(file: str) -> None:
    further = {"vllm.servers.judge.source.revision": REVISION} if file == "production" else {}
    things = rendered(file, values=further)
    right(things)
    assert not checked(things).unchecked


@pytest.mark.parametrize("option", OPTIONS)
def test_each_option_alone_is_right(option: str) -> None:
    right(rendered(values={**BASE, **OPTIONS[option]}))


def test_all_options_together_are_right() -> None:
    apart = {
        "gateway",
        "gateway of others",
        "no front door",
        "no policies",
        "no Judge service",
        "no job",
        "monitoring without rules",
        "HPA of servers",
    }
    values = {**BASE}
    for option in (name for name in OPTIONS if name not in apart):
        values |= OPTIONS[option]
    right(rendered(values=values))
    # What a gateway of the cluster has to keep instead.
    own = {"front.clientCa": "", "front.tokenLimits.service": ""}
    right(rendered(values={**values, **own, **GATEWAY}))


def test_outside_the_cluster_nobody_reaches_metrics() -> None:
    things = rendered(values={**BASE, **OPTIONS["load balancer"]})
    services = [one for one in things if one["kind"] == "Service"]
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
    assert text("single-gpu") == text("single-gpu")


def test_a_kind_without_a_schema_is_told() -> None:
    things = rendered(values={**BASE, **GATEWAY, "vllm.servers.judge": SERVER})
    assert checked(things, definitions=None).unchecked == UNCHECKED_OF_GATEWAYS


def test_a_definition_that_the_user_gives_is_asked(tmp_path: Path) -> None:
    parents = {
        "type": "array",
        "items": {"type": "object", "properties": {"name": {"type": "string"}}},
    }
    spec = {"type": "object", "properties": {"parentRefs": parents}}
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
    said = checked(rendered(values={**BASE, **GATEWAY}), definitions=tmp_path)
    assert "gateway.networking.k8s.io/v1 GRPCRoute" not in said.unchecked
    # That schema knows the name of a gateway and nothing else.
    assert any("GRPCRoute" in told and "unexpected" in told for told in said.wrong)


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"tritn": {}}, "additional properties 'tritn' not allowed"),
        ({"judge.replica": 2}, "additional properties 'replica' not allowed"),
        ({"judge.replicas": "2"}, "got string, want integer"),
        ({"images.triton.digest": "latest"}, "does not match pattern"),
        ({"images.triton.digest": ""}, "images.triton: give repository and digest"),
        ({"triton.servers.small.models.quality_pique": {}}, "there is no model quality_pique"),
        ({"triton.servers.other": SMALL}, "quality_piqe: in triton.servers.other and in"),
        ({"triton.servers.small.models.features_dinov2": {"device": "gpu"}}, "give gpus"),
        (
            {
                "triton.servers.small.gpus": 1,
                "triton.servers.small.models.ocr_ppocr": {"device": "gpu"},
            },
            "ocr_ppocr cannot run on a GPU in fp32",
        ),
        (
            {"triton.servers.small.resources.memory": "128Mi"},
            "and /dev/shm may take 144Mi of it",
        ),
        ({"judge.megapixels": 256}, "and 256 megapixels may take 29797Mi"),
        ({"triton.servers.small.models.features_dinov3": {}}, "has a restricted licence"),
        ({"triton.servers.small.models.quality_qinsight": {}}, "needs a server in vllm.servers"),
        ({"vllm.servers.judge": {**SERVER, "entry": "q-insight"}}, "oneOf"),
        (
            {"vllm.servers.judge": {"source": {**SOURCE, "revision": "main"}, "resources": ROOM}},
            "pattern",
        ),
        (
            {"vllm.servers.q": {"entry": "got-ocr2", "prompts": "p", "resources": ROOM}},
            "no model that vLLM",
        ),
        ({"judge.vllm": "nobody"}, "there is no vllm.servers.nobody"),
        ({"judge.autoscaling": {"enabled": True, "maxReplicas": 1}}, "it is below judge.replicas"),
        ({"front.tlsSecret": ""}, "front.tlsSecret: name a Secret"),
        ({"front.envoy.resources.memory": "80Mi"}, "resources.memory: 80Mi is too little"),
        ({"front.keys.configMap": ""}, "one of the two"),
        ({"judge.price": {"inputs": 1}}, "invalid propertyName 'inputs'"),
        ({"judge.audit": "claim"}, "there is no claim"),
        ({**GATEWAY, "front.clientCa": "clients"}, "of kind gateway that is the gateway's to say"),
        (
            {"front.tokenLimits.service": "limits:8081", "judge.enabled": False},
            "the Judge service tells tokens",
        ),
        (
            {
                "vllm.servers.q": {
                    "entry": "q-insight",
                    "prompts": "p",
                    "resources": ROOM,
                    "protocol": "grpc",
                }
            },
            "a specialist is asked over http",
        ),
        ({"runs.first": {**RUN, "outputs": {}}}, "minProperties"),
        ({"runs.first": {**RUN, "shard": 2}}, "additional properties 'shard' not allowed"),
        (
            {"runs.first": RUN, "triton.servers": {}, "judge.enabled": False},
            "runs.first: it has nobody to ask",
        ),
        ({**GATEWAY, "front.gateway.className": ""}, "name a class of gateways"),
        ({"triton.servers": {}}, "it has nobody to ask"),
        ({"monitoring.enabled": True}, "name the namespace of Prometheus"),
        ({**MONITORED, "monitoring.rules.limits.failedShare": 80}, "maximum"),
        (SCALED, "nothing is scraped: set monitoring.enabled"),
        ({**MONITORED, **SCALED, "autoscaling": {"kind": "none"}}, "choose autoscaling.kind"),
        ({**MONITORED, **SCALED, "autoscaling": {"kind": "keda"}}, "give its address"),
        ({**MONITORED, **SCALED, "autoscaling.kind": "hpa"}, "prometheus"),
        ({**MONITORED, **SCALED, "autoscaling.kind": "both"}, "'none', 'keda', 'hpa'"),
        (
            {
                **MONITORED,
                **SCALED,
                "autoscaling": {"kind": "hpa"},
                "monitoring.rules.enabled": False,
            },
            "set monitoring.rules.enabled",
        ),
        ({**MONITORED, **SCALED, "triton.servers.small.replicas": 9}, "below replicas"),
        ({**MONITORED, **SCALED, "triton.servers.small.startupSeconds": 3600}, "3300 at most"),
        ({"front.certificate.issuer": "x"}, "give one of the two"),
        ({"front.tlsSecret": "", "front.certificate.issuer": "x"}, "names by which callers come"),
        (
            {
                **MONITORED,
                "front.tlsSecret": "",
                "front.certificate": {"issuer": "x", "names": ["j.example.org"], "days": 30},
            },
            "the alert would come before",
        ),
    ],
)
def test_what_cannot_be_used_is_refused_by_its_name(values: Mapping[str, Any], told: str) -> None:
    with pytest.raises(Refused) as refused:
        rendered(values={**BASE, **values})
    assert told in str(refused.value)


@pytest.mark.parametrize("name", ["a.b", "2nd", "my-release-for-europe-and-its-west"])
def test_a_name_of_a_release_that_gives_no_names_of_services_is_refused(name: str) -> None:
    with pytest.raises(Refused, match="name the release"):
        helm("template", name, CHART, *chosen(values=BASE))


CLAIM = {"deviceClass": "gpu.nvidia.com"}
ASKED: Mapping[str, Any] = {
    **BASE,
    "triton.servers.small.gpus": 1,
    "triton.servers.small.gpuClaim": CLAIM,
    "vllm.servers.judge": SERVER,
    "judge.vllm": "judge",
    "runs.first": {**RUN, "merge": True},
}


@pytest.fixture(scope="module")
def before() -> list[Object]:
    return rendered(values=ASKED)


def tasks(things: list[Object]) -> set[str]:
    return {name for name in names(things, "Job") if "-run-" in name}


@pytest.mark.parametrize(
    "change",
    [
        {"triton.servers.small.gpuClaim": {**CLAIM, "cel": "true"}},
        {"triton.servers.small.gpus": 2},
        {"imagePullSecrets": ["registry"]},
        {"priorityClasses.create": False},
        {"weights.claim.existing": "filled"},
        {"runs.first.retries": 1},
        {"runs.first.merge": "unfinished"},
        {"runs.first.resources.cpu": "2"},
        {"judge.vllm": "", "vllm.servers": {}},
    ],
    ids=str,
)
def test_a_change_of_values_can_be_upgraded_to(before: list[Object], change: Any) -> None:
    assert not list(unchangeable(before, rendered(values={**ASKED, **change})))


def test_an_upgrade_that_is_refused_is_found(before: list[Object]) -> None:
    after = copy.deepcopy(before)
    of(after, "ResourceClaimTemplate")[0]["spec"]["spec"] = {}
    assert list(unchangeable(before, after))


def test_what_decides_no_verdict_starts_no_run_and_no_pod_anew(before: list[Object]) -> None:
    """More replicas, another price, another limit of one call, fewer shards at a time."""
    change = {
        "triton.servers.small.replicas": 3,
        "runs.first.parallel": 1,
        "vllm.servers.judge.replicas": 2,
        "judge.replicas": 3,
    }
    after = rendered(values={**ASKED, **change})
    assert tasks(after) == tasks(before)
    pods = [
        {n: d["spec"]["template"] for n, d in names(t, "Deployment").items()}
        for t in (before, after)
    ]
    assert pods[0] == pods[1]
    dearer = rendered(values={**ASKED, "judge.price": {"input": 1}, "judge.deadlineSeconds": 90})
    assert tasks(dearer) == tasks(before)
    other = {**ASKED, "vllm.servers.judge.source.revision": REVISION[::-1]}
    assert tasks(rendered(values=other)).isdisjoint(tasks(before))


def test_pods_are_not_named_after_the_version_of_the_chart(before: list[Object]) -> None:
    for one in of(before, "Deployment", "Job"):
        labels = one["spec"]["template"]["metadata"]["labels"]
        assert not {"helm.sh/chart", "app.kubernetes.io/version"} & labels.keys()


def test_large_numbers_of_a_file_are_written_out(tmp_path: Path) -> None:
    """By a file: JSON of a flag has whole numbers as they are."""
    values = {
        "front": {"tlsSecret": "t", "keys": {"configMap": "k"}},
        "triton": {"servers": {"small": SMALL}},
        "vllm": {"servers": {"judge": {**SERVER, "maxModelLen": 1048576}}},
        "weights": {"job": {"deadlineSeconds": 1209600}},
        "priorityClasses": {"front": 1000000},
        "runs": {"first": {**RUN, "deadlineSeconds": 1209600}},
    }
    (tmp_path / "values.yaml").write_text(yaml.safe_dump(values))
    shown = helm(
        "template", "judges", CHART, "--namespace=n", *chosen(), f"--values={tmp_path}/values.yaml"
    )
    things = [one for one in yaml.safe_load_all(shown) if one]
    assert not broken(things)
    (server,) = containers(names(things, "Deployment")["judges-vllm-judge"]["spec"]["template"])[1:]
    assert "--max-model-len=1048576" in server["args"]


def test_every_value_is_described() -> None:
    """Each default of values.yaml has its place in the schema, and the other way round."""
    schema = json.loads((CHART / "values.schema.json").read_text())
    shown = helm("show", "values", CHART)

    def places(one: Any) -> Any:
        if "$ref" in one:
            one = schema["definitions"][one["$ref"].rpartition("/")[2]]
        return {key: places(value) for key, value in one.get("properties", {}).items()}

    def same(values: Any, wanted: Any, at: str) -> None:
        if wanted and isinstance(values, dict):
            assert values.keys() == wanted.keys(), at
            for key, value in values.items():
                same(value, wanted[key], f"{at}.{key}")

    same(
        yaml.safe_load(shown), {k: v for k, v in places(schema).items() if k != "global"}, "values"
    )
    # What a server may say is in words there: its servers are none by default.
    for kind in ("triton", "vllm", "serving", "run"):
        for name in schema["definitions"][kind]["properties"]:
            assert name in shown, f"{kind}: {name}"


@pytest.mark.parametrize("file", ["images", "run", "next"])
def test_the_values_of_the_page_are_right(file: str, tmp_path: Path) -> None:
    page = (CHART.parents[1] / "docs" / "deploying.md").read_text()
    (block,) = re.findall(rf"```yaml\n# {file}[.]yaml\n(.*?)```", page, re.DOTALL)
    shown = block.replace("sha256:…", f"sha256:{64 * '0'}").replace("<the new commit>", REVISION)
    values = yaml.safe_load(shown)
    right(rendered(values={**BASE, **values}))
    for run in values.get("runs", {}).values():
        flags = {name.partition("=")[0] for name in run["arguments"]}
        assert flags <= {
            name for option in (*root.commands["run"].params, *root.params) for name in option.opts
        }


def test_helm_finds_no_fault(tmp_path: Path) -> None:
    values = tmp_path / "values.json"
    values.write_text(
        json.dumps(
            {
                "front": {"tlsSecret": "t", "keys": {"configMap": "k"}},
                "triton": {"servers": {"small": SMALL}},
            }
        )
    )
    said = helm("lint", "--strict", CHART, f"--values={values}", f"--values={HERE / 'images.yaml'}")
    assert "0 chart(s) failed" in said


def test_a_server_has_time_to_load_and_memory_for_a_batch() -> None:
    (one,) = [
        each
        for each in of(rendered("single-gpu"), "Deployment")
        if each["metadata"]["name"] == "judges-triton-small"
    ]
    spec = one["spec"]["template"]["spec"]
    probe = spec["containers"][0]["startupProbe"]
    assert probe["periodSeconds"] * probe["failureThreshold"] >= 600
    known = json.loads((CHART / "files" / "models.json").read_text())["models"]
    served = json.loads(
        next(
            t
            for t in of(rendered("single-gpu"), "ConfigMap")
            if "triton-small" in t["metadata"]["name"]
        )["data"]["models.json"]
    )
    least = sum(
        how.get("instances", 1) * known[name]["batch"] * known[name]["pictures"] * 16
        for name, how in served.items()
    )
    (shm,) = [v["emptyDir"] for v in spec["volumes"] if v["name"] == "shm"]
    assert shm["medium"] == "Memory"
    assert int(shm["sizeLimit"].removesuffix("Mi")) >= least


def test_the_example_of_patching_gives_objects_that_are_right(tmp_path: Path) -> None:
    example = CHART.parent / "kustomize" / "kustomization.yaml"
    (tmp_path / example.name).write_text(example.read_text())
    (tmp_path / "rendered.yaml").write_text(text("single-gpu"))
    patched = subprocess.run(
        [TOOLS / "bin" / "kubectl", "kustomize", tmp_path],
        capture_output=True,
        text=True,
        check=True,
    )
    things = [one for one in yaml.safe_load_all(patched.stdout) if one]
    right(things)
    pods = {one["metadata"]["name"]: one["spec"]["template"] for one in of(things, "Deployment")}
    assert pods["judges-front"]["spec"]["nodeSelector"] == {"pool": "edge"}
    (judge,) = pods["judges-judge"]["spec"]["containers"]
    assert judge["resources"]["limits"] == {"cpu": "2", "memory": "32Gi"}
    assert all(one["metadata"]["labels"]["cost-centre"] == "research" for one in things)
