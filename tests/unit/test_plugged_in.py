"""Verbs and the local stack come from whatever package is there, and the client knows none."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType
from typing import Any

import click
import pytest
from click.testing import CliRunner

from editjudge import cli
from editjudge.base.config import Settings
from editjudge.base.errors import ConfigError
from editjudge.base.identity import ServiceName
from editjudge.cli import local_stack
from editjudge.cli.commands import load_commands

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8"))
Plug = Callable[..., None]


@pytest.fixture
def plug(monkeypatch: pytest.MonkeyPatch) -> Iterator[Plug]:
    """Says which entry points there are: the group's, as `module:attribute`."""

    def replace(group: str, *values: str) -> None:
        points = [EntryPoint(value.partition(":")[0], value, group) for value in values]
        for module in (cli, local_stack):
            monkeypatch.setattr(module, "entry_points", lambda group: [one for one in points if one.group == group])
        cli.plugin_commands.cache_clear()

    yield replace
    cli.plugin_commands.cache_clear()


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A package of somebody else's."""
    module = ModuleType("somebodys")
    monkeypatch.setitem(sys.modules, "somebodys", module)
    return module


@pytest.fixture
def declare(plug: Plug, package: ModuleType, tmp_path: Path) -> Callable[[str | None], None]:
    """Says which commands the package declares; None where its file is not there."""

    def write(text: str | None) -> None:
        package.COMMANDS = tmp_path / "commands.toml"
        if text is not None:
            package.COMMANDS.write_text(text)
        plug(cli.GROUP, "somebodys:COMMANDS")

    return write


def run_main(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int | str | None, str]:
    with pytest.raises(SystemExit) as ended:
        cli.main([*arguments])
    shown = capsys.readouterr()
    return ended.value.code, shown.out + shown.err


def run(*arguments: str) -> str:
    return CliRunner().invoke(cli.root, [*arguments]).output


GREET = """
[greet]
line = "Say hello."
function = "somebodys:greet"
help = "Say hello to somebody."
arguments = [{ name = "whom" }]
options = ["json", "loud"]
option.loud = { flag = true, help = "In capitals." }
"""


def test_a_package_adds_a_verb(declare: Any, package: ModuleType) -> None:
    def greet(whom: str, *, json: bool, loud: bool) -> None:
        click.echo(f"hello {whom} {json} {loud}")

    package.greet = greet
    declare(GREET)
    assert re.search(r"greet +Say hello\.", run("--help"))
    assert run("greet", "you") == "hello you False False\n"
    assert run("greet", "you", "--json", "--loud") == "hello you True True\n"
    assert "Print the result as strict JSON." in run("greet", "--help")


def test_without_the_package_its_verbs_are_unknown(plug: Plug, capsys: pytest.CaptureFixture[str]) -> None:
    plug(cli.GROUP)
    code, text = run_main(capsys, "up")
    assert code == 2
    assert "No such command 'up'" in text
    assert "up " not in run("--help")


def test_a_package_that_does_not_load_is_named_and_stops_no_verb_of_ours(
    plug: Plug, capsys: pytest.CaptureFixture[str]
) -> None:
    plug(cli.GROUP, "nowhere.at_all:TABLE")
    code, text = run_main(capsys, "greet")
    assert code == 2
    assert "error: the commands of nowhere.at_all:TABLE cannot be loaded" in text
    assert run_main(capsys, "list", "benchmarks")[0] == 0


@pytest.mark.parametrize("text", ["[greet", "[greet]", None, '[greet]\nhelp="x"\noptions=["x"]'])
def test_a_file_that_declares_no_commands_is_named(declare: Any, text: str | None) -> None:
    declare(text)
    with pytest.raises(ConfigError, match="the commands of somebodys:COMMANDS cannot be loaded"):
        cli.plugin_commands()


def test_a_verb_is_there_once(declare: Any) -> None:
    declare(GREET.replace("greet", "run"))
    with pytest.raises(ConfigError, match="two packages have a command run"):
        cli.plugin_commands()


OCR, JUDGE = ServiceName("ocr", "ppocr"), ServiceName.judge("judge")


@dataclass(frozen=True)
class ScriptedServer:
    url: str
    unloaded_models: Mapping[str, str] = field(default_factory=dict)


@contextmanager
def started_here(_: object, models: list[str]) -> Iterator[ScriptedServer]:
    assert models == ["ocr_ppocr"]
    yield ScriptedServer("grpc://127.0.0.1:9", {"ocr_ppocr": "weights are absent"})


def test_a_stack_is_started_by_the_package_that_can(plug: Plug, package: ModuleType) -> None:
    package.cannot = lambda settings, models: None
    package.can = started_here
    said: list[str] = []
    plug("editjudge.stack", "somebodys:cannot", "somebodys:can")
    with local_stack.provide_services(Settings(), roles=[OCR, JUDGE], say=said.append) as settings:
        assert [one.url for one in settings.endpoints.values()] == ["grpc://127.0.0.1:9"]
    assert "starting the local services" in said[0]
    assert said[1:] == ["ocr_ppocr is not served: weights are absent"]
    with local_stack.provide_services(Settings(), roles=[JUDGE], say=said.append) as settings:
        assert not settings.endpoints
    assert len(said) == 2


def test_a_stack_without_the_models_is_not_started(plug: Plug, package: ModuleType) -> None:
    package.cannot = lambda settings, models: f"{models[0]} is not installed"
    plug("editjudge.stack", "somebodys:cannot")
    said: list[str] = []
    with local_stack.provide_services(Settings(), roles=[OCR], say=said.append) as settings:
        assert settings == Settings()
    assert said == ["no local service is started: ocr_ppocr is not installed"]


@pytest.mark.parametrize("values", [(), ("somebodys:cannot",)])
def test_without_a_stack_there_are_no_services(plug: Plug, package: ModuleType, values: tuple[str, ...]) -> None:
    package.cannot = lambda settings, models: None
    plug("editjudge.stack", *values)
    with local_stack.provide_services(Settings(), roles=[OCR, JUDGE], say=pytest.fail) as settings:
        assert settings == Settings()


def test_a_stack_that_does_not_load_is_told(plug: Plug) -> None:
    plug("editjudge.stack", "nowhere.at_all:start")
    with pytest.raises(ConfigError, match="services cannot be loaded: No module named 'nowhere'"):
        with local_stack.provide_services(Settings(), roles=[OCR, JUDGE], say=pytest.fail):
            pytest.fail("there is nothing to use")


@pytest.mark.parametrize("group", [cli.GROUP, "editjudge.stack"])
def test_our_own_services_are_plugged_in(group: str) -> None:
    for name, value in PROJECT["project"]["entry-points"][group].items():
        loaded = EntryPoint(name, value, group).load()
        verbs = {"up", "down", "front", "models", "serve", "demo", "status"}
        assert callable(loaded) or verbs == {*load_commands(loaded)}
