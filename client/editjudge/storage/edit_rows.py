"""Rows of the table `edits`: how verdicts are encoded in them, and which are valid today."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from pydantic import TypeAdapter
from pydantic_core import from_json

from ..base.item import Missing
from ..base.parse import parse_json
from ..base.verdict import Score, Verdict
from ..panel.calls import CallRecord
from .codec import digest_from_bytes
from .schema import decode_text

_VERDICT: TypeAdapter[Verdict] = TypeAdapter(Verdict)


class Provenance(NamedTuple):
    """The dimension of a verdict, its signature and the software that made it.

    Attributes:
        versions: Versions of the packages that it was made with; see `base.signature.versions`.
    """

    dimension: str
    signature: str
    versions: str


@dataclass(frozen=True, slots=True)
class StoredVerdict:
    """One verdict of a run.

    Attributes:
        versions: Versions of the packages that it was made with; see `base.signature.versions`.
        replies: Records of the calls that it rests on, in the order of its `calls`.
    """

    item: str
    model: str
    dimension: str
    verdict: Verdict
    signature: str
    versions: str = ""
    replies: tuple[CallRecord, ...] = ()

    @property
    def texts(self) -> tuple[str, ...]:
        """What judges wrote, reply by reply."""
        texts = (each.reply.get("text") for each in self.replies if isinstance(each.reply, dict))
        return tuple(text for text in texts if isinstance(text, str))


@dataclass(frozen=True, slots=True)
class StoredEdit:
    """One edit of a run.

    Attributes:
        id: The number of its row in this run.
        digest: Digest of the output; None where it is missing.
        missing: Why the output is missing; None where it is not.
    """

    id: int
    item: str
    model: str
    digest: str | None
    missing: Missing | None


class EditRow(NamedTuple):
    """A row of the table `edits`, as it is stored."""

    id: int
    item: bytes
    model: bytes
    content: bytes
    output: bytes | None
    missing: bytes | None
    stat: bytes
    signing: int
    outcomes: bytes
    details: bytes | None = None


def verdict_to_json(verdict: Verdict, calls: Collection[int]) -> tuple[Any, Any]:
    """Encode a verdict as JSON: a bare number or an object, and its evidence and calls.

    Raises:
        ValueError: a number in its evidence is not finite.
    """
    rest = verdict.model_dump(exclude={"evidence", "calls"}, exclude_defaults=True)
    number = isinstance(verdict, Score) and not verdict.imputed
    outcome = rest["value"] if number else {"status": verdict.status, **rest}
    evidence = getattr(verdict, "evidence", {})
    detail = {"evidence": evidence} if evidence else {}
    return outcome, (detail | ({"calls": list(calls)} if calls else {})) or None


def verdict_from_json(outcome: Any, evidence: Mapping[str, Any], calls: tuple[str, ...]) -> Verdict:
    """Decode what `verdict_to_json` returned."""
    evidence = dict(evidence)
    if not isinstance(outcome, dict):
        return Score(value=outcome, evidence=evidence, calls=calls)
    more = {"evidence": evidence, "calls": calls} if outcome["status"] != "failed" else {}
    return _VERDICT.validate_python(outcome | more)


def parse_outcomes(outcomes: bytes) -> list[Any]:
    """Parse the outcomes of a row, in the order of its `signing`."""
    try:
        parsed_outcomes: list[Any] = from_json(outcomes)
    except ValueError:  # it is strict about the lone surrogates that a judge may have written
        parsed_outcomes = list(parse_json(decode_text(outcomes)))
    return parsed_outcomes


def status_of(outcome: Any) -> str:
    """The status of an encoded verdict."""
    return str(outcome["status"]) if isinstance(outcome, dict) else "scored"


def stored_edit(row: EditRow) -> StoredEdit:
    """Make the edit of a row."""
    missing = missing_of(row)
    there = row.output is not None and missing is None
    digest = digest_from_bytes(row.output) if there and row.output is not None else None
    return StoredEdit(row.id, decode_text(row.item), decode_text(row.model), digest, missing)


def missing_of(row: EditRow) -> Missing | None:
    """Why the output of a row is missing; None where it is not."""
    return None if row.missing is None else Missing(*parse_json(decode_text(row.missing)))
