"""Between what is asked and judged here and the messages of `editjudge.v1`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, get_args

from pydantic import ValidationError

from editjudge.answers.lenient import whole
from editjudge.app.wire.lists import Dimension as DimensionWire
from editjudge.base.identity import untrained
from editjudge.base.item import Missing, MissingKind
from editjudge.base.signature import Signature, package_version, versions
from editjudge.base.verdict import Failed, Outcome, Scored, Unscored, calls_of
from editjudge.benchmarks.dimension import Dimension
from editjudge.engine.judge import Judgement
from editjudge.gateway.messages import call_sent, failure_of, usage_sent
from editjudge.panel import Panel
from editjudge.v1 import judge_pb2 as pb

from .asked import Asked, Picture
from .protocols import Protocol, Unusable


def asked_of(request: pb.ScoreRequest) -> Asked:
    """What a request asks; no picture is decoded yet.

    Raises:
        Unusable: naming the field.
    """
    edit = request.edit
    questions = _json("edit.questions_json", edit.questions_json, "[]")
    if not isinstance(questions, list) or not all(isinstance(each, dict) for each in questions):
        raise Unusable("edit.questions_json", "this is no JSON array of objects")
    extra = _json("edit.extra_json", edit.extra_json, "{}")
    if not isinstance(extra, dict):
        raise Unusable("edit.extra_json", "this is no JSON object")
    return Asked(
        id=edit.id,
        model=edit.model,
        instruction=edit.instruction,
        sources=tuple(Picture(each.data, each.name) for each in edit.sources),
        edited=_picture(edit, "edited"),
        mask=_picture(edit, "mask"),
        target=_picture(edit, "target"),
        target_text=edit.target_text if edit.HasField("target_text") else None,
        hint=edit.hint if edit.HasField("hint") else None,
        questions=tuple(questions),
        task=edit.task,
        extra=extra,
        flaws={flaw.field: _flaw(flaw) for flaw in edit.flaws},
        missing=_missing(edit),
        mask_over_frame=edit.mask_over_frame,
        dimensions=tuple(request.dimensions),
        protocol=protocol_of(request.protocol),
    )


def protocol_of(message: pb.Protocol) -> Protocol:
    """By which rules a request wants to be judged; what it leaves out is as usual."""
    usual = Protocol()
    return Protocol(
        benchmark=message.benchmark or usual.benchmark,
        name=message.name,
        on=tuple(message.on),
        off=tuple(message.off),
        judges=tuple(message.judges) or usual.judges,
        rounds=message.rounds or usual.rounds,
        prompts=tuple(sorted(message.prompts.items())),
    )


def _json(field: str, text: str, empty: str) -> Any:
    try:
        return json.loads(text or empty)
    except (ValueError, RecursionError) as error:
        raise Unusable(field, f"this is no JSON: {error}") from error


def _flaw(flaw: pb.Flaw) -> Unscored | Failed:
    field = "edit.flaws"
    evidence = _json(field, flaw.evidence_json, "{}")
    try:
        if flaw.status == pb.STATUS_FAILED:
            return Failed(error=flaw.reason, retryable=flaw.retryable)
        if flaw.status == pb.STATUS_UNSCORED:
            told = {"kind": flaw.kind, "reason": flaw.reason, "evidence": evidence}
            return Unscored.model_validate(told)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        raise Unusable(field, f"{flaw.field}: {first['msg']}") from error
    raise Unusable(field, f"{flaw.field}: the status is neither unscored nor failed")


def _missing(edit: pb.Edit) -> Missing | None:
    if not edit.HasField("missing"):
        return None
    kind: Any = edit.missing.kind
    if kind not in get_args(MissingKind):
        there = f"there are {', '.join(get_args(MissingKind))}"
        raise Unusable("edit.missing.kind", f"no kind is called {kind[:40]!r}", there)
    return Missing(kind, edit.missing.reason)


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
        usage=usage_sent(judgement.usage),
        notes=[whole(f"{p.name}: {note}") for p in filter(None, pictures) for note in p.notes],
        calls=[call_sent(said) for said in judgement.said.values()],
    )


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
        calls=calls_of(outcome),
        retryable=isinstance(outcome, Failed) and outcome.retryable,
    )
    if isinstance(outcome, Scored):
        message.value = outcome.value
    if (error := judgement.errors.get(name)) is not None:
        message.failure = failure_of(error)
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


def panel_of(panel: Panel, signatures: Mapping[str, Signature]) -> pb.GetPanelResponse:
    """Who judges."""
    identities = panel.identities()
    random = set(untrained(identities))
    priced = {role for role, one in panel.generalists.items() if one.endpoint.price is not None}
    return pb.GetPanelResponse(
        services=[
            pb.Service(
                role=role,
                identity=str(identity),
                untrained=role in random,
                name=identity.name,
                facts=identity.facts,
                priced=role in priced,
            )
            for role, identity in sorted(identities.items())
        ],
        problems=[whole(f"{url}: {problem}") for url, problem in sorted(panel.problems.items())],
        version=package_version("editjudge"),
        signatures={name: str(signature) for name, signature in signatures.items()},
    )
