"""Refusals in words: replies without an answer in which a judge says that it will give none."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ..base.parse import package_tables
from .reply import ReplyText, Unparsable

LONGEST = 600
"""Of a refusal, in characters without the draft: whoever says more has judged."""
REFUSALS: Sequence[dict[str, Any]] = package_tables(__package__, "refusals.toml")["refusals"]
"""How each language declines; the file says how to read a row."""


def _pattern(first: Sequence[str], then: Sequence[str] = (), within: int = 20, **_: str) -> str:
    after = rf"[^.。]{{0,{within}}}(?:{'|'.join(then)})" if then else ""
    return f"(?:{'|'.join(first)}){after}"


_REFUSES = re.compile("|".join(_pattern(**row) for row in REFUSALS), re.IGNORECASE)


def is_refusal(reply: str) -> bool:
    """Whether a reply that holds no answer is a refusal in words.

    It is short, and it speaks: what is written as JSON is none, whatever its texts say.
    """
    try:
        text = ReplyText(reply).last.strip()
    except Unparsable:
        return False
    if len(text) > LONGEST or text.startswith(("{", "[", "```")):
        return False
    return _REFUSES.search(" ".join(text.replace("\u2019", "'").split())) is not None
