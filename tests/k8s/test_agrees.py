"""What the chart says, against the programs that read it: one rule in one place."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from click import Command, Context
from click.testing import CliRunner

from editjudge.base.config import (
    JudgeEndpoint,
    PostgresAddress,
    Price,
    Settings,
    StackSettings,
    load_settings,
    parse_ledger,
)
from editjudge.base.contracts import TEAM_HEADER
from editjudge.base.providers import load_providers
from editjudge.cli import plugin_commands, root
from editjudge_services.front.identity import Authority
from editjudge_services.front.local import validate
from editjudge_services.front.render import check, render
from editjudge_services.front.values import OWN_HEADERS, FrontValues, TokenLimits
from editjudge_services.gateway.options import ServiceOptions
from editjudge_services.runtime import triton_server, vllm_server
from editjudge_services.runtime.repository import find_specialists, render_config
from editjudge_services.runtime.serving import read_table
from editjudge_services.runtime.vllm_server import VllmServer
from editjudge_services.zoo.artefact import checkpoint_dir
from editjudge_services.zoo.checkpoint import PULLED_RECORD

from . import chart
from .chart import CHART, OPTIONS, PARTS, Object, helm, render_file, render_parts
from .rules import containers, each_container, names, pod, select_kinds, setting

serve = plugin_commands()["serve"]


@pytest.fixture(scope="module")
def production() -> list[Object]:
    return render_file("production")


def front_values(things: list[Object]) -> dict[str, Any]:
    return dict(yaml.safe_load(setting(things, "front", "values.yaml")))


def settings_of(things: list[Object], name: str, folder: Path) -> Settings:
    """The settings of a service or a run, as it reads them."""
    file = folder / "editjudge.toml"
    file.write_text(setting(things, name, "editjudge.toml"))
    return load_settings(file)


def mounts(container: Any) -> dict[str, str]:
    return {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}


def options(*commands: Command) -> set[str]:
    """The options of commands."""
    return {name for each in commands for option in each.params for name in option.opts}


def test_the_front_door_takes_its_values_and_envoy_its_file(production: list[Object], tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    authority.renew_certificate(("front",))
    keys = tmp_path / "jwks.json"
    keys.write_text('{"keys": []}')
    told = front_values(production)
    told |= {"certificate": authority.server, "private_key": authority.server_key}
    told["tokens"]["keys"] = keys
    check(render(validate(FrontValues, told, "chart"), tmp_path / "front"))


def test_the_front_door_leads_to_every_model_and_to_no_specialists_vllm(production: list[Object]) -> None:
    values = FrontValues.model_validate(front_values(production))
    served = {
        name: set(json.loads(one["data"]["models.json"]))
        for name, one in names(production, "ConfigMap").items()
        if "models.json" in one["data"]
    }
    for name, group in values.triton.items():
        assert not group.models or set(group.models) == served[f"judges-triton-{name}"]
    assert sum(not group.models for group in values.triton.values()) == 1
    assert set(values.judges) == {"judge"}
    assert values.gateway is not None


def test_every_table_of_models_is_one_that_triton_can_be_started_with(production: list[Object], tmp_path: Path) -> None:
    kinds = {kind.name: kind for kind in find_specialists()}
    for name, one in names(production, "ConfigMap").items():
        if table := one["data"].get("models.json"):
            file = tmp_path / f"{name}.json"
            file.write_text(table)
            for model, serving in read_table(file).items():
                assert f"count: {serving.instances}" in render_config(kinds[model], serving=serving)


def test_the_judge_service_takes_its_settings_and_its_arguments(production: list[Object], tmp_path: Path) -> None:
    settings = settings_of(production, "judge", tmp_path)
    assert set(settings.endpoints) == {"language", "ocr", "segmentation", "small"}
    assert settings.judges["judge"].model == "judge"
    (judge,) = pod(production, "judge")["containers"]
    assert {argument.partition("=")[0] for argument in judge["args"]} <= options(serve, root)


def test_the_judge_service_takes_its_cache_its_prices_and_its_rate(tmp_path: Path) -> None:
    kept = {
        "vllm.servers.judge": {**PARTS["server"], "protocol": "grpc"},
        "judge.vllm": "judge",
        "judge.cache": {"enabled": True, "shared": True, "keepDays": 30},
        "judge.audit": "claim",
        "judge.price": {"input": 0.5, "cached": 0.125, "output": 1},
        "judge.replicas": 3,
        "judge.requestsPerSecond": 20,
    }
    things = render_parts(kept)
    settings = settings_of(things, "judge", tmp_path)
    assert settings.judges["judge"].price == Price(input=0.5, cached=0.125, output=1)
    assert settings.judges["judge"].url.startswith("grpc://judges-vllm-judge.")
    (judge,) = pod(things, "judge")["containers"]
    # `--config` is an option of every command, which the root takes out before.
    own = [word for word in judge["args"] if not word.startswith("--config=")]
    told = serve.make_context("serve", own).params
    assert told["cache_shared"]
    assert (told["keep_days"], told["rate"]) == (30, 20)
    assert {Path(told["cache"]).parent, told["audit"].parent} == {Path(mounts(judge)["kept"])}


def test_a_cache_in_a_database_needs_no_volume() -> None:
    things = render_parts(OPTIONS["cache in a database"])
    service = pod(things, "judge")
    (judge,) = service["containers"]
    own = [word for word in judge["args"] if not word.startswith("--config=")]
    place = parse_ledger(serve.make_context("serve", own).params["cache"])
    assert isinstance(place, PostgresAddress)
    (password,) = [each for each in judge["env"] if each["name"] == "PGPASSWORD"]
    assert password["valueFrom"] == {"secretKeyRef": {"name": "ledger", "key": "password"}}
    assert {volume["name"] for volume in service["volumes"]} == {"settings", "tmp"}
    assert not [x for x in things if x["kind"] == "StatefulSet"]
    (scaled,) = [x for x in things if x["kind"] == "ScaledObject"]
    assert scaled["spec"]["scaleTargetRef"]["kind"] == "Deployment"
    (policy,) = [x for x in things if x["metadata"]["name"].endswith("judge-to-outside")]
    assert policy["spec"]["egress"] == [{"ports": [{"port": 6432, "protocol": "TCP"}]}]


def test_who_closes_judges_own_paths_has_no_way_to_them() -> None:
    judge = {"vllm.servers.judge": PARTS["server"]}
    for further, count in (({}, 1), ({"front.openJudges": False}, 0)):
        values = FrontValues.model_validate(front_values(render_parts(judge | further)))
        assert len(values.judges) == count
        routes = names(render_parts(judge | further, "gateway"), "HTTPRoute")
        assert sum("vllm" in name for name in routes) == count


def test_a_judge_of_several_pods_is_asked_by_way_of_the_front_door(tmp_path: Path) -> None:
    """Which sends calls with one source to one pod; a judge of one pod, or over gRPC, is asked itself."""
    several = {**PARTS["server"], "replicas": 2}
    things = render_parts(OPTIONS["pods of a judge"])
    inside = FrontValues.model_validate(front_values(things)).inside
    assert inside is not None
    (at,) = inside.judges["judge"].addresses
    assert str(at) == "judges-vllm-judge.editjudge.svc:8000"
    for whose in ("judge", "run-first"):
        url = settings_of(things, whose, tmp_path).judges["judge"].url
        assert url == f"http://judges-front-inside.editjudge.svc:{inside.listen.port}/judges/judge/v1"
    (port,) = names(things, "Service")["judges-front-inside"]["spec"]["ports"]
    (envoy,) = pod(things, "front")["containers"]
    assert {"name": port["targetPort"], "containerPort": inside.listen.port} in envoy["ports"]
    callers = {
        (peer["podSelector"]["matchLabels"]["editjudge/tier"])
        for name, policy in names(things, "NetworkPolicy").items()
        for rule in policy["spec"].get("ingress", ())
        if name.startswith("judges-front-from-") and {"port": inside.listen.port, "protocol": "TCP"} in rule["ports"]
        for peer in rule["from"]
    }
    assert callers == {"judge", "run"}
    alone = {"vllm.servers.judge": PARTS["server"], "judge.vllm": "judge"}
    for further in ((alone,), (alone | {"vllm.servers.judge": {**several, "protocol": "grpc"}},)):
        things = render_parts(*further)
        assert "inside" not in front_values(things)
        assert "vllm-judge" in settings_of(things, "judge", tmp_path).judges["judge"].url
    things = render_parts(alone | {"vllm.servers.judge": several}, "gateway")
    assert "vllm-judge" in settings_of(things, "judge", tmp_path).judges["judge"].url


def test_the_front_door_takes_certificates_token_limits_and_limits(tmp_path: Path) -> None:
    further = {
        "front.clientCa": "clients",
        "front.tokenLimits": {"service": "limits.platform:8081", "uncounted": ["nightly"]},
        "front.limits": {"connections": 100, "requestMiB": 8, "openCalls": 7},
        "vllm.servers.own": {**PARTS["server"], "protocol": "grpc"},
        "vllm.servers.judge": PARTS["server"],
    }
    things = render_parts(further)
    values = FrontValues.model_validate(front_values(things))
    tokens = values.token_limits
    assert tokens is not None
    assert str(tokens.service) == "limits.platform:8081"
    assert (tokens.uncounted, tokens.open_when_down) == (("nightly",), False)
    limits = values.limits
    assert (limits.connections, limits.open_calls, limits.request_bytes) == (100, 7, 8 * 2**20)
    assert values.judges.keys() == {"judge"}
    front = pod(things, "front")
    (envoy,) = front["containers"]
    assert values.client_ca is not None
    assert str(values.client_ca.parent) == mounts(envoy)["clients"]
    assert {"name": "clients", "configMap": {"name": "clients"}} in front["volumes"]


def test_a_run_takes_its_settings_and_its_arguments(tmp_path: Path) -> None:
    things = render_parts({"runs.first": {**PARTS["run"], "merge": True}})
    assert set(settings_of(things, "run-first", tmp_path).endpoints) == {"small"}
    told = [
        [*each["command"], *each.get("args", ())]
        for _, _, each in each_container(select_kinds(things, "Job"))
        if each["command"][0] == "editjudge"
    ]
    assert sorted(words[1] for words in told) == ["merge", "run", "summary"]
    for _, verb, *words in told:
        command = root.get_command(Context(root), verb)
        assert command is not None
        flags = {word.partition("=")[0] for word in words if word.startswith("--")}
        assert flags <= options(command, root)


def test_hosted_judges_have_the_providers_and_settings_of_judges() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    field = schema["properties"]["judge"]["properties"]["hosted"]["properties"]
    hosted = {n for n, p in load_providers().items() if p.url.startswith("https:") and "{" not in p.url}
    assert set(field["provider"]["enum"]) == {"", *hosted}
    # What has a value of its own, and what is for servers of one's own.
    own = {*("provider", "url", "model", "api_key", "price", "send_images"), "headers", "replicas"}
    own |= {"ca_file", "cert_file", "key_file"}
    assert set(field["settings"]["propertyNames"]["enum"]) == JudgeEndpoint.model_fields.keys() - own


def test_runs_and_the_panel_know_a_hosted_judge(tmp_path: Path) -> None:
    things = render_parts(OPTIONS["hosted judge and a run"])
    settings = settings_of(things, "run-first", tmp_path)
    assert not settings.judges
    gateway = settings.gateway
    assert gateway is not None
    assert gateway.url == "grpc://judges-judge.editjudge.svc:8002"
    assert gateway.header_values() == {TEAM_HEADER: "run-first"}
    panel = json.loads(setting(things, "panel", "panel.json"))
    assert panel["generalist.judge"] == {"name": "gpt-4o"}


def test_every_command_of_ours_exists(production: list[Object]) -> None:
    for _, _, each in each_container(production):
        if each["command"][0] == "editjudge":
            words = [word for word in each["command"][1:3] if re.fullmatch("[a-z]+", word)]
            said = CliRunner().invoke(root, [*words, "--help"])
            assert said.exit_code == 0, said.output
            assert all(word in said.output for word in each["command"] if word.startswith("--"))


def test_triton_is_as_closed_as_on_a_laptop(production: list[Object]) -> None:
    grpc, http = map(",".join, (triton_server._CLOSED_GRPC, triton_server._CLOSED_HTTP))
    closed = {
        f"--grpc-restricted-protocol={grpc}:{triton_server._LOCK}",
        f"--http-restricted-api={http}:{triton_server._LOCK}",
    }
    servers = [each for _, _, each in each_container(production) if each["name"] == "triton"]
    assert servers
    assert all(closed <= set(each["args"]) for each in servers)


def join_values(arguments: Sequence[str]) -> set[str]:
    """Arguments, whether their values stand apart or behind =."""
    text = " ".join(arguments)
    return set(re.sub(r"(--[\w-]+) (?!--)", r"\1=", text).split())


def test_vllm_is_started_as_on_a_laptop(tmp_path: Path) -> None:
    for protocol, (launched, *own) in vllm_server._LAUNCHERS.items():
        settings = StackSettings(judge=tmp_path, judge_protocol=protocol)
        for name in ("config.json", "model.safetensors", "tokenizer.json"):
            (tmp_path / name).touch()
        server = VllmServer(tmp_path / "log", Path("python3"), settings)
        laptop = join_values([*server._command(on_cpu=False)[3:], *own])
        things = render_parts({"vllm.servers.v": {**PARTS["server"], "protocol": protocol}})
        (vllm,) = pod(things, "vllm-v")["containers"]
        assert launched in vllm["command"]
        chart = join_values(vllm["args"])
        differ = {one.partition("=")[0] for one in laptop - chart}
        assert differ == {"--model", "--served-model-name", "--host", "--port"}
        env = {one["name"]: one["value"] for one in vllm["env"]}
        same = ("DO_NOT_TRACK", "HF_HUB_OFFLINE", "VLLM_MEDIA_URL_ALLOW_REDIRECTS")
        theirs = server._environment(on_cpu=False)
        assert all(env[name] == theirs[name] for name in (*same, "VLLM_MAX_N_SEQUENCES"))
        assert ("SMG_VLLM_MM_PROCESSOR" in env) == (protocol == "grpc")


def test_vllm_waits_for_what_the_job_brings(production: list[Object], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDITJUDGE_MODELS_DIR", "/weights")
    brought = [each["command"] for _, _, each in each_container(select_kinds(production, "Job"))]
    entries = {word for command in brought if "pull" in command for word in command}
    for name in ("q-insight", "artimuse"):
        server = pod(production, f"vllm-{name.replace('-', '')}")
        waits = server["initContainers"][0]["command"]
        assert waits == ["test", "-f", str(checkpoint_dir(name) / PULLED_RECORD)]
        assert name in entries
    (kept,) = [command for command in brought if command[0] == "touch"]
    spec = pod(production, "vllm-judge")
    assert spec["initContainers"][0]["command"] == ["test", "-f", kept[1]]
    assert f"--model={Path(kept[1]).parent}" in spec["containers"][0]["args"]


@pytest.mark.parametrize("damage", ["", "model.safetensors", "SHA256SUMS"])
def test_what_a_step_of_the_users_copies_is_compared_before_anybody_reads_it(tmp_path: Path, damage: str) -> None:
    """By the commands of the Job, in folders of this machine."""
    source, weights = tmp_path / "bucket", tmp_path / "weights"
    judge = source / "judges" / "judge" / PARTS["revision"]
    judge.mkdir(parents=True)
    weights.mkdir()
    (judge / "model.safetensors").write_bytes(b"weights")
    (judge / ".compared").touch()  # it comes from a claim that was filled elsewhere
    digest = hashlib.sha256(b"weights").hexdigest()
    (judge / "SHA256SUMS").write_text(f"{digest}  model.safetensors\n")
    if damage:
        (judge / damage).write_bytes(b"")
    copy = {**OPTIONS["weights copied"]["weights.job.copy"], "command": ["cp", "-R", f"{source}/.", "/weights"]}
    things = render_parts({"weights.job.copy": copy, "vllm.servers.judge": PARTS["server"]})
    (job,) = select_kinds(things, "Job")

    def succeeds(container: Any) -> bool:
        folder = container.get("workingDir", "/").replace("/weights", str(weights))
        words = [word.replace("/weights", str(weights)) for word in container["command"]]
        return subprocess.run(words, cwd=folder, capture_output=True, check=False).returncode == 0

    assert all(map(succeeds, containers(job["spec"]["template"]))) == (not damage)
    assert succeeds(pod(things, "vllm-judge")["initContainers"][0]) == (not damage)


def test_weights_in_an_image_need_no_claim_no_job_and_no_way_out() -> None:
    things = render_parts(OPTIONS["weights in an image"])
    assert not select_kinds(things, "Job", "PersistentVolumeClaim")
    assert not any("weights" in one["metadata"]["name"] for one in select_kinds(things, "NetworkPolicy"))
    image = OPTIONS["weights in an image"]["weights.image"]
    server = pod(things, "triton-small")
    (volume,) = (one for one in server["volumes"] if one["name"] == "weights")
    assert volume["image"]["reference"] == f"{image['repository']}@{image['digest']}"
    for each in (*server["initContainers"], *server["containers"]):
        (mount,) = (one for one in each["volumeMounts"] if one["name"] == "weights")
        assert mount == {"name": "weights", "mountPath": "/weights", "readOnly": True, "subPath": "models"}
    told = chart.select_values(values=PARTS["base"] | OPTIONS["weights in an image"])
    with pytest.raises(chart.RenderError, match=r"weights.image: Kubernetes v1.32.0 mounts no images"):
        helm("template", "a", CHART, "--kube-version=1.32.0", *told)


def test_the_job_brings_what_is_served_in_the_precision_that_is(production: list[Object]) -> None:
    there = [each for _, _, each in each_container(select_kinds(production, "Job"))]
    commands = {each["name"]: each["command"][3:] for each in there}
    assert commands["export-bf16"][1:] == ["bf16", "got-ocr2", "sa2va-qwen3-vl-4b"]
    assert {"dinov2-small", "lpips-vgg", "grounded-sam-huge"} <= set(commands["export-fp32"])
    assert "q-insight" not in commands["export-fp32"]
    assert {"q-insight", "artimuse", "got-ocr2"} <= set(commands["verify"])
    told = [
        {one["name"] for one in each["env"]} >= {"HF_TOKEN"}
        for each in there
        if each["command"][:2] == ["editjudge", "models"]
    ]
    assert told.count(True) == 2  # what asks the hub, and nobody else


def route_matches(things: list[Object], kind: str) -> list[Any]:
    rules = [rule for one in select_kinds(things, kind) for rule in one["spec"]["rules"]]
    return [match for rule in rules for match in rule["matches"]]


def test_a_gateway_lets_through_what_the_front_door_does(tmp_path: Path) -> None:
    front = FrontValues.model_validate(front_values(render_parts(OPTIONS["vllm"])))
    ours = render(front, tmp_path).read_text()
    things = render_parts(OPTIONS["vllm"], "gateway")
    methods = [match["method"] for match in route_matches(things, "GRPCRoute")]
    passed = [f"/{method['service']}/{method['method']}" for method in methods]
    passed += [match["path"]["value"] for match in route_matches(things, "HTTPRoute")]
    patterns = re.findall(r'safe_regex: {regex: "(/[^"]*)[(](.*)[)]"', ours)
    allowed = {before + name for before, names in patterns for name in names.split("|")}
    assert set(passed) == {path.replace("[.]", ".") for path in allowed}
    (taken,) = select_kinds(things, "ClientTrafficPolicy")
    assert tuple(taken["spec"]["headers"]["earlyRequestHeaders"]["remove"]) == OWN_HEADERS


def test_every_default_of_the_front_door_is_its_own() -> None:
    """What the chart's values begin with is what a laptop's do."""
    told = front_values(render_parts())
    fields = FrontValues.model_fields
    assert told["rate"] == fields["rate"].default.model_dump()
    assert told["limits"].pop("heap_bytes") == 1.5 * 2**30  # of the 2 GiB of its pod
    assert told["limits"] == fields["limits"].default.model_dump(exclude={"heap_bytes"})
    assert not {"token_limits", "client_ca"} & told.keys()
    shown = yaml.safe_load(helm("show", "values", CHART))["front"]["tokenLimits"]
    assert shown["domain"] == TokenLimits.model_fields["domain"].default


def test_the_defaults_of_the_judge_service_are_its_own() -> None:
    judge = yaml.safe_load(helm("show", "values", CHART))["judge"]
    own = ServiceOptions()
    told = [judge[name] for name in ("edits", "megapixels", "requestsPerSecond")]
    assert told == [own.edits, own.megapixels, own.rate]
    assert judge["cache"]["keepDays"] == own.keep_days


def test_the_chart_has_the_projects_version() -> None:
    project = (CHART.parents[1] / "pyproject.toml").read_text()
    (version,) = re.findall(r'^version = "(.*)"$', project, re.MULTILINE)
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == version
