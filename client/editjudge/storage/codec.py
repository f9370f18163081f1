"""Encodes specialists' outputs and digests into bytes for the store, and back.

Outputs become a file of `numpy.savez_compressed`. They come back exactly, with two exceptions: an
embedding is stored in half precision, and a mask as a 1-bit PNG of the same pixels.

The row of a call holds its reply unparsed. Pictures are never stored. The prompt is not part of the row; a file stores
it beside its calls.
"""

import io
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue

from ..base.contracts import CONTRACTS, Tensors
from ..base.digest import DIGEST
from ..base.errors import ImageError
from ..base.images import encode_mask, load_mask
from ..base.strict import list_fields
from ..panel.calls import AnyCall, CallRecord, Reply, SpecialistCall, Usage
from .schema import decode_text, encode_text

_UNREADABLE = (ValueError, EOFError, OSError, zipfile.BadZipFile, zlib.error, NotImplementedError)
"""What NumPy raises for a file that is damaged or of another kind."""
_HALF = (2.0**-6, 65504.0)
"""Largest absolute values of an embedding that half precision holds to 11 bits throughout."""


def digest_to_bytes(digest: str) -> bytes:
    """Encode `sha256:` and 64 hex digits as 32 bytes; any other text as a zero byte and UTF-8."""
    kind, _, digits = digest.partition(":")
    if kind == "sha256" and len(digits) == 64 and set(digits) <= set("0123456789abcdef"):
        return bytes.fromhex(digits)
    return b"\0" + encode_text(digest)


def digest_from_bytes(data: bytes) -> str:
    """Decode what `digest_to_bytes` returned."""
    is_text = data[:1] == b"\0" and len(data) != DIGEST
    return decode_text(data[1:]) if is_text else f"sha256:{data.hex()}"


def outputs_to_bytes(role: str, outputs: Mapping[str, NDArray[np.float32] | bytes]) -> bytes:
    """Encode a specialist's outputs.

    The type of a stored array tells what it stands for: float32 for itself, float16 for an
    embedding, uint8 for bytes.

    Args:
        role: Key of `CONTRACTS`: the contract says which tensors are masks.
        outputs: The tensors by name, as the specialist sent them.
    """
    contract = CONTRACTS.get(role)
    masks = {t.name for t in contract.outputs if t.holds == "mask"} if contract else set()
    arrays = {name: _encode_output(name, one, mask=name in masks) for name, one in outputs.items()}
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)
    return file.getvalue()


def outputs_from_bytes(data: bytes) -> Tensors:
    """Decode outputs: float32 arrays and bytes by tensor name, in the order they were given.

    Raises:
        ValueError: the stored form is damaged, or of a newer editjudge.
    """
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
            return {name: _decode_output(arrays[name]) for name in arrays.files}
    except _UNREADABLE as error:
        raise ValueError(f"stored outputs cannot be read: {error}") from error


def _encode_output(name: str, value: NDArray[np.float32] | bytes, *, mask: bool) -> NDArray[Any]:
    if isinstance(value, bytes):
        return np.frombuffer(_to_one_bit(value) if mask else value, np.uint8)
    largest = float(np.abs(value).max(initial=0))
    half = name == "EMBEDDING" and _HALF[0] <= largest <= _HALF[1]
    return value.astype(np.float16 if half else np.float32)


def _decode_output(array: NDArray[Any]) -> NDArray[np.float32] | bytes:
    if array.dtype == np.uint8:
        return array.tobytes()
    if array.dtype in {np.dtype(np.float32), np.dtype(np.float16)}:
        return array.astype(np.float32)
    raise ValueError(f"an array of {array.dtype}; a newer editjudge wrote it")


def _to_one_bit(png: bytes) -> bytes:
    """Encode a mask as a 1-bit PNG; what is no mask (coloured, transparent, damaged) is kept."""
    try:
        return encode_mask(load_mask(png).region)
    except ImageError:
        return png


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
        **list_fields(reply.usage),
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
