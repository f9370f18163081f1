"""Kept documents beside those of today: where they differ, told by file and path."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

RELATIVE = 1e-9
MOST = 6
"""Lines told of one file."""
CAUSES = ("lists", "signatures", "ledger")
"""Documents told first: what moves here moves others."""
FOLDER = Path(__file__).parent
_WIDTH = 240
_NOTHING = "(nothing)"


def written(folder: Path, documents: Mapping[str, Any]) -> None:
    """Write documents in the place of those that are there."""
    folder.mkdir(parents=True, exist_ok=True)
    for file in folder.glob("*.json"):
        file.unlink()
    for name, document in documents.items():
        (folder / f"{name}.json").write_text(text_of(document) + "\n", encoding="utf-8")


def text_of(value: Any, indent: str = "") -> str:
    """JSON with sorted names, in which what is short stands on one line."""
    line = json.dumps(value, sort_keys=True, ensure_ascii=False)
    if len(line) + len(indent) <= _WIDTH or not isinstance(value, dict | list):
        return line
    inner = indent + " "
    if isinstance(value, dict):
        names = ((f"{json.dumps(name, ensure_ascii=False)}: ", name) for name in sorted(value))
        entries = [f"{inner}{told}{text_of(value[name], inner)}" for told, name in names]
        return "{\n" + ",\n".join(entries) + f"\n{indent}}}"
    entries = [f"{inner}{text_of(one, inner)}" for one in value]
    return "[\n" + ",\n".join(entries) + f"\n{indent}]"


def differences(folder: Path, documents: Mapping[str, Any]) -> dict[str, list[str]]:
    """By file a line for each place in which kept documents are not those given."""
    kept = {
        file.stem: json.loads(file.read_text(encoding="utf-8")) for file in folder.glob("*.json")
    }
    # As they would be kept: numbers as keys become texts, tuples become lists.
    given = {name: json.loads(json.dumps(one)) for name, one in documents.items()}
    found = {}
    for name in sorted(kept.keys() | given.keys(), key=lambda name: (name not in CAUSES, name)):
        pair = (kept.get(name, _NOTHING), given.get(name, _NOTHING))
        lines = [f"{where}: {old} -> {new}" for where, old, new in between(*pair)]
        if lines:
            found[f"{folder.relative_to(FOLDER)}/{name}.json"] = lines
    return found


def told(found: Mapping[str, list[str]]) -> str:
    """The differences for people, and how to keep what is new."""
    lines = []
    for file, different in found.items():
        lines += [
            f"{file}: {len(different)} differences",
            *(f"  {one}" for one in different[:MOST]),
        ]
    lines.append("if that is meant: make golden, and say in the commit which lines moved and why")
    return "\n".join(["not as it was kept", *lines])


def between(old: Any, new: Any, where: str = "$") -> Iterator[tuple[str, str, str]]:
    """Paths at which two values differ, with both; numbers within `RELATIVE` are the same."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys()):
            pair = old.get(key, _NOTHING), new.get(key, _NOTHING)
            yield from between(
                *pair, f"{where}.{key}" if key.isidentifier() else f"{where}[{key!r}]"
            )
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, pair in enumerate(zip(old, new, strict=True)):
            yield from between(*pair, f"{where}[{index}]")
    elif not same(old, new):
        yield where, _short(old), _short(new)


def same(old: Any, new: Any) -> bool:
    """Whether two plain values are the same."""
    if isinstance(old, float) or isinstance(new, float):
        numbers = (int, float)
        if not isinstance(old, numbers) or not isinstance(new, numbers):
            return False
        return math.isclose(old, new, rel_tol=RELATIVE, abs_tol=1e-12)
    return type(old) is type(new) and bool(old == new)


def _short(value: Any) -> str:
    text = value if value == _NOTHING else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 300 else f"{text[:300]}…"
