"""Tells by its words whether a question about an edited image compares it with the source."""

import re
from collections.abc import Iterable

from ..base.parse import package_tables

_WORDS = package_tables(__package__, "comparison_words.toml")
PLACES: tuple[str, ...] = tuple(_WORDS["places"])
"""Places that people and things stand before."""
_TEXT = "\x00"
"""Replaces quoted text."""
_OTHER_IMAGE = re.compile(
    _WORDS["other_image"].format(
        **{name: "|".join(_WORDS[name]) for name in ("places", "happened", "done")}, text=_TEXT
    ),
    re.IGNORECASE | re.VERBOSE,
)
_BEFORE_IN_TEXT = re.compile(rf"\b({'|'.join(_WORDS['in_text'])})s?\ before\b", re.IGNORECASE)
_QUOTATION = re.compile(r"""(?<!\w)(?:"[^"]*"|'(?=\S)[^']*'|\u201c[^\u201d]*\u201d|\u2018[^\u2019]*\u2019)(?!\w)""")
"""Text in quotes; an apostrophe within a word is no quote."""
_SO_CALLED = re.compile(r"""(?<!\w)["'\u201c\u2018](\w+)["'\u201d\u2019](?=\s+(image|picture|photo))""", re.IGNORECASE)
"""One word in quotes that says which image: the "original" image."""


def refers_to_source(question: str, options: Iterable[str]) -> bool:
    """Whether the words of a question or an option refer to the source (section 3.5).

    This stands in where nobody decided it (`gie.release.COMPARES`, `compares` of a question). The
    paper shows the source where the question asks for a comparison, and does not say how that is
    told. Here words tell: those that name the other image (original, first image, unedited, both
    images, …), a time before (before, previously, used to be, …), those of comparing (compared,
    different, changed, unchanged, stayed the same), and those of what became of something (was
    removed, has been moved, did it disappear). What is quoted does not count, since it is text in
    the image, unless it is one word that says which image is meant. Where in doubt the source is
    shown: a question that needs it cannot be answered without.
    """
    return any(_OTHER_IMAGE.search(_remove_quotes(text)) for text in (question, *options))


def _remove_quotes(text: str) -> str:
    """Remove quoted text, and leave single spaces."""
    plain_text = _QUOTATION.sub(f" {_TEXT} ", _SO_CALLED.sub(r"\1", text))
    return _BEFORE_IN_TEXT.sub(r"\1", " ".join(plain_text.split()))
