"""One judged edit as strict JSON."""

from __future__ import annotations

import json
from typing import Any

from ..dimension import Dimension
from ..images import Image, Mask
from ..item import Edit
from ..run.judge import Judgement
from ..signature import Signature
from ..verdict import Outcome, Scored

_STATUS = {"not_applicable": "unscored", "not_served": "unscored", "missing_output": "unscored"}


def as_json(judgement: Judgement) -> dict[str, Any]:
    """A judged edit as plain data: no NaN, no infinity.

    Returns:
        `{"sample", "verdicts": [...], "services", "usage"}`; a verdict's `status` is `scored`,
        `unscored` or `failed`, and `kind` tells the reasons for `unscored` apart.
    """
    return {
        "sample": _sample(judgement.edit),
        "verdicts": [
            verdict(judgement.dimensions[name], outcome, judgement.signatures[name])
            | {
                "untrained": name in judgement.untrained,
                "prompts": judgement.dimensions[name].words,
            }
            for name, outcome in judgement.outcomes.items()
        ],
        "services": dict(judgement.services),
        "usage": dict(judgement.usage),
    }


def dumps(data: object) -> str:
    """Strict JSON text.

    Raises:
        ValueError: a number is not finite; a defect, since verdicts refuse such numbers.
    """
    return json.dumps(data, allow_nan=False, ensure_ascii=False, indent=2)


def verdict(dimension: Dimension, outcome: Outcome, signature: Signature) -> dict[str, Any]:
    """One verdict as plain data."""
    scored = isinstance(outcome, Scored)
    return {
        "dimension": dimension.id,
        "status": _STATUS.get(outcome.status, outcome.status),
        "kind": None if scored else getattr(outcome, "kind", outcome.status),
        "value": outcome.value if isinstance(outcome, Scored) else None,
        "range": list(dimension.range),
        "higher_is_better": dimension.higher_is_better,
        "unit": dimension.unit,
        "reason": None if isinstance(outcome, Scored) else outcome.reason,
        "evidence": getattr(outcome, "evidence", {}),
        "signature": str(signature),
    }


def _sample(edit: Edit) -> dict[str, Any]:
    item = edit.item
    return {
        "id": item.id,
        "model": edit.model,
        "instruction": item.instruction,
        "target_text": item.target_text,
        "sources": [_picture(image) for image in item.sources],
        "edited": _picture(edit.image) if edit.image else None,
        "mask": _picture(item.mask) if item.mask else None,
        "target": _picture(item.target) if item.target else None,
    }


def _picture(picture: Image | Mask) -> dict[str, Any]:
    return {
        "name": picture.name,
        "size": list(picture.size),
        "digest": picture.digest,
        "notes": list(picture.notes),
    }
