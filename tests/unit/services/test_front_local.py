"""The front door of the local stack: how it is remembered, and what stands behind it."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from editjudge.base.config import StackSettings
from editjudge.base.errors import ConfigError, StackError
from editjudge.base.local_stack import LocalGateway
from editjudge_services.front import local
from editjudge_services.front.identity import front_folder
from editjudge_services.front.values import TokenAuthentication
from editjudge_services.runtime.process import reserve_ports

JUDGE = LocalGateway(pid=1, url="grpc://127.0.0.1:2", http="http://127.0.0.1:3", log=Path("log"))


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("EDITJUDGE_STATE_DIR", str(tmp_path))
    return tmp_path


def test_how_a_door_knows_callers_is_known_after_it(state: Path) -> None:
    assert local.load_last_tokens(front_folder()) is None
    file = state / "values.yaml"
    file.write_text("tokens: {audience: studio}")
    local.make_local_front(StackSettings(front_values=file), "grpc://127.0.0.1:1", "")
    tokens = local.load_last_tokens(front_folder())
    assert tokens is not None
    assert tokens.audience == "studio"


@pytest.mark.parametrize("keys", ["https://id.example.org/keys", "", "keys/jwks.json"])
def test_where_keys_are_is_remembered_as_it_was_given(tmp_path: Path, keys: str) -> None:
    given = TokenAuthentication.model_validate({"keys": keys})
    (tmp_path / "tokens.json").write_text(given.model_dump_json())
    kept = local.load_last_tokens(tmp_path)
    assert kept == given
    assert (kept.keys, kept.url) == (keys, keys if "://" in keys else "")
    assert TokenAuthentication.model_validate({"keys": Path("/a/b")}).keys == "/a/b"


def test_tokens_of_values_are_named_when_they_are_wrong() -> None:
    with pytest.raises(ConfigError, match=r"v\.yaml: tokens: audiens: .* audience[?]"):
        local.validate(TokenAuthentication, {"keys": "k", "audiens": "x"}, "v.yaml: tokens")


def test_the_judge_service_of_a_stack_stands_behind_its_door(state: Path) -> None:
    server = local.make_local_front(StackSettings(), "grpc://127.0.0.1:1", "", JUDGE)
    assert server.values.gateway is not None
    assert str(server.values.gateway.addresses[0]) == "127.0.0.1:2"
    assert str(server.values.gateway.json_addresses[0]) == "127.0.0.1:3"
    file = state / "values.yaml"
    file.write_text("token_limits: {service: 'limits:8081'}")
    local.check_front(StackSettings(gateway=True, front_values=file))
    with pytest.raises(ConfigError, match="`gateway` is missing"):
        local.check_front(StackSettings(front_values=file))
    with pytest.raises(ConfigError, match=r"stack\.front_values: .*/gone\.yaml: No such file"):
        local.check_front(StackSettings(gateway=True, front_values=state / "gone.yaml"))


def test_a_port_is_tried_where_it_is_listened_at() -> None:
    with socket.create_server(("127.0.0.2", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(StackError, match=f"port {port} is taken"):
            reserve_ports([port], ["127.0.0.2"])
        assert reserve_ports([port], ["127.0.0.1"]) == [port]
    with pytest.raises(StackError, match="choose an address of this machine"):
        reserve_ports([0], ["192.0.2.1"])
    assert len({*reserve_ports([0, 0, 0])}) == 3


def test_a_free_port_is_none_that_the_kernel_gives_to_others_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    assert max(reserve_ports([0] * 20)) < 32_768
    with socket.create_server(("127.0.0.1", 0)) as taken, socket.create_server(("127.0.0.1", 0)) as other:
        port, free_port = (each.getsockname()[1] for each in (taken, other))
        other.close()
        tried = iter([port, port, free_port])
        monkeypatch.setattr("editjudge_services.runtime.process.secrets.choice", lambda _: next(tried))
        assert reserve_ports([0]) == [free_port]
