"""Conversion between edits and judgements here and the messages of `editjudge.v1`."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePath
from typing import Any, TypeVar, get_args

from google.protobuf.message import Message
from pydantic import ValidationError

from ..base import errors
from ..base.errors import ServiceError
from ..base.identity import ModelIdentity, ServiceName
from ..base.images import Image, Mask, encode_mask
from ..base.item import Edit
from ..base.parse import first_problem
from ..base.text import join_surrogates
from ..base.verdict import Failure, NoScore, Outcome, Score
from ..benchmarks.dimension import Dimension
from ..benchmarks.rounds import JudgeRounds
from ..engine.outcomes import check_range
from ..panel.calls import CallRecord
from ..panel.redaction import SERVER_WORDS
from ..v1 import judge_pb2 as pb

M = TypeVar("M", bound=Message)
COUNTS = ("calls", "prompt_tokens", "cached_tokens", "completion_tokens")
FAILURES: Mapping[type[ServiceError], pb.Failure] = {
    getattr(errors, kind): pb.Failure.Value(f"FAILURE_{word}") for kind, word in SERVER_WORDS["failures"].items()
}
"""The failure in a message for each kind of error here; a subclass has that of its base."""
_OUTCOMES: Mapping[str, type[Outcome]] = {kind.model_fields["status"].default: kind for kind in get_args(Outcome)}


def make_message(kind: type[M], fields: Mapping[str, Any]) -> M:
    """A message with these fields; a field without a counterpart in the proto is sent as JSON.

    The proto has such a field under its name with `_json` at the end.
    """
    message: M = kind(**_make_values(kind, fields))
    return message


def _make_values(kind: type[Message], fields: Mapping[str, Any]) -> dict[str, Any]:
    """What a message is made of, in this form also as a part of another: a message would be copied into that."""
    descriptors = kind.DESCRIPTOR.fields_by_name
    values = {}
    for name, value in fields.items():
        if f"{name}_json" in descriptors:
            values[f"{name}_json"] = json.dumps(value, ensure_ascii=False, default=dict)
        elif value is not None and descriptors[name].enum_type is not None:
            values[name] = f"{descriptors[name].enum_type.name}_{value}".upper()
        else:
            values[name] = join_surrogates(value) if isinstance(value, str) else value
    return values


def read_fields(message: Message) -> dict[str, Any]:
    """The fields of a message by name, those of its parts too: the opposite of `make_message`.

    Raises:
        ValueError: a JSON field holds no JSON, or an enum has a value that the proto does not have.
    """
    return dict(_read_field(field, value) for field, value in message.ListFields())


def _read_field(field: Any, value: Any) -> tuple[str, Any]:
    name = field.name
    if name.endswith("_json"):
        return name.removesuffix("_json"), _read_json(name, value)
    if field.enum_type is not None:
        word = field.enum_type.values_by_number.get(value)
        if word is None:
            raise ValueError(f"{name}: there is no {value}")
        return name, word.name.removeprefix(f"{field.enum_type.name.upper()}_").lower()
    if isinstance(value, Message):
        return name, read_fields(value)
    if isinstance(value, Mapping):
        return name, dict(value)
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return name, [read_fields(one) if isinstance(one, Message) else one for one in value]
    return name, value


def _read_json(name: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{name}: not JSON: {error}") from error


def make_score_request(edit: Edit, dimensions: Iterable[Dimension], protocol: pb.Protocol) -> pb.ScoreRequest:
    """The request to judge an edit, whatever its benchmark."""
    item = edit.item
    fields = {
        "id": item.id,
        "model": edit.model,
        "instruction": item.instruction,
        "sources": [_make_picture(image) for image in item.sources],
        "edited": edit.image and _make_picture(edit.image),
        "mask": item.mask and _make_mask(item.mask),
        "target": item.target and _make_picture(item.target),
        "target_text": item.target_text,
        "hint": item.hint,
        "questions": item.questions,
        "task": item.task,
        "extra": item.extra,
        "flaws": [_make_flaw(field, outcome) for field, outcome in item.flaws.items()],
        "mask_over_frame": item.mask is not None and item.mask.stretches_to_frame,
    }
    if edit.image is None and (missing := edit.missing) is not None:
        reason = join_surrogates(missing.reason)
        fields["missing"] = pb.Missing(kind=missing.kind, reason=reason)
    ids = [dimension.id for dimension in dimensions]
    return pb.ScoreRequest(edit=_make_values(pb.Edit, fields), dimensions=ids, protocol=protocol)


def make_protocol(benchmark: str, name: str, judge_rounds: JudgeRounds, prompts: Mapping[str, str]) -> pb.Protocol:
    """The protocol of a session with its judges and rounds.

    Args:
        benchmark: Name of the benchmark.
        name: Name of the protocol; "" for the default.
        judge_rounds: Judges and rounds.
        prompts: Custom templates, texts by file.
    """
    usual = judge_rounds == JudgeRounds()
    return pb.Protocol(
        benchmark=benchmark,
        name=name,
        judges=() if usual else judge_rounds.judges,
        rounds=0 if usual else judge_rounds.rounds,
        prompts=dict(prompts),
    )


def _make_flaw(field: str, outcome: NoScore | Failure) -> pb.Flaw:
    fields = outcome.model_dump(exclude={"error", "calls"})
    return make_message(pb.Flaw, fields | {"field": field, "reason": outcome.reason})


def _make_picture(image: Image) -> dict[str, Any]:
    """A picture without the folders of its name, which are private."""
    return {"data": image.encoded_bytes, "name": join_surrogates(PurePath(image.name).name)}


def _make_mask(mask: Mask) -> pb.Picture:
    """The pixels that a mask selects, as a PNG: its file may be inverted, or not exist."""
    # Named as the PNG that it is now.
    name = f"{PurePath(mask.name).stem}.png"
    return pb.Picture(data=encode_mask(mask.region), name=join_surrogates(name))


def read_identities(panel: pb.GetPanelResponse) -> dict[ServiceName, ModelIdentity]:
    """Identity of each service that judges, by role.

    Raises:
        ValueError: a role is not valid.
    """
    return {
        ServiceName.parse(service.role): ModelIdentity(service.name, dict(service.facts)) for service in panel.services
    }


def read_outcome(message: pb.Outcome, dimension: Dimension) -> Outcome:
    """The outcome of a dimension.

    Raises:
        ValueError: the message has an unknown status, a value that is no number, or a value with a
            status that has none.
    """
    fields = read_fields(message)
    kind = _OUTCOMES.get(fields.get("status", ""))
    if kind is None:
        raise ValueError(f"{dimension.id} has no status")
    if kind is not Score and "value" in fields:
        raise ValueError(f"{dimension.id} is {fields['status']} and has a value")
    if kind is not Score:
        fields["error" if kind is Failure else "reason"] = message.reason
    try:
        outcome = kind.model_validate({n: fields[n] for n in kind.model_fields if n in fields})
    except ValidationError as error:
        raise ValueError(f"{dimension.id}: {first_problem(error)}") from error
    return check_range(dimension, outcome)


def get_error_kind(failure: int) -> type[ServiceError] | None:
    """The kind of error behind a failed outcome, where there is one."""
    return next((kind for kind, number in FAILURES.items() if number == failure), None)


def read_call(message: pb.Call) -> CallRecord:
    """A call to a judge and its reply.

    Raises:
        ValueError: its reply is no JSON.
    """
    fields = dict.fromkeys(("model", "prompt", "cost")) | dict.fromkeys(COUNTS[1:], 0)
    fields |= read_fields(message)
    return CallRecord.model_validate({"call": fields.pop("key", ""), **fields})


def read_usage(message: pb.Usage) -> dict[str, float]:
    """Tokens and costs of judges; empty where none was called."""
    counts = dict.fromkeys(COUNTS, 0) | read_fields(message)
    return counts if any(counts[name] for name in COUNTS) else {}
