"""What the row of a call holds, in a file and in a database: the reply unparsed, and its call.

Pictures are never stored. The prompt is not part of the row; a file stores it beside its calls.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any, TypeAlias

from pydantic import JsonValue

from ..base.contracts import Tensors
from ..panel.calls import AnyCall, CallRecord, Reply, SpecialistCall, Usage
from .codec import digest_from_bytes, outputs_from_bytes, outputs_to_bytes

Decompress: TypeAlias = Callable[[bytes], Any]
_FEW = 16
"""Up to how many numbers a specialist's output is shown in full."""
_TOKEN_COUNTS = ("prompt_tokens", "cached_tokens", "completion_tokens")


def encode_reply(call: AnyCall, reply: Reply) -> tuple[dict[str, Any], bytes | None]:
    """Make the document of a call with its reply, and the bytes of a specialist's outputs."""
    if isinstance(call, SpecialistCall):
        form = {"service": str(call.service), "parameters": dict(call.parameters)}
        document: dict[str, Any] = {"service": call.identity, "form": form}
        if reply.abstains:
            return document | {"reply": reply.content}, None
        return document, outputs_to_bytes(call.service.role, reply.content)
    return {
        "service": call.judge,
        "form": call.form,
        "repeat": call.repeat,
        "reply": reply.content,
        "model": reply.model,
        **asdict(reply.usage),
    }, None


def encode_record(record: CallRecord) -> dict[str, Any]:
    """Make the document of a call to a judge that a gateway made."""
    return {
        "service": record.judge,
        "form": {},
        "reply": record.reply,
        "model": record.model or "",
        **{name: getattr(record, name) for name in _TOKEN_COUNTS},
    }


def decode_reply(decompress: Decompress, row: Sequence[Any]) -> Reply:
    """Make the reply of a row: cost, document and outputs."""
    cost, document, outputs = row
    if outputs is not None:
        return Reply(outputs_from_bytes(outputs))
    values = decompress(document)
    usage = Usage(**{name: values.get(name, 0) for name in _TOKEN_COUNTS})
    return Reply(values["reply"], values.get("model", ""), usage, cost)


def decode_record(decompress: Decompress, row: Sequence[Any]) -> CallRecord:
    """Make the record of a row: key, prompt, cost, document and outputs."""
    key, prompt, cost, document, outputs = row
    values = decompress(document)
    tensors = {} if outputs is None else outputs_from_bytes(outputs)
    return CallRecord(
        call=digest_from_bytes(key),
        judge=values["service"],
        model=values.get("model"),
        prompt=None if prompt is None else digest_from_bytes(prompt),
        reply=values["reply"] if outputs is None else _outputs_to_json(tensors),
        **{name: values.get(name, 0) for name in _TOKEN_COUNTS},
        cost=cost,
    )


def _outputs_to_json(outputs: Tensors) -> dict[str, JsonValue]:
    """Convert a specialist's outputs to JSON: a small array in full, of a large one the shape."""
    return {
        name: {"bytes": len(one)}
        if isinstance(one, bytes)
        else (one.tolist() if one.size <= _FEW else {"shape": list(one.shape)})
        for name, one in outputs.items()
    }
