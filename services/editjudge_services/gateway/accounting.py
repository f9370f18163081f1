"""Accounting of requests: who calls, what a request used, and its line in the audit log."""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self
from uuid import UUID, uuid4

from editjudge.base.contracts import CLASS_HEADER
from editjudge.base.errors import ConfigError, EditjudgeError
from editjudge.base.local_stack import private
from editjudge.base.terminal import print_notice
from editjudge.service import CallLog, CallTerms

from .errors import find_code
from .usage import Meter

REQUEST_HEADER = "x-request-id"
"""The header with the front door's id of a request, which its own log has too."""


_URGENT = "interactive"


def read_terms(headers: Mapping[str, str], seconds: float | None = None) -> CallTerms:
    """Read the class and the deadline of a request from its headers.

    Calls of class `interactive` go first. A request without a class is not one of them.

    Args:
        headers: The front door sets them. Without a front door they are the caller's own claim.
        seconds: How long the caller still waits; None where it sets no deadline.
    """
    end = math.inf if seconds is None else asyncio.get_running_loop().time() + seconds
    return CallTerms(end, headers.get(CLASS_HEADER) == _URGENT)


@dataclass(frozen=True, slots=True)
class Caller:
    """The sender of a request, and how it was sent.

    Attributes:
        team: The team as the front door names it; "" where no front door does.
        method: The gRPC method, for example `Score`, or the HTTP route.
        request: The front door's id of the request, else a new UUID. An id that the caller chose
            may name people, so it is not used.
        terms: The class and the deadline of the request.
    """

    team: str = ""
    method: str = ""
    request: str = ""
    terms: CallTerms = field(default_factory=CallTerms)

    @classmethod
    def of(cls, team: str, method: str, request: str, terms: CallTerms) -> Self:
        """Make a caller; a request id that is no UUID is replaced by a new one."""
        try:
            number = UUID(request)
        except ValueError:
            number = uuid4()
        return cls(team, method, str(number), terms)


class RequestAccount:
    """The account of one request from its arrival to its answer; use it as a context manager.

    When the block is left, the account is closed exactly once: after a success, an error or a
    cancellation.

    Args:
        meter: Counts what the request uses.
        on_end: Called with the account when the request is over.

    Attributes:
        dimensions: How many dimensions were requested; 0 until they are selected.
        edits: How many edits a success counts; 0 for requests that judge nothing.
        is_split: Whether the edits of the request have accounts of their own. This account then
            reports nothing.
        code: The outcome as gRPC names it. A code that was set before stays, except where the
            block ends with an `EditjudgeError`.
        seconds: The duration; 0 until the request is over.
        notes: What the request's calls reported.
    """

    def __init__(
        self, caller: Caller, meter: Meter, on_end: Callable[[RequestAccount], None]
    ) -> None:
        self.caller = caller
        self.meter = meter
        self.notes = CallLog()
        self.dimensions = 0
        self.edits = 1
        self.is_split = False
        self.code = "OK"
        self.seconds = 0.0
        self._on_end = on_end
        self._began = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.is_split:
            return
        self.seconds = time.monotonic() - self._began
        if isinstance(error, EditjudgeError):
            self.code = find_code(error)
        elif error is not None and self.code == "OK":
            self.code = "INTERNAL" if isinstance(error, Exception) else "CANCELLED"
        notes = self.notes
        self.meter.add(cached=notes.stored_count, calls=notes.answer_count)
        if self.code == "OK":
            # A specialist call without an answer has failed.
            self.meter.add(edits=self.edits, failed=notes.request_count - notes.answer_count)
        else:
            self.meter.add(refused=1)
        self._on_end(self)

    @property
    def line(self) -> str:
        """The audit line as JSON, which holds no image, no text of the request and no API token."""
        counts = asdict(self.meter.total)
        for name in ("edits", "refused"):
            del counts[name]
        return json.dumps(
            {
                "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
                "team": self.caller.team,
                "method": self.caller.method,
                "request": self.caller.request,
                "dimensions": self.dimensions,
                "status": self.code,
                "milliseconds": round(self.seconds * 1000),
                **counts,
            }
        )


class AuditLog:
    """The audit log, with one line of JSON for each request.

    The file is opened for each line, so log rotation may move it away at any time. A line that
    cannot be written is lost, and the request is answered all the same.

    Args:
        where: The file; `-` is standard error, None writes nothing.
        on_loss: Called for each line that could not be written.

    Raises:
        ConfigError: the file cannot be written.
    """

    def __init__(self, where: Path | None, on_loss: Callable[[], None] = lambda: None) -> None:
        self._where = where
        self._on_loss = on_loss
        self._failing = False
        if where is not None and not self._on_screen:
            try:
                self._add(where, "")
            except OSError as error:
                raise ConfigError(f"{where}: {error.strerror}", "give another file") from error

    def write(self, line: str) -> None:
        """Add a line; the first of several failures in a row is logged."""
        if self._where is None:
            return
        if self._on_screen:
            print_notice(line)
            return
        try:
            self._add(self._where, f"{line}\n")
        except OSError as error:
            if not self._failing:
                print_notice(f"{self._where}: lines of the audit are lost: {error.strerror}")
            self._failing = True
            self._on_loss()
        else:
            self._failing = False

    @property
    def _on_screen(self) -> bool:
        return str(self._where) == "-"

    @staticmethod
    def _add(where: Path, text: str) -> None:
        # Opened each time: it may have been moved away, as logs are.
        with open(where, "a", encoding="utf-8", opener=private) as file:
            file.write(text)
