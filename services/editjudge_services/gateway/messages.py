"""Conversion between the messages of `editjudge.v1` and the service's own requests and results."""

from typing import Any

from editjudge import Judgement
from editjudge.base.errors import ServiceError
from editjudge.base.signature import versions
from editjudge.base.text import join_surrogates
from editjudge.base.verdict import Outcome, Score, calls_of
from editjudge.gateway.messages import FAILURES, make_message, read_fields
from editjudge.service import CallRecord
from editjudge.v1 import judge_pb2 as pb

from .schemas import InvalidRequest, Protocol, ScoreRequest, ServedDimension, parse_request


def read_score_request(request: pb.ScoreRequest) -> ScoreRequest:
    """Read a request to score; its images are not decoded yet.

    Raises:
        InvalidRequest: naming the field.
    """
    fields = _fields(request)
    fields.pop("request_id", None)
    # The proto does not distinguish an empty text from an absent one.
    fields["edit"] = {"instruction": ""} | fields.get("edit", {})
    return parse_request(ScoreRequest.model_validate, fields)


def read_protocol(message: pb.Protocol) -> Protocol:
    """Read the protocol of a request; fields that the message leaves out have their defaults.

    Raises:
        InvalidRequest: naming the field.
    """
    return parse_request(Protocol.model_validate, _fields(message), "protocol")


def _fields(message: pb.ScoreRequest | pb.Protocol) -> dict[str, Any]:
    try:
        return read_fields(message)
    except ValueError as error:
        field, _, reason = str(error).partition(": ")
        raise InvalidRequest(f"edit.{field}", reason) from error


def make_response(judgement: Judgement, request_id: str) -> pb.ScoreResponse:
    """Make the response to a request from its judgement."""
    edit = judgement.edit
    return pb.ScoreResponse(
        request_id=request_id,
        edit_id=edit.item.id,
        outcomes=[_outcome(judgement, name, each) for name, each in judgement.outcomes.items()],
        services={role: str(identity) for role, identity in judgement.services.items()},
        usage=make_message(pb.Usage, judgement.usage),
        notes=[join_surrogates(f"{p.name}: {note}") for p in edit.pictures for note in p.notes],
        calls=[make_call(record) for record in judgement.replies.values()],
    )


def _outcome(judgement: Judgement, name: str, outcome: Outcome) -> pb.Outcome:
    fields = outcome.model_dump(exclude={"error"}) | {
        "dimension": name,
        "reason": None if isinstance(outcome, Score) else outcome.reason,
        "untrained": name in judgement.untrained_ids,
        "signature": str(judgement.signatures[name]),
        "versions": versions(),
        "calls": calls_of(outcome),
    }
    message = make_message(pb.Outcome, fields)
    if (error := judgement.errors.get(name)) is not None:
        message.failure = get_failure(error)
    return message


def make_dimension(dimension: ServedDimension) -> pb.Dimension:
    """Make the message that lists a dimension."""
    fields = dimension.model_dump(exclude={"range", "variant", "prompts"})
    lowest, highest = dimension.range
    return pb.Dimension(**fields, lowest=lowest, highest=highest)


def get_failure(error: ServiceError) -> pb.Failure:
    """The failure of a message for an error."""
    kinds = (FAILURES[kind] for kind in type(error).__mro__ if kind in FAILURES)
    return next(kinds, pb.FAILURE_UNSPECIFIED)


def make_call(record: CallRecord) -> pb.Call:
    """The message for a call to a judge and its reply."""
    fields = record.model_dump()
    return make_message(pb.Call, {"key": fields.pop("call"), **fields})
