"""How version 2 stored texts and specialists' outputs: for its migration only.

Texts were deflated with a preset dictionary, those of verdicts with the replies that they rest on
as well. Outputs had a form of their own.
"""

from __future__ import annotations

import json
import operator
import struct
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..base.contracts import Tensors
from .codec import dumps, runs_to_mask

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
_HEAD = struct.Struct("<BBB")
_COUNT = struct.Struct("<I")
_BYTES, _FP32, _FP16, _RUNS16, _RUNS32 = range(5)


def unpacked(stored: bytes, before: bytes = b"") -> Any:
    """JSON of version 2.

    Args:
        before: What `said_by` gives for the calls that a verdict rests on.

    Raises:
        ValueError: it is damaged.
    """
    try:
        expander = zlib.decompressobj(zdict=_DICTIONARIES[stored[0]] + before)
        data = expander.decompress(stored[1:])
    except (IndexError, KeyError, zlib.error) as error:
        raise ValueError(f"stored text cannot be read: {error}") from error
    if not expander.eof:
        raise ValueError("stored text is cut off")
    return json.loads(data.decode("utf-8", "surrogatepass"))


def said_by(calls: Iterable[Mapping[str, Any]]) -> bytes:
    """What was taken as already said where a verdict was stored.

    Args:
        calls: As `editjudge.panel.said.Said` shows them, in the order of the verdict's column.
    """
    texts = []
    for call in calls:
        counted = ("prompt_tokens", "cached_tokens", "completion_tokens", "cost")
        usage = {name: call[name] for name in counted}
        evidence = {"call": call["call"], "judge": call["model"], "prompt": call["prompt"]}
        texts.append(dumps([call["reply"], {**evidence, "usage": {"calls": 1, **usage}}]))
    return "".join(texts).encode("utf-8", "surrogatepass")


def parts(evidence: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Evidence, and within it that of its own readings."""
    return [evidence, *evidence.get("readings", {}).values()]


def without_replies(
    detail: Mapping[str, Any], calls: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """A verdict's detail without what its evidence repeats of the replies it rests on.

    Args:
        calls: As for `said_by`, in the order in which they were made.
    """
    evidence = detail.get("evidence", {})
    rest = _without(evidence, calls)
    if "readings" in rest:
        readings = {name: _without(one, calls) for name, one in rest["readings"].items()}
        rest["readings"] = {name: one for name, one in readings.items() if one}
        if not rest["readings"]:
            del rest["readings"]
    others = {name: one for name, one in detail.items() if name != "evidence"}
    return {**others, "evidence": rest} if rest else others


def _without(evidence: Mapping[str, Any], calls: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    keys = [one["call"] for one in calls]
    listed = evidence.get("calls", [evidence.get("call")])
    mine = [calls[keys.index(key)] for key in listed if key in keys]
    if not mine or len(mine) < len(listed):
        return dict(evidence)
    repeated = _repeated(mine, is_choice="probabilities" in evidence)
    return {
        name: one
        for name, one in evidence.items()
        if not (name in repeated and repeated[name](one))
    }


def _repeated(
    calls: Sequence[Mapping[str, Any]], *, is_choice: bool
) -> dict[str, Callable[[Any], bool]]:
    """By name in evidence, whether a value there says no more than the calls do."""
    keys = [one["call"] for one in calls]
    texts = [one["reply"].get("text") for one in calls if one["reply"]]
    models = {one["model"] for one in calls}
    prompts = {one["prompt"] for one in calls}
    last = (calls[-1]["reply"] or {}) if is_choice else {}
    same = {name: last[name] for name in ("method", "probabilities", "outside") if name in last}
    return {
        "call": lambda value: value in keys,
        "calls": lambda value: value == keys,
        "judge": lambda value: value in models,
        "prompt": lambda value: value in prompts,
        "usage": lambda value: True,  # of these calls: each has its own
        "reply": lambda value: value in texts,
        "replies": lambda value: set(value) <= set(texts),
        "reasoning": lambda value: any(_is_said(value, text) for text in texts),
        **{name: partial(operator.eq, one) for name, one in same.items()},
    }


def _is_said(reasoning: str, reply: str | None) -> bool:
    """Whether a reply holds every part of a reasoning that was read from it."""
    escaped = (dumps(part)[1:-1] for part in reasoning.split("\n\n"))
    return reply is not None and all(
        part in reply or plain in reply
        for part, plain in zip(escaped, reasoning.split("\n\n"), strict=True)
    )


def outputs(stored: bytes) -> Tensors:
    """A specialist's outputs of version 2.

    Raises:
        ValueError: they are damaged.
    """
    if stored[:1] != b"\x01":
        raise ValueError(f"stored outputs have form {stored[:1].hex() or 'none'}, not 01")
    tensors: Tensors = {}
    try:
        body = zlib.decompress(stored[1:])
        at = 0
        while at < len(body):
            name, value, at = _tensor(body, at)
            tensors[name] = value
    except (zlib.error, struct.error, UnicodeDecodeError) as error:
        raise ValueError(f"stored outputs cannot be read: {error}") from error
    return tensors


def _tensor(body: bytes, at: int) -> tuple[str, NDArray[np.float32] | bytes, int]:
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


def _decoded(kind: int, shape: tuple[int, ...], data: bytes) -> NDArray[np.float32] | bytes:
    if kind == _BYTES:
        return data
    if kind in {_FP32, _FP16}:
        array = np.frombuffer(data, dtype="<f4" if kind == _FP32 else "<f2")
        return array.astype(np.float32).reshape(shape)
    if kind in {_RUNS16, _RUNS32}:
        runs = np.frombuffer(data, dtype="<u2" if kind == _RUNS16 else "<u4")
        return runs_to_mask((shape[0], shape[1]), runs.astype(np.uint32))
    raise ValueError(f"stored outputs have a tensor of kind {kind}")
