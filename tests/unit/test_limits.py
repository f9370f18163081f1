"""The table of every limit says what the code has, and that of attacks what is tested."""

from __future__ import annotations

import re
from dataclasses import fields

import pytest

from editjudge.answers import words
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


DUE = {
    "connections of all callers": f"{DOOR.connections:,}",
    "a connection without a call": f"{DOOR.connection_idle_seconds} s",
    "age of a connection, of callers and to servers": f"{DOOR.connection_seconds} s",
    "age of a connection": f"{SETTINGS.connection_age:g} s",
    "time until a connection speaks TLS": f"{envoy('transport_socket_connect_timeout')} s",
    "time for the headers of a request": f"{envoy('request_headers_timeout')} s",
    "size of the headers of a request": f"{envoy('max_request_headers_kb')} KiB",
    "calls on one connection at a time": f"{DOOR.streams}",
    "memory of all requests": f"{DOOR.heap_bytes // GIB} GiB",
    "a request to Triton or vLLM": f"{DOOR.request_bytes // MIB} MiB",
    "a call with its attempts at servers": f"{DOOR.call_seconds} s",
    "a call without a byte": f"{DOOR.idle_seconds} s",
    "attempts at further servers": f"{envoy('num_retries')}",
    "a request to the Judge service that is tried at further servers": (
        f"{int(envoy('request_body_buffer_limit')) // MIB} MiB"
    ),
    "calls of a team in a second": f"{RATE.calls_per_second}",
    "calls of a team at once": f"{RATE.burst}",
    "teams whose calls are counted separately": f"{DOOR.teams:,}",
    "interactive calls at a time at each group of Triton or vLLM servers": f"{DOOR.interactive}",
    "batch calls at a time at each group of Triton or vLLM servers": f"{DOOR.batch}",
    "open calls and streams of a class to the Judge service": f"{DOOR.open_calls:,}",
    "streams that a team opens in a minute": f"{DOOR.streams_per_minute}",
    "length of a stream": f"{DOOR.stream_seconds} s",
    "a stream without a byte": f"{DOOR.stream_idle_seconds} s",
    "quotes and backslashes in a question to a judge's own path": f"{find('front/envoy.yaml', 'most_marks = '):,}",
    "how many of these one before `u`, `p`, `k` or `e` counts as": f"{find('front/envoy.yaml', r'at [+] 1[)]] and ')}",
    "tokens of a team in a day": "no limit",
    "days that a token is valid": f"{identity._MOST_DAYS}",
    "seconds that an expired token is still accepted": f"{envoy('clock_skew_seconds')}",
    "seconds that a revoked key is still accepted": f"{default(TokenAuthentication, 'key_cache_seconds')}",
    "name of a team, model or server": f"{contracts.LONGEST_NAME} characters",
    "time that a request without a deadline waits for room": f"{accounting.WAIT_SECONDS:.0f} s",
    "open calls": f"{admission.MAX_CALLS:,}",
    "requests of a team in a second": f"{SERVICE.rate}",
    "requests of a team at once (calls, messages of streams, parts of batches)": (
        f"{SERVICE.rate // find('services/editjudge_services/gateway/service.py', 'options.rate / ')}"
    ),
    "requests that an invalid one counts as": f"{admission.INVALID_REQUESTS}",
    "dimensions of an edit that count as one request, with all that they derive from": f"{admission.PARTS_OF_REQUEST}",
    "dimensions of a list that count as one request": f"{admission.LISTED_OF_REQUEST}",
    "dimensions of a new protocol that count as one request": f"{admission.NEW_OF_REQUEST}",
    "edits at a time": f"{SERVICE.edits}",
    "megapixels decoded at a time": f"{SERVICE.megapixels}",
    "bytes of requests at a time": f"{SERVICE.held_bytes // GIB} GiB",
    "streams at a time": f"{SERVICE.streams}",
    **dict.fromkeys(
        [
            "open calls of one team",
            "edits of one team at a time, with those of its streams and batches",
            "megapixels of one team at a time",
            "bytes of requests of one team at a time",
            "streams of one team at a time",
        ],
        "half",
    ),
    "requests of a batch": f"{schemas._MAX_BATCH}",
    "pictures of a batch of rewards, as parts": f"{reward_bodies.MAX_PICTURES:,}",
    "a message, a body": f"{admission.MAX_REQUEST_BYTES // MIB} MiB",
    "parts of a request (fields and entries of lists, those within JSON too)": f"{bounds.MAX_PARTS:,}",
    "parts of a batch": f"{reward_bodies.ROOM_OF_BATCH * bounds.MAX_PARTS:,}",
    "all of a request but its pictures": f"{bounds.MAX_TEXT_BYTES // MIB} MiB",
    "all of a batch but its pictures": f"{reward_bodies.ROOM_OF_BATCH * bounds.MAX_TEXT_BYTES // MIB} MiB",
    "file of a picture": f"{images.MAX_BYTES // MIB} MiB",
    "pixels of a picture": f"{images.MAX_PIXELS // MIB} megapixels",
    "header of a PPM": f"{integrity.MAX_HEADER // KIB} KiB",
    "EXIF of a picture": f"{integrity.MAX_EXIF // MIB} MiB",
    "tags of a picture": f"{integrity.MAX_TAGS:,}",
    "scans of a picture": f"{integrity.MAX_SCANS}",
    "pieces of a picture": f"{integrity.MAX_PIECES:,}",
    "file of a picture that is slow to decode": f"{integrity.MAX_SLOW // MIB} MiB",
    "`sources`": f"{schemas._MAX_SOURCES}",
    "`flaws`": f"{schemas._MAX_FLAWS}",
    "`questions`": f"{schemas._MAX_QUESTIONS}",
    "`dimensions` of a request, and of a protocol": f"{schemas.MAX_DIMENSIONS:,}",
    "globs among them": f"{protocols._MAX_GLOBS}",
    "`judges`": f"{schemas._MAX_JUDGES}",
    "`on`, `off`": f"{schemas._MAX_SWITCHES}",
    "files of `prompts`": f"{schemas.MAX_PROMPTS}",
    "all `prompts` together": f"{protocols._MAX_PROMPT_CHARS:,} characters",
    "a template": f"{prompt_files.MAX_CHARACTERS:,} characters",
    "one field in a template": f"{custom_templates._MAX_REPEATS} times",
    "a prompt with its fields filled in": f"{MAX_PROMPT_CHARACTERS:,} characters",
    "a text of an item": f"{item.MAX_TEXT_CHARACTERS:,} characters",
    "a reason after a choice in a judge's reply": f"{words.LONGEST_REASON:,} characters",
    "a target text that is compared with what OCR reads, once unfolded": f"{item.MAX_TEXT_CHARACTERS:,} characters",
    "`extra`, `questions`, the evidence of a flaw": f"{schemas._MAX_JSON_CHARACTERS:,} characters of JSON",
    "protocols in memory": f"{protocols._CACHE_BYTES // MIB} MiB",
    "replies of a team in memory": f"{calls._MAX_REPLIES_IN_MEMORY}",
    "teams with replies in memory": f"{calls._MAX_TEAMS:,}",
    "days that replies, usage and audit lines are kept": f"{SERVICE.keep_days:.0f}",
    "time for calls in flight when the door ends": f"{default(FrontValues, 'drain_seconds')} s",
    "time for requests in flight when the service ends": f"{SERVICE.notice:.0f} s + {SERVICE.drain:.0f} s",
    "calls at a time at each server": f"{SETTINGS.concurrency}",
    "attempts at a call": f"{SETTINGS.attempts}",
    "a call with its attempts": f"{SETTINGS.deadline:.0f} s",
    "an edit through the Judge service": f"{default(GatewayEndpoint, 'edit_deadline'):.0f} s",
    "time that calls wait for a lost server": f"{SETTINGS.patience:.0f} s",
    "calls that wait for a model": f"{Specialist.max_queue}",
    "replies to one question": f"{find(VLLM, 'VLLM_MAX_N_SEQUENCES, value: .')}",
    "hosts that pictures are fetched from": "none",
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
