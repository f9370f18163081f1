"""Replies, evidence and specialists' outputs in their stored form.

Short texts do not compress by themselves, so they are deflated with a preset dictionary: text
that the compressor takes as already said. Which one was used is the first byte of the stored
form; a dictionary that was ever released stays here for good.

Specialists' outputs are kept exactly, with two exceptions. An embedding is kept in half
precision, and a mask as run lengths: its pixels come back exactly, its bytes as a 1-bit PNG.
"""

from __future__ import annotations

import io
import json
import struct
import zlib
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import Image as Pil

from ..errors import ImageError
from ..images import load_mask
from ..panel.contracts import CONTRACTS

Outputs: TypeAlias = "dict[str, NDArray[np.float32] | bytes]"

# What comes most often stands last: nearer text takes fewer bits to point at.
_DICTIONARIES: Mapping[int, bytes] = {
    1: (
        b'{"reason":"{"error":" of the probability fell on none of the mask selects nothing'
        b" degenerate abstained refused unparsable not one JSON object the reply lacks "
        b'Unreachable Overloaded no reply within the deadline after 3 attempts grpc://127.0.0.1:"'
        b',"retryable":true},"imputed":true},"parts":{"core.","capped":false},"region_share":0.'
        b'{"image":"sha256:","size":[1024,1024],"name":"source.png"},{"data":false,"text":"'
        b'Source image:\\n"},{"image":"sha256:","size":[512,512],"name":""},{"data":false,"text":"'
        b'\\nEdited image:\\n"},{"data":false,"text":"\\nInstruction:\\n"},{"data":true,"text":"'
        b'{"IMAGE_A":"sha256:","IMAGE_B":"sha256:","PROMPT":"sha256:","MASK":"sha256:",'
        b'"IMAGE":"sha256:","facts":[{"question":"Is the ","answer":"Yes","true":0.9},'
        b'"answers":[{"question":"","answer":"","due":""}],"generated":true,'
        b'"questions":[{"question":"Does the ","yes":0.9,"outside":0.0},"samples":'
        b'"unreadable":["Your previous reply could not be read","values":[1.0,2.0,3.0,4.0,5.0],'
        b'"replies":[{"reply":"{\\"reasoning\\": \\"The edited image \\", \\"score\\": 5}",'
        b'"finish":"length"},"finish":"stop","text":"{\\"reasoning\\": \\"The instruction '
        b'{"evidence":{"reply":"{\\"reasoning\\": \\"The ","reasoning":"The edited image '
        b'"calls":["sha256:"],"call":"sha256:","judge":"gpt-4o-2024-11-20","judge":"qwen3-vl",'
        b'"prompt":"sha256:","usage":{"calls":1,"prompt_tokens":1024,"cached_tokens":0,'
        b'"completion_tokens":1,"cost":null,"cost":0.00},"method":"sampled",'
        b'"method":"top_logprobs","method":"logprobs","samples":1,"outside":0.00'
        b'"probabilities":{"True":0.9,"False":0.0},"probabilities":{"Yes":0.9,"No":0.0},'
        b'"probabilities":{"excellent":0.9,"good":0.0,"fair":0.0,"poor":0.0,"bad":0.0},'
        b'"outside":0.0}}'
    )
}
_DICTIONARY = 1
_FORM = 1  # of stored outputs
_HEAD = struct.Struct("<BBB")
_COUNT = struct.Struct("<I")
_BYTES, _FP32, _FP16, _RUNS16, _RUNS32 = range(5)
_HALF = (2.0**-6, 65504.0)
"""Largest absolute values of an embedding that half precision holds to 11 bits throughout."""


def dumps(value: object) -> str:
    """JSON text without spaces; the order of keys is kept.

    Raises:
        ValueError: a number is not finite.
    """
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def deflated(data: bytes, said: bytes = b"") -> bytes:
    """Data in its stored form.

    Args:
        said: Text that the data is likely to repeat; needed to read it back. Of more than
            32 KiB the end counts.
    """
    compressor = zlib.compressobj(9, zdict=_DICTIONARIES[_DICTIONARY] + said)
    return bytes([_DICTIONARY]) + compressor.compress(data) + compressor.flush()


def inflated(stored: bytes, said: bytes = b"") -> bytes:
    """What `deflated` was given.

    Raises:
        ValueError: the stored form is damaged, of a newer editjudge, or `said` is another.
    """
    try:
        expander = zlib.decompressobj(zdict=_DICTIONARIES[stored[0]] + said)
        data = expander.decompress(stored[1:])
    except (IndexError, KeyError, zlib.error) as error:
        raise ValueError(f"stored text cannot be read: {error}") from error
    if not expander.eof:
        raise ValueError("stored text is cut off")
    return data


def pack(value: object, said: bytes = b"") -> bytes:
    """JSON in its stored form; see `deflated`."""
    # A judge's reply may hold lone surrogates, which strict UTF-8 refuses.
    return deflated(dumps(value).encode("utf-8", "surrogatepass"), said)


def unpack(stored: bytes, said: bytes = b"") -> Any:
    """What `pack` was given."""
    return json.loads(inflated(stored, said).decode("utf-8", "surrogatepass"))


def digest_to_bytes(digest: str) -> bytes | str:
    """`sha256:` and 64 hex digits as 32 bytes; any other text as it is."""
    kind, _, digits = digest.partition(":")
    if kind == "sha256" and len(digits) == 64 and set(digits) <= set("0123456789abcdef"):
        return bytes.fromhex(digits)
    return digest


def digest_from_bytes(stored: bytes | str) -> str:
    """What `digest_to_bytes` was given."""
    return stored if isinstance(stored, str) else f"sha256:{stored.hex()}"


def outputs_to_bytes(
    contract_role: str, outputs: Mapping[str, NDArray[np.float32] | bytes]
) -> bytes:
    """A specialist's outputs in their stored form.

    Args:
        contract_role: Key of `CONTRACTS`: it says which tensors are masks.
        outputs: By tensor name, as they came.
    """
    contract = CONTRACTS.get(contract_role)
    masks = {t.name for t in contract.outputs if t.holds == "mask"} if contract else set()
    body = b"".join(
        _tensor_to_bytes(name, value, mask=name in masks) for name, value in outputs.items()
    )
    return bytes([_FORM]) + zlib.compress(body, 9)


def outputs_from_bytes(stored: bytes) -> Outputs:
    """The outputs: float32 arrays and bytes by tensor name, in the order they were given.

    Raises:
        ValueError: the stored form is damaged, or of a newer editjudge.
    """
    if stored[:1] != bytes([_FORM]):
        raise ValueError(f"stored outputs have form {stored[:1].hex() or 'none'}, not {_FORM:02x}")
    outputs: Outputs = {}
    try:
        body = zlib.decompress(stored[1:])
        at = 0
        while at < len(body):
            name, value, at = _tensor_from_bytes(body, at)
            outputs[name] = value
    except (zlib.error, struct.error, UnicodeDecodeError) as error:
        raise ValueError(f"stored outputs cannot be read: {error}") from error
    return outputs


def _tensor_to_bytes(name: str, value: NDArray[np.float32] | bytes, *, mask: bool) -> bytes:
    """Name, kind, shape and data: of one tensor, each with its length before it."""
    kind, shape, data = _encoded(name, value, mask=mask)
    label = name.encode()
    return b"".join(
        (
            _HEAD.pack(len(label), kind, len(shape)),
            label,
            *(_COUNT.pack(size) for size in (*shape, len(data))),
            data,
        )
    )


def _tensor_from_bytes(body: bytes, at: int) -> tuple[str, NDArray[np.float32] | bytes, int]:
    length, kind, axes = _HEAD.unpack_from(body, at)
    at += _HEAD.size
    name = body[at : at + length].decode()
    at += length
    *shape, size = (_COUNT.unpack_from(body, at + 4 * i)[0] for i in range(axes + 1))
    at += 4 * (axes + 1)
    data = body[at : at + size]
    if len(data) < size:
        raise ValueError(f"stored outputs are cut off in {name}")
    return name, _decoded(kind, tuple(shape), data), at + size


def _encoded(
    name: str, value: NDArray[np.float32] | bytes, *, mask: bool
) -> tuple[int, tuple[int, ...], bytes]:
    if isinstance(value, bytes):
        runs = mask_to_runs(value) if mask and value else None
        if runs is None:
            return _BYTES, (), value
        kind = _RUNS16 if runs[1].max(initial=0) < 2**16 else _RUNS32
        return kind, runs[0], runs[1].astype("<u2" if kind == _RUNS16 else "<u4").tobytes()
    largest = float(np.abs(value).max(initial=0))
    half = name == "EMBEDDING" and _HALF[0] <= largest <= _HALF[1]
    return _FP16 if half else _FP32, value.shape, value.astype("<f2" if half else "<f4").tobytes()


def _decoded(kind: int, shape: tuple[int, ...], data: bytes) -> NDArray[np.float32] | bytes:
    if kind == _BYTES:
        return data
    if kind in {_FP32, _FP16}:
        array = np.frombuffer(data, dtype="<f4" if kind == _FP32 else "<f2")
        return array.astype(np.float32).reshape(shape)
    if kind in {_RUNS16, _RUNS32}:
        runs = np.frombuffer(data, dtype="<u2" if kind == _RUNS16 else "<u4")
        return runs_to_mask((shape[0], shape[1]), runs.astype(np.uint32))
    raise ValueError(f"stored outputs have a tensor of kind {kind}; a newer editjudge wrote it")


def mask_to_runs(png: bytes) -> tuple[tuple[int, int], NDArray[np.uint32]] | None:
    """A mask as run lengths, in COCO's order.

    Returns:
        Height and width, and the lengths of runs down the columns, left to right; the first
        run is black and may have length 0. None where the picture is no mask (coloured,
        transparent, damaged): its bytes are all that can be kept.
    """
    try:
        selected = load_mask(png).selected
    except ImageError:
        return None
    flat = selected.ravel(order="F")
    changes = np.flatnonzero(flat[1:] != flat[:-1]) + 1
    edges = np.concatenate(([0], changes, [flat.size]))
    lengths = np.diff(edges) if not flat[0] else np.concatenate(([0], np.diff(edges)))
    height, width = selected.shape
    return (height, width), lengths.astype(np.uint32)


def runs_to_mask(size: tuple[int, int], runs: NDArray[np.uint32]) -> bytes:
    """The 1-bit PNG of run lengths.

    Args:
        size: Height and width in pixels.

    Raises:
        ValueError: the runs do not fill the picture.
    """
    if int(runs.sum()) != size[0] * size[1]:
        raise ValueError(f"run lengths sum to {int(runs.sum())}, not {size[0]} x {size[1]}")
    flat = np.repeat(np.arange(len(runs)) % 2 == 1, runs)
    file = io.BytesIO()
    Pil.fromarray(flat.reshape(size, order="F")).save(file, format="PNG")
    return file.getvalue()
