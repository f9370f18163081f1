"""Recognise refusals: replies in which a judge says in words that it will give no answer."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ..base.parse import package_tables

WORDS = 1
"""Raised whenever a judge's words beside an answer, or a reply that goes on after a choice, may be
read otherwise; what is judged by a contract that reads them names it."""
LONGEST = 600
"""The largest number of characters of a refusal, without the draft; a longer reply is none."""
REFUSALS: Sequence[dict[str, Any]] = package_tables(__package__, "refusals.toml")["refusals"]
"""Patterns of refusals by language; `refusals.toml` explains its rows."""


def _pattern(first: Sequence[str], then: Sequence[str] = (), within: int = 20, **_: str) -> str:
    after = rf"[^.。]{{0,{within}}}(?:{'|'.join(then)})" if then else ""
    return f"(?:{'|'.join(first)}){after}"


_JSON = re.compile(r"""[{\[]\s*["'{]|`{3}""")
_REFUSES = re.compile("|".join(_pattern(**row) for row in REFUSALS), re.IGNORECASE)


def is_refusal(words: str) -> bool:
    """Whether a judge declines in words, which stand beside an answer or in the place of one.

    A refusal is short. What stands in JSON is none, whatever its texts say.

    Args:
        words: What the judge says, without the draft.
    """
    words = _JSON.split(words, 1)[0]
    if len(words) > LONGEST:
        return False
    return _REFUSES.search(" ".join(words.replace("\u2019", "'").split())) is not None
