"""What messages and helps name is there: commands with their options, and extras to install."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import click

from editjudge.cli import root

from .test_help import commands

ROOT = Path(__file__).parents[3]
SOURCES = (ROOT / "client/editjudge", ROOT / "services/editjudge_services")
PROSE = {"can", "comes", "does", "on", "raises", "reads", "that", "there", "wrote"}
"""What follows the name of the project in sentences about it."""
OTHERS = {"--data-urlencode", "--enable-shared", "--local-dir", "--logprobs-mode", "--max-logprobs", "--mm-processor"}
"""Options of other programs, vLLM, curl, hf and Python's build, that messages name."""
COMMANDERS = ("services/editjudge_services/runtime/", "services/editjudge_services/front/")
"""Where other programs are started, with their options."""
COMMAND = re.compile(r"\beditjudge ([a-z][a-z_-]*)((?: [^;`\n(),:]*)?)")
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
EXTRA = re.compile(r"editjudge\[([a-z0-9,-]+)\]|\bextras? `([a-z0-9-]+)`")


def literals(file: Path) -> Iterator[str]:
    """Yield the texts of a module that are no docstrings, with … for what is put in."""
    tree = ast.parse(file.read_text("utf-8"))
    skipped: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            skipped.add(node.value)
        elif isinstance(node, ast.JoinedStr):
            skipped |= set(node.values)
            yield "".join(getattr(each, "value", "") if isinstance(each, ast.Constant) else "…" for each in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in skipped:
            yield node.value


@cache
def texts() -> tuple[tuple[str, str], ...]:
    """What people read of the sources, each with its file."""
    return tuple(list_texts())


def list_texts() -> Iterator[tuple[str, str]]:
    for folder in SOURCES:
        for file in sorted(folder.rglob("*")):
            where = str(file.relative_to(ROOT))
            if file.suffix == ".py" and "/v1/" not in where:
                yield from ((where, text) for text in literals(file))
            elif file.suffix in {".toml", ".j2"}:
                yield where, file.read_text("utf-8")


def options_of(command: click.Command) -> set[str]:
    return {name for parameter in command.params for name in parameter.opts}


EVERY_COMMAND = dict(commands())
COMMANDS = {words[0]: command for words, command in EVERY_COMMAND.items() if len(words) == 1}
EVERY_OPTION = set().union(*map(options_of, EVERY_COMMAND.values()), {"--help"})


def find_mistake(line: str, name: str, rest: str) -> str:
    """Say what a line of a command names that there is not; empty if all is there."""
    if name in PROSE:
        return ""
    command = COMMANDS.get(name)
    if command is None:
        return f"no command {name}: {line}"
    first = rest.split()[:1]
    if isinstance(command, click.Group) and first and first[0] in command.commands:
        command = command.commands[first[0]]
    known = options_of(command) | options_of(root)
    unknown = [option for option in OPTION.findall(rest) if option not in known]
    return f"no option {unknown[0]}: {line}" if unknown else ""


def test_commands_that_are_named_exist_with_their_options() -> None:
    lines = [(where, match) for where, text in texts() for match in COMMAND.finditer(text)]
    mistakes = [f"{where}: {find_mistake(m[0], m[1], m[2])}" for where, m in lines]
    assert [line for line in mistakes if not line.endswith(": ")] == []
    assert len(lines) > 50, "they are found"


def test_options_that_are_named_exist() -> None:
    unknown = {
        (where, option)
        for where, text in texts()
        for option in OPTION.findall(text)
        if option not in EVERY_OPTION | OTHERS and not where.startswith(COMMANDERS)
    }
    assert unknown == set()


def test_extras_that_are_named_exist() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    pages = [(str(page), page.read_text("utf-8")) for page in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"))]
    named = {
        (where, extra)
        for where, text in (*texts(), *pages)
        for several, one in EXTRA.findall(text)
        for extra in (several or one).split(",")
    }
    named |= {
        (where, extra)
        for folder in SOURCES
        for file in folder.rglob("*.py")
        for where in [str(file.relative_to(ROOT))]
        for extra in re.findall(r'MissingExtra\([^)]*"([a-z0-9-]+)"\)', file.read_text("utf-8"))
    }
    assert {each for each in named if each[1] not in project["optional-dependencies"]} == set()
    assert {"demo", "pixels", "report"} <= {extra for _, extra in named}
