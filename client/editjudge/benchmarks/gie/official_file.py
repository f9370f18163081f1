"""The official file: 600 MB of JSON, nearly all of it masks that are 7 MB of bits.

A JSON parser takes seconds and makes 54 million integers of it. Here every mask is cut out of the
mapped file, checked and packed as it stands, and what remains, about a megabyte, is parsed.
Nothing grows with the masks but their bits.
"""

from __future__ import annotations

import json
import mmap
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ...base.errors import InputError
from ...base.images import show_path
from ...base.parse import parse_json

SIDE = 224
"""Rows and columns of every mask."""
MAX_REST = 64 * 1024 * 1024
"""Bytes that may remain once the masks are cut out, and that one mask may have."""

Packed: TypeAlias = NDArray[np.uint8]
"""A mask: uint8 (224, 28), eight pixels to a byte, the first in the highest bit."""

_KEY = re.compile(rb'"object_mask"\s*:\s*(?=\[)')
_SPACE = b" \t\r\n"
_ZEROS = np.frombuffer(b"[" + b"0," * (SIDE - 1) + b"0],", np.uint8)
_ONES = np.frombuffer(b"[" + b"1," * (SIDE - 1) + b"1],", np.uint8)
_FORM = f"is not {SIDE} rows of {SIDE} zeros and ones"


def read_official(path: Path) -> tuple[list[Any], list[Packed | str]]:
    """Read the official list, in bounded memory.

    Returns:
        The records as parsed, without `object_mask`; and the mask of each, or what is wrong with
        it.

    Raises:
        InputError: it cannot be read, or is no list of records with masks.
    """
    rest, masks, lines = b"", list[Packed | str](), list[int]()
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
            rest, masks, lines = _cut(path, text)
        read = parse_json(rest)
    except (OSError, ValueError) as error:
        why = _told(error, rest, lines) if isinstance(error, json.JSONDecodeError) else str(error)
        raise InputError(
            show_path(path), f"cannot be read as JSON: {why}", "give gie_bench.json as released"
        ) from error
    if not isinstance(read, list):
        raise InputError(show_path(path), "is not a list of records", "give gie_bench.json")
    return [_without_mask(record) for record in read], [_mask_of(record, masks) for record in read]


def packed(mask: NDArray[np.bool_]) -> Packed:
    """Pack a mask, bool (224, 224), True where the edit may change the source."""
    return np.packbits(mask, axis=1)


def unpacked(bits: Packed) -> NDArray[np.bool_]:
    """The mask that was packed."""
    return np.unpackbits(bits, axis=1).astype(np.bool_)


def _cut(path: Path, text: mmap.mmap) -> tuple[bytes, list[Packed | str], list[int]]:
    """The text with `[<its number>]` in the place of each mask, the masks, and their line ends.

    No other list can stand there: every list after the key is cut out.
    """
    rest = bytearray()
    masks: list[Packed | str] = []
    lines: list[int] = []
    start = 0
    while key := _KEY.search(text, start, start + MAX_REST):
        end = _end(text, key.end())
        if end < 0 and len(text) - key.end() > MAX_REST:
            raise _not_released(path)
        if end < 0:
            raise ValueError("it ends inside an object_mask")
        body = text[key.end() : end].rstrip(_SPACE + b",")
        rest += text[start : key.end()] + b"[%d]" % len(masks)
        masks.append(_packed_text(body))
        lines.append(body.count(b"\n"))
        start = key.end() + len(body)
    if len(rest) + len(text) - start > MAX_REST:
        raise _not_released(path)
    rest += text[start:]
    return bytes(rest.removeprefix(b"\xef\xbb\xbf")), masks, lines


def _end(text: mmap.mmap, start: int) -> int:
    """Where the first character stands that no list of numbers holds: a quote or a brace."""
    limit = min(len(text), start + MAX_REST)
    quote = text.find(b'"', start, limit)
    brace = text.find(b"}", start, quote if quote >= 0 else limit)
    return brace if brace >= 0 else quote


def _not_released(path: Path) -> InputError:
    what = f"more than {MAX_REST >> 20} MiB of it are no masks"
    return InputError(show_path(path), what, "give gie_bench.json as released")


def _told(error: json.JSONDecodeError, rest: bytes, lines: list[int]) -> str:
    """What is wrong with the rest, by the line of the file."""
    before = rest[: len(error.doc[: error.pos].encode())]
    return f"{error.msg}: line {error.lineno + sum(lines[: len(_KEY.findall(before))])}"


def _packed_text(body: bytes) -> Packed | str:
    """A mask's JSON, packed, or what is wrong with it."""
    text = body.translate(None, _SPACE)
    if len(text) != SIDE * len(_ZEROS) + 1 or text[:1] != b"[" or text[-1:] != b"]":
        return _FORM
    rows = np.frombuffer(text[1:-1] + b",", np.uint8).reshape(SIDE, len(_ZEROS))
    if not ((rows == _ZEROS) | (rows == _ONES)).all():
        return _FORM
    return packed(rows[:, 1:-1:2] == ord("1"))


def _mask_of(record: Any, masks: list[Packed | str]) -> Packed | str:
    stands = record.get("object_mask") if isinstance(record, Mapping) else None
    if isinstance(stands, list) and len(stands) == 1:
        return masks[stands[0]]
    return "is missing" if stands is None else _FORM


def _without_mask(record: Any) -> Any:
    if not isinstance(record, dict):
        return record
    return {name: value for name, value in record.items() if name != "object_mask"}
