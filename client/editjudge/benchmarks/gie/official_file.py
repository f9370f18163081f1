"""The official file: 600 MB of JSON, nearly all of it masks that are 7 MB of bits.

A JSON parser takes seconds and makes 54 million integers of it. Here the file passes by once, in
pieces: every mask is cut out, checked and packed as it stands, and what remains, about a
megabyte, is parsed. Nothing grows with the masks but their bits.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ...base.errors import InputError
from ...base.images import show_path
from ...base.parse import parse_json

SIDE = 224
"""Rows and columns of every mask."""
PIECE = 4 * 1024 * 1024
"""Bytes read at a time."""
MAX_REST = 64 * 1024 * 1024
"""Bytes that may remain once the masks are cut out, and that one mask may have."""

Packed: TypeAlias = NDArray[np.uint8]
"""A mask: uint8 (224, 28), eight pixels to a byte, the first in the highest bit."""

_KEY = re.compile(rb'"object_mask"\s*:\s*(?=\[)')
_LONGEST_KEY = 256
_SPACE = b" \t\r\n"
_ZEROS = np.frombuffer(b"[" + b"0," * (SIDE - 1) + b"0],", np.uint8)
_ONES = np.frombuffer(b"[" + b"1," * (SIDE - 1) + b"1],", np.uint8)
_FORM = f"is not {SIDE} rows of {SIDE} zeros and ones"


@dataclass
class OfficialFile:
    """What the file holds.

    Attributes:
        records: As parsed, without `object_mask`.
        masks: Of each record; a text says what is wrong with it.
    """

    records: list[Any] = field(default_factory=list)
    masks: list[Packed | str] = field(default_factory=list)


def read_official(path: Path) -> OfficialFile:
    """Read the official list, in bounded memory.

    Raises:
        InputError: it cannot be read, or is no list of records with masks.
    """
    cut, rest = _Cut(path), b""
    try:
        with path.open("rb") as file:
            rest = b"".join(cut.rest_of(file)).removeprefix(b"\xef\xbb\xbf")
        read = parse_json(rest)
    except (OSError, ValueError) as error:
        why = cut.told(error, rest) if isinstance(error, json.JSONDecodeError) else str(error)
        raise InputError(
            show_path(path), f"cannot be read as JSON: {why}", "give gie_bench.json as released"
        ) from error
    if not isinstance(read, list):
        raise InputError(show_path(path), "is not a list of records", "give gie_bench.json")
    released = OfficialFile()
    for record in read:
        released.masks.append(_mask_of(record, cut.masks))
        known = isinstance(record, dict)
        released.records.append(
            {k: v for k, v in record.items() if k != "object_mask"} if known else record
        )
    return released


def packed(mask: NDArray[np.bool_]) -> Packed:
    """Pack a mask, bool (224, 224), True where the edit may change the source."""
    return np.packbits(mask, axis=1)


def unpacked(bits: Packed) -> NDArray[np.bool_]:
    """The mask that was packed."""
    return np.unpackbits(bits, axis=1).astype(np.bool_)


class _Cut:
    """Cuts masks out of JSON; in the place of each stands `[<its number>]`.

    No other list can stand there: every list after the key is cut out.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.masks: list[Packed | str] = []
        self._lines: list[int] = []

    def told(self, error: json.JSONDecodeError, rest: bytes) -> str:
        """What is wrong with the rest, by the line of the file."""
        before = rest[: len(error.doc[: error.pos].encode())]
        return f"{error.msg}: line {error.lineno + sum(self._lines[: len(_KEY.findall(before))])}"

    def rest_of(self, file: BinaryIO) -> Iterator[bytes]:
        """The text without its masks."""
        text, inside, size = b"", False, 0
        for piece in iter(lambda: file.read(PIECE), b""):
            done, text, inside = self._cut(text + piece, inside=inside)
            size += len(done)
            if size > MAX_REST or len(text) > MAX_REST:
                raise InputError(
                    show_path(self.path),
                    f"more than {MAX_REST >> 20} MiB of it are no masks",
                    "give gie_bench.json as released",
                )
            yield done
        if inside:
            raise ValueError("it ends inside an object_mask")
        yield text

    def _cut(self, text: bytes, *, inside: bool) -> tuple[bytes, bytes, bool]:
        """What is done with, the text still to be looked at, and whether that is in a mask."""
        done: list[bytes] = []
        while True:
            if not inside:
                key = _KEY.search(text)
                if key is None:
                    # The key may be cut in two by the end of the piece.
                    keep = max(0, len(text) - _LONGEST_KEY)
                    return b"".join([*done, text[:keep]]), text[keep:], False
                done.append(text[: key.end()])
                text = text[key.end() :]
            end = _end(text)
            if end is None:
                return b"".join(done), text, True
            body = text[:end].rstrip(_SPACE + b",")
            done.append(b"[%d]" % len(self.masks))
            self.masks.append(_packed_text(body))
            self._lines.append(body.count(b"\n"))
            text, inside = text[len(body) :], False


def _end(text: bytes) -> int | None:
    """Where the first character stands that no list of numbers holds: a quote or a brace."""
    quote = text.find(b'"')
    brace = text.find(b"}", 0, quote if quote >= 0 else len(text))
    end = brace if brace >= 0 else quote
    return end if end >= 0 else None


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
