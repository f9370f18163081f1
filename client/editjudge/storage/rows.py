"""Rows of a run, read."""

from __future__ import annotations

from dataclasses import dataclass

from ..base.files import Seen
from ..base.item import Missing
from ..base.verdict import Verdict
from ..panel.said import Said


@dataclass(frozen=True, slots=True)
class StoredVerdict:
    """One verdict of a run.

    Attributes:
        versions: Of the packages that it was made with; see `base.signature.versions`.
        said: What came back from the calls that it rests on, in the order of its `calls`.
    """

    item: str
    model: str
    dimension: str
    verdict: Verdict
    signature: str
    versions: str = ""
    said: tuple[Said, ...] = ()


@dataclass(frozen=True, slots=True)
class StoredEdit:
    """One edit of a run.

    Attributes:
        id: Its number in this run.
        digest: Of the output; None where it is missing.
        missing: Why it is; None where it is not.
        seen: Its file; None where there is none, or nobody kept it.
    """

    id: int
    item: str
    model: str
    digest: str | None
    missing: Missing | None
    seen: Seen | None = None
