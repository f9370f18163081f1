"""Texts that are kept: sections of lines `name = value`, compared line by line.

A line says by itself what it is about, so that one change of a number is one line of a difference.
`EDITJUDGE_GOLDEN=write` writes files anew.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterator, Mapping
from itertools import takewhile
from pathlib import Path
from typing import Any, TypeAlias

import pytest

FOLDER = Path(__file__).parent
RELATIVE = 1e-9
"""Within which numbers are the same."""
MOST = 15
"""Lines of a section that are shown."""
LONG = 100
"""Characters from which only what differs of a line is shown."""
NOTHING = "(nothing)"
Section: TypeAlias = Mapping[str, str]
Document: TypeAlias = Mapping[str, Section]
_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e[+-]?\d+)?(?![\w.])")


def read_kept(file: Path, text: str) -> str:
    """The text that is kept in a file, which is this one where files are written anew."""
    if os.environ.get("EDITJUDGE_GOLDEN") == "write":
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return file.read_text(encoding="utf-8") if file.exists() else ""


def check(name: str, document: Document) -> None:
    """Fail with the lines that are not as they are kept in `name`.txt."""
    kept = parse(read_kept(FOLDER / f"{name}.txt", render(document)))
    lines = [*differences(kept, document)]
    if lines:
        hint = "if that is meant: make golden, and say in the commit which lines moved and why"
        # Not by `assert`: its own account of so much would hide ours.
        pytest.fail("\n".join([f"{name}.txt is not as it was kept", *lines, hint]), pytrace=False)


def render(document: Document) -> str:
    """The text of a file."""
    parts = []
    for title, section in document.items():
        assert not any(" = " in name for name in section), section
        lines = (f"{name} = {value}".rstrip() for name, value in section.items())
        parts.append("\n".join([f"[{title}]", *lines, ""]))
    return "\n".join(parts)


def parse(text: str) -> dict[str, dict[str, str]]:
    """The document that is kept as a text."""
    document: dict[str, dict[str, str]] = {}
    for line in filter(None, text.split("\n")):
        if line.startswith("["):
            section = document.setdefault(line[1:-1], {})
        else:
            name, _, value = line.partition(" =")
            section[name] = value.strip()
    return document


def differences(kept: Document, found: Document) -> Iterator[str]:
    """A line for every line that is another, by section."""
    for title in {**kept, **found}:
        old, new = kept.get(title, {}), found.get(title, {})
        pairs = {name: (old.get(name, NOTHING), new.get(name, NOTHING)) for name in {**old, **new}}
        lines = [f"  {n} = {' -> '.join(cut_to_difference(*p))}" for n, p in pairs.items() if not same(*p)]
        if lines:
            yield f"[{title}]: {len(lines)} of {len(pairs)} lines"
            yield from lines[:MOST]


def cut_to_difference(old: str, new: str) -> tuple[str, str]:
    """Two texts; of long ones only from where they part to where they meet."""
    sides = [re.split(r"(?<=[ ;])", text) for text in (old, new)]
    if max(map(len, (old, new))) < LONG:
        return old, new
    head = _count_shared(*sides)
    tail = _count_shared(*(side[:head:-1] for side in sides))
    first, second = ("".join(side[head : len(side) - tail]).strip() for side in sides)
    return f"{'… ' * bool(head)}{first}", f"{second}{' …' * bool(tail)}"


def _count_shared(one: list[str], other: list[str]) -> int:
    """How many entries are the same at the start of both."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def same(old: str, new: str) -> bool:
    """Whether two texts are the same but for the last digits of their numbers."""
    old, new = old.strip(), new.strip()
    numbers = [[float(one) for one in _NUMBER.findall(text)] for text in (old, new)]
    return _NUMBER.sub("0", old) == _NUMBER.sub("0", new) and all(
        math.isclose(a, b, rel_tol=RELATIVE, abs_tol=1e-12) for a, b in zip(*numbers, strict=True)
    )


def brief(value: Any) -> str:
    """A plain value in one line: texts as they are, numbers with ten digits, the rest as JSON."""
    if isinstance(value, str):
        return value.replace("\n", "\\n")
    return json.dumps(_round(value), ensure_ascii=False, sort_keys=True)


def _round(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.10g}")
    if isinstance(value, dict):
        return {name: _round(one) for name, one in value.items()}
    return [_round(one) for one in value] if isinstance(value, list | tuple) else value


def flat(value: Any, name: str = "") -> dict[str, str]:
    """A line for each leaf of nested mappings, and for each entry of lists of mappings."""
    if isinstance(value, list) and value and all(isinstance(one, dict | str) for one in value):
        value = {str(number): one for number, one in enumerate(value, 1)}
    if not isinstance(value, dict) or not value:
        return {name: brief(value)}
    lines = {}
    for key, one in sorted(value.items()):
        lines |= flat(one, f"{name} {key}".strip())
    return lines


def unpack(name: str, text: str) -> dict[str, str]:
    """A call of named parameters, as signatures hold it, with a line for each parameter."""
    head, bracket, inner = text.partition("(")
    if not bracket or not text.endswith(")") or "=" not in inner:
        return {name: text}
    parts, depth, start = [], 0, 0
    for index, letter in enumerate(inner):
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth == 0:
            parts.append(inner[start:index])
            start = index + 1
    pairs = (one.partition("=") for one in [*parts, inner[start:-1]])
    return {name: head, **{f"{name}.{key}": value for key, _, value in pairs}}
