"""Every command, setting and piece of Python in the pages can be typed as it stands.

Commands are parsed by the command line itself and not run; tests of their own run what can be run.
"""

from __future__ import annotations

import ast
import re
import shlex
import tomllib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import click
import pytest

from editjudge.app.gate import GateRules
from editjudge.base.config import Settings
from editjudge.benchmarks.registry import BENCHMARKS
from editjudge.benchmarks.registry import GROUP as DIMENSIONS
from editjudge.cli import GROUP as COMMANDS
from editjudge.cli import root
from editjudge.prompts.custom_templates import load_custom_folder
from editjudge.prompts.rubrics import make_rubric
from editjudge.rewards import RewardConfig
from editjudge.rewards.config import Listener

from .test_docs import FENCED, ROOT, blocks

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
OMITTED = "…"


def lines_of(page: Path) -> Iterator[str]:
    """What is typed on a page: lines of `sh`, and of `console` those behind a prompt."""
    for language, code in FENCED.findall(page.read_text(encoding="utf-8")):
        if language not in {"sh", "console"}:
            continue
        for line in re.sub(r"\\\n\s*", " ", code).splitlines():
            if language == "sh" or line.startswith("$ "):
                yield line.removeprefix("$ ").strip()


def commands_in(line: str) -> Iterator[list[str]]:
    """The editjudge commands of a line of shell, as lists of arguments."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words: list[str] = []
    for word in [*lexer, ";"]:
        if word in {";", "&&", "||", "|", "&", "(", ")"}:
            if "editjudge" in words:
                yield words[words.index("editjudge") + 1 :]
            words = []
        else:
            words.append(word)


def list_commands() -> list[tuple[str, list[str]]]:
    """Page and arguments of every command, those with what is left out included."""
    return [
        (page.relative_to(ROOT).as_posix(), arguments)
        for page in PAGES
        for line in lines_of(page)
        if "editjudge " in line
        for arguments in commands_in(line)
    ]


def parse(arguments: list[str]) -> None:
    """Parse a command line as `editjudge` would, and run nothing.

    Raises:
        click.ClickException: it would be refused.
    """
    given = [word for word in _without_shell(arguments) if word != OMITTED]
    command: click.Command = root
    context = root.make_context("editjudge", given)
    while isinstance(command, click.Group):
        rest = [*context._protected_args, *context.args]
        if not rest and command.invoke_without_command:
            return
        name, found, rest = command.resolve_command(context, rest)
        assert found is not None
        command = found
        try:
            context = command.make_context(name, rest, parent=context)
        except click.MissingParameter:
            if OMITTED in arguments:
                return
            raise


def _without_shell(arguments: list[str]) -> Iterator[str]:
    """Without redirections, and what brackets say may be left out with it."""
    words = iter(arguments)
    for word in words:
        if word in {">", ">>", "2>", "<"}:
            next(words, None)
        else:
            yield word.strip("[]") if re.fullmatch(r"\[\S+\]", word) else word


@pytest.mark.parametrize(
    ("page", "arguments"), list_commands(), ids=lambda value: value if isinstance(value, str) else shlex.join(value)
)
def test_a_command_of_a_page_parses(page: str, arguments: list[str]) -> None:
    try:
        parse(arguments)
    except click.exceptions.Exit:  # --help and --version
        pass
    except click.ClickException as error:
        pytest.fail(f"{page}: editjudge {shlex.join(arguments)}: {error.format_message()}")


def test_commands_were_found_on_most_pages() -> None:
    commands = list_commands()
    assert len(commands) > 80
    assert len({page for page, _ in commands}) > 15


@pytest.mark.parametrize("line", ["run core --dato x", "rum", "list nothing", "export RUN --format docx", "compare"])
def test_a_slip_would_be_seen(line: str) -> None:
    with pytest.raises(click.ClickException):
        parse(shlex.split(line))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_compiles_and_what_it_imports_is_there(page: Path) -> None:
    for block in blocks(page.read_text(encoding="utf-8"), "python"):
        for node in ast.walk(ast.parse(block, page.name)):
            if isinstance(node, ast.ImportFrom) and node.module:
                module = import_module(node.module)
                assert all(hasattr(module, name.name) for name in node.names), ast.unparse(node)
            elif isinstance(node, ast.Import):
                for name in node.names:
                    import_module(name.name)
            elif isinstance(node, ast.Attribute) and ast.unparse(node.value) == "editjudge":
                assert hasattr(import_module("editjudge"), node.attr), node.attr


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_toml_is_read_by_who_it_is_for(page: Path, tmp_path: Path) -> None:
    templates = False
    for block in blocks(page.read_text(encoding="utf-8"), "toml"):
        content = tomllib.loads(block)
        if named := re.match(r"# mine/(\S+\.toml)\n", block):
            file = tmp_path / named[1]
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(block, encoding="utf-8")
            templates = True
        elif "scale" in content:
            make_rubric("rubric/light", block, page.name)
        elif "rewards" in content:
            RewardConfig.model_validate(content)
        elif "listener" in content:
            Listener.model_validate(content["listener"])
        elif "margins" in content:
            GateRules.model_validate(content)
        elif "project" in content:
            assert {*content["project"]["entry-points"]} <= {BENCHMARKS, DIMENSIONS, COMMANDS}
        else:
            Settings.model_validate(content)
    if templates:
        assert load_custom_folder(tmp_path)
