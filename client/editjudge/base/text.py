"""Helpers for text: counts in sentences, lists grouped or cut short, text made safe."""

from collections.abc import Collection, Hashable, Iterable, Sequence
from difflib import get_close_matches
from typing import TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

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


def group_by_key(pairs: Iterable[tuple[K, V]]) -> dict[K, list[V]]:
    """Group values by their keys, such as names by the reason that they share; in their order."""
    groups: dict[K, list[V]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups


def one_line(error: BaseException) -> str:
    """Format an error in one line of at most 200 characters."""
    return " ".join(str(error).split())[:200] or type(error).__name__


def cut_middle(text: str, most: int) -> str:
    """Cut the middle out of a text of more than `most` characters, since names differ at ends."""
    if len(text) <= most:
        return text
    return f"{text[: most // 2]}…{text[len(text) - (most - most // 2 - 1) :]}"


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
