"""What a stored verdict says of the dimensions that it was made of, where these were not asked for.

One reply often holds several scores. A composite that was asked for keeps them beside its value, so
they can be told, and composed by other rules, without a call.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..base.signature import Signature
from ..base.verdict import Scored
from ..benchmarks.dimension import Derived, Dimension
from ..storage.store import StoredVerdict


def of_parts(
    stored: StoredVerdict, known: Mapping[str, Dimension], today: Mapping[str, Signature]
) -> dict[str, Scored]:
    """The values of a verdict's parts, by dimension id.

    Args:
        stored: With its evidence.
        known: All dimensions by id.
        today: Their signatures: a part counts that was made as it would be now.
    """
    dimension, verdict = known.get(stored.dimension), stored.verdict
    if dimension is None or not isinstance(dimension.how, Derived):
        return {}
    if not isinstance(verdict, Scored) or verdict.imputed:
        return {}
    values = verdict.evidence.get("parts")
    told = dict(Signature.parsed(stored.signature).fields).get("parts", "")
    made = dict(part.rpartition("=")[::2] for part in told.split("+"))
    if not isinstance(values, Mapping):
        return {}
    parts: dict[str, Scored] = {}
    for name, of in dimension.how.of.items():
        value = values.get(name)
        if not isinstance(of, str) or of not in today or not isinstance(value, float):
            continue
        if made.get(name) == today[of].digest:
            parts[of] = Scored(value=value, evidence={"from": stored.dimension})
    return parts
