"""How files of the forms before today's become today's, one step after the other.

A release opens what every release of the two years before it wrote. What has to be known of an
older form is in a module of its own, which goes when that time is over.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from ..base.identity import ModelIdentity
from ..base.item import Missing
from . import version_2, version_3, version_4
from .checksums import expressions
from .codec import digest_from_bytes, dumps, from_text, outputs_to_bytes, pack, to_text
from .packing import MISSING
from .tables import (
    CALLS,
    EARLIER,
    EDITS,
    FACTS,
    HEADER,
    ITEMS,
    PROMPTS,
    TEXTS,
    VERDICT_CALLS,
    VERDICTS,
    Table,
    checksum_of,
)

OLDEST = 2
"""The oldest form that can be brought up to date."""
_COUNTED = ("prompt_tokens", "cached_tokens", "completion_tokens", "cost")
_PREPARED = "services that prepared"


def migrate(db: sqlite3.Connection, version: int) -> None:
    """Bring a file of an older version up to date, within the caller's transaction.

    Raises:
        ValueError: something in it cannot be read.
    """
    for step in (_from_2, _from_3, _from_4)[version - OLDEST :]:
        step(db)


def made(db: sqlite3.Connection, tables: Iterable[Table]) -> None:
    """Make tables, with what belongs to them."""
    for table in tables:
        db.execute(table.sql)
        if table.index:
            db.execute(table.index)


def _from_4(db: sqlite3.Connection) -> None:
    """Rows have checksums; verdicts that others replace are kept."""
    db.execute("ALTER TABLE edits ADD COLUMN seen BLOB")
    db.execute("DELETE FROM facts WHERE name LIKE 'outputs of % looked at'")
    _with_checksums(db, (TEXTS, HEADER, FACTS, PROMPTS, CALLS, EDITS, VERDICTS, VERDICT_CALLS))
    made(db, (ITEMS, EARLIER))


def _with_checksums(db: sqlite3.Connection, tables: tuple[Table, ...]) -> None:
    """Make tables of form 4 anew, with the rows that are in them."""
    db.execute("DROP INDEX calls_by_key")
    for table in tables:
        db.execute(f"ALTER TABLE {table.name} RENAME TO {table.name}_4")
    made(db, tables)
    for table in tables:
        sums = ", ".join(f"long_checksum({name}) AS {checksum_of(name)}" for name in table.long)
        names = ", ".join(table.names)
        db.execute(
            f"INSERT INTO {table.name} ({names}) SELECT {', '.join(table.checked)},"  # noqa: S608
            f" row_checksum({expressions(table)}){', '.join(('', *table.long))}"
            f" FROM (SELECT *{sums and ', ' + sums} FROM {table.name}_4)"
        )
    for table in reversed(tables):  # first what refers to others
        db.execute(f"DROP TABLE {table.name}_4")


def _from_3(db: sqlite3.Connection) -> None:
    """Signatures name fields and functions, and versions stand beside them."""
    db.execute("ALTER TABLE verdicts ADD COLUMN versions INTEGER REFERENCES texts (id)")
    row = db.execute("SELECT value FROM header WHERE name = 'protocol'").fetchone()
    protocol = str(json.loads(from_text(row[0]))) if row else ""
    old = {
        from_text(text): number
        for number, text in db.execute(
            "SELECT id, text FROM texts WHERE id IN (SELECT signature FROM verdicts)"
        )
    }
    db.execute("CREATE TEMP TABLE carried (old INTEGER PRIMARY KEY, new INTEGER, versions INTEGER)")
    for text, (new, versions) in version_3.carried(old, protocol).items():
        row = (old[text], _interned(db, new), _interned(db, versions) if versions else None)
        db.execute("INSERT INTO carried VALUES (?, ?, ?)", row)
    db.execute(
        "UPDATE verdicts SET (signature, versions) ="
        " (SELECT new, versions FROM carried WHERE old = signature)"
    )
    db.execute("DELETE FROM texts WHERE id IN (SELECT old FROM carried WHERE old != new)")
    db.execute("DROP TABLE carried")


def _interned(db: sqlite3.Connection, text: str) -> int:
    """The number of a text, which is put in where it is not there."""
    db.execute("INSERT OR IGNORE INTO texts (text) VALUES (?)", (to_text(text),))
    (number,) = db.execute("SELECT id FROM texts WHERE text = ?", (to_text(text),)).fetchone()
    return int(number)


def _from_2(db: sqlite3.Connection) -> None:
    """Evidence without what its calls tell; texts and outputs that can be read by themselves."""
    for table in ("verdicts", "edits"):
        db.execute(f"ALTER TABLE {table} RENAME TO {table}_2")
    db.execute(version_3.VERDICTS)
    for statement in version_4.TABLES:
        if any(f"TABLE {name} " in statement for name in ("edits", "verdict_calls")):
            db.execute(statement)
    _edits(db)
    _verdicts(db)
    _prompts(db)
    _calls(db)
    _identities(db)
    for table in ("verdicts", "edits"):  # first what refers to the other
        db.execute(f"DROP TABLE {table}_2")


def _edits(db: sqlite3.Connection) -> None:
    rows = db.execute("SELECT id, model, item, digest, missing FROM edits_2 ORDER BY id")
    for number, model, item, digest, text in rows:
        why = None if digest is not None else Missing.parsed_from_v2(from_text(text or ""))
        kind, reason = (None, None) if why is None else (MISSING[why.kind], to_text(why.reason))
        db.execute(
            "INSERT INTO edits VALUES (?, ?, ?, ?, ?, ?)",
            (number, model, item, digest, kind, reason),
        )


def _verdicts(db: sqlite3.Connection) -> None:
    """What evidence repeats of its calls' replies goes; where it says more, it stays whole."""

    @lru_cache(maxsize=4096)
    def call(number: int) -> dict[str, Any]:
        return _call(db, number)

    rows = db.execute("SELECT * FROM verdicts_2")
    for edit, dimension, status, signature, value, kind, detail, listed in rows:
        calls = [call(int(number)) for number in listed.split(",")] if listed else []
        if detail is not None:
            detailed = version_2.unpacked(
                detail, version_2.said_by(c for c in calls if c["prompt"])
            )
            calls = _in_order(calls, detailed.get("evidence", {}))
            rest = version_2.without_replies(detailed, calls)
            detail = pack(rest) if rest else None
        db.execute(
            "INSERT INTO verdicts VALUES (?, ?, ?, ?, ?, ?, ?)",
            (edit, dimension, status, signature, value, kind, detail),
        )
        db.executemany(
            "INSERT INTO verdict_calls VALUES (?, ?, ?, ?)",
            [(edit, dimension, place, one["id"]) for place, one in enumerate(calls)],
        )


def _call(db: sqlite3.Connection, number: int) -> dict[str, Any]:
    """A call as `version_2` asks for it; its reply is known only where it is in words."""
    key, model, prompt, reply, *taken = db.execute(
        "SELECT calls.key, texts.text, prompts.digest, calls.reply, calls.prompt_tokens,"
        " calls.cached_tokens, calls.completion_tokens, calls.cost FROM calls"
        " LEFT JOIN prompts ON prompts.id = calls.prompt LEFT JOIN texts ON texts.id = calls.model"
        " WHERE calls.id = ?",
        (number,),
    ).fetchone()
    return {
        "id": number,
        "call": digest_from_bytes(key),
        "model": None if model is None else from_text(model),
        "prompt": None if prompt is None else digest_from_bytes(prompt),
        "reply": None if prompt is None else version_2.unpacked(reply),
        **dict(zip(_COUNTED, taken, strict=True)),
    }


def _in_order(calls: list[dict[str, Any]], evidence: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Calls in the order in which they were made, as far as evidence tells it."""
    listed = [key for part in version_2.parts(evidence) for key in part.get("calls", ())]
    place = {key: index for index, key in reversed(list(enumerate(listed)))}
    return sorted(calls, key=lambda call: place.get(call["call"], len(listed)))


def _prompts(db: sqlite3.Connection) -> None:
    for number, parts in _each(db, "SELECT id, parts FROM prompts"):
        stored = pack(version_2.unpacked(parts))
        db.execute("UPDATE prompts SET parts = ? WHERE id = ?", (stored, number))


def _calls(db: sqlite3.Connection) -> None:
    rows = _each(
        db,
        "SELECT calls.id, calls.reply, calls.inputs, calls.abstained, texts.text FROM calls"
        " JOIN texts ON texts.id = calls.form",
    )
    for number, reply, inputs, abstained, form in rows:
        if inputs is None or abstained:
            stored = pack(version_2.unpacked(reply))
        else:
            role = str(json.loads(from_text(form))["service"]).partition(".")[0]
            stored = outputs_to_bytes(role, version_2.outputs(reply))
        digests = None if inputs is None else pack(version_2.unpacked(inputs))
        db.execute("UPDATE calls SET reply = ?, inputs = ? WHERE id = ?", (stored, digests, number))


def _identities(db: sqlite3.Connection) -> None:
    """Identities of services, where they are kept, become objects."""
    rows = [
        ("header", name, value)
        for name, value in db.execute("SELECT name, value FROM header WHERE name = 'identities'")
    ]
    rows += [
        ("facts", name, value)
        for name, value in db.execute("SELECT name, value FROM facts")
        if str(name).startswith(_PREPARED)
    ]
    for table, name, value in rows:
        parsed = {
            role: ModelIdentity.parsed_from_v2(text)
            for role, text in json.loads(from_text(value)).items()
        }
        identities = {
            role: {"name": one.name, "facts": dict(one.facts)} for role, one in parsed.items()
        }
        db.execute(
            f"UPDATE {table} SET value = ? WHERE name = ?",  # noqa: S608 - named above
            (to_text(dumps(identities)), name),
        )


def _each(db: sqlite3.Connection, query: str) -> Iterator[tuple[Any, ...]]:
    """Rows of a table that is changed meanwhile, some hundred at a time."""
    column = "calls.id" if "calls" in query else "id"
    last = 0
    while rows := db.execute(
        f"{query} WHERE {column} > ? ORDER BY {column} LIMIT 256",
        (last,),
    ).fetchall():
        yield from rows
        last = rows[-1][0]
