"""What `prepare` made, as JSON."""

from __future__ import annotations

from pathlib import Path

from .base import Number, Wire


class Prepared(Wire):
    """`prepare questions --json` and `prepare masks --json`.

    Attributes:
        counts: Items by what became of them.
        reasons: Of those that are `not_found`, `unsuited` or `failed`, by item.
        services: Identities of those that made it.
        data: The items with what was made.
        review: The page on which people decide.
    """

    what: str
    counts: dict[str, int]
    reasons: dict[str, dict[str, str]]
    services: dict[str, str]
    usage: dict[str, Number]
    data: Path
    review: Path
    exit_code: int


class Reviewed(Wire):
    """`prepare review --json`.

    Attributes:
        rejected: Items with what was noted.
        undecided: Items.
        untouched: How many nothing was made for.
    """

    accepted: int
    rejected: dict[str, str]
    undecided: tuple[str, ...]
    untouched: int
    accepted_data: Path
    rejected_data: Path


class Converted(Wire):
    """`prepare gie --json`.

    Attributes:
        usage: What it took to decide which questions compare; empty where words decide.
    """

    data: Path
    items: int
    bytes: int
    data_digest: str
    notes: tuple[str, ...]
    usage: dict[str, Number]
