"""Accounting of requests: the caller, the usage and the line in the audit log of each request."""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Self
from uuid import UUID, uuid4

from editjudge.base.contracts import CLASS_HEADER, TEAM_HEADER, TOKENS_HEADER
from editjudge.base.errors import EditjudgeError, InputError
from editjudge.base.strict import list_fields
from editjudge.service import CallLog, CallTerms

from .errors import find_code
from .token_reports import TokenReport
from .usage import Meter

REQUEST_ID_HEADER = "x-request-id"
"""The header with the id that the front door gives a request and writes into its access log."""
_INTERACTIVE = "interactive"
WAIT_SECONDS = 30.0
"""How long a request without a deadline waits for room."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Where a request comes from: its team, method and id, with its priority and deadline.

    Attributes:
        team: The name of the team, which the front door sets; "" without a front door.
        method: The gRPC method, for example `Score`, or the HTTP route.
        request_id: The front door's id of the request, a UUID; otherwise a new UUID. Other ids come
            from callers and are not used, since they may contain personal data.
        terms: The priority and the deadline of the request.
        waits_until: When the request no longer waits for room, by the event loop's clock.
        is_counted: Whether the front door deducts the tokens that the answer reports.
    """

    team: str = ""
    method: str = ""
    request_id: str = ""
    terms: CallTerms = field(default_factory=CallTerms)
    waits_until: float = math.inf
    is_counted: bool = False

    @property
    def owner(self) -> str:
        """Whose limits it is under: without a front door health checks do not share with edits."""
        return self.team or self.method

    @classmethod
    def of(cls, headers: Mapping[str, str], method: str, seconds: float | None = None) -> Self:
        """Make a caller of the headers of a request, in which a front door overwrites claims.

        An id that is not a UUID is replaced by a new one. The request waits for room until its
        deadline, or 30 seconds.

        Args:
            seconds: The time that is left until the caller's deadline; None if it set no deadline.
        """
        try:
            number = UUID(str(headers.get(REQUEST_ID_HEADER, "")))
        except ValueError:
            number = uuid4()
        now = asyncio.get_running_loop().time()
        deadline = math.inf if seconds is None else now + seconds
        until = now + WAIT_SECONDS if seconds is None else deadline
        # Interactive calls have priority; a request without a class has none.
        terms = CallTerms(deadline, headers.get(CLASS_HEADER) == _INTERACTIVE)
        team, is_counted = headers.get(TEAM_HEADER, ""), TOKENS_HEADER in headers
        return cls(team, method, str(number), terms, until, is_counted)

    @classmethod
    def of_call(cls, context: Any, method: str) -> Self:
        """Make a caller of the metadata of a gRPC call."""
        headers = dict(context.invocation_metadata() or ())
        return cls.of(headers, method, context.time_remaining())


@dataclass(eq=False)
class RequestAccount:
    """The usage, duration and status of one request; a context manager around its processing.

    The account is closed when the block is left, exactly once: after a success, an error or a
    cancellation.

    Attributes:
        meter: Counts the usage of the request.
        report: Reports its tokens.
        on_end: Called with the account when it is closed.
        dimensions: The number of requested dimensions; 0 until they are selected.
        edits: The number of edits that are counted if the request succeeds; 0 for requests that
            judge no edit.
        is_split: Whether each edit of the request has an account of its own. This account is then
            not reported, unless the request is refused as a whole.
        code: The gRPC status code by name. An `EditjudgeError` that leaves the block sets it; any
            other error sets it only if it is still `OK`.
        seconds: The duration; 0 until the account is closed.
        call_log: Counts the calls of the request and the replies from the cache.
    """

    caller: Caller
    meter: Meter
    report: TokenReport
    on_end: Callable[[RequestAccount], None]
    dimensions: int = 0
    edits: int = 1
    is_split: bool = False
    code: str = "OK"
    seconds: float = 0.0
    call_log: CallLog = field(default_factory=CallLog)
    _began: float = field(default_factory=time.monotonic)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.is_split and not isinstance(error, InputError):
            return
        self.seconds = time.monotonic() - self._began
        if isinstance(error, EditjudgeError):
            self.code = find_code(error)
        elif error is not None and self.code == "OK":
            self.code = "INTERNAL" if isinstance(error, Exception) else "CANCELLED"
        notes = self.call_log
        more = {"refused": 1}
        if self.code == "OK":
            # A specialist call without an answer has failed.
            more = {"edits": self.edits, "failed": notes.request_count - notes.answer_count}
        self.meter.add(cached=notes.stored_count, calls=notes.answer_count, **more)
        self.on_end(self)

    @property
    def is_refusal(self) -> bool:
        """Whether it failed before any call was made for it."""
        total = self.meter.total
        return self.code != "OK" and not (total.calls or total.cached or total.failed)

    def make_audit_line(self, requests: int = 1) -> str:
        """Make the line for the audit log, as JSON, without images, texts or API tokens.

        Args:
            requests: How many refused requests it stands for.
        """
        counts = {name: n for name, n in list_fields(self.meter.total).items() if name not in {"edits", "refused"}}
        return json.dumps(
            {
                "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
                "team": self.caller.team,
                "method": self.caller.method,
                "request": self.caller.request_id,
                "dimensions": self.dimensions,
                "status": self.code,
                "milliseconds": round(self.seconds * 1000),
                **({"requests": requests} if requests > 1 else {}),
                **counts,
            }
        )
