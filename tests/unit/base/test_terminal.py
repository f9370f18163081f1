"""Whatever others put into a text, it does nothing to the terminal and costs nothing else."""

from __future__ import annotations

import ast
import contextlib
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.table import Table

import editjudge
import editjudge_services
from editjudge.base.console import make_console
from editjudge.base.terminal import allow_any_text, escape_control, print_json_text, print_notice, print_text

ESCAPES = "\x1b]0;title\x07\x1b[2J\x9b31m"
HALF = "half \ud800 of a pair"
TURNED = "safe\u202egnp.exe"


Capture: TypeAlias = Callable[[Callable[[], None]], str]


@pytest.fixture(params=["utf-8", "latin-1", "ascii"])
def capture_output(request: pytest.FixtureRequest) -> Capture:
    """What a command writes to a strict standard output in some encoding."""

    def writes(act: Callable[[], None]) -> str:
        raw = io.BytesIO()
        stream = io.TextIOWrapper(raw, request.param, write_through=True)
        with contextlib.redirect_stdout(stream):
            allow_any_text()
            act()
        # Click takes ASCII for an encoding that nobody has set, and writes UTF-8.
        return raw.getvalue().decode("latin-1" if request.param == "latin-1" else "utf-8")

    return writes


@pytest.mark.parametrize("text", [ESCAPES, HALF, TURNED, "a\rb", "\x00", "\u2028"])
def test_what_acts_on_a_terminal_is_shown_as_what_it_is(text: str, capture_output: Capture) -> None:
    said = capture_output(lambda: print_text(f"before {text} after"))
    assert said.startswith("before ")
    assert said.endswith(" after\n")
    said += capture_output(lambda: make_console().print(_table(text)))
    assert not set(said) & set("\x1b\x07\x9b\ud800\u202e\r\x00\u2028")


def test_a_table_that_is_cut_is_cut_in_any_encoding(capture_output: Capture) -> None:
    table = Table()
    table.add_column("x", no_wrap=True)
    table.add_row("x" * 300)
    said = capture_output(lambda: make_console(width=40).print(table))
    assert "xxx" in said
    assert max(map(len, said.replace(r"\u2026", "…").splitlines())) <= 42


@given(text=st.text(st.characters(categories=None)))
def test_printable_text_can_be_written_and_is_so_already(text: str) -> None:
    clean = escape_control(text)
    clean.encode()
    assert escape_control(clean) == clean
    assert clean.isascii() or not text.isascii()


def test_words_are_left_as_they_are() -> None:
    text = "an arrow ↑, 文字, עברית, é\n\tand a tab"
    assert escape_control(text) == text


def test_markup_in_a_name_is_no_markup(capture_output: Capture) -> None:
    names = ("flux[dev]", "flux[bold]", "[/m]", ":smile:")
    shown = capture_output(lambda: make_console().print(_table(*names)))
    assert all(name in shown for name in names)


def test_what_an_encoding_lacks_is_escaped(capture_output: Capture) -> None:
    said = capture_output(lambda: print_text("PSNR ↑ 3 ± 1"))
    assert said in {"PSNR ↑ 3 ± 1\n", "PSNR \\u2191 3 ± 1\n"}


@pytest.mark.parametrize("text", [ESCAPES, HALF, TURNED, "é😀\x7f", "plain"])
def test_json_stays_json(text: str, capture_output: Capture) -> None:
    shown = capture_output(lambda: print_json_text(json.dumps({"reply": text}, ensure_ascii=False)))
    assert json.loads(shown) == {"reply": text}
    assert not set(shown) & set("\x1b\x07\x9b\ud800\u202e\x7f")


def test_what_is_told_goes_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    print_notice("on the way")
    assert capsys.readouterr() == ("", "on the way\n")


def test_nothing_else_prints() -> None:
    packages = [Path(package.__path__[0]) for package in (editjudge, editjudge_services)]
    printing = {
        f"{path.name}:{node.lineno}"
        for package in packages
        for path in package.rglob("*.py")
        if path.name not in {"terminal.py", "console.py"}
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute)
        if ast.unparse(node.func) in _PRINTING
    }
    assert not printing


_PRINTING = {"print", "click.echo", "click.secho", "Console", "rich.print"}


def _table(*names: str) -> Table:
    table = Table()
    table.add_column(names[0])
    for name in names:
        table.add_row(name)
    return table
