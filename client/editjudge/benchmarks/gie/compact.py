"""GIE-Bench in 8 MB: the records as they are, the masks as bits.

The data's licence (CC BY-NC-ND) forbids passing on what this writes: everybody converts their
own copy.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import TypeAdapter, ValidationError

from ...base.errors import InputError
from ...base.images import show_path
from ...base.parse import parse_json
from .official_file import SIDE, Packed, read_official

RECORDS, MASKS = "records.json", "masks.npy"
COMPARES = "compares.json"
"""Beside them: of which questions somebody said whether they compare with the source."""
OFFICIAL_FILE = "gie_bench.json"
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
_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Read:
    """The benchmark's data, from either form.

    Attributes:
        folder: Where `image` starts, by default.
        records: Their `FIELDS`, as they were released; unchecked.
        masks: Of each record; a text says what is wrong with it.
        digest: The same for the official file and what was made of it; another one where it was
            decided which questions compare.
        compares: By position, whether a question compares with the source.
    """

    folder: Path
    records: Sequence[Any]
    masks: Sequence[Packed | str]
    digest: str
    compares: Mapping[int, bool] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Compares:
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


_DECIDED = TypeAdapter(list[Compares])


def keep_compares(folder: Path, decided: Iterable[Compares]) -> None:
    """Write what was decided, where it is not what the words say first.

    Raises:
        InputError: the file cannot be written.
    """
    ordered = sorted(decided, key=lambda of: (of.compares == of.words, of.position))
    _write(folder / COMPARES, _DECIDED.dump_json(ordered, indent=1))


def decided_by(folder: Path) -> list[Compares]:
    """What was decided; nothing where there is no such file.

    Raises:
        InputError: the file cannot be read.
    """
    file = folder / COMPARES
    try:
        return _DECIDED.validate_json(file.read_bytes()) if file.exists() else []
    except (OSError, ValidationError) as error:
        why = f"cannot be read: {error}"
        raise InputError(show_path(file), why, "mend it, or remove it") from error


def _decided_of(folder: Path, records: Sequence[Any]) -> dict[int, bool]:
    """What was decided of these records' questions."""
    decided = decided_by(folder)
    for entry in decided:
        record = records[entry.position] if entry.position in range(len(records)) else None
        told = record.get("evaluation_question") if isinstance(record, dict) else None
        if told != entry.question:
            raise InputError(
                show_path(folder / COMPARES),
                f"record {entry.position} has another question than {entry.question!r}",
                "remove the file, or prepare again",
            )
    return {one.position: one.compares for one in decided}


@dataclass(frozen=True, slots=True)
class Converted:
    """What `convert` wrote.

    Attributes:
        folder: What to give as `--data`.
        items: How many records.
        digest: Of the data, as a run's header names it.
        size: Bytes on disk.
    """

    folder: Path
    items: int
    digest: str
    size: int


def convert(source: Path, out: Path) -> Converted:
    """Write GIE-Bench's data in the form that loads at once.

    `out` gets `records.json` and `masks.npy`, and is then given as `--data` in the place of the
    file. The items and their digest are the same, so runs begun with the one go on with the other.
    Images are not copied: they are looked for where they were, beside `source`, by a path
    relative to `out`. What was there from an earlier conversion is replaced.

    Args:
        source: `gie_bench.json` as released, or its folder.
        out: A folder; made where it is not there.

    Raises:
        InputError: `source` cannot be read; nothing is written then.
    """
    source = _official_file(source, "give gie_bench.json as released, or its folder")
    data = _from_official(source)
    if not data.records:
        raise InputError(show_path(source), "no items", "give gie_bench.json as released")
    none = np.zeros((SIDE, SIDE // 8), np.uint8)
    masks = np.stack([none if isinstance(mask, str) else mask for mask in data.masks])
    head = {
        "format": _FORMAT,
        "images": os.path.relpath(data.folder, out.absolute()),
        "no_masks": {str(i): mask for i, mask in enumerate(data.masks) if isinstance(mask, str)},
        "records": data.records,
    }
    array = io.BytesIO()
    np.save(array, masks)
    # The records name the form, so they come last: a conversion that was killed is none.
    size = _write(out / MASKS, array.getvalue())
    size += _write(out / RECORDS, json.dumps(head, indent=1).encode())
    return Converted(out, len(data.records), data.digest, size)


def read(path: Path) -> Read:
    """Read the data, whichever form it is in.

    Args:
        path: `gie_bench.json`, its folder, or a folder that `convert` wrote.

    Raises:
        InputError: there is neither.
    """
    path = path.absolute()
    if (path / RECORDS).is_file():
        return _from_compact(path)
    either = "give gie_bench.json, or the folder that `editjudge prepare gie` wrote"
    return _from_official(_official_file(path, either))


def _official_file(path: Path, mend: str) -> Path:
    """The official file, given as it is or by its folder."""
    path = path.absolute()
    if path.is_dir():
        path /= OFFICIAL_FILE
    if not path.is_file():
        raise InputError(show_path(path), "no such file", mend)
    return path


def _from_official(path: Path) -> Read:
    official, masks = read_official(path)
    records = [_with_fields(record) for record in official]
    return Read(path.parent, records, masks, _digest(records, masks, {}))


def _from_compact(folder: Path) -> Read:
    try:
        head = parse_json((folder / RECORDS).read_bytes())
        # Mapped, so that a header which asks for more than the file has is an error and no memory.
        bits: Any = np.load(folder / MASKS, mmap_mode="r", allow_pickle=False)
        records, images = head["records"], os.path.normpath(folder / head["images"])
        no_masks: Mapping[str, str] = head["no_masks"]
        form, due = (head["format"], bits.dtype, bits.shape), (len(records), SIDE, SIDE // 8)
        wrong = "" if form == (_FORMAT, np.uint8, due) else f"has another form: {form}"
    except (OSError, ValueError, KeyError, TypeError, OverflowError) as error:
        wrong = f"cannot be read: {error}"
    if wrong:
        raise InputError(show_path(folder), wrong, "convert gie_bench.json again")
    decided = _decided_of(folder, records)
    masks = [no_masks.get(str(position), mask) for position, mask in enumerate(bits)]
    return Read(Path(images), records, masks, _digest(records, masks, decided), decided)


def _with_fields(record: Any) -> Any:
    if not isinstance(record, dict):
        return record
    return {name: record[name] for name in FIELDS if name in record}


def _digest(
    records: Iterable[Any], masks: Iterable[Packed | str], decided: Mapping[int, bool]
) -> str:
    digest = hashlib.sha256()
    if decided:
        digest.update(json.dumps(sorted(decided.items())).encode())
    for record, mask in zip(records, masks, strict=True):
        digest.update(json.dumps(record, sort_keys=True, default=str).encode())
        digest.update(mask.encode() if isinstance(mask, str) else mask.tobytes())
    return f"sha256:{digest.hexdigest()}"


def _write(path: Path, data: bytes) -> int:
    """Write a file whole.

    Returns:
        Its bytes.
    """
    part = path.with_name(f"{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_bytes(data)
        part.replace(path)
    except OSError as error:
        raise InputError(show_path(path), f"cannot be written: {error.strerror}") from error
    return len(data)
