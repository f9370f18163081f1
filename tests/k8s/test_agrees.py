"""What the chart says, against the programs that read it: one rule in one place."""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from click import Context
from click.testing import CliRunner
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from editjudge.base.config import Price, StackSettings, load_settings
from editjudge.cli import plugin_commands, root
from editjudge_services.front.local import validate_values
from editjudge_services.front.render import check, render
from editjudge_services.front.values import OWN_HEADERS, FrontValues, TokenLimits
from editjudge_services.runtime import triton_server, vllm_server
from editjudge_services.runtime.repository import find_specialists, render_config
from editjudge_services.runtime.serving import read_table
from editjudge_services.runtime.vllm_server import VllmServer
from editjudge_services.zoo.artefact import checkpoint_dir
from editjudge_services.zoo.checkpoint import PULLED_RECORD

from .chart import CHART, Object, helm, rendered
from .rules import containers, names, of, workloads
from .test_chart import BASE, FRONT, GATEWAY, REVISION, RUN, SERVER

serve = plugin_commands()["serve"]

WHOLE = {"vllm.servers.judge.source.revision": REVISION}


@pytest.fixture(scope="module")
def production() -> list[Object]:
    return rendered("production", values=WHOLE)


def front_values(things: list[Object]) -> dict[str, Any]:
    settings = names(things, "ConfigMap")["judges-front"]["data"]["values.yaml"]
    return dict(yaml.safe_load(settings))


def test_the_front_door_takes_its_values_and_envoy_its_file(
    production: list[Object], tmp_path: Path
) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "front")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), 1, now, now + datetime.timedelta(1))
        .sign(key, hashes.SHA256())
        .public_bytes(serialization.Encoding.PEM)
    )
    (tmp_path / "tls.crt").write_bytes(certificate)
    (tmp_path / "tls.key").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    (tmp_path / "jwks.json").write_text('{"keys": []}')
    told = front_values(production)
    here = {"certificate": tmp_path / "tls.crt", "private_key": tmp_path / "tls.key"}
    told = {**told, **here, "tokens": {**told["tokens"], "keys": tmp_path / "jwks.json"}}
    check(render(validate_values(told, "chart"), tmp_path / "front"))


def test_the_front_door_leads_to_every_model_and_to_no_specialists_vllm(
    production: list[Object],
) -> None:
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


def test_every_table_of_models_is_one_that_triton_can_be_started_with(
    production: list[Object], tmp_path: Path
) -> None:
    kinds = {kind.name: kind for kind in find_specialists()}
    for name, one in names(production, "ConfigMap").items():
        if table := one["data"].get("models.json"):
            file = tmp_path / f"{name}.json"
            file.write_text(table)
            for model, serving in read_table(file).items():
                assert f"count: {serving.instances}" in render_config(kinds[model], serving=serving)


def test_the_judge_service_takes_its_settings_and_its_arguments(
    production: list[Object], tmp_path: Path
) -> None:
    file = tmp_path / "editjudge.toml"
    file.write_text(names(production, "ConfigMap")["judges-judge"]["data"]["editjudge.toml"])
    settings = load_settings(file)
    assert set(settings.endpoints) == {"language", "ocr", "segmentation", "small"}
    assert settings.judges["judge"].model == "judge"
    known = {name for parameter in (*serve.params, *root.params) for name in parameter.opts}
    (judge,) = names(production, "Deployment")["judges-judge"]["spec"]["template"]["spec"][
        "containers"
    ]
    assert {argument.partition("=")[0] for argument in judge["args"]} <= known


KEPT = {
    "vllm.servers.judge": {**SERVER, "protocol": "grpc"},
    "judge.vllm": "judge",
    "judge.cache": {"enabled": True, "shared": True, "keepDays": 30},
    "judge.audit": "claim",
    "judge.price": {"input": 0.5, "cached": 0.125, "output": 1},
    "judge.replicas": 3,
}


def test_the_judge_service_takes_its_cache_and_its_prices(tmp_path: Path) -> None:
    things = rendered(values={**BASE, **KEPT})
    file = tmp_path / "editjudge.toml"
    file.write_text(names(things, "ConfigMap")["judges-judge"]["data"]["editjudge.toml"])
    settings = load_settings(file)
    assert settings.judges["judge"].price == Price(input=0.5, cached=0.125, output=1)
    assert settings.judges["judge"].url.startswith("grpc://judges-vllm-judge.")
    (judge,) = names(things, "StatefulSet")["judges-judge"]["spec"]["template"]["spec"][
        "containers"
    ]
    # `--config` is an option of every command, which the root takes out before.
    own = [word for word in judge["args"] if not word.startswith("--config=")]
    told = serve.make_context("serve", own).params
    assert told["cache_shared"]
    assert told["keep_days"] == 30
    mounts = {mount["name"]: mount["mountPath"] for mount in judge["volumeMounts"]}
    assert {told["cache"].parent, told["audit"].parent} == {Path(mounts["kept"])}


def test_the_front_door_takes_certificates_token_limits_and_limits(tmp_path: Path) -> None:
    further = {
        "front.clientCa": "clients",
        "front.tokenLimits": {"service": "limits.platform:8081", "uncounted": ["nightly"]},
        "front.limits": {"connections": 100, "requestMiB": 8, "openStreams": 7},
        "vllm.servers.judge": {**SERVER, "protocol": "grpc"},
    }
    things = rendered(values={**BASE, **further})
    values = FrontValues.model_validate(front_values(things))
    assert values.token_limits is not None
    assert str(values.token_limits.service) == "limits.platform:8081"
    assert values.token_limits.uncounted == ("nightly",)
    assert not values.token_limits.open_when_down
    limits = values.limits
    assert (limits.connections, limits.open_streams, limits.request_bytes) == (100, 7, 8 * 2**20)
    assert values.judges["judge"].protocol == "grpc"
    pod = names(things, "Deployment")["judges-front"]["spec"]["template"]["spec"]
    (envoy,) = pod["containers"]
    mounts = {mount["name"]: mount["mountPath"] for mount in envoy["volumeMounts"]}
    assert values.client_ca is not None
    assert str(values.client_ca.parent) == mounts["clients"]
    assert {"name": "clients", "configMap": {"name": "clients"}} in pod["volumes"]


def test_a_run_takes_its_settings_and_its_arguments(tmp_path: Path) -> None:
    things = rendered(values={**BASE, "runs.first": {**RUN, "merge": True}})
    file = tmp_path / "editjudge.toml"
    file.write_text(names(things, "ConfigMap")["judges-run-first"]["data"]["editjudge.toml"])
    assert set(load_settings(file).endpoints) == {"small"}
    told = [
        [*each["command"], *each.get("args", ())]
        for one in of(things, "Job")
        for each in containers(one["spec"]["template"])
        if each["command"][0] == "editjudge"
    ]
    assert sorted(words[1] for words in told) == ["merge", "run", "summary"]
    for _, verb, *words in told:
        command = root.get_command(Context(root), verb)
        assert command is not None
        declared = (*command.params, *root.params)
        known = {name for parameter in declared for name in parameter.opts}
        flags = {word.partition("=")[0] for word in words if word.startswith("--")}
        assert flags <= known


def test_every_command_of_ours_exists(production: list[Object]) -> None:
    for _, template in workloads(production):
        for each in containers(template):
            if each["command"][0] == "editjudge":
                words = [word for word in each["command"][1:3] if re.fullmatch("[a-z]+", word)]
                said = CliRunner().invoke(root, [*words, "--help"])
                assert said.exit_code == 0, said.output
                flags = [w for w in each["command"] if w.startswith("--")]
                assert all(flag in said.output for flag in flags)


def test_triton_is_as_closed_as_on_a_laptop(production: list[Object]) -> None:
    for one in of(production, "Deployment"):
        for each in one["spec"]["template"]["spec"]["containers"]:
            if each["name"] == "triton":
                closed = triton_server._CLOSED_GRPC, triton_server._CLOSED_HTTP
                for argument, apis in zip(
                    ("grpc-restricted-protocol", "http-restricted-api"), closed, strict=True
                ):
                    assert f"--{argument}={','.join(apis)}:{triton_server._LOCK}" in each["args"]


def said(arguments: Sequence[str]) -> set[str]:
    """Arguments, whether their values stand apart or behind =."""
    text = " ".join(arguments)
    return set(re.sub(r"(--[\w-]+) (?!--)", r"\1=", text).split())


def test_vllm_is_started_as_on_a_laptop(tmp_path: Path) -> None:
    for protocol, (launched, *own) in vllm_server._LAUNCHERS.items():
        settings = StackSettings(judge=tmp_path, judge_protocol=protocol)
        (tmp_path / "config.json").touch()
        (tmp_path / "model.safetensors").touch()
        (tmp_path / "tokenizer.json").touch()
        server = VllmServer(tmp_path / "log", Path("python3"), settings)
        laptop = said([*server._command(on_cpu=False)[3:], *own])
        things = rendered(values={**BASE, "vllm.servers.v": {**SERVER, "protocol": protocol}})
        (vllm,) = containers(names(things, "Deployment")["judges-vllm-v"]["spec"]["template"])[1:]
        assert launched in vllm["command"]
        chart = said(vllm["args"])
        differ = {one.partition("=")[0] for one in laptop - chart}
        assert differ == {"--model", "--served-model-name", "--host", "--port"}
        env = {one["name"]: one["value"] for one in vllm["env"]}
        assert env.items() >= {"HF_HUB_OFFLINE": "1", "DO_NOT_TRACK": "1"}.items()
        assert ("SMG_VLLM_MM_PROCESSOR" in env) == (protocol == "grpc")


def test_vllm_waits_for_what_the_job_brings(
    production: list[Object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDITJUDGE_MODELS_DIR", "/weights")
    (job,) = of(production, "Job")
    brought = [each["command"] for each in containers(job["spec"]["template"])]
    entries = {word for command in brought if "pull" in command for word in command}
    for name in ("q-insight", "artimuse"):
        spec = names(production, "Deployment")[f"judges-vllm-{name.replace('-', '')}"]["spec"]
        waits = spec["template"]["spec"]["initContainers"][0]["command"]
        assert waits == ["test", "-f", str(checkpoint_dir(name) / PULLED_RECORD)]
        assert name in entries
    (kept,) = [command for command in brought if command[0] == "touch"]
    spec = names(production, "Deployment")["judges-vllm-judge"]["spec"]["template"]["spec"]
    assert spec["initContainers"][0]["command"] == ["test", "-f", kept[1]]
    assert f"--model={Path(kept[1]).parent}" in spec["containers"][0]["args"]


def test_the_job_brings_what_is_served_in_the_precision_that_is(production: list[Object]) -> None:
    (job,) = of(production, "Job")
    commands = {each["name"]: each["command"][3:] for each in containers(job["spec"]["template"])}
    assert commands["export-bf16"][1:] == ["bf16", "got-ocr2", "sa2va-qwen3-vl-4b"]
    assert {"dinov2-small", "lpips-vgg", "grounded-sam-huge"} <= set(commands["export-fp32"])
    assert "q-insight" not in commands["export-fp32"]
    assert {"q-insight", "artimuse", "got-ocr2"} <= set(commands["verify"])
    told = [
        {one["name"] for one in each["env"]} >= {"HF_TOKEN"}
        for each in containers(job["spec"]["template"])
        if each["command"][:2] == ["editjudge", "models"]
    ]
    assert told.count(True) == 2  # what asks the hub, and nobody else


def test_a_gateway_lets_through_what_the_front_door_does(tmp_path: Path) -> None:
    values = {**BASE, "vllm.servers.judge": SERVER, "judge.vllm": "judge"}
    front = FrontValues.model_validate(front_values(rendered(values=values)))
    ours = render(front, tmp_path).read_text()
    things = rendered(values={**values, **GATEWAY})
    rules = [r for one in of(things, "GRPCRoute") for r in one["spec"]["rules"]]
    methods = [m["method"] for r in rules for m in r["matches"]]
    (allowed,) = set(re.findall(r"GRPCInferenceService/\(([^)]*)\)", ours))
    triton = [m["method"] for m in methods if m["service"] == "inference.GRPCInferenceService"]
    assert sorted(triton) == sorted(allowed.split("|"))
    services = {m["service"] for m in methods if "method" not in m}
    assert all(f"/{service}/" in ours for service in services)
    paths = [
        m["path"]["value"]
        for one in of(things, "HTTPRoute")
        for r in one["spec"]["rules"]
        for m in r["matches"]
    ]
    patterns = re.findall(r'regex: "([^"]*judges[^"]*)"', ours)
    for path in (one for one in paths if one.startswith("/judges/")):
        assert any(re.fullmatch(pattern, path) for pattern in patterns)
    assert len(paths) == 6
    (taken,) = of(things, "ClientTrafficPolicy")
    assert tuple(taken["spec"]["headers"]["earlyRequestHeaders"]["remove"]) == OWN_HEADERS


def test_every_default_of_the_front_door_is_its_own() -> None:
    """What the chart's values begin with is what a laptop's do."""
    told = front_values(rendered(values={**BASE, **FRONT}))
    fields = FrontValues.model_fields
    assert told["rate"] == fields["rate"].default.model_dump()
    assert told["limits"].pop("heap_bytes") == 1.5 * 2**30  # of the 2 GiB of its pod
    assert told["limits"] == fields["limits"].default.model_dump(exclude={"heap_bytes"})
    assert not {"token_limits", "client_ca"} & told.keys()
    shown = yaml.safe_load(helm("show", "values", CHART))["front"]["tokenLimits"]
    assert shown["domain"] == TokenLimits.model_fields["domain"].default


def test_the_chart_has_the_projects_version() -> None:
    project = (CHART.parents[1] / "pyproject.toml").read_text()
    (version,) = re.findall(r'^version = "(.*)"$', project, re.MULTILINE)
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == version
