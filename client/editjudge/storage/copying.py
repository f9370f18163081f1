"""Calls of one file, put into another."""

from __future__ import annotations

from collections.abc import Mapping

from .database import Database

_CALL = (
    "key, dropped, reply, service, form, prompt, model, inputs, repeat, abstained, prompt_tokens,"
    " cached_tokens, completion_tokens, attempts, cost, seconds, made"
)


def copy_calls(source: Database, target: Database) -> dict[int, int]:
    """Copy prompts, calls and facts; what the target has stays.

    A call that the target has with another reply answers nobody there, and neither does one that
    was dropped: they are for the verdicts that rest on them.

    Returns:
        By number of a call in the source, its number in the target.
    """
    prompts = _copy_prompts(source, target)
    numbers = {}
    for number, *call in source.each(f"SELECT id, {_CALL} FROM calls"):  # noqa: S608 - named above
        numbers[number] = _copy_call(call, source, target, prompts)
    for fact in source.each("SELECT name, value FROM facts"):
        target.run("INSERT OR IGNORE INTO facts VALUES (?, ?)", *fact)
    return numbers


def _copy_prompts(source: Database, target: Database) -> dict[int, int]:
    numbers = {}
    rows = source.each("SELECT id, digest, system, parts FROM prompts")
    for number, digest, system, parts in rows:
        target.run(
            "INSERT OR IGNORE INTO prompts (digest, system, parts) VALUES (?, ?, ?)",
            digest,
            target.intern(source.text(system)),
            parts,
        )
        row = target.one("SELECT id FROM prompts WHERE digest = ?", digest)
        numbers[number] = row[0] if row else 0
    return numbers


def _copy_call(
    call: list[object], source: Database, target: Database, prompts: Mapping[int, int]
) -> int:
    """The number of a call in the target; what it refers to is numbered otherwise there.

    Args:
        call: A row, as `_CALL` names its columns.
    """

    def interned(number: object) -> int | None:
        return target.intern(source.text(number)) if isinstance(number, int) else None

    key, dropped, reply, service, form, prompt, model, *rest = call
    standing = target.one("SELECT id, reply FROM calls WHERE key = ? AND dropped = 0", key)
    if standing is not None and standing[1] == reply:
        return int(standing[0])
    row = (
        key,
        int(bool(dropped or standing)),
        reply,
        interned(service),
        interned(form),
        prompts[prompt] if isinstance(prompt, int) else None,
        interned(model),
        *rest,
    )
    places = ", ".join("?" * len(row))
    made = target.run(f"INSERT INTO calls ({_CALL}) VALUES ({places})", *row)  # noqa: S608
    return int(made.lastrowid or 0)
