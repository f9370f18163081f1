"""Recognise refusals: replies in which a judge says in words that it will give no answer."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ..base.parse import package_tables
from .reply import ReplyText, Unparsable

LONGEST = 600
"""The largest number of characters of a refusal, without the draft; a longer reply is none."""
REFUSALS: Sequence[dict[str, Any]] = package_tables(__package__, "refusals.toml")["refusals"]
"""Patterns of refusals by language; `refusals.toml` explains its rows."""


def _pattern(first: Sequence[str], then: Sequence[str] = (), within: int = 20, **_: str) -> str:
    after = rf"[^.。]{{0,{within}}}(?:{'|'.join(then)})" if then else ""
    return f"(?:{'|'.join(first)}){after}"


_REFUSES = re.compile("|".join(_pattern(**row) for row in REFUSALS), re.IGNORECASE)


def is_refusal(reply: str) -> bool:
    """Whether a reply without a valid answer is a refusal.

    A refusal is short and in words. A reply in JSON is none, whatever its texts say.
    """
    try:
        text = ReplyText(reply).last.strip()
    except Unparsable:
        return False
    if len(text) > LONGEST or text.startswith(("{", "[", "```")):
        return False
    return _REFUSES.search(" ".join(text.replace("\u2019", "'").split())) is not None
