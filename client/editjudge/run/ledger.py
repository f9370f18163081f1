"""The ledger: every call to a generalist and its reply, so that none is paid for twice.

One SQLite file, content-addressed: a call's key is the digest of everything its reply can
depend on (judge model, prompt with images, answer form, sampling, repeat). Replies are kept
raw, so reading them by other rules needs no new call.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from ..errors import ConfigError
from ..panel.prompt import Prompt, Text

_VERSION = 1
_TABLES = """
CREATE TABLE prompts (
    digest TEXT PRIMARY KEY,
    system TEXT NOT NULL,
    parts TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE calls (
    key TEXT PRIMARY KEY,
    judge TEXT NOT NULL,
    prompt TEXT NOT NULL REFERENCES prompts (digest),
    form TEXT NOT NULL,
    repeat INTEGER NOT NULL,
    reply TEXT NOT NULL,
    model TEXT NOT NULL,
    prompt_tokens INTEGER NOT NULL,
    cached_tokens INTEGER NOT NULL,
    completion_tokens INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    cost REAL,
    seconds REAL NOT NULL,
    made REAL NOT NULL
) WITHOUT ROWID;
"""


@dataclass(frozen=True)
class Call:
    """One question to one judge model.

    Attributes:
        judge: Identity of the judge model, as in signatures.
        form: What sort of answer is asked for, with all that shapes it: choices or schema,
            sampling.
        repeat: Index among non-deterministic calls that are otherwise the same.
    """

    judge: str
    prompt: Prompt
    form: Mapping[str, Any]
    repeat: int = 0

    @property
    def key(self) -> str:
        """`sha256:` and 64 hex digits."""
        depends = [self.judge, self.prompt.digest, self.form, self.repeat]
        text = json.dumps(depends, sort_keys=True, ensure_ascii=False)
        return "sha256:" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back.

    Attributes:
        content: JSON object: the text, or the probabilities.
        model: The name that came back with it.
        cost: In the currency of the judge's price; None where it has none.
        seconds: From the first attempt to the reply.
    """

    content: Mapping[str, Any]
    model: str
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    attempts: int
    cost: float | None
    seconds: float


class Ledger:
    """Calls and replies, in a file or in memory; use as a context manager.

    A reply that `put` has returned from survives the end of the process, however it comes; the
    last ones can be lost when the machine goes down. Several processes may share a file.

    Args:
        path: None keeps everything in memory.

    Raises:
        ConfigError: the file cannot be opened, or is no ledger of this version.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        try:
            if path is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(path or ":memory:", isolation_level=None, timeout=30)
            self._prepare()
        except (OSError, sqlite3.Error) as error:
            raise ConfigError(f"ledger {path}: {error}", "give another file") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def get(self, call: Call) -> Reply | None:
        """The reply to a call that was made before, or None."""
        with closing(
            self._db.execute(
                "SELECT reply, model, prompt_tokens, cached_tokens, completion_tokens, attempts,"
                " cost, seconds FROM calls WHERE key = ?",
                (call.key,),
            )
        ) as rows:
            row = rows.fetchone()
        return None if row is None else Reply(json.loads(row[0]), *row[1:])

    def put(self, call: Call, reply: Reply) -> None:
        """Keep a reply; the first one for a call stays."""
        parts = [
            {"text": part.text, "data": part.data}
            if isinstance(part, Text)
            else {"image": part.digest, "size": list(part.size), "name": part.name}
            for part in call.prompt.parts
        ]
        with closing(self._db.cursor()) as cursor:
            cursor.execute("BEGIN IMMEDIATE")
            try:
                cursor.execute(
                    "INSERT OR IGNORE INTO prompts VALUES (?, ?, ?)",
                    (call.prompt.digest, call.prompt.system, _json(parts)),
                )
                cursor.execute(
                    "INSERT OR IGNORE INTO calls VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    (
                        call.key,
                        call.judge,
                        call.prompt.digest,
                        _json(call.form),
                        call.repeat,
                        _json(reply.content),
                        reply.model,
                        reply.prompt_tokens,
                        reply.cached_tokens,
                        reply.completion_tokens,
                        reply.attempts,
                        reply.cost,
                        reply.seconds,
                        time.time(),
                    ),
                )
                cursor.execute("COMMIT")
            except BaseException:
                cursor.execute("ROLLBACK")
                raise

    @property
    def count(self) -> int:
        """How many calls it holds."""
        with closing(self._db.execute("SELECT count(*) FROM calls")) as rows:
            return int(rows.fetchone()[0])

    def _prepare(self) -> None:
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = NORMAL")
        self._db.execute("BEGIN IMMEDIATE")
        try:
            self._make_tables()
            self._db.execute("COMMIT")
        except BaseException:
            self._db.execute("ROLLBACK")
            self._db.close()
            raise

    def _make_tables(self) -> None:
        (version,) = self._db.execute("PRAGMA user_version").fetchone()
        if version == _VERSION:
            return
        if version != 0:
            raise ConfigError(
                f"ledger {self.path}: version {version}, this editjudge reads {_VERSION}",
                "give another file",
            )
        for statement in filter(str.strip, _TABLES.split(";")):
            self._db.execute(statement)
        self._db.execute(f"PRAGMA user_version = {_VERSION}")


def _json(value: object) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)
