"""One request of a caller: what it took, and the line that the audit has of it."""

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

from .errors import code_of
from .usage import Meter

REQUEST_HEADER = "x-request-id"
"""Of the front door: its log has the same."""


_URGENT = "interactive"


def read_terms(headers: Mapping[str, str], seconds: float | None = None) -> CallTerms:
    """Those of class `interactive` go first; who says nothing is not one of them.

    Args:
        headers: As the front door says them; without one they are the caller's own word.
        seconds: For which the caller still waits; None where it does not say.
    """
    end = math.inf if seconds is None else asyncio.get_running_loop().time() + seconds
    return CallTerms(end, headers.get(CLASS_HEADER) == _URGENT)


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks, and how.

    Attributes:
        team: As the front door says; "" where nobody says.
        method: `Score`, or a route.
        request: The front door's number of the request, or one of our own. What callers call their
            requests may name people, so it is not taken.
    """

    team: str = ""
    method: str = ""
    request: str = ""
    terms: CallTerms = field(default_factory=CallTerms)

    @classmethod
    def of(cls, team: str, method: str, request: str, terms: CallTerms) -> Self:
        """A caller; a number of a request that is none becomes one of our own."""
        try:
            number = UUID(request)
        except ValueError:
            number = uuid4()
        return cls(team, method, str(number), terms)


class RequestAccount:
    """One request from its arrival to its answer; use as a context manager.

    Args:
        meter: Counts what it uses.
        ended: Told when it is over.

    Attributes:
        dimensions: How many were asked for, once it is known.
        edits: That are judged where it comes to an end; what only asks has none.
        is_split: Its edits account for themselves from here on; it itself says nothing more.
        code: What became of it, as gRPC names it; what is set stands, but for errors of ours.
        seconds: It took, at the end.
        notes: Of its calls.
    """

    def __init__(
        self,
        caller: Caller,
        meter: Meter,
        on_end: Callable[[RequestAccount], None],
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
            self.code = code_of(error)
        elif error is not None and self.code == "OK":
            self.code = "INTERNAL" if isinstance(error, Exception) else "CANCELLED"
        notes = self.notes
        self.meter.add(cached=notes.stored_count, calls=notes.answer_count)
        if self.code == "OK":
            # A specialist that did not answer has failed.
            self.meter.add(edits=self.edits, failed=notes.request_count - notes.answer_count)
        else:
            self.meter.add(refused=1)
        self._on_end(self)

    @property
    def line(self) -> str:
        """What the audit has of it, as JSON: no picture, no word of the request, no token."""
        used = asdict(self.meter.total)
        for name in ("edits", "refused"):
            del used[name]
        return json.dumps(
            {
                "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
                "team": self.caller.team,
                "method": self.caller.method,
                "request": self.caller.request,
                "dimensions": self.dimensions,
                "status": self.code,
                "milliseconds": round(self.seconds * 1000),
                **used,
            }
        )


class AuditLog:
    """A line for each request, in a file that may be moved away meanwhile, or on standard error.

    Args:
        where: The file; `-` is standard error, None nowhere.
        lost: Told of each line that could not be written.

    Raises:
        ConfigError: the file cannot be written.
    """

    def __init__(self, where: Path | None, lost: Callable[[], None] = lambda: None) -> None:
        self._where = where
        self._lost = lost
        self._failing = False
        if where is not None and not self._on_screen:
            try:
                self._add(where, "")
            except OSError as error:
                raise ConfigError(f"{where}: {error.strerror}", "give another file") from error

    def write(self, line: str) -> None:
        """Add a line; that it cannot be written is told once, and costs no request."""
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
            self._lost()
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
