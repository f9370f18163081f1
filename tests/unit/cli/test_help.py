"""The whole command line at a glance: its size, its words, one name for one thing."""

from __future__ import annotations

import inspect
import subprocess
import sys
import typing
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import click
import pytest
from click.testing import CliRunner

from editjudge.cli import root

from ...golden.text import read_kept

ROOT = Path(__file__).parents[3]
HELP = Path(__file__).with_name("help.txt")
COMMANDS, OPTIONS = 50, 230
"""More of either is a reason to take one away first."""


def commands(command: click.Command = root, *words: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command with its words, groups among them."""
    yield words, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from commands(below, *words, name)


def options(command: click.Command) -> list[click.Option]:
    return [each for each in command.params if isinstance(each, click.Option)]


def test_there_are_few_commands_and_options() -> None:
    counts = {" ".join(words): len(options(command)) for words, command in commands()}
    print(f"{len(counts)} commands, {sum(counts.values())} options: {counts}")  # noqa: T201
    assert len(counts) <= COMMANDS
    assert sum(counts.values()) <= OPTIONS


def test_an_option_has_one_spelling() -> None:
    """But for `-d` and `--generalist`, no name stands for another."""
    for words, command in commands():
        for option in options(command):
            assert not set(option.opts[1:]) - {"-d", "--generalist"}, words
            assert option.help, f"{words}: {option.opts}"
            assert option.help.endswith("."), f"{words}: {option.opts}"


def test_a_function_takes_what_its_command_declares() -> None:
    for words, command in commands():
        if not isinstance(command.callback, partial):
            continue
        function = resolve_name(command.callback.args[0])
        declared = {each.name: each for each in command.params}
        takes = inspect.signature(function).parameters
        inspect.signature(function).bind(**declared)
        hints = typing.get_type_hints(function)
        for name in declared.keys() & takes.keys():
            allowed = {*_literals(hints[name])}
            kind = declared[name].type
            given = {*kind.choices} if isinstance(kind, click.Choice) else allowed
            assert not allowed or given == allowed, f"{words}: {name}"


def _literals(hint: Any) -> Iterator[str]:
    for each in typing.get_args(hint):
        if isinstance(each, str):
            yield each
        else:
            yield from _literals(each)


def pages() -> str:
    """The help of every command, in the order of the tree."""
    written = []
    for words, _ in commands():
        shown = CliRunner().invoke(root, [*words, "--help"], prog_name="editjudge", terminal_width=100)
        assert shown.exit_code == 0, words
        written.append(f"$ {' '.join(('editjudge', *words))} --help\n{shown.output}")
    return "\n".join(written)


def test_help_is_as_it_was_looked_over() -> None:
    """After a change: `make golden`, and look at the difference.

    A process of its own shows it: what other tests loaded or plugged in is not in it.
    """
    code = f"from {__name__} import pages; print(pages(), end='')"
    command = [sys.executable, "-c", code]
    ran = subprocess.run(command, check=False, capture_output=True, text=True, cwd=ROOT)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == read_kept(HELP, ran.stdout)


@pytest.mark.parametrize(
    "words",
    [
        ("--config", "{file}", "list", "services"),
        ("list", "services", "--config", "{file}"),
        ("list", "--config={file}", "services"),
        ("list", "services", "--set", "endpoints.mine.url=http://nowhere"),
    ],
)
def test_settings_may_stand_anywhere(words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "team.toml").write_text('[endpoints.mine]\nurl = "http://nowhere"\n')
    asked = [word.format(file=tmp_path / "team.toml") for word in words]
    shown = CliRunner().invoke(root, asked)
    assert "endpoints.mine.url" in str(shown.exception)


def test_what_is_set_comes_before_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "editjudge.toml").write_text("attempts = 99\n")
    for given, told in (
        ([], "attempts"),
        (["--set", "attempts=2"], ""),
        (["--set", "a=1", "--set", "a=2"], "--set is given twice for a"),
        (["--set", "attempts"], "--set 'attempts' is not NAME=VALUE"),
    ):
        done = CliRunner().invoke(root, ["list", "services", *given])
        assert (told in str(done.exception)) if told else done.exit_code == 0
