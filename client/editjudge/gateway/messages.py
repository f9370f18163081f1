"""Between edits and judgements here and the messages of `editjudge.v1`."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Mapping
from pathlib import PurePath
from typing import Any

import numpy as np
from PIL import Image as Pil
from pydantic import TypeAdapter, ValidationError

from ..answers.lenient import whole
from ..base.errors import (
    BadReply,
    CostLimit,
    DeadlineExceeded,
    NotAuthorised,
    NotServed,
    OutOfTime,
    Overloaded,
    Refused,
    ServiceError,
    Unreachable,
    WrongModel,
)
from ..base.identity import ModelIdentity, ServiceName
from ..base.images import Image, Mask
from ..base.item import Edit, Flaws
from ..base.verdict import Failed, Outcome, Unscored
from ..benchmarks.dimension import Dimension
from ..benchmarks.rounds import JudgeRounds
from ..engine.fold import within
from ..panel.said import Said
from ..v1 import judge_pb2 as pb

FAILURES: Mapping[type[ServiceError], pb.Failure] = {
    Unreachable: pb.FAILURE_UNREACHABLE,
    Overloaded: pb.FAILURE_OVERLOADED,
    DeadlineExceeded: pb.FAILURE_DEADLINE_EXCEEDED,
    OutOfTime: pb.FAILURE_DEADLINE_EXCEEDED,
    Refused: pb.FAILURE_REFUSED,
    NotServed: pb.FAILURE_NOT_SERVED,
    NotAuthorised: pb.FAILURE_NOT_AUTHORISED,
    WrongModel: pb.FAILURE_WRONG_MODEL,
    CostLimit: pb.FAILURE_COST_LIMIT,
    BadReply: pb.FAILURE_BAD_REPLY,
}
"""What became of a call, by the error here; of a kind of error, that of the kind."""
_OUTCOME: TypeAdapter[Outcome] = TypeAdapter(Outcome)
_STATUS = "STATUS_"


def request_of(
    edit: Edit, dimensions: Iterable[Dimension], protocol: pb.Protocol
) -> pb.ScoreRequest:
    """What asks a Judge service for an edit, whatever its benchmark."""
    item = edit.item
    message = pb.Edit(
        id=item.id,
        model=edit.model,
        instruction=item.instruction,
        sources=[_picture(image) for image in item.sources],
        edited=_picture(edit.image) if edit.image else None,
        mask=_mask(item.mask) if item.mask else None,
        target=_picture(item.target) if item.target else None,
        target_text=item.target_text,
        hint=item.hint,
        questions_json=_json(item.questions) if item.questions else "",
        task=item.task,
        extra_json=_json(item.extra) if item.extra else "",
        flaws=flaws_sent(item.flaws),
        mask_over_frame=item.mask is not None and item.mask.over_frame,
    )
    if edit.image is None and edit.missing is not None:
        message.missing.kind, message.missing.reason = edit.missing.kind, edit.missing.reason
    named = [dimension.id for dimension in dimensions]
    return pb.ScoreRequest(edit=message, dimensions=named, protocol=protocol)


def protocol_of(
    benchmark: str, name: str, judge_rounds: JudgeRounds, prompts: Mapping[str, str]
) -> pb.Protocol:
    """By which rules is judged, and who is asked.

    Args:
        name: Of the protocol; "" for the usual one.
        prompts: Templates of one's own, texts by file.
    """
    usual = judge_rounds == JudgeRounds()
    return pb.Protocol(
        benchmark=benchmark,
        name=name,
        judges=() if usual else judge_rounds.judges,
        rounds=0 if usual else judge_rounds.rounds,
        prompts=dict(prompts),
    )


def flaws_sent(flaws: Flaws) -> list[pb.Flaw]:
    """What data spoilt, as messages."""
    return [
        pb.Flaw(
            field=field,
            status=pb.Status.Value(f"{_STATUS}{outcome.status.upper()}"),
            kind=outcome.kind if isinstance(outcome, Unscored) else "",
            reason=whole(outcome.reason),
            retryable=isinstance(outcome, Failed) and outcome.retryable,
            evidence_json=_json(getattr(outcome, "evidence", {}) or {}),
        )
        for field, outcome in flaws.items()
    ]


def _picture(image: Image) -> pb.Picture:
    """Its folders are nobody's business there."""
    return pb.Picture(data=image.encoded, name=whole(PurePath(image.name).name))


def _mask(mask: Mask) -> pb.Picture:
    """What it selects: its file may have meant the opposite, or be no file at all."""
    buffer = io.BytesIO()
    Pil.fromarray(mask.selected.astype(np.uint8) * 255).convert("1").save(buffer, "PNG")
    # Named as the PNG that it is now.
    return pb.Picture(data=buffer.getvalue(), name=whole(f"{PurePath(mask.name).stem}.png"))


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=dict)


def identities_of(panel: pb.GetPanelResponse) -> dict[ServiceName, ModelIdentity]:
    """Who judges, by role.

    Raises:
        ValueError: a role is none.
    """
    return {
        ServiceName.parsed(service.role): ModelIdentity(service.name, dict(service.facts))
        for service in panel.services
    }


def outcome_of(message: pb.Outcome, dimension: Dimension) -> Outcome:
    """What became of a dimension.

    Raises:
        ValueError: the message is no outcome: a status that nobody knows, a number that is none,
            or one with a status that has none.
    """
    status = pb.Status.Name(message.status).removeprefix(_STATUS).lower()
    told: dict[str, Any] = {"status": status}
    if (status == "scored") != message.HasField("value"):
        has = "no value" if status == "scored" else "a value"
        raise ValueError(f"{dimension.id} is {status} and has {has}")
    rests = {"evidence": json.loads(message.evidence_json or "{}"), "calls": tuple(message.calls)}
    match status:
        case "scored":
            told |= rests | {"value": message.value, "imputed": message.imputed}
        case "unscored":
            told |= rests | {"kind": message.kind, "reason": message.reason}
        case "not_applicable":
            told |= rests | {"reason": message.reason}
        case "failed":
            told |= {"error": message.reason, "retryable": message.retryable}
        case _:
            told |= {"reason": message.reason}
    try:
        return within(dimension, _OUTCOME.validate_python(told))
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        raise ValueError(f"{dimension.id}: {first['loc']}: {first['msg']}") from error


def failure_of(error: ServiceError) -> pb.Failure:
    """What became of a call, as messages say it."""
    kinds = (FAILURES[kind] for kind in type(error).__mro__ if kind in FAILURES)
    return next(kinds, pb.FAILURE_UNSPECIFIED)


def kind_of(failure: int) -> type[ServiceError] | None:
    """The kind of error that stands behind a failed outcome, where one does."""
    return next((kind for kind, number in FAILURES.items() if number == failure), None)


def call_sent(said: Said) -> pb.Call:
    """A call and what came back, as a message."""
    message = pb.Call(reply_json=_json(said.reply), **said.model_dump(exclude={"reply", "call"}))
    message.key = said.call
    return message


def said_of(message: pb.Call) -> Said:
    """The same, from a message.

    Raises:
        ValueError: its reply is no JSON.
    """
    told = {field.name: value for field, value in message.ListFields()}
    counts = ("prompt_tokens", "cached_tokens", "completion_tokens")
    return Said.model_validate(
        {
            "call": message.key,
            "judge": message.judge,
            "reply": json.loads(message.reply_json),
            **{name: told.get(name) for name in ("model", "prompt", "cost")},
            **{name: getattr(message, name) for name in counts},
        }
    )


COUNTS = ("calls", "prompt_tokens", "cached_tokens", "completion_tokens")
COSTS = ("cost", "spent")


def usage_sent(usage: Mapping[str, float]) -> pb.Usage:
    """What generalists took, as a message; see `panel.usage.counting`."""
    message = pb.Usage(**{name: int(usage.get(name, 0)) for name in COUNTS})
    for name in COSTS:
        if name in usage:
            setattr(message, name, usage[name])
    return message


def usage_of(message: pb.Usage) -> dict[str, float]:
    """The same, from a message; empty where nobody was asked."""
    counts = {name: getattr(message, name) for name in COUNTS}
    costs = {name: getattr(message, name) for name in COSTS if message.HasField(name)}
    return {**counts, **costs} if any(counts.values()) else {}
