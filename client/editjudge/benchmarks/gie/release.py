"""GIE-Bench's data, from either form: the official file, or the 8 MB that `convert` makes of it.

The official file is 600 MB of JSON, nearly all of it masks that are 7 MB of bits. A JSON parser
takes seconds and makes 54 million integers of it. Here every mask is cut out of the mapped file,
checked and packed as it stands, and what remains, about a megabyte, is parsed. Nothing grows with
the masks but their bits.

The data's licence (CC BY-NC-ND) forbids passing on what `convert` writes: everybody converts their
own copy.
"""

from __future__ import annotations

import base64
import hashlib
import json
import mmap
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter, ValidationError

from ...base.errors import InputError
from ...base.images import format_path
from ...base.parse import parse_json

OFFICIAL_FILE = "gie_bench.json"
CONVERTED_FILE = "records.json"
COMPARES = "compares.json"
"""Beside it: of which questions somebody said whether they compare with the source."""
SIDE = 224
"""Rows and columns of every mask."""
MAX_REST = 64 * 1024 * 1024
"""Bytes that may remain once the masks are cut out, and that one mask may have."""
FIELDS = (
    "edit_instruction",
    "evaluation_question",
    "expected_answer",
    "multiple_choice_options",
    "edit_type",
    "image",
    "image_content_type",
    "url",
)
"""What is kept of a record beside its mask."""

PackedMask: TypeAlias = NDArray[np.uint8]
"""A mask: uint8 (224, 28), eight pixels to a byte, the first in the highest bit."""

_MASK = "object_mask"
_KEY = re.compile(rb'"object_mask"\s*:\s*(?=\[)')
_SPACE = b" \t\r\n"
_ZEROS = np.frombuffer(b"[" + b"0," * (SIDE - 1) + b"0],", np.uint8)
_ONES = np.frombuffer(b"[" + b"1," * (SIDE - 1) + b"1],", np.uint8)
_MISSING, _OTHER = "is missing", f"is not {SIDE} rows of {SIDE} zeros and ones"


@dataclass(frozen=True, slots=True)
class Release:
    """The benchmark's data, from either form.

    Attributes:
        folder: Where `image` starts, by default.
        records: Their `FIELDS`, as they were released; unchecked.
        masks: Of each record; a text says what is wrong with it.
        compares: By position, whether a question compares with the source.
    """

    folder: Path
    records: Sequence[Any]
    masks: Sequence[PackedMask | str]
    compares: Mapping[int, bool] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """The same of both forms; another one where it was decided which questions compare."""
        digest = hashlib.sha256()
        if self.compares:
            digest.update(json.dumps(sorted(self.compares.items())).encode())
        for record, mask in zip(self.records, self.masks, strict=True):
            digest.update(json.dumps(record, sort_keys=True, default=str).encode())
            digest.update(mask.encode() if isinstance(mask, str) else mask.tobytes())
        return f"sha256:{digest.hexdigest()}"


@dataclass(frozen=True, slots=True)
class ComparisonDecision:
    """Whether one question compares with the source, as somebody decided.

    Attributes:
        position: Of the record.
        question: Its text: a decision about another one does not count.
        compares: What was decided; people may change it in the file.
        words: What its words say, by the list of words that stands in for a decision.
    """

    position: int
    question: str
    compares: bool
    words: bool


_DECISIONS = TypeAdapter(list[ComparisonDecision])


def write_decisions(folder: Path, decisions: Iterable[ComparisonDecision]) -> None:
    """Write what was decided, where it is not what the words say first.

    Raises:
        InputError: the file cannot be written.
    """
    sorted_decisions = sorted(decisions, key=lambda of: (of.compares == of.words, of.position))
    _write(folder / COMPARES, _DECISIONS.dump_json(sorted_decisions, indent=1))


def read_decisions(folder: Path) -> list[ComparisonDecision]:
    """What was decided; nothing where there is no such file.

    Raises:
        InputError: the file cannot be read.
    """
    file = folder / COMPARES
    try:
        return _DECISIONS.validate_json(file.read_bytes()) if file.exists() else []
    except (OSError, ValidationError) as error:
        why = f"cannot be read: {error}"
        raise InputError(format_path(file), why, "mend it, or remove it") from error


def read_release(path: Path) -> Release:
    """Read the data, whichever form it is in.

    Args:
        path: `gie_bench.json`, its folder, or a folder that `convert` wrote.

    Raises:
        InputError: there is neither.
    """
    path = path.absolute()
    if (path / CONVERTED_FILE).is_file():
        return _from_converted(path)
    either = "give gie_bench.json, or the folder that `editjudge prepare gie` wrote"
    return _from_official(_official_file(path, either))


def convert(source: Path, out: Path) -> int:
    """Write GIE-Bench's data in the form that loads at once.

    `out` is then given as `--data` in the place of the file. The items and their digest are the
    same, so runs begun with the one go on with the other. Images are not copied: they are looked
    for where they were, beside `source`, by a path relative to `out`.

    Args:
        source: `gie_bench.json` as released, or its folder.
        out: A folder; made where it is not there.

    Returns:
        Bytes on disk.

    Raises:
        InputError: `source` cannot be read; nothing is written then.
    """
    source = _official_file(source, "give gie_bench.json as released, or its folder")
    data = _from_official(source)
    if not data.records:
        raise InputError(format_path(source), "no items", "give gie_bench.json as released")
    document = {
        "images": os.path.relpath(data.folder, out.absolute()),
        "records": data.records,
        "masks": [m if isinstance(m, str) else _encode_mask(m) for m in data.masks],
    }
    return _write(out / CONVERTED_FILE, json.dumps(document, indent=1).encode())


def read_added_field(file: Path, records: Sequence[Any], name: str) -> list[Any]:
    """A field that users add to a copy of the official file, by position; None where it is not.

    Args:
        file: The copy.
        records: Of the data; the copy has the same instructions in the same order.

    Raises:
        InputError: it cannot be read, or is no such copy.
    """
    copies, _ = _read_official(file)
    if _column(copies, FIELDS[0]) != _column(records, FIELDS[0]):
        raise InputError(
            format_path(file),
            "its records are not those of --data",
            f"give a copy of gie_bench.json with `{name}` in its records, or a folder",
        )
    return _column(copies, name)


def unpack_mask(bits: PackedMask) -> NDArray[np.bool_]:
    """The mask that was packed, bool (224, 224), True where the edit may change the source."""
    return np.unpackbits(bits, axis=1).astype(np.bool_)


def _column(records: Iterable[Any], name: str) -> list[Any]:
    return [record.get(name) if isinstance(record, dict) else None for record in records]


def _official_file(path: Path, mend: str) -> Path:
    """The official file, given as it is or by its folder."""
    path = path.absolute()
    if path.is_dir():
        path /= OFFICIAL_FILE
    if not path.is_file():
        raise InputError(format_path(path), "no such file", mend)
    return path


def _from_official(path: Path) -> Release:
    official, masks = _read_official(path)
    records = [
        {name: record[name] for name in FIELDS if name in record}
        if isinstance(record, dict)
        else record
        for record in official
    ]
    return Release(path.parent, records, [_get_mask(m, masks) for m in _column(official, _MASK)])


def _from_converted(folder: Path) -> Release:
    try:
        document = parse_json((folder / CONVERTED_FILE).read_bytes())
        records, images = document["records"], os.path.normpath(folder / document["images"])
        pairs = zip(records, document["masks"], strict=True)
        masks = [m if m in {_MISSING, _OTHER} else _decode_mask(m) for _, m in pairs]
    except (OSError, ValueError, KeyError, TypeError) as error:
        why = f"cannot be read: {error}"
        raise InputError(format_path(folder), why, "convert gie_bench.json again") from error
    return Release(Path(images), records, masks, _check_decisions(folder, records))


def _check_decisions(folder: Path, records: Sequence[Any]) -> dict[int, bool]:
    """What was decided of these records' questions."""
    decisions = read_decisions(folder)
    questions = dict(enumerate(_column(records, "evaluation_question")))
    for entry in decisions:
        if questions.get(entry.position) != entry.question:
            raise InputError(
                format_path(folder / COMPARES),
                f"record {entry.position} has another question than {entry.question!r}",
                "remove the file, or prepare again",
            )
    return {one.position: one.compares for one in decisions}


def _encode_mask(mask: PackedMask) -> str:
    return base64.b64encode(mask.tobytes()).decode("ascii")


def _decode_mask(text: str) -> PackedMask:
    bits = np.frombuffer(base64.b64decode(text, validate=True), np.uint8)
    return bits.reshape(SIDE, SIDE // 8)


def _get_mask(placeholder: Any, masks: Sequence[PackedMask | str]) -> PackedMask | str:
    """The mask that was cut out of a record, by what stands in its place."""
    if isinstance(placeholder, list) and len(placeholder) == 1:
        return masks[placeholder[0]]
    return _MISSING if placeholder is None else _OTHER


def _read_official(path: Path) -> tuple[list[Any], list[PackedMask | str]]:
    """The official list in bounded memory, with `[<its number>]` in the place of each mask.

    Raises:
        InputError: it cannot be read, or is no list of records with masks.
    """
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
            rest, masks = _cut_masks(path, text)
        read = parse_json(rest)
    except (OSError, ValueError) as error:
        why = str(error)
        if isinstance(error, json.JSONDecodeError):
            why = f"{error.msg}: line {error.lineno}"
        raise InputError(
            format_path(path), f"cannot be read as JSON: {why}", "give gie_bench.json as released"
        ) from error
    if not isinstance(read, list):
        raise InputError(format_path(path), "is not a list of records", "give gie_bench.json")
    return read, masks


def _cut_masks(path: Path, text: mmap.mmap) -> tuple[bytes, list[PackedMask | str]]:
    """The text with a number and the line ends in the place of each mask, and the masks.

    No other list can stand there: every list after the key is cut out.
    """
    rest, start = bytearray(), 0
    masks: list[PackedMask | str] = []
    while key := _KEY.search(text, start, start + MAX_REST):
        end = _find_list_end(text, key.end())
        if end < 0 and len(text) - key.end() > MAX_REST:
            raise _not_released(path)
        if end < 0:
            raise ValueError("it ends inside an object_mask")
        body = text[key.end() : end].rstrip(_SPACE + b",")
        # With its line ends, so that an error in the rest is told by the line of the file.
        rest += text[start : key.end()] + b"[%d]" % len(masks) + b"\n" * body.count(b"\n")
        masks.append(_pack_mask(body))
        start = key.end() + len(body)
    if len(rest) + len(text) - start > MAX_REST:
        raise _not_released(path)
    rest += text[start:]
    return bytes(rest.removeprefix(b"\xef\xbb\xbf")), masks


def _find_list_end(text: mmap.mmap, start: int) -> int:
    """Where the first character stands that no list of numbers holds: a quote or a brace."""
    limit = min(len(text), start + MAX_REST)
    quote = text.find(b'"', start, limit)
    brace = text.find(b"}", start, quote if quote >= 0 else limit)
    return brace if brace >= 0 else quote


def _not_released(path: Path) -> InputError:
    what = f"more than {MAX_REST >> 20} MiB of it are no masks"
    return InputError(format_path(path), what, "give gie_bench.json as released")


def _pack_mask(body: bytes) -> PackedMask | str:
    """A mask's JSON, packed, or what is wrong with it."""
    text = body.translate(None, _SPACE)
    if len(text) != SIDE * len(_ZEROS) + 1 or text[:1] != b"[" or text[-1:] != b"]":
        return _OTHER
    rows = np.frombuffer(text[1:-1] + b",", np.uint8).reshape(SIDE, len(_ZEROS))
    if not ((rows == _ZEROS) | (rows == _ONES)).all():
        return _OTHER
    return np.packbits(rows[:, 1:-1:2] == ord("1"), axis=1)


def _write(path: Path, data: bytes) -> int:
    """Write a file whole; returns its bytes."""
    part = path.with_name(f"{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_bytes(data)
        part.replace(path)
    except OSError as error:
        raise InputError(format_path(path), f"cannot be written: {error.strerror}") from error
    return len(data)
