"""Evil Tritons: what they say of an edit costs what it was asked for, and nothing beside it."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import numpy as np
from tritonclient.grpc import service_pb2

from editjudge.base.config import Endpoint, Secret, Settings
from editjudge.base.errors import ConfigError

from ..fakes.grpc_server import Failure
from ..fakes.triton import ScriptedTriton, reply, score
from . import judges
from .judges import ITEMS, KEY, SECRET, Values, make_data, values
from .trials import Attack, Violation

_QUALITY, _TEXT = "core.quality.piqe", "core.text_content_accuracy"
_ESCAPES = "\x1b[2J\x1b[31m[/m]\x07\u202e\n\n"
Change = Callable[[Any], Any]
"""Of a good reply: another one, a `Failure`, or seconds to wait."""


def read(text: str | bytes, boxes: int = 1, confidences: int = 1) -> Any:
    """A reply of OCR."""
    return reply(
        TEXT=text, BOXES=np.zeros((1, boxes, 4, 2), np.float32), CONFIDENCE=np.ones((1, confidences), np.float32)
    )


def _tensor(index: int = 0, **fields: Any) -> Change:
    def change(good: Any) -> Any:
        for name, value in fields.items():
            if name == "shape":
                del good.outputs[index].shape[:]
                good.outputs[index].shape.extend(value)
            elif name == "raw":
                good.raw_output_contents[index] = value
            else:
                setattr(good.outputs[index], name, value)
        return good

    return change


def _with(**fields: Any) -> Change:
    return _and(lambda good: [setattr(good, name, value) for name, value in fields.items()])


def _and(more: Callable[[Any], Any]) -> Change:
    def change(good: Any) -> Any:
        more(good)
        return good

    return change


def _number(value: float) -> Change:
    def change(good: Any) -> Any:
        raw = struct.pack("<f", value) * (len(good.raw_output_contents[-1]) // 4)
        return _tensor(-1, raw=raw)(good)

    return change


def _parameters(good: Any) -> None:
    for index in range(5000):
        good.parameters[f"x{index}"].string_param = "y" * 50


def _abstains(kind: str) -> Change:
    return lambda _: Failure(grpc.StatusCode.INVALID_ARGUMENT, f"abstained/{kind}")


_CODES = [code for code in grpc.StatusCode if code is not grpc.StatusCode.OK]
_KINDS = ("", "bored: no", "degenerate", "degenerate:", f"refused: {_ESCAPES}", "a" * 9000, "unparsable")
_SHAPES = ([], [1], [0, 1], [1, 0], [2, 1], [1, -1], [2**62, 2**62], [1, 1, 1], [-(2**63), 1])
_TYPES = ("FP64", "FP16", "INT32", "BOOL", "BYTES", "STRING", "", "evil", "x" * 9000)

REPLIES: dict[str, Change] = {
    **{f"status {code.name}": lambda _, c=code: Failure(c, f"no {_ESCAPES}") for code in _CODES},
    **{
        f"status {code.name} of {name}": lambda _, c=code, d=detail: Failure(c, d)
        for code in (grpc.StatusCode.INTERNAL, grpc.StatusCode.UNAVAILABLE)
        for name, detail in (("nothing", ""), ("much", "x" * 4000), ("Triton", "Exceeds maximum queue"))
    },
    **{f"abstains {i}": _abstains(kind) for i, kind in enumerate(_KINDS)},
    **{f"shape {shape}": _tensor(shape=shape) for shape in _SHAPES},
    **{f"last shape {shape}": _tensor(-1, shape=shape) for shape in _SHAPES},
    **{f"type {i}": _tensor(datatype=kind) for i, kind in enumerate(_TYPES)},
    **{f"last type {i}": _tensor(-1, datatype=kind) for i, kind in enumerate(_TYPES)},
    **{f"name {i}": _tensor(name=name) for i, name in enumerate(("", "OTHER", "x" * 9000, _ESCAPES))},
    **{
        f"number {value}": _number(value)
        for value in (float("nan"), float("inf"), float("-inf"), -0.1, 1.0001, 1e38, -1e-30)
    },
    "raw nothing": _tensor(raw=b""),
    "raw cut": _and(lambda good: _tensor(raw=good.raw_output_contents[0][:-1])(good)),
    "raw too long": _and(lambda good: _tensor(raw=good.raw_output_contents[0] + b"\0")(good)),
    "raw of a lie": _tensor(raw=b"\xff\xff\xff\xff"),
    "raw 1 GiB": _tensor(raw=struct.pack("<I", 1 << 30) + b"x"),
    "raw several": _tensor(raw=struct.pack("<I", 0) * 50),
    "no raw": _and(lambda good: good.ClearField("raw_output_contents")),
    "more raw": _and(lambda good: good.raw_output_contents.append(b"\0\0\0\0")),
    "no outputs": _and(lambda good: good.ClearField("outputs")),
    "nothing": _and(lambda good: good.Clear()),
    "twice": _and(lambda good: good.MergeFrom(_copy(good))),
    "one more": _and(lambda good: good.MergeFrom(score(0.9))),
    "inline": _and(lambda good: good.outputs[0].contents.fp32_contents.append(0.9)),
    "parameters": _and(_parameters),
    "another model": _with(model_name="quality_other"),
    "no model": _with(model_name=" "),
    "escapes for a model": _with(model_name=_ESCAPES),
    "another version": _with(model_version="2"),
    "long version": _with(model_version="9" * 5000),
    "another id": _with(id="someone-else"),
    "no UTF-8": _tensor(raw=struct.pack("<I", 4) + b"\xff\xfe\xfd\xfc"),
    "the key": _tensor(raw=struct.pack("<I", len(SECRET)) + SECRET.encode()),
    "escapes": _tensor(raw=struct.pack("<I", 5) + b"\x1b[31m"),
    "2 MiB of text": lambda _: read("x" * (2 << 20)),
    "40 MiB of text": lambda _: read("x" * (40 << 20)),
    "boxes without end": lambda _: read("x", 70_000, 70_000),
    "unlike counts": lambda _: read("x", 2, 1),
    "hangs": lambda _: 60.0,
}


def _copy(good: Any) -> Any:
    copy = service_pb2.ModelInferResponse()
    copy.CopyFrom(good)
    return copy


class EvilTriton(ScriptedTriton):
    """Honest about all pictures but one, and of itself unless it is told to lie.

    Attributes:
        lied: How often it was evil.
    """

    def __init__(self, change: Change | None, picture: bytes, lie: str = "") -> None:
        super().__init__()
        self.change = change
        self.picture = picture
        self.lie = lie
        self.lied = 0

    async def ModelInfer(self, request: Any, context: Any) -> Any:  # noqa: N802
        text = request.model_name == "ocr_ppocr"
        good = read("SALE") if text else score(0.25)
        if self.change is None or self.picture not in request.raw_input_contents[0]:
            return good
        self.lied += 1
        answer = self.change(good)
        if isinstance(answer, float):
            await asyncio.sleep(answer)
        elif isinstance(answer, Failure):
            await context.abort(answer.code, answer.detail.replace("\n", " "))
        return answer if not isinstance(answer, float) else good

    async def ServerMetadata(self, request: Any, context: Any) -> Any:  # noqa: N802
        if self.lie == "hangs":
            await asyncio.sleep(60)
        if self.lie == "fails":
            await context.abort(grpc.StatusCode.INTERNAL, "no")
        return await super().ServerMetadata(request, context)

    async def ModelReady(self, request: Any, context: Any) -> Any:  # noqa: N802
        if self.lie == "ready hangs":
            await asyncio.sleep(60)
        return await super().ModelReady(request, context)

    async def ModelMetadata(self, request: Any, context: Any) -> Any:  # noqa: N802
        versions = {"no version": (), "odd versions": ("x", "", "-1", _ESCAPES), "many": ("1",) * 9999}
        self.versions = versions.get(self.lie, ("1",))
        return await super().ModelMetadata(request, context)

    async def ModelConfig(self, request: Any, context: Any) -> Any:  # noqa: N802
        if self.lie == "config fails":
            await context.abort(grpc.StatusCode.INTERNAL, "no")
        texts = {"escapes": _ESCAPES, "long": "x" * 100_000, "key": SECRET, "odd": "a=b,c(d)|e"}
        self.implementation = texts.get(self.lie, "scripted.1")
        response = await super().ModelConfig(request, context)
        if self.lie == "bytes":
            response.config.max_batch_size = -5
            response.config.name = "another"
        return response


LIES = ("hangs", "fails", "ready hangs", "no version", "odd versions", "many", "config fails")
LIES = (*LIES, "escapes", "long", "key", "odd", "bytes")


def modes() -> list[tuple[str, str]]:
    """By name of a reply, and what it says of itself."""
    return [(name, "") for name in REPLIES] + [("", lie) for lie in LIES]


def trial(_: int, number: int) -> str:
    every = modes()
    name, lie = every[number % len(every)]
    return judges.besiege(name or lie, lambda folder: _try_triton(REPLIES.get(name), lie, folder))


async def _try_triton(change: Change | None, lie: str, folder: Path) -> str:
    spec = make_data(folder, (_QUALITY, _TEXT))
    picture = (folder / "ours" / "1.png").read_bytes()
    evil, honest = EvilTriton(change, picture, lie), EvilTriton(None, picture)
    async with asyncio.timeout(60), evil.serving() as url:
        try:
            result, told = await judges.run_with_notes(spec, folder, _make_settings(url))
        except ConfigError as error:
            return judges.check_refusal(error, due=bool(lie))
    first = values(folder / "run")
    if not lie:
        async with honest.serving() as url:
            later = await judges.again(spec, folder / "run", _make_settings(url))
            whole = await judges.again(spec, folder / "whole", _make_settings(url))
        _check(first, later, whole, evil.lied, ended=result.status)
    judges.check_said(folder / "run", told)
    if result.status == "done" and len({key for key in first if key[1] == judges.PSNR}) != ITEMS:
        raise Violation("what needs no service has no number")
    return f"{len(first)} scored"


def _check(first: Values, later: Values, whole: Values, lied: int, *, ended: str) -> None:
    if len(whole) != 3 * ITEMS or not lied:
        raise Violation(f"an honest Triton gives {len(whole)} numbers; {lied} lies")
    wrong = {key for key, value in first.items() if whole.get(key) != value}
    # What it reads of a picture may be another text: that is no lie that can be seen.
    if wrong - {("1", _TEXT)}:
        raise Violation(f"invented: {sorted(wrong)}")
    lost = {key for key in whole if key[0] != "1"} - first.keys()
    if lost and ended == "done":  # a key that is judges.refused ends a run
        raise Violation(f"neighbours have no number: {sorted(lost)}")
    if {k: v for k, v in later.items() if k not in wrong} != {k: v for k, v in whole.items() if k not in wrong}:
        raise Violation(f"an honest Triton later gives {len(later)} of {len(whole)} numbers")


def _make_settings(url: str) -> Settings:
    key = {"authorization": Secret(env=KEY)}
    return judges.hasty(endpoints={"a": Endpoint(url=url, headers=key)})


TRITONS = Attack("tritons", trial, full=len(modes()), small=8, seconds=60, mib=512)
