"""Helpers for text: counts in sentences, lists cut short, formulas and surrogates made safe."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from difflib import get_close_matches

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def format_count(count: int, single: str, several: str = "") -> str:
    """Format a count with its noun: `1 item`, `2 items`, `3 entries`.

    Args:
        single: The noun in the singular; a verb may follow (`item has`).
        several: The plural, also for 0; by default the singular with an s.
    """
    return f"{count:,} {single if count == 1 else several or f'{single}s'}"


def shorten_list(names: Sequence[str], most: int = 3) -> str:
    """List the first names, and say how many more there are."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def suggest_name(name: str, names: Collection[str], otherwise: str = "") -> str:
    """Suggest the name that resembles one that does not exist.

    Args:
        otherwise: What to say if none does; by default all names.
    """
    near = get_close_matches(name.lower(), names, n=1, cutoff=0.65)
    return f"did you mean {near[0]}?" if near else otherwise or f"there is {', '.join(names)}"


def escape_formula(value: object) -> object:
    """Put an apostrophe before text that a spreadsheet would take for a formula."""
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value


def join_surrogates(text: str) -> str:
    """Join surrogate pairs and replace lone surrogates, so that the text can be encoded."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
