"""The front door's values, and what they make of its file."""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509
from hypothesis import given, settings
from hypothesis import strategies as st

from editjudge.base.config import StackSettings
from editjudge.base.contracts import NAME
from editjudge.base.errors import ConfigError
from editjudge_services.front import local
from editjudge_services.front.render import render, render_and_check
from editjudge_services.front.server import EnvoyServer
from editjudge_services.front.values import CALL_CLASSES, OWN_HEADERS, FrontValues

WHOLE: Mapping[str, Any] = {
    "listen": "127.0.0.1:8443",
    "metrics": "127.0.0.1:8444",
    "admin_port": 9901,
    "certificate": "/keys/server.pem",
    "private_key": "/keys/server.key",
    "tokens": {"keys": "/keys/jwks.json"},
    "triton": {
        "small": {"addresses": ["small:8001"]},
        "segmentation": {"addresses": ["a:8001", "b:8001"], "models": ["segmenter_sa2va"]},
    },
    "judges": {"judge": {"addresses": ["vllm:8000"]}, "second": {"addresses": ["vllm2:8000"]}},
    "gateway": {"addresses": ["judge:8002"], "json_addresses": ["judge:8003"]},
}


BUFFER = "envoy.filters.http.buffer"
A, CLIP = {"addresses": ["a:1"]}, {"models": ["clip"]}


def whole(**more: Any) -> FrontValues:
    return FrontValues.model_validate({**WHOLE, **more})


def load(file: Path) -> dict[str, Any]:
    """A configuration, by libyaml: the parser in Python takes a quarter of a second for each."""
    return dict(yaml.load(file.read_text(), yaml.CSafeLoader))


def fill_values(folder: Path, **more: Any) -> dict[str, Any]:
    return load(render(whole(**more), folder))


def manager(config: Mapping[str, Any]) -> Any:
    (front,) = [each for each in config["static_resources"]["listeners"] if each["name"] == "front"]
    return front["filter_chains"][0]["filters"][0]["typed_config"]


def routes(config: Mapping[str, Any]) -> list[Any]:
    return list(manager(config)["route_config"]["virtual_hosts"][0]["routes"])


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"listen": "8443"}, "listen: write it as host:port"),
        ({"listen": "a:b"}, "listen"),
        ({"lisen": "a:1"}, "lisen: no such field; did you mean listen?"),
        ({"limits": {"request_bytes": 0}}, "limits.request_bytes"),
        ({"rates": {"no team!": {}}}, "rates"),
        ({"triton": {"a": A | {"models": ["b c"]}}}, "triton.a.models.0"),
        ({"judges": {"a/b": A}}, "judges"),
        ({"triton": {"a": {"addresses": []}}}, "triton.a.addresses"),
        ({"triton": {"a": A, "b": A}}, "only one of a, b can serve what no others do"),
        ({"triton": {"a": A | CLIP, "b": A | CLIP}}, "clip: served by two groups"),
        ({"triton": {}, "judges": {}, "gateway": None}, "nothing to stand in front of"),
        ({"gateway": None, "token_limits": {"service": "a:1"}}, "`gateway` is missing"),
        ({"limits": {"heap_bytes": 1}}, "limits.heap_bytes"),
        ({"rate": {"burst": 99999999999}}, "rate.burst"),
        ({"trace_percent": float("nan")}, "trace_percent"),
        ({"otlp": "a host:1"}, "otlp: write it as host:port"),
        ({"tokens": {"keys": "ftp://a/keys"}}, "tokens: write `keys` as https://host/path"),
        ({"tokens": {"keys": "https://a:99999/keys"}}, "tokens: Port out of range"),
        ({"tokens": {"keys": "k.json", "team_claim": ""}}, "tokens.team_claim"),
    ],
)
def test_what_cannot_be_used_is_named(changed: Mapping[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match="values.yaml") as caught:
        local.validate(FrontValues, {**WHOLE, **changed}, "values.yaml")
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("text", "told"), [("[1]", "no values"), ("a: [", "not YAML"), ("", "no values"), ("[" * 100_000, "not YAML")]
)
def test_a_file_of_values_is_yaml(tmp_path: Path, text: str, told: str) -> None:
    file = tmp_path / "values.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=told):
        local.read_values(file)
    with pytest.raises(ConfigError, match="No such file"):
        local.read_values(tmp_path / "none.yaml")


def test_every_group_of_servers_has_a_cluster_for_each_class(tmp_path: Path) -> None:
    most = {"interactive": 100, "batch": 7}
    config = fill_values(tmp_path, limits={**most, "open_calls": 9})
    clusters = {c["name"]: c for c in config["static_resources"]["clusters"]}
    own = "triton.small", "triton.segmentation", "judge.judge", "judge.second"
    for group in (*own, "gateway", "gateway-json"):
        for of in CALL_CLASSES:
            (threshold,) = clusters[f"{group}.{of}"]["circuit_breakers"]["thresholds"]
            assert threshold["max_requests"] == (most[of] if group in own else 9)
    two = clusters["triton.segmentation.batch"]["load_assignment"]["endpoints"][0]["lb_endpoints"]
    assert len(two) == 2


def test_a_model_with_servers_of_its_own_is_looked_for_before_the_rest(tmp_path: Path) -> None:
    to = [
        (route["route"]["cluster"], [h["name"] for h in route["match"].get("headers", ())])
        for route in routes(fill_values(tmp_path))
        if "route" in route
    ]
    assert to[:4] == [
        ("triton.segmentation.interactive", ["x-model", "x-class"]),
        ("triton.segmentation.batch", ["x-model"]),
        ("triton.small.interactive", ["x-class"]),
        ("triton.small.batch", []),
    ]


def test_the_judge_service_reads_what_has_room_there_and_other_servers_what_is_whole(tmp_path: Path) -> None:
    for route in (r for r in routes(fill_values(tmp_path)) if "route" in r):
        way = route["route"]
        endless = "max_stream_duration" in way["max_stream_duration"]
        assert endless == ("rate_limits" in way)
        shared = way["cluster"].startswith("gateway")
        filters = route.get("typed_per_filter_config", ())
        unheld = (BUFFER in filters, "request_body_buffer_limit" in route)
        assert unheld == (shared, shared)


@pytest.mark.parametrize("limits", [None, {"service": "a:1"}])
def test_what_is_refused_is_refused_before_all_of_it_has_come(tmp_path: Path, limits: Mapping[str, str] | None) -> None:
    refusals = [r for r in routes(fill_values(tmp_path, token_limits=limits)) if "route" not in r]
    assert len(refusals) == (4 if limits else 1)
    for refusal in refusals:
        assert refusal["typed_per_filter_config"][BUFFER]["disabled"] is True


def test_only_who_is_uncounted_reaches_judges_where_tokens_are_counted(tmp_path: Path) -> None:
    limits = {"service": "a:1", "uncounted": ["one.two", "three"]}
    reached = [
        {header["name"]: header["string_match"] for header in route["match"]["headers"]}
        for route in routes(fill_values(tmp_path, token_limits=limits))
        if route.get("route", {}).get("cluster", "").startswith("judge.")
    ]
    assert len(reached) == 2 * len(CALL_CLASSES)
    for headers in reached:
        assert headers["x-team"] == {"safe_regex": {"regex": "one[.]two|three"}}


def test_the_door_lets_in_the_teams_that_the_judge_service_takes(tmp_path: Path) -> None:
    (rbac,) = (
        each["typed_config"]["rules"]
        for each in manager(fill_values(tmp_path))["http_filters"]
        if each["name"] == "envoy.filters.http.rbac"
    )
    (principal,) = rbac["policies"]["teams"]["principals"]
    pattern = principal["header"]["string_match"]["safe_regex"]["regex"]
    assert pattern == NAME
    for team, taken in (("a", 1), ("A.b-c_7", 1), ("a" * 63, 1), ("a" * 64, 0), (".a", 0), ("", 0)):
        assert bool(re.fullmatch(pattern, team)) == taken, team


def test_what_a_caller_says_about_itself_is_taken_away(tmp_path: Path) -> None:
    (extension,) = manager(fill_values(tmp_path))["early_header_mutation_extensions"]
    removed = [each["remove"] for each in extension["typed_config"]["mutations"]]
    assert removed == list(OWN_HEADERS)


def test_the_log_holds_no_query_no_token_and_no_body(tmp_path: Path) -> None:
    (log,) = manager(fill_values(tmp_path))["access_log"]
    shown = " ".join(log["typed_config"]["log_format"]["json_format"].values()).lower()
    assert "%path(nq)%" in shown
    assert not any(word in shown for word in ("authorization", "body", "metadata(", "path(wq)"))


def test_a_token_is_taken_from_its_header_alone(tmp_path: Path) -> None:
    filters = manager(fill_values(tmp_path))["http_filters"]
    (provider,) = filters[0]["typed_config"]["providers"].values()
    assert provider["from_headers"] == [{"name": "Authorization", "value_prefix": "Bearer "}]
    assert not {"from_params", "from_cookies"} & {*provider}


def test_a_stream_ends_though_nobody_ends_it(tmp_path: Path) -> None:
    config = fill_values(tmp_path, limits={"stream_seconds": 77})
    (stream, *_) = [r for r in routes(config) if BUFFER in r.get("typed_per_filter_config", ())]
    assert stream["route"]["max_stream_duration"]["max_stream_duration"] == "77s"


@pytest.mark.parametrize("host", ["::1", "::", "0.0.0.0", "yes", "1e3", "null"])  # noqa: S104
def test_whatever_a_host_is_called_the_file_is_yaml(tmp_path: Path, host: str) -> None:
    at = f"[{host}]:8443" if ":" in host else f"{host}:8443"
    behind = {"tokens": {"keys": f"https://{at}/k"}, "gateway": {"addresses": [at]}}
    values = whole(listen=at, metrics=at, otlp=at, **behind)
    render(values, tmp_path)
    config = load(render(values, tmp_path))["static_resources"]
    assert {each["address"]["socket_address"]["address"] for each in config["listeners"]} == {host}
    assert str(values.listen) == at
    server = EnvoyServer(tmp_path / "log", values, tmp_path, tmp_path)
    assert server.url == f"grpcs://{at}"
    assert server.metrics_url == f"http://{at}/stats/prometheus"


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("EDITJUDGE_STATE_DIR", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(
    ("stack", "told"),
    [
        ({"front_address": "localhost:8443"}, "--front-name localhost"),
        ({"front_names": ["judges example"]}, "this is not a host name"),
        ({"front_names": ["-"]}, "this is not a host name"),
    ],
)
def test_what_envoy_would_refuse_is_told_before_anything_starts(
    state: Path, stack: Mapping[str, Any], told: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        local.check_front(StackSettings.model_validate(stack))
    assert told in f"{caught.value.message} {caught.value.fix}"


def test_a_certificate_that_is_not_there_is_told_before_anything_starts(state: Path) -> None:
    file = state / "values.yaml"
    file.write_text("certificate: /nope.pem")
    with pytest.raises(ConfigError, match="/nope.pem"):
        local.check_front(StackSettings(front_values=file))


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({}, "values.yaml: tokens.keys: /keys/jwks.json: no such file"),
        ({"client_ca": "/nope.pem"}, "values.yaml: client_ca: /nope.pem: no such file"),
        ({"tokens": {"keys": "https://a/k", "ca": "/nope"}}, "values.yaml: tokens.ca: /nope"),
        (
            {"tokens": {"keys": "http://a/k"}, "listen": "judges:8443"},
            "values.yaml: Envoy refuses it: malformed IP address: judges",
        ),
    ],
)
def test_what_envoy_refuses_is_one_line(tmp_path: Path, changed: Mapping[str, Any], told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        render_and_check(whole(**changed), tmp_path, "values.yaml")
    assert str(caught.value).startswith(told)
    assert len(str(caught.value)) < 400


def test_what_is_said_of_tokens_leaves_the_rest(state: Path) -> None:
    file = state / "values.yaml"
    file.write_text("tokens: {team_claim: department}")
    server = local.make_local_front(StackSettings(front_values=file), "grpc://127.0.0.1:1", "")
    assert server.values.tokens.team_claim == "department"
    assert server.values.tokens.keys == str(state / "front" / "keys" / "jwks.json")


def test_callers_verify_the_name_that_they_are_told(state: Path) -> None:
    any_host = "0.0.0.0:8443"
    named = StackSettings(front_address=any_host, front_names=("judges.example.org", "10.1.2.3"))
    local.check_front(named)
    assert not (state / "front").exists(), "a door that runs here has its own certificate"
    server = local.make_local_front(named, "grpc://127.0.0.1:1", "")
    assert server.url == "grpcs://judges.example.org:8443"
    certificate = x509.load_pem_x509_certificate(server.values.certificate.read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert "judges.example.org" in names.get_values_for_type(x509.DNSName)
    assert "10.1.2.3" in map(str, names.get_values_for_type(x509.IPAddress))
    unnamed = local.make_local_front(StackSettings(front_address=any_host), "grpc://127.0.0.1:1", "")
    assert unnamed.url == f"grpcs://{socket.gethostname()}:8443"


NAMES = st.lists(st.from_regex(NAME, fullmatch=True), unique=True)


@settings(max_examples=20)
@given(names=NAMES, models=NAMES)
def test_whatever_names_are_stackthe_file_is_yaml(
    tmp_path_factory: pytest.TempPathFactory, names: list[str], models: list[str]
) -> None:
    config = fill_values(
        tmp_path_factory.mktemp("front"),
        judges={name: {"addresses": ["a:1"]} for name in names},
        triton={"x": {"addresses": ["a:1"], "models": models}},
        rates={name: {} for name in names},
    )
    named = [
        header["string_match"]["exact"]
        for route in routes(config)
        for header in route["match"].get("headers", ())
        if header["name"] == "x-model"
    ]
    assert named[:: len(CALL_CLASSES)] == models


@pytest.mark.parametrize("name", ["envoy.yaml", "certificate.json"])
def test_nobody_elses_file_is_written_over(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("mine: 1\n")
    with pytest.raises(ConfigError, match="is no file that editjudge front wrote"):
        render(whole(), tmp_path)
    assert [(file.name, file.read_text()) for file in tmp_path.glob("*.*")] == [(name, "mine: 1\n")]
