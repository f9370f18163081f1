"""The tables as version 4 had them, whose rows had no checksums: for its migration only."""

from __future__ import annotations

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
        missing INTEGER,
        reason TEXT,
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
        versions INTEGER REFERENCES texts (id),
        PRIMARY KEY (edit, dimension)
    ) WITHOUT ROWID""",
    """CREATE TABLE verdict_calls (
        edit INTEGER NOT NULL,
        dimension INTEGER NOT NULL,
        position INTEGER NOT NULL,
        call INTEGER NOT NULL REFERENCES calls (id),
        PRIMARY KEY (edit, dimension, position)
    ) WITHOUT ROWID""",
)
