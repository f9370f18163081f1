"""A server's replies, failures above all: read once, in every provider's dialect."""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any

_POLICY_CODES = re.compile(
    r"content_?filter|content_?policy|moderation|responsible_?ai|data_?inspection|safety",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class HttpReply:
    """What came back: a success, or a failure that asking again does not mend.

    Attributes:
        data: The JSON; None for a failure without.
        words: A failure in the server's own words, shortened, without secrets.
        codes: Its machine-readable codes, in one line.
        param: The request's field that it complains of; empty where it names none.
        again: Whether the server says that asking again can help; None where it does not.
        retry_after: Seconds that it asks to wait.
        attempts: Requests made.
    """

    status: int
    data: Any = None
    words: str = ""
    codes: str = ""
    param: str = ""
    again: bool | None = None
    retry_after: float | None = None
    attempts: int = 1

    @property
    def ok(self) -> bool:
        """Whether it is a success."""
        return 200 <= self.status < 300


def failure_of(data: Any) -> tuple[str, str, str]:
    """The words of an error body, its codes, and the field that it names."""
    if not isinstance(data, dict):
        return "", "", ""
    error = data.get("error", data)
    if not isinstance(error, dict):
        return str(error), "", ""
    inner = error.get("innererror")  # Azure's
    codes = [error.get("code"), error.get("type")]
    codes += [inner.get("code")] if isinstance(inner, dict) else []
    words = error.get("message") or error.get("detail") or data.get("detail") or ""
    return (
        words if isinstance(words, str) else json.dumps(words),
        " ".join(str(code) for code in codes if code),
        str(error.get("param") or ""),
    )


def blocked(reply: HttpReply) -> bool:
    """Whether a policy of the provider stopped the call."""
    if "invalid_prompt" in reply.codes:
        return "policy" in reply.words
    return _POLICY_CODES.search(reply.codes) is not None


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds; None where the header is missing or unreadable."""
    for name, unit in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        value = headers.get(name, "")
        try:
            seconds = float(value) * unit
        except ValueError:
            continue
        if math.isfinite(seconds):
            return max(seconds, 0.0)
    try:
        at = parsedate_to_datetime(headers.get("retry-after", "")).timestamp()
    except (ValueError, OverflowError):  # no date, or one that no calendar here has
        return None
    return max(at - time.time(), 0.0)


def address(location: str) -> str:
    """Where a redirect goes, without its query, which may hold what was sent."""
    return location.partition("?")[0] or "nowhere"
