"""What a reader says of data that is not all usable."""

from __future__ import annotations

from editjudge.benchmarks.dataset import Dataset


def list_flaws(data: Dataset) -> str:
    """All flaws of all items, then what is no item, one in a line."""
    flaws = [f"{r.id}: {f.reason}" for r in data.items() for f in data.flaws(r).values()]
    return "\n".join([*flaws, *(f"{where}: {what}" for where, what in data.list_rejected_entries())])
