"""GIE-Bench in 8 MB: the records as they are, the masks as bits.

The data's licence (CC BY-NC-ND) forbids passing on what this writes: everybody converts their
own copy.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import TypeAdapter, ValidationError

from ...base.errors import InputError
from ...base.images import show_path
from ...base.parse import parse_json
from .official_file import SIDE, OfficialFile, Packed, read_official

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
    text = _DECIDED.dump_json(ordered, indent=1).decode()
    try:
        _replace(folder / COMPARES, lambda path: path.write_text(text, "utf-8"))
    except OSError as error:
        raise InputError(show_path(folder), f"cannot be written: {error.strerror}") from error


def decided_by(folder: Path) -> list[Compares]:
    """What was decided; nothing where there is no such file.

    Raises:
        InputError: the file cannot be read.
    """
    file = folder / COMPARES
    try:
        return _DECIDED.validate_json(file.read_bytes())
    except FileNotFoundError:
        return []
    except (OSError, ValidationError) as error:
        raise InputError(
            show_path(file), f"cannot be read: {error}", "mend it, or remove it"
        ) from error


def decided_in(folder: Path, records: Sequence[Any]) -> dict[int, bool]:
    """What was decided of these records' questions.

    Raises:
        InputError: the file cannot be read, or is about other questions.
    """
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
    try:
        out.mkdir(parents=True, exist_ok=True)
        # The records name the form, so they come last: a conversion that was killed is none.
        _replace(out / MASKS, lambda path: _save(path, masks))
        text = json.dumps(head, ensure_ascii=False, indent=1)
        _replace(out / RECORDS, lambda path: path.write_text(text, "utf-8"))
        size = sum((out / name).stat().st_size for name in (RECORDS, MASKS))
    except OSError as error:
        raise InputError(show_path(out), f"cannot be written: {error.strerror}") from error
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
    released: OfficialFile = read_official(path)
    records = [_kept(one) for one in released.records]
    return Read(path.absolute().parent, records, released.masks, _digest(records, released.masks))


def _from_compact(folder: Path) -> Read:
    try:
        head = parse_json((folder / RECORDS).read_bytes())
        # Mapped, so that a header which asks for more than the file has is an error and no memory.
        masks: Any = np.load(folder / MASKS, mmap_mode="r", allow_pickle=False)
        records, images = head["records"], os.path.normpath(folder / head["images"])
        wrong_masks: dict[str, str] = head.get("no_masks", {})
        wrong = _mismatch(head["format"], len(records), masks)
    except (OSError, ValueError, KeyError, TypeError, OverflowError) as error:
        wrong = f"cannot be read: {error}"
    if wrong:
        raise InputError(show_path(folder), wrong, "convert gie_bench.json again")
    decided = decided_in(folder, records)
    bits = _with_wrong(list(masks), wrong_masks)
    return Read(Path(images), records, bits, _digest(records, bits, decided), decided)


def _with_wrong(masks: list[Packed], wrong: Mapping[str, str]) -> list[Packed | str]:
    """The masks, with what is wrong in the place of those that are none."""
    return [wrong.get(str(position), mask) for position, mask in enumerate(masks)]


def _mismatch(format_: Any, count: int, masks: Any) -> str:
    """Why the two files are not what `convert` writes now, if they are not."""
    if format_ != _FORMAT:
        return f"is of format {format_}, {_FORMAT} is read"
    due = (count, SIDE, SIDE // 8)
    if masks.dtype != np.uint8 or masks.shape != due:
        return f"{MASKS} is {masks.dtype} {masks.shape}, not uint8 {due}"
    return ""


def _kept(record: Any) -> Any:
    if not isinstance(record, dict):
        return record
    return {name: record[name] for name in FIELDS if name in record}


def _digest(
    records: Iterable[Any],
    masks: Iterable[Packed | str],
    decided: Mapping[int, bool] | None = None,
) -> str:
    digest = hashlib.sha256()
    if decided:
        digest.update(json.dumps(sorted(decided.items())).encode())
    for record, mask in zip(records, masks, strict=True):
        digest.update(json.dumps(record, sort_keys=True, default=str).encode())
        digest.update(mask.encode() if isinstance(mask, str) else mask.tobytes())
    return f"sha256:{digest.hexdigest()}"


def _save(path: Path, masks: Packed) -> None:
    with path.open("wb") as file:
        np.save(file, masks)


def _replace(path: Path, write: Callable[[Path], object]) -> None:
    part = path.with_name(path.name + ".part")
    write(part)
    part.replace(path)
