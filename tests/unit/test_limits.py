"""The table of every limit says what the code has, and that of attacks what is tested."""

from __future__ import annotations

import re
from dataclasses import fields

import pytest

from editjudge.base import contracts, images, integrity, item
from editjudge.base.config import GatewayEndpoint, Settings
from editjudge.cli import plugin_commands
from editjudge.prompts import MAX_PROMPT_CHARACTERS, custom_templates, prompt_files
from editjudge_services.front import identity
from editjudge_services.front.values import FrontValues, Limits, Rate, TokenAuthentication
from editjudge_services.gateway import accounting, admission, bounds, calls, protocols, reward_bodies, schemas
from editjudge_services.gateway.options import ServiceOptions
from editjudge_services.runtime.specialist import Specialist

from ..doc_samples import ROOT

PAGE = (ROOT / "docs" / "reference" / "limits.md").read_text(encoding="utf-8")
TESTS = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
DOOR, RATE, SERVICE, SETTINGS = Limits(), Rate(), ServiceOptions(), Settings()
VLLM = "k8s/chart/templates/vllm.yaml"
KIB, MIB, GIB = 1024, 1024**2, 1024**3


def read_table(heading: str) -> list[list[str]]:
    """The rows of the table under a heading."""
    section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def find(file: str, pattern: str) -> int:
    """The one number of a file that follows a pattern."""
    (found,) = set(re.findall(rf"\b{pattern}(\d+)", (ROOT / file).read_text(encoding="utf-8")))
    return int(found)


def envoy(name: str) -> int:
    """A number of the door's configuration that no value sets."""
    return find("front/envoy.yaml", f"{name}: ")


def default(model: type, name: str) -> float:
    value = model.model_fields[name].default  # type: ignore[attr-defined]
    assert isinstance(value, int | float)
    return value


OF_CHARACTERS = f"{item.MAX_TEXT_CHARACTERS:,} characters"
DUE = {
    "connections of all callers": f"{DOOR.connections:,}",
    "a connection without a call": f"{DOOR.connection_idle_seconds} s",
    "age of a connection, of callers and to servers": f"{DOOR.connection_seconds} s",
    "age of a connection": f"{SETTINGS.connection_age:g} s",
    "a connection until it speaks TLS; headers of a request": (
        f"{envoy('transport_socket_connect_timeout')} s; {envoy('request_headers_timeout')} s,"
        f" {envoy('max_request_headers_kb')} KiB"
    ),
    "calls on one connection at a time": f"{DOOR.streams}",
    "memory of all requests": f"{DOOR.heap_bytes // GIB} GiB",
    "a request to Triton or vLLM": f"{DOOR.request_bytes // MIB} MiB",
    "a call with its attempts at servers": f"{DOOR.call_seconds} s",
    "a call without a byte": f"{DOOR.idle_seconds} s",
    "attempts at further servers; for a request to the Judge service up to": (
        f"{envoy('num_retries')}; {int(envoy('request_body_buffer_limit')) // MIB} MiB"
    ),
    "calls of a team in a second; at once": f"{RATE.calls_per_second}; {RATE.burst}",
    "teams whose calls are counted apart": f"{DOOR.teams:,}",
    "calls at a time at each group of Triton or vLLM servers, interactive; batch": (
        f"{DOOR.interactive}; {DOOR.batch}"
    ),
    "calls and streams of a class that are open to the Judge service": f"{DOOR.open_calls:,}",
    "streams that a team opens in a minute": f"{DOOR.streams_per_minute}",
    "a stream; one without a byte": f"{DOOR.stream_seconds} s; {DOOR.stream_idle_seconds} s",
    "quotes or backslashes in a question to a judge's own path; those before `u`, `p`, `k` or `e` count as": (
        f"{find('front/envoy.yaml', 'most_marks = '):,}; {find('front/envoy.yaml', r'at [+] 1[)]] and ')}"
    ),
    "tokens of a team by day": "as many as it likes",
    "days that a token is valid; seconds after its end": (f"{identity._MOST_DAYS}; {envoy('clock_skew_seconds')}"),
    "seconds that a key is accepted after it was revoked": (f"{default(TokenAuthentication, 'key_cache_seconds')}"),
    "name of a team, model or server": f"{contracts.LONGEST_NAME} characters",
    "a request that waits for room and has no deadline": f"{accounting.WAIT_SECONDS:.0f} s",
    "calls that are open; of one team alone": f"{admission.MAX_CALLS:,}; half",
    "requests of a team in a second; at once (calls, messages of streams, parts of batches); an invalid one counts as;"
    " dimensions that count as one, with all that they derive from; those of a list; of a new protocol": (
        f"{SERVICE.rate}; {SERVICE.rate // find('services/editjudge_services/gateway/service.py', 'options.rate / ')};"
        f" {admission.INVALID_REQUESTS}; {admission.PARTS_OF_REQUEST}; {admission.LISTED_OF_REQUEST};"
        f" {admission.NEW_OF_REQUEST}"
    ),
    "edits at a time; of one team alone, with one stream or batch too": f"{SERVICE.edits}; half",
    "megapixels decoded at a time; of one team alone": f"{SERVICE.megapixels}; half",
    "bytes of requests at a time; of one team alone": f"{SERVICE.held_bytes // GIB} GiB; half",
    "streams at a time; of one team alone": f"{SERVICE.streams}; half",
    "requests of a batch": f"{schemas._MAX_BATCH}",
    "a message, a body": f"{admission.MAX_REQUEST_BYTES // MIB} MiB",
    "parts of a request (fields and entries of lists, those within JSON too); of a batch": (
        f"{bounds.MAX_PARTS:,}; {reward_bodies.ROOM_OF_BATCH * bounds.MAX_PARTS:,}"
    ),
    "what of a request is no picture; of a batch": (
        f"{bounds.MAX_TEXT_BYTES // MIB} MiB; {reward_bodies.ROOM_OF_BATCH * bounds.MAX_TEXT_BYTES // MIB} MiB"
    ),
    "a picture": f"{images.MAX_BYTES // MIB} MiB, {images.MAX_PIXELS // MIB} megapixels",
    "of a picture: a PPM's header; EXIF; tags; scans; pieces; a file that is decoded slowly": (
        f"{integrity.MAX_HEADER // KIB} KiB; {integrity.MAX_EXIF // MIB} MiB;"
        f" {integrity.MAX_TAGS:,}; {integrity.MAX_SCANS}; {integrity.MAX_PIECES:,};"
        f" {integrity.MAX_SLOW // MIB} MiB"
    ),
    "`sources`; `flaws`; `questions`": (f"{schemas._MAX_SOURCES}; {schemas._MAX_FLAWS}; {schemas._MAX_QUESTIONS}"),
    "`dimensions`, and of a protocol; globs among them": (f"{schemas.MAX_DIMENSIONS:,}; {protocols._MAX_GLOBS}"),
    "`judges`; `on`, `off`": f"{schemas._MAX_JUDGES}; {schemas._MAX_SWITCHES}",
    "`prompts`: files; all together": (f"{schemas.MAX_PROMPTS}; {protocols._MAX_PROMPT_CHARS:,} characters"),
    "a template; a field in it; a prompt": (
        f"{prompt_files.MAX_CHARACTERS:,} characters; {custom_templates._MAX_REPEATS} times;"
        f" {MAX_PROMPT_CHARACTERS:,} characters"
    ),
    "a text of an item": OF_CHARACTERS,
    "`extra`, `questions`, the evidence of a flaw": (f"{schemas._MAX_JSON_CHARACTERS:,} characters of JSON"),
    "protocols in memory; replies of a team in memory; teams with replies there": (
        f"{protocols._CACHE_BYTES // MIB} MiB; {calls._MAX_REPLIES_IN_MEMORY}; {calls._MAX_TEAMS:,}"
    ),
    "days that replies, usage and audit lines are kept": f"{SERVICE.keep_days:.0f}",
    "what is in flight when the door ends; when the service ends": (
        f"{default(FrontValues, 'drain_seconds')} s; {SERVICE.notice:.0f} s + {SERVICE.drain:.0f} s"
    ),
    "calls at a time at each server": f"{SETTINGS.concurrency}",
    "attempts at a call": f"{SETTINGS.attempts}",
    "a call with its attempts": f"{SETTINGS.deadline:.0f} s",
    "an edit through the Judge service": f"{default(GatewayEndpoint, 'edit_deadline'):.0f} s",
    "a server that is lost": f"{SETTINGS.patience:.0f} s",
    "calls that wait for a model": f"{Specialist.max_queue}",
    "replies to one question; hosts that pictures are fetched from": (
        f"{find(VLLM, 'VLLM_MAX_N_SEQUENCES, value: .')}; none"
    ),
    "pictures of a prompt": f"{find(VLLM, 'imagesPerPrompt [|] default ')}",
}


def test_the_table_has_every_limit_as_the_code_has_it() -> None:
    assert {row[0]: row[2] for row in read_table("Every limit")} == DUE


def test_what_sets_a_limit_is_there_and_sets_it() -> None:
    names = {name for row in read_table("Every limit") for name in re.findall("`(.+?)`", row[3])}
    options = {name for one in plugin_commands()["serve"].params for name in one.opts}
    assert {name for name in names if name.startswith("--")} <= options
    values = {name.removeprefix("limits.") for name in names if name.startswith("limits.")}
    assert values == {*Limits.model_fields}
    settings = names & {*Settings.model_fields}
    assert settings == {"concurrency", "attempts", "deadline", "patience", "connection_age"}
    numbers = {f.name for f in fields(ServiceOptions) if f.type in {"int", "float"}}
    assert {f"--{name.replace('_', '-')}" for name in numbers - {"streams"}} <= names


@pytest.mark.parametrize("row", read_table("What a team may try"), ids=lambda row: row[0][:40])
def test_each_attack_is_tested(row: list[str]) -> None:
    names = re.findall("`(test_.+?)`", row[3])
    assert names
    assert [name for name in names if f"def {name}(" not in TESTS] == []
