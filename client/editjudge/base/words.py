"""Counts in sentences."""

from __future__ import annotations


def counted(count: int, single: str, several: str = "") -> str:
    """A count with what is counted: `1 item`, `2 items`, `3 entries`.

    Args:
        single: What is counted, where it is one; a verb may follow (`item has`).
        several: The same of several, or of none; by default with an s.
    """
    return f"{count:,} {single if count == 1 else several or f'{single}s'}"
