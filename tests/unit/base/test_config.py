"""Flags, then variables, then the file; and every mistake is named."""

from __future__ import annotations

import re
import tomllib
import traceback
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from editjudge.base.config import Endpoint, JudgeEndpoint, PostgresAddress, Secret, Settings, load_settings
from editjudge.base.errors import ConfigError


def test_precedence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "my.toml"
    file.write_text("attempts = 2\ndeadline = 5\nconcurrency = 9\n")
    monkeypatch.setenv("EDITJUDGE_DEADLINE", "6")
    monkeypatch.setenv("EDITJUDGE_CONCURRENCY", "7")
    settings = load_settings(file, concurrency=8, probe_timeout=None)
    assert (settings.attempts, settings.deadline, settings.concurrency) == (2, 6, 8)


def test_the_file_of_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert load_settings().attempts == 4
    (tmp_path / "editjudge.toml").write_text('[endpoints.a]\nurl = "grpc://h:1"\n')
    assert load_settings().endpoints["a"].url == "grpc://h:1"


def test_an_endpoint_from_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDITJUDGE_ENDPOINTS__GPU__URL", "grpcs://judges.example:443")
    monkeypatch.setenv("EDITJUDGE_ENDPOINTS__GPU__HEADERS", '{"authorization": {"env": "T"}}')
    monkeypatch.setenv("T", "token")
    endpoint = load_settings().endpoints["gpu"]
    assert endpoint.url == "grpcs://judges.example:443"
    assert endpoint.header_values() == {"authorization": "token"}


REFUSED = tomllib.loads(Path(__file__).with_name("settings_refused.toml").read_text("utf-8"))
REFUSED["not text"] = {"text": "attempts = 3 # \udcff", "said": "my.toml: it is not text in UTF-8; fix its TOML"}


@pytest.mark.parametrize("case", REFUSED)
def test_mistakes_are_named(case: str, tmp_path: Path) -> None:
    file = tmp_path / "my.toml"
    file.write_text(REFUSED[case]["text"], "utf-8", "surrogateescape")
    with pytest.raises(ConfigError, match=re.escape(REFUSED[case]["said"])) as caught:
        load_settings(file)
    said = "".join(traceback.format_exception(caught.value))
    assert "sk-1234" not in said, "a notebook shows the whole traceback"
    assert not re.search("Input should|Extra inputs|Field required|codec", str(caught.value))


def test_mistakes_in_code_and_variables_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match=r"^setting atempts: no such field; did you mean attemp"):
        Settings(atempts=1)  # type: ignore[call-arg]
    monkeypatch.setenv("EDITJUDGE_JUDGES", "{")
    with pytest.raises(ConfigError, match="^variable EDITJUDGE_JUDGES: its value is no JSON$"):
        Settings()


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such configuration file"):
        load_settings(tmp_path / "absent.toml")


@pytest.mark.parametrize(
    ("place", "message"),
    [({"env": "NOT_SET_HERE"}, "NOT_SET_HERE is not set"), ({"file": Path("absent")}, "absent: No such file")],
)
def test_absent_secrets_are_named(place: dict[str, Any], message: str) -> None:
    endpoint = Endpoint(url="grpc://h:1", headers={"authorization": Secret(**place)})
    with pytest.raises(ConfigError, match=f"header authorization.*{message}"):
        endpoint.header_values()


@pytest.mark.parametrize("places", [{}, {"env": "A", "file": Path("b")}])
def test_a_secret_is_in_one_place(places: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="either `env` or `file`"):
        Secret(**places)


def test_half_a_client_certificate_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match="go together"):
        Endpoint(url="grpcs://h:1", cert_file=tmp_path / "c.pem")
    with pytest.raises(ConfigError, match=r"ca\.pem: No such file"):
        Endpoint(url="grpcs://h:1", ca_file=tmp_path / "ca.pem").certificates()


def test_an_address_that_cannot_be_used_is_said_in_one_line() -> None:
    with pytest.raises(ConfigError, match=r"^endpoint http://h: write it as grpc://host:port"):
        Settings().at("grpc://ok:1", "http://h")
    with pytest.raises(ConfigError, match=r"^judge grpc:/h: write it as http"):
        JudgeEndpoint.at("grpc:/h", "judge")


@pytest.mark.parametrize(
    ("held", "told"),
    [
        (b"", "nothing that can be sent"),
        (b"token\nand more", "more than one line"),
        (b"a\x00b", "nothing that can be sent"),
        (b"\xff", "no text"),
    ],
)
def test_a_file_of_a_secret_holds_it_alone(tmp_path: Path, held: bytes, told: str) -> None:
    file = tmp_path / "secret"
    file.write_bytes(held)
    with pytest.raises(ConfigError, match=told):
        Secret(file=file).read("api_key")


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("calls.sqlite", Path("calls.sqlite")),
        ("postgresql://judge@db/x?sslmode=require", PostgresAddress),
        ("postgres:///x", PostgresAddress),
    ],
)
def test_a_ledger_is_a_file_or_a_database(text: str, place: Any) -> None:
    assert Settings(ledger=text).ledger == (place(text) if place is PostgresAddress else place)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("mysql://db/x", "no address begins with mysql://"),
        ("postgresql://judge:hunter2@db/x", "a password is in the address"),
        ("postgresql://judge:hunter2@one:1,two:2/x", "a password is in the address"),
        ("postgresql://db/x?password=hunter2", "a password is in the address"),
    ],
)
def test_a_ledger_that_cannot_be(text: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why) as refused:
        Settings(ledger=text)
    assert "hunter2" not in str(refused.value)
