"""Printing on the terminal. Only this module and `console`, which prints tables, print.

Names of models, replies of judges and reasons of servers come from elsewhere. They may hold escape
codes, halves of characters, marks that turn the direction of writing, or what looks like markup,
and none of that may reach the terminal, nor cost what else is printed.
"""

import io
import json
import re
import sys
from typing import Any

import click

# Control characters but for the end of a line and the tab, marks of direction, lone surrogates.
_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
_BEYOND_ASCII = re.compile("[^\x00-\x7f]")


def allow_any_text() -> None:
    r"""Let standard output write what its encoding lacks as an escape, as standard error does."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def escape_control(text: str) -> str:
    r"""Replace control characters by their escapes, such as `\x1b` and `\ud800`."""
    return _UNPRINTABLE.sub(_escape_match, text.replace("\r\n", "\n"))


def print_text(*texts: str, err: bool = False, nl: bool = True, **style: Any) -> None:
    """Print texts on standard output, or on standard error, each on a line of its own.

    Args:
        err: On standard error.
        nl: End the lines.
        style: As `click.style` takes it: `fg`, `bold`, `dim`.
    """
    for text in texts:
        click.secho(escape_control(text), err=err, nl=nl, **style)


def print_notice(*texts: str) -> None:
    """Print notices on standard error, apart from a command's output."""
    print_text(*texts, err=True)


def print_json_text(text: str) -> None:
    """Print JSON text on standard output, with control characters escaped as JSON does."""
    printable = _UNPRINTABLE.sub(_escape_as_json, text)
    if (sys.stdout.encoding or "utf-8").lower() != "utf-8":
        printable = _BEYOND_ASCII.sub(_escape_as_json, printable)
    click.echo(printable)


def _escape_match(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def _escape_as_json(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\u{code:04x}" if code < 0x10000 else json.dumps(match[0])[1:-1]
