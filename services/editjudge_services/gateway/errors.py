"""Errors of requests, and their form in gRPC and JSON: a code, a field, a reason and a fix."""

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

_MAX_DEFECT_CHARS = 300


class NoCapacity(EditjudgeError):
    """The service or the caller is at a limit; the same request may succeed later."""


class DeadlineExceeded(EditjudgeError):
    """The caller's deadline passed before the answer was there."""


_CODES: tuple[tuple[type[EditjudgeError], str], ...] = (
    (InvalidRequest, "INVALID_ARGUMENT"),
    (NoCapacity, "RESOURCE_EXHAUSTED"),
    (DeadlineExceeded, "DEADLINE_EXCEEDED"),
    (ConfigError, "FAILED_PRECONDITION"),
)


def find_code(error: EditjudgeError) -> str:
    """The gRPC name of an error's code; INTERNAL for errors that are not listed."""
    return next((code for kind, code in _CODES if isinstance(error, kind)), "INTERNAL")


def wrap_defect(error: Exception) -> EditjudgeError:
    """Turn any exception into an error that a caller can be sent.

    An unexpected exception is logged in one line. It ends this request and no other.
    """
    if isinstance(error, EditjudgeError):
        return error
    defect = join_surrogates(f"{type(error).__name__}: {error}")[:_MAX_DEFECT_CHARS]
    print_notice(f"a request failed: {defect}")
    return EditjudgeError(defect)


def describe_error(error: EditjudgeError) -> Refusal:
    """Describe an error in the form that JSON replies have."""
    return Refusal(
        code=find_code(error),
        message=join_surrogates(error.message),
        field=error.field if isinstance(error, InvalidRequest) else "",
        fix=join_surrogates(error.fix),
    )


def make_refusal(error: EditjudgeError, request_id: str) -> pb.Refusal:
    """Describe an error as a message of a stream, which goes on after it."""
    fields = describe_error(error).model_dump()
    code = code_pb2.Code.Value(fields.pop("code"))
    return pb.Refusal(request_id=request_id, code=code, **fields)


async def abort(context: Any, error: EditjudgeError) -> NoReturn:
    """End a gRPC call with an error and the standard details of google.rpc.

    An `InvalidRequest` carries a BadRequest with its field, a `NoCapacity` a RetryInfo of one
    second.
    """
    detail = AnyMessage()
    if isinstance(error, InvalidRequest):
        violation = error_details_pb2.BadRequest.FieldViolation(
            field=error.field, description=join_surrogates(f"{error.reason}; {error.fix}".rstrip("; "))
        )
        detail.Pack(error_details_pb2.BadRequest(field_violations=[violation]))
    elif isinstance(error, NoCapacity):
        detail.Pack(error_details_pb2.RetryInfo(retry_delay=Duration(seconds=1)))
    message = status_pb2.Status(
        code=code_pb2.Code.Value(find_code(error)),
        message=join_surrogates(str(error)),
        details=[detail] if detail.type_url else [],
    )
    status = rpc_status.to_status(message)
    context.set_trailing_metadata(status.trailing_metadata)
    await context.abort(status.code, status.details)
    raise grpc.aio.AbortError
