"""Calls of one file, put into another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .database import Database
from .tables import CALLS, FACTS, PROMPTS

_CALL = tuple(name for name in (*CALLS.columns, *CALLS.long) if name != "id")


def copy_calls(source: Database, target: Database) -> dict[int, int]:
    """Copy prompts, calls and facts; what the target has stays.

    A call that the target has with another reply answers nobody there, and neither does one that
    was dropped: they are for the verdicts that rest on them.

    Returns:
        By number of a call in the source, its number in the target.
    """
    prompts = _copy_prompts(source, target)
    numbers = {}
    rows = source.each(f"SELECT id, {', '.join(_CALL)} FROM calls")  # noqa: S608 - named above
    for number, *call in rows:
        row = dict(zip(_CALL, call, strict=True))
        numbers[number] = _copy_call(row, source, target, prompts)
    for name, value in source.each("SELECT name, value FROM facts"):
        target.put(FACTS, instead="IGNORE", name=name, value=value)
    return numbers


def _copy_prompts(source: Database, target: Database) -> dict[int, int]:
    numbers = {}
    rows = source.each("SELECT id, digest, system, parts FROM prompts")
    for number, digest, system, parts in rows:
        named = target.intern(source.text(system))
        target.put(PROMPTS, instead="IGNORE", digest=digest, system=named, parts=parts)
        row = target.one("SELECT id FROM prompts WHERE digest = ?", digest)
        numbers[number] = row[0] if row else 0
    return numbers


def _copy_call(
    call: Mapping[str, Any], source: Database, target: Database, prompts: Mapping[int, int]
) -> int:
    """The number of a call in the target; what it refers to is numbered otherwise there.

    Args:
        call: A row, by column.
    """

    def interned(number: int | None) -> int | None:
        return None if number is None else target.intern(source.text(number))

    standing = target.one(
        "SELECT id, reply FROM calls WHERE team = '' AND key = ? AND dropped = 0", call["key"]
    )
    if standing is not None and standing[1] == call["reply"]:
        return int(standing[0])
    renumbered = {
        "dropped": bool(call["dropped"] or standing),
        "service": interned(call["service"]),
        "form": interned(call["form"]),
        "prompt": None if call["prompt"] is None else prompts[call["prompt"]],
        "model": interned(call["model"]),
    }
    return target.put(CALLS, **{**call, **renumbered})
