"""The ledger: every call to a service and its reply, so that none is paid for twice.

One SQLite file, content-addressed: a call's key is the digest of everything its reply can
depend on. Replies are kept raw, so reading them by other rules needs no new call.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ..digest import content_digest
from ..errors import Abstained
from ..panel.prompt import Prompt, Text
from .codec import (
    Outputs,
    digest_from_bytes,
    digest_to_bytes,
    dumps,
    outputs_from_bytes,
    outputs_to_bytes,
    pack,
    unpack,
)
from .database import Database


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

    @cached_property
    def key(self) -> str:
        """`sha256:` and 64 hex digits."""
        return _key([self.judge, self.prompt.digest, self.form, self.repeat])


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


@dataclass(frozen=True)
class SpecialistCall:
    """One request to one specialist.

    Attributes:
        service: `role.variant`.
        identity: Which model it is, as in signatures.
        inputs: Digest of each tensor's bytes, by its name.
        parameters: What travels beside them.
    """

    service: str
    identity: str
    inputs: Mapping[str, str]
    parameters: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def key(self) -> str:
        """`sha256:` and 64 hex digits."""
        return _key(["specialist", self.service, self.identity, self.inputs, self.parameters])

    @property
    def role(self) -> str:
        """The role whose contract it follows."""
        return self.service.partition(".")[0]


class Ledger:
    """Calls and replies, in a file or in memory; use as a context manager.

    A reply that `put` has returned from survives the end of the process, however it comes; the
    last ones can be lost when the machine goes down. Several processes may share a file.

    Args:
        path: None keeps everything in memory.
        database: An open file instead, which stays open when the ledger is closed.

    Raises:
        ConfigError: the file cannot be opened, is no ledger, or of a newer editjudge.
        StoreError: the file is damaged; later also: its disk is full.
    """

    def __init__(self, path: Path | None = None, *, database: Database | None = None) -> None:
        self._owned = database is None
        self._database = database or Database(path)
        self.path = self._database.path

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        if self._owned:
            self._database.close()

    def get(self, call: Call) -> Reply | None:
        """The reply to a call that was made before, or None."""
        row = self._database.one(
            "SELECT reply, model, prompt_tokens, cached_tokens, completion_tokens, attempts,"
            " cost, seconds FROM calls WHERE key = ? AND dropped = 0",
            digest_to_bytes(call.key),
        )
        if row is None:
            return None
        return Reply(unpack(row[0]), self._database.text(row[1]), *row[2:])

    def put(self, call: Call, reply: Reply) -> None:
        """Keep a reply; the first one for a call stays."""
        with self._database.transaction():
            self._keep(
                call.key,
                service=self._database.intern(call.judge),
                form=self._database.intern(_json(call.form)),
                prompt=self._prompt(call.prompt),
                repeat=call.repeat,
                reply=pack(reply.content),
                model=self._database.intern(reply.model),
                prompt_tokens=reply.prompt_tokens,
                cached_tokens=reply.cached_tokens,
                completion_tokens=reply.completion_tokens,
                attempts=reply.attempts,
                cost=reply.cost,
                seconds=reply.seconds,
            )

    def outputs(self, call: SpecialistCall) -> Outputs | None:
        """What a specialist returned before, or None.

        Raises:
            Abstained: it said that there is no value for this input.
        """
        row = self._database.one(
            "SELECT reply, abstained FROM calls WHERE key = ? AND dropped = 0",
            digest_to_bytes(call.key),
        )
        if row is None:
            return None
        if row[1]:
            said = unpack(row[0])
            raise _abstained(call, said["kind"], said["reason"])
        return outputs_from_bytes(row[0])

    def keep_outputs(
        self,
        call: SpecialistCall,
        outputs: Mapping[str, NDArray[np.float32] | bytes],
        seconds: float,
    ) -> Outputs:
        """Keep what a specialist returned; the first for a call stays.

        Args:
            seconds: What the call took, attempts included.

        Returns:
            The outputs as they will come back from now on; see `codec`.
        """
        stored = outputs_to_bytes(call.role, outputs)
        self._keep_specialist(call, stored, seconds, abstained=False)
        kept = self.outputs(call)
        return outputs_from_bytes(stored) if kept is None else kept

    def keep_abstention(
        self, call: SpecialistCall, kind: str, reason: str, seconds: float = 0.0
    ) -> Abstained:
        """Keep that a specialist said there is no value for this input.

        Returns:
            What `outputs` raises from now on, to be raised: its evidence names the call.
        """
        stored = pack({"kind": kind, "reason": reason})
        self._keep_specialist(call, stored, seconds, abstained=True)
        return _abstained(call, kind, reason)

    def drop(self, keys: Iterable[str]) -> int:
        """Forget the replies to calls, so that they are made again.

        Verdicts that rest on them can still show them.

        Returns:
            How many there were.
        """
        with self._database.transaction():
            return sum(
                self._database.run(
                    "UPDATE calls SET dropped = 1 WHERE key = ? AND dropped = 0",
                    digest_to_bytes(key),
                ).rowcount
                for key in keys
            )

    def fact(self, name: str) -> str | None:
        """Something found out about a service before, or None."""
        row = self._database.one("SELECT value FROM facts WHERE name = ?", name)
        return None if row is None else str(row[0])

    def keep_fact(self, name: str, value: str) -> None:
        """Keep what was found out; the last stays."""
        with self._database.transaction():
            self._database.run("INSERT OR REPLACE INTO facts VALUES (?, ?)", name, value)

    @property
    def count(self) -> int:
        """How many calls it can answer."""
        row = self._database.one("SELECT count(*) FROM calls WHERE dropped = 0")
        return int(row[0]) if row else 0

    @property
    def costs(self) -> tuple[float, float]:
        """What all its calls have cost, and the dearest of them."""
        row = self._database.one("SELECT sum(cost), max(cost) FROM calls")
        spent, dearest = row or (None, None)
        return float(spent or 0.0), float(dearest or 0.0)

    def _keep_specialist(
        self, call: SpecialistCall, stored: bytes, seconds: float, *, abstained: bool
    ) -> None:
        with self._database.transaction():
            self._keep(
                call.key,
                service=self._database.intern(call.identity),
                form=self._database.intern(
                    _json({"service": call.service, "parameters": call.parameters})
                ),
                inputs=pack(dict(call.inputs)),
                reply=stored,
                abstained=abstained,
                seconds=seconds,
            )

    def _keep(self, key: str, **columns: object) -> None:
        columns = {"key": digest_to_bytes(key), **columns, "made": time.time()}
        # Names of columns are written in this file, never data.
        self._database.run(
            f"INSERT OR IGNORE INTO calls ({', '.join(columns)})"  # noqa: S608
            f" VALUES ({', '.join('?' * len(columns))})",
            *columns.values(),
        )

    def _prompt(self, prompt: Prompt) -> int:
        digest = digest_to_bytes(prompt.digest)
        if row := self._database.one("SELECT id FROM prompts WHERE digest = ?", digest):
            return int(row[0])
        parts = [
            {"text": part.text, "data": part.data}
            if isinstance(part, Text)
            else {"image": part.digest, "size": list(part.size), "name": part.name}
            for part in prompt.parts
        ]
        made = self._database.run(
            "INSERT INTO prompts (digest, system, parts) VALUES (?, ?, ?)",
            digest,
            self._database.intern(prompt.system),
            pack(parts),
        )
        return int(made.lastrowid or 0)


def said_by(database: Database, ids: Iterable[int]) -> bytes:
    """What evidence that rests on these calls is likely to repeat: see `codec.deflated`.

    It is part of the stored form of evidence, so it stays as it is.
    """
    texts = []
    for number in ids:
        row = database.one(
            "SELECT calls.reply, calls.key, calls.model, prompts.digest, calls.prompt_tokens,"
            " calls.cached_tokens, calls.completion_tokens, calls.cost FROM calls"
            " JOIN prompts ON prompts.id = calls.prompt WHERE calls.id = ?",
            number,
        )
        if row is None:
            continue
        usage = dict(
            zip(
                ("prompt_tokens", "cached_tokens", "completion_tokens", "cost"),
                row[4:],
                strict=True,
            )
        )
        texts.append(
            dumps(
                [
                    unpack(row[0]),
                    {
                        "call": digest_from_bytes(row[1]),
                        "judge": database.text(row[2]),
                        "prompt": digest_from_bytes(row[3]),
                        "usage": {"calls": 1, **usage},
                    },
                ]
            )
        )
    return "".join(texts).encode("utf-8", "surrogatepass")


def _abstained(call: SpecialistCall, kind: str, reason: str) -> Abstained:
    return Abstained(kind, reason, {"call": call.key})


def _key(depends: list[object]) -> str:
    text = _json(depends)
    return content_digest(text.encode("utf-8", "surrogatepass"))


def _json(value: object) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False, default=dict)
