"""The tables of a ledger or run, and how older files become today's."""

from __future__ import annotations

import json
import sqlite3

from .codec import digest_to_bytes, pack

VERSION = 2

# Texts that come again and again (models, dimensions, signatures, identities, items) are held
# once and stood for by numbers. A call that was dropped answers nobody any more, but verdicts
# that rest on it can still show it.
TABLES = (
    """CREATE TABLE texts (id INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE)""",
    """CREATE TABLE header (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID""",
    """CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID""",
    """CREATE TABLE prompts (
        id INTEGER PRIMARY KEY,
        digest BLOB NOT NULL UNIQUE,
        system INTEGER NOT NULL REFERENCES texts (id),
        parts BLOB NOT NULL
    )""",
    """CREATE TABLE calls (
        id INTEGER PRIMARY KEY,
        key BLOB NOT NULL,
        dropped INTEGER NOT NULL DEFAULT 0,
        service INTEGER NOT NULL REFERENCES texts (id),
        form INTEGER NOT NULL REFERENCES texts (id),
        prompt INTEGER REFERENCES prompts (id),
        inputs BLOB,
        repeat INTEGER NOT NULL DEFAULT 0,
        reply BLOB NOT NULL,
        abstained INTEGER NOT NULL DEFAULT 0,
        model INTEGER REFERENCES texts (id),
        prompt_tokens INTEGER NOT NULL DEFAULT 0,
        cached_tokens INTEGER NOT NULL DEFAULT 0,
        completion_tokens INTEGER NOT NULL DEFAULT 0,
        attempts INTEGER NOT NULL DEFAULT 1,
        cost REAL,
        seconds REAL NOT NULL,
        made REAL NOT NULL
    )""",
    """CREATE UNIQUE INDEX calls_by_key ON calls (key) WHERE dropped = 0""",
    """CREATE TABLE edits (
        id INTEGER PRIMARY KEY,
        model INTEGER NOT NULL REFERENCES texts (id),
        item INTEGER NOT NULL REFERENCES texts (id),
        digest BLOB,
        missing TEXT,
        UNIQUE (model, item)
    )""",
    """CREATE TABLE verdicts (
        edit INTEGER NOT NULL REFERENCES edits (id),
        dimension INTEGER NOT NULL REFERENCES texts (id),
        status INTEGER NOT NULL,
        signature INTEGER NOT NULL REFERENCES texts (id),
        value REAL,
        kind INTEGER,
        detail BLOB,
        calls TEXT,
        PRIMARY KEY (edit, dimension)
    ) WITHOUT ROWID""",
)


def migrate(db: sqlite3.Connection) -> None:
    """Bring a file of version 1 up to date, within the caller's transaction."""
    for table in ("calls", "prompts"):
        db.execute(f"ALTER TABLE {table} RENAME TO {table}_1")
    for statement in TABLES:
        db.execute(statement)
    for digest, system, parts in db.execute("SELECT digest, system, parts FROM prompts_1"):
        db.execute(
            "INSERT INTO prompts (digest, system, parts) VALUES (?, ?, ?)",
            (digest_to_bytes(digest), _intern(db, system), pack(json.loads(parts))),
        )
    rows = db.execute(
        "SELECT calls_1.key, calls_1.judge, calls_1.form, prompts_1.digest, calls_1.repeat,"
        " calls_1.reply, calls_1.model, calls_1.prompt_tokens, calls_1.cached_tokens,"
        " calls_1.completion_tokens, calls_1.attempts, calls_1.cost, calls_1.seconds,"
        " calls_1.made FROM calls_1 JOIN prompts_1 ON prompts_1.digest = calls_1.prompt"
    )
    for key, judge, form, prompt, repeat, reply, model, *rest in rows:
        db.execute(
            "INSERT INTO calls (key, service, form, prompt, repeat, reply, model, prompt_tokens,"
            " cached_tokens, completion_tokens, attempts, cost, seconds, made) VALUES (?, ?, ?,"
            " (SELECT id FROM prompts WHERE digest = ?), ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                digest_to_bytes(key),
                _intern(db, judge),
                _intern(db, form),
                digest_to_bytes(prompt),
                repeat,
                pack(json.loads(reply)),
                _intern(db, model),
                *rest,
            ),
        )
    # First what refers to the other.
    for table in ("calls", "prompts"):
        db.execute(f"DROP TABLE {table}_1")


def _intern(db: sqlite3.Connection, text: str) -> int:
    db.execute("INSERT OR IGNORE INTO texts (text) VALUES (?)", (text,))
    (number,) = db.execute("SELECT id FROM texts WHERE text = ?", (text,)).fetchone()
    return int(number)
