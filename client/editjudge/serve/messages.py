"""Between what is asked and judged here and the messages of `editjudge.v1`."""

from __future__ import annotations

import json
from collections.abc import Mapping

from ..answers.lenient import whole
from ..app.wire.lists import Dimension as DimensionWire
from ..base.identity import Identities, untrained
from ..base.signature import package_version, versions
from ..base.verdict import Outcome, Scored, Unscored
from ..benchmarks.dimension import Dimension
from ..engine.judge import Judgement
from ..v1 import judge_pb2 as pb
from .asked import Asked, Picture


def asked_of(request: pb.ScoreRequest) -> Asked:
    """What a request asks; nothing is decoded yet."""
    edit = request.edit
    return Asked(
        id=edit.id,
        model=edit.model,
        instruction=edit.instruction,
        sources=tuple(Picture(each.data, each.name) for each in edit.sources),
        edited=_picture(edit, "edited"),
        mask=_picture(edit, "mask"),
        target=_picture(edit, "target"),
        target_text=edit.target_text if edit.HasField("target_text") else None,
        dimensions=tuple(request.dimensions),
    )


def _picture(edit: pb.Edit, name: str) -> Picture | None:
    if not edit.HasField(name):
        return None
    picture = getattr(edit, name)
    return Picture(picture.data, picture.name)


def response_of(judgement: Judgement, request_id: str) -> pb.ScoreResponse:
    """A judged edit."""
    item = judgement.edit.item
    pictures = (*item.sources, judgement.edit.image, item.mask, item.target)
    return pb.ScoreResponse(
        request_id=request_id,
        edit_id=item.id,
        outcomes=[_outcome(judgement, name, each) for name, each in judgement.outcomes.items()],
        services={role: str(identity) for role, identity in judgement.services.items()},
        usage=_usage(judgement.usage),
        notes=[whole(f"{p.name}: {note}") for p in filter(None, pictures) for note in p.notes],
    )


def _usage(usage: Mapping[str, float]) -> pb.Usage:
    message = pb.Usage(**{name: int(usage.get(name, 0)) for name in _COUNTS})
    if "cost" in usage:
        message.cost = usage["cost"]
    return message


_COUNTS = ("calls", "prompt_tokens", "cached_tokens", "completion_tokens")


def _outcome(judgement: Judgement, name: str, outcome: Outcome) -> pb.Outcome:
    message = pb.Outcome(
        dimension=name,
        status=pb.Status.Value(f"STATUS_{outcome.status.upper()}"),
        kind=outcome.kind if isinstance(outcome, Unscored) else "",
        reason="" if isinstance(outcome, Scored) else whole(outcome.reason),
        imputed=isinstance(outcome, Scored) and bool(outcome.imputed),
        untrained=name in judgement.untrained,
        signature=str(judgement.signatures[name]),
        versions=versions(),
        evidence_json=json.dumps(getattr(outcome, "evidence", {}), allow_nan=False, default=dict),
    )
    if isinstance(outcome, Scored):
        message.value = outcome.value
    return message


def dimension_of(dimension: Dimension, served: frozenset[str]) -> pb.Dimension:
    """A dimension; `served` are the services at hand."""
    about = DimensionWire.of(dimension)
    return pb.Dimension(
        id=about.id,
        asks=about.asks,
        lowest=about.range[0],
        highest=about.range[1],
        unit=about.unit,
        higher_is_better=about.higher_is_better,
        needs=about.needs,
        services=about.services,
        source=about.source,
        tolerance=about.tolerance,
        served=served.issuperset(about.services),
    )


def panel_of(identities: Identities, problems: dict[str, str]) -> pb.GetPanelResponse:
    """Who judges."""
    random = set(untrained(identities))
    return pb.GetPanelResponse(
        services=[
            pb.Service(role=role, identity=str(identity), untrained=role in random)
            for role, identity in sorted(identities.items())
        ],
        problems=[whole(f"{url}: {problem}") for url, problem in sorted(problems.items())],
        version=package_version("editjudge"),
    )
