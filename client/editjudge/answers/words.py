"""A judge's words beside an answer: do they decline, deny it, give a reason, or another answer?

`words.toml` lists how judges say so.
"""

import re
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

from ..base.parse import package_tables

WORDS = 2
"""Raised whenever a judge's words beside an answer, or a reply that goes on after a choice, may be
read otherwise; what is judged by a contract that reads them names it."""
LONGEST = 600
"""The largest number of characters of a refusal, without the draft; longer words are none."""
LONGEST_REASON = 8192
"""The largest number of characters of a reason; the patterns take 10 microseconds for each."""
_LISTS = package_tables(__package__, "words.toml")
REFUSALS: Sequence[dict[str, Any]] = _LISTS["refusals"]
"""Patterns of refusals by language; `words.toml` explains its rows."""


def _pattern(first: Sequence[str], then: Sequence[str] = (), within: int = 20, unless: str = "", **_: str) -> str:
    after = rf"[^.。]{{0,{within}}}(?:{'|'.join(then)})" if then else ""
    return f"(?:{'|'.join(first)}){after}{unless}"


_JSON = re.compile(r"""[{\[]\s*["'{]|`{3}""")
_REFUSES = "|".join(_pattern(**row) for row in REFUSALS)
_ENDS = "|".join(last for row in _LISTS["denials"] for last in row["last"])
_DENIES = rf"(?:{_ENDS})[^\w.!?]*(?:`{{3}}\w*\s*)?$"
_LONGEST_DENIAL = 160
# The end of a line into which an object is put.
_CONTRADICTS = re.compile(rf"\b(?:{'|'.join(_LISTS['embedded']['words'])})\b[^.!?\n]*\Z", re.IGNORECASE)
_CONCLUDES = re.compile(rf"\b(?:{'|'.join(_LISTS['embedded']['conclusions'])})\W*$", re.IGNORECASE)
_REASONS, _OTHERS = _LISTS["reasons"], _LISTS["others"]
# What may stand between a choice and a reason: an end, a mark, or a word that begins a reason.
_SEPARATOR = re.compile(
    rf"""["'`“”\u2018\u2019«»*_)\]]*+
        (?:$|\s*[^\w\s/|?&+~=<>→⇒-]|\s*\n|\s+-|-\s|</|<\||\s+(?:{"|".join(_REASONS["connectors"])})\b)""",
    re.IGNORECASE | re.VERBOSE,
)
# Texts that a judge quotes from a picture, and that it has an opinion.
_ASIDE = re.compile(rf"\"[^\"\n]{{1,80}}\"|“[^”\n]{{1,80}}”|\b(?:{'|'.join(_REASONS['opinions'])})\b", re.IGNORECASE)
_TELLS_OF_ITSELF = "|".join(
    [
        rf"\b(?:{'|'.join(_REASONS['topics'])})\b",
        *_REASONS["signs"],
        *(rf"\b{row['speakers']}\b(?![^.!?;]{{0,60}}\b{row['perceives']}\b)" for row in _REASONS["speakers"]),
    ]
)
_CUES, _AFTER = ("|".join(_OTHERS[name]) for name in ("cues", "after"))
_NO_NEGATION = "".join(f"(?<!{word} )" for word in _OTHERS["negations"])


@cache
def _compile(pattern: str) -> re.Pattern[str]:
    """Of patterns that take milliseconds, once a reply is read."""
    return re.compile(pattern, re.IGNORECASE)


def is_refusal(words: str) -> bool:
    """Whether a judge declines in words, which stand beside an answer or in the place of one.

    A refusal is short. What stands in JSON is none, whatever its texts say.

    Args:
        words: What the judge says, without the draft.
    """
    words = _JSON.split(words, maxsplit=1)[0]
    plain = " ".join(words.replace("\u2019", "'").split())
    return len(words) <= LONGEST and _compile(_REFUSES).search(plain) is not None


def is_denial(words: str) -> bool:
    """Whether a judge's words say that the object which follows them is not its answer."""
    end = words[-_LONGEST_DENIAL:].replace("\u2019", "'")
    is_embedded = _CONTRADICTS.search(end) and not _CONCLUDES.search(end)
    return bool(_compile(_DENIES).search(end) or is_embedded)


def is_reason(words: str, others: Iterable[str]) -> bool:
    """Whether the words after a choice give a reason, and no other choice.

    Of two choices, the other one is a word of the language as well: `Yes, no trace is left`. It
    counts where it stands as an answer: before a mark or the end, after one (but for `no`), or
    after words such as `the answer is`. One of several other choices counts wherever it stands.

    Args:
        words: The reply after its first choice.
        others: The other choices.
    """
    if len(words) > LONGEST_REASON or not _SEPARATOR.match(words):
        return False
    own_words = _ASIDE.sub(" ", words).replace("\u2019", "'")
    if _compile(_TELLS_OF_ITSELF).search(own_words):
        return False
    others = tuple(map(re.escape, others))
    if len(others) > 1:
        return re.search(rf"\b(?:{'|'.join(others)})\b", words, re.IGNORECASE) is None
    (other,) = others
    patterns = [
        rf"{_NO_NEGATION}\b{other}\b(?=\s*(?:[^\w\s\"'“”-]|-\s|$))",
        rf"[/|][\s\"'“*]*{other}\b",
        rf"\b(?:{_CUES})[\s:]*[\"'“*]+{other}\b",
    ]
    if other.casefold() in _OTHERS["determiners"]:
        patterns.append(rf"\b{other}[\"'”*]*\s+(?:{_AFTER})\b")
    else:
        # A run of blanks and colons is read once, from where it begins.
        mark = rf"^|[.,;!?(*\u2014\u2013]|(?<![\s:])[^\S\n]*+[:\n]|\b(?:{_CUES})\b"
        patterns.append(rf"(?:{mark})[\s:]*+{other}\b")
    return re.search("|".join(patterns), words, re.IGNORECASE) is None
