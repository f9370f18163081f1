"""Why a request is not judged: the code, the field and the mend, by each protocol."""

from __future__ import annotations

from typing import Any, NoReturn

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.duration_pb2 import Duration
from google.rpc import code_pb2, error_details_pb2, status_pb2
from grpc_status import rpc_status

from editjudge.base.errors import ConfigError, EditjudgeError
from editjudge.base.terminal import print_notice
from editjudge.base.text import join_surrogates
from editjudge.v1 import judge_pb2 as pb

from .schemas import InvalidRequest, Refusal

_SHOWN = 300


class NoCapacity(EditjudgeError):
    """There is no room now; account again later can help."""


class DeadlineExceeded(EditjudgeError):
    """The caller's deadline is over."""


_CODES: tuple[tuple[type[EditjudgeError], str], ...] = (
    (InvalidRequest, "INVALID_ARGUMENT"),
    (NoCapacity, "RESOURCE_EXHAUSTED"),
    (DeadlineExceeded, "DEADLINE_EXCEEDED"),
    (ConfigError, "FAILED_PRECONDITION"),
)


def code_of(error: EditjudgeError) -> str:
    """The code of an error, as gRPC names it."""
    return next((code for kind, code in _CODES if isinstance(error, kind)), "INTERNAL")


def wrap_defect(error: Exception) -> EditjudgeError:
    """The error that a caller meets; one that nobody foresaw is ours, and costs it alone."""
    if isinstance(error, EditjudgeError):
        return error
    defect = join_surrogates(f"{type(error).__name__}: {error}")[:_SHOWN]
    print_notice(f"a request failed: {defect}")
    return EditjudgeError(defect)


def describe_error(error: EditjudgeError) -> Refusal:
    """An error as JSON has it."""
    return Refusal(
        code=code_of(error),
        message=join_surrogates(error.message),
        field=error.field if isinstance(error, InvalidRequest) else "",
        mend=join_surrogates(error.mend),
    )


def make_refusal(error: EditjudgeError, request_id: str) -> pb.Refusal:
    """An error as a stream has it."""
    fields = describe_error(error).model_dump()
    code = code_pb2.Code.Value(fields.pop("code"))
    return pb.Refusal(request_id=request_id, code=code, **fields)


async def abort(context: Any, error: EditjudgeError) -> NoReturn:
    """End a gRPC call with an error, as every client reads it: with its field, or when to retry."""
    detail = AnyMessage()
    if isinstance(error, InvalidRequest):
        violation = error_details_pb2.BadRequest.FieldViolation(
            field=error.field,
            description=join_surrogates(f"{error.reason}; {error.mend}".rstrip("; ")),
        )
        detail.Pack(error_details_pb2.BadRequest(field_violations=[violation]))
    elif isinstance(error, NoCapacity):
        detail.Pack(error_details_pb2.RetryInfo(retry_delay=Duration(seconds=1)))
    sent = status_pb2.Status(
        code=code_pb2.Code.Value(code_of(error)),
        message=join_surrogates(str(error)),
        details=[detail] if detail.type_url else [],
    )
    status = rpc_status.to_status(sent)
    context.set_trailing_metadata(status.trailing_metadata)
    await context.abort(status.code, status.details)
    raise grpc.aio.AbortError
