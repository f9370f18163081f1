"""Counts in sentences."""

from __future__ import annotations

from collections.abc import Sequence

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def format_count(count: int, single: str, several: str = "") -> str:
    """A count with what is counted: `1 item`, `2 items`, `3 entries`.

    Args:
        single: What is counted, where it is one; a verb may follow (`item has`).
        several: The same of several, or of none; by default with an s.
    """
    return f"{count:,} {single if count == 1 else several or f'{single}s'}"


def shorten_list(names: Sequence[str], most: int = 3) -> str:
    """The first of some names, and how many more there are."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def escape_formula(value: object) -> object:
    """Text that a spreadsheet would compute, behind the apostrophe that marks it as text."""
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value


def join_surrogates(text: str) -> str:
    """Surrogate pairs joined, and halves without a partner replaced: text that can be stored."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
