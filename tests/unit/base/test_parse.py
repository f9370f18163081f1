"""JSON and TOML whose brackets would exhaust a parser that descends."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from editjudge.base.config import load_settings
from editjudge.base.errors import ConfigError, InputError
from editjudge.base.parse import parse_json, parse_toml
from editjudge.benchmarks.registry import load_benchmark
from editjudge.panel.vllm.tokenizer import ModelTokenizer
from editjudge.prompts.custom_templates import load_custom_templates
from editjudge.storage.compression import Compressor

DEEP = "[" * 100_000
BY_ID = '{"1":' * 100_000


@pytest.mark.parametrize("text", [DEEP, BY_ID, DEEP.encode()])
def test_json(text: str | bytes) -> None:
    with pytest.raises(ValueError, match="too many brackets"):
        parse_json(text)


@pytest.mark.parametrize("text", [f"a = {DEEP}", "a = " + "{b=" * 100_000])
def test_toml(text: str) -> None:
    with pytest.raises(ValueError, match="too many brackets"):
        parse_toml(text)


def test_what_can_be_read_is_read() -> None:
    assert parse_json('{"a": [1]}') == {"a": [1]}
    assert parse_json(b'{"a": 1}', pairs=len) == 1
    assert parse_toml("a = [1]") == {"a": [1]}


@pytest.mark.parametrize(
    ("name", "file", "text"),
    [
        ("core", "items.jsonl", DEEP),
        ("core", "items.jsonl", f'{{"id": "a", "source": "a.png", "extra": {{"a": {DEEP}'),
        ("kris", "color_change/annotation.json", BY_ID),
        ("kris", "annotation.json", DEEP),
        ("omni_iie", "final_dataset.json", DEEP),
        ("gie", "gie_bench.json", DEEP),
        ("gie", "records.json", DEEP),
    ],
)
def test_data_is_refused_in_a_line(tmp_path: Path, name: str, file: str, text: str) -> None:
    path = tmp_path / file
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    listed = file in {"annotation.json", "gie_bench.json"}
    with pytest.raises(InputError) as caught:
        list(load_benchmark(name).data(path if listed else tmp_path).check_items())
    assert "too many brackets" in str(caught.value) or "recursion limit" in str(caught.value)
    assert len(str(caught.value)) < 500


OTHERS: dict[str, Callable[[], Any]] = {
    "a template": lambda: load_custom_templates({"core/instruction_following.toml": f"user = {DEEP[:60_000]}"}, "mine"),
    "a tokenizer": lambda: ModelTokenizer(DEEP),
    "what is stored": lambda: Compressor(list, None).decompress(DEEP.encode()),
}


@pytest.mark.parametrize("what", OTHERS)
def test_so_is(what: str) -> None:
    with pytest.raises((ConfigError, ValueError), match="too many brackets"):
        OTHERS[what]()


@pytest.mark.parametrize("part", ["a", '"a b"', "'.'", "a "])
@pytest.mark.parametrize("form", ["%s=1", "[%s]", "b = {%s=1}"])
def test_a_long_key_is_refused_before_it_is_read(part: str, form: str) -> None:
    assert parse_toml(form % ".".join([part] * 64))
    with pytest.raises(ValueError, match="more than 64 parts"):
        parse_toml(form % ".".join([part] * 20_000))
    assert parse_toml(f'text = "{"word. " * 60}{"wait … " * 500}{"x" * 60_000}"')


def test_so_are_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "editjudge.toml"
    file.write_text(f"a = {DEEP}")
    with pytest.raises(ConfigError, match=r"editjudge\.toml"):
        load_settings(file)
    monkeypatch.setenv("EDITJUDGE_ENDPOINTS", DEEP)
    with pytest.raises(ConfigError):
        load_settings()
