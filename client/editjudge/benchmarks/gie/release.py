"""Reads GIE-Bench's data: the official file, or the folder of 8 MB that `convert` makes of it.

The official file is 600 MB of JSON. Nearly all of it are masks, which are 7 MB as bits. A JSON
parser takes seconds and makes 54 million integers of them. So this module maps the file into
memory, cuts out every mask as text, checks it and packs it to bits. Only the rest, about a
megabyte, is parsed as JSON. So masks take no more memory than their bits.

Records have no ids, so an item is called by its position in the list. A list that lost a record
would shift all items after it. So `convert` stores a digest of each record, and refuses to replace
or to read another list; of the official file the number of records and the positions of odd ones
are compared with the release.

Some questions compare the edited image with the source, so the judge must be shown both. A file
beside the converted data, `compares.json`, can decide for each question whether it compares.

The data's licence (CC BY-NC-ND) forbids passing on what `convert` writes, so every user converts
their own copy.
"""

import base64
import hashlib
import json
import mmap
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter, ValidationError

from ...base.errors import InputError
from ...base.images import format_path
from ...base.output_files import write_file
from ...base.parse import describe_failure, parse_json
from ...base.text import format_count
from .taxonomy import TABLES

OFFICIAL_FILE = "gie_bench.json"
CONVERTED_FILE = "records.json"
COMPARES = "compares.json"
"""The file beside it with the decisions whether questions compare with the source."""
SIDE = 224
"""Rows and columns of every mask."""
MAX_REST = 64 * 1024 * 1024
"""The largest size in bytes of the text without its masks, and of one mask's text."""
FIELDS: tuple[str, ...] = tuple(TABLES["release"]["fields"])
"""The fields of a record that are used, besides its mask."""

PackedMask: TypeAlias = NDArray[np.uint8]
"""A mask as uint8 of shape (224, 28): eight pixels in a byte, the first in the highest bit."""

_MASK = "object_mask"
_KEY = re.compile(rb'"object_mask"\s*:\s*(?=\[)')
_SPACE = b" \t\r\n"
_ZEROS = np.frombuffer(b"[" + b"0," * (SIDE - 1) + b"0],", np.uint8)
_ONES = np.frombuffer(b"[" + b"1," * (SIDE - 1) + b"1],", np.uint8)
_MISSING, _OTHER = "is missing", f"is not {SIDE} rows of {SIDE} zeros and ones"


@dataclass(frozen=True, slots=True)
class Release:
    """The benchmark's data, read from the official file or a converted folder.

    Attributes:
        folder: The folder to which the field `image` refers by default.
        records: The `FIELDS` of each record as released, unchecked.
        masks: The mask of each record, or a text that says why it cannot be used.
        compares: By position of a record, the decision whether its question compares with the
            source; questions without a decision are left out.
    """

    folder: Path
    records: Sequence[Any]
    masks: Sequence[PackedMask | str]
    compares: Mapping[int, bool] = field(default_factory=dict)

    @property
    def record_digests(self) -> list[str]:
        """The digest of each record with its mask, 16 hex digits."""
        return [hashlib.sha256(content).hexdigest()[:16] for content in self._encode_records()]

    @property
    def digest(self) -> str:
        """The digest of the data, `sha256:` and 64 hex digits.

        It is the same for the official file and the converted folder, but decisions change it.
        """
        digest = hashlib.sha256()
        if self.compares:
            digest.update(json.dumps(sorted(self.compares.items())).encode())
        for content in self._encode_records():
            digest.update(content)
        return f"sha256:{digest.hexdigest()}"

    def _encode_records(self) -> Iterator[bytes]:
        for record, mask in zip(self.records, self.masks, strict=True):
            text = json.dumps(record, sort_keys=True, default=str).encode()
            yield text + (mask.encode() if isinstance(mask, str) else mask.tobytes())

    def describe_difference(self) -> str:
        """Describe how the list differs from the released one in length or order, or return "".

        A user may have fixed records, so a mask of one colour may be gone but not appear.
        """
        count, released_count = len(self.records), TABLES["release"]["records"]
        if count != released_count:
            return (
                f"{format_count(count, 'record')}, {released_count:,} were released: outputs must "
                "be named by the positions in this list, not by those in the release"
            )
        uniform = (i for i, m in enumerate(self.masks) if not isinstance(m, str) and np.ptp(m) == 0)
        places = TABLES["release"]["uniform_masks"]
        if others := sorted({*uniform} - {*places}):
            return (
                f"record {others[0]} has a mask of one colour, as in the release only "
                f"{', '.join(map(str, places))}: the records seem to be in another order"
            )
        return ""


@dataclass(frozen=True, slots=True)
class ComparisonDecision:
    """The decision whether one question compares with the source.

    Attributes:
        position: The position of the record.
        question: The text of the question; the decision counts only for this text.
        compares: The decision. Users may change it in the file.
        words: The result of the word list, which is used for questions without a decision.
    """

    position: int
    question: str
    compares: bool
    words: bool


_DECISIONS = TypeAdapter(list[ComparisonDecision])


def write_decisions(folder: Path, decisions: Iterable[ComparisonDecision]) -> None:
    """Write the decisions; those that differ from the result of the word list come first.

    Raises:
        InputError: the file cannot be written.
    """
    sorted_decisions = sorted(decisions, key=lambda each: (each.compares == each.words, each.position))
    _write(folder / COMPARES, _DECISIONS.dump_json(sorted_decisions, indent=1))


def read_decisions(folder: Path) -> list[ComparisonDecision]:
    """Read the decisions; an empty list if the folder has no such file.

    Raises:
        InputError: the file cannot be read.
    """
    file = folder / COMPARES
    try:
        return _DECISIONS.validate_json(file.read_bytes()) if file.exists() else []
    except (OSError, ValidationError) as error:
        why = f"cannot be read: {describe_failure(error)}"
        raise InputError(format_path(file), why, "fix it, or remove it") from error


def read_release(path: Path) -> Release:
    """Read the data from the official file or a converted folder.

    Args:
        path: `gie_bench.json`, its folder, or a folder that `convert` wrote.

    Raises:
        InputError: the path is none of these, or the data cannot be read.
    """
    path = path.absolute()
    if (path / CONVERTED_FILE).is_file():
        return _from_converted(path)
    either = "give gie_bench.json, or the folder that `editjudge prepare gie` wrote"
    return _from_official(_official_file(path, either))


def convert(source: Path, out: Path) -> int:
    """Convert GIE-Bench's data to a small folder that is read at once.

    Users give `out` as `--data` instead of the official file. The items and their digest are the
    same, so a run begun with one can be resumed with the other. Images are not copied: `out` stores
    the relative path to the folder of `source`.

    Args:
        source: `gie_bench.json` as released, or its folder.
        out: The folder to write; it is created if needed.

    Returns:
        The size of the written file in bytes.

    Raises:
        InputError: `source` cannot be read, or `out` holds another list; nothing is written then.
    """
    source = _official_file(source, "give gie_bench.json as released, or its folder")
    data = _from_official(source)
    if not data.records:
        raise InputError(format_path(source), "no items", "give gie_bench.json as released")
    before = data
    with suppress(InputError):  # a damaged conversion is replaced
        before = _from_converted(out)
    if why := _compare_lists(before.record_digests, data.record_digests):
        fix = "outputs and runs by the earlier list have its positions: give another --out"
        raise InputError(format_path(out), f"holds another list: {why}", fix)
    document = {
        "images": os.path.relpath(data.folder, out.absolute()),
        "digests": data.record_digests,
        "records": data.records,
        "masks": [m if isinstance(m, str) else _encode_mask(m) for m in data.masks],
    }
    return _write(out / CONVERTED_FILE, json.dumps(document, indent=1).encode())


def _compare_lists(before: Sequence[Any], now: Sequence[Any]) -> str:
    """Return where two lists first differ, by position from 0; "" if they do not."""
    if before == now:
        return ""
    pairs = enumerate(zip(before, now, strict=False))
    at = next((at for at, (old, new) in pairs if old != new), min(len(before), len(now)))
    counts = f"{len(now):,} records instead of {len(before):,}, " * (len(before) != len(now))
    return f"{counts}the first that differs is record {at}"


def unpack_mask(bits: PackedMask) -> NDArray[np.bool_]:
    """Unpack a mask to bool of shape (224, 224), True where the edit may change the source."""
    return np.unpackbits(bits, axis=1).astype(np.bool_)


def _column(records: Iterable[Any], name: str) -> list[Any]:
    return [record.get(name) if isinstance(record, dict) else None for record in records]


def _official_file(path: Path, fix: str) -> Path:
    """Return the absolute path of the official file, which may be given by its folder."""
    path = path.absolute()
    if path.is_dir():
        path /= OFFICIAL_FILE
    if not path.is_file():
        raise InputError(format_path(path), "no such file", fix)
    return path


def _from_official(path: Path) -> Release:
    official, masks = _read_official(path)
    records = [
        {name: record[name] for name in FIELDS if name in record} if isinstance(record, dict) else record
        for record in official
    ]
    return Release(path.parent, records, [_get_mask(m, masks) for m in _column(official, _MASK)])


def _from_converted(folder: Path) -> Release:
    try:
        document = parse_json((folder / CONVERTED_FILE).read_bytes())
        records, images = document["records"], os.path.normpath(folder / document["images"])
        pairs = zip(records, document["masks"], strict=True)
        masks = [m if m in {_MISSING, _OTHER} else _decode_mask(m) for _, m in pairs]
        digests = list(map(str, document["digests"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        why = f"cannot be read: {describe_failure(error)}"
        raise InputError(format_path(folder), why, "convert gie_bench.json again") from error
    data = Release(Path(images), records, masks, _load_decisions(folder, records))
    if why := _compare_lists(digests, data.record_digests):
        why = f"is not as it was converted: {why}"
        raise InputError(format_path(folder / CONVERTED_FILE), why, "convert gie_bench.json again")
    return data


def _load_decisions(folder: Path, records: Sequence[Any]) -> dict[int, bool]:
    """Read the decisions, by position of the record, and check that they fit these records.

    Raises:
        InputError: the file cannot be read, or has a decision about another question.
    """
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
    """Return the mask that was cut out of a record, or why it cannot be used.

    Args:
        placeholder: The value in the place of the mask: a list with the number of the mask.
        masks: All masks that were cut out.
    """
    if isinstance(placeholder, list) and len(placeholder) == 1:
        return masks[placeholder[0]]
    return _MISSING if placeholder is None else _OTHER


def _read_official(path: Path) -> tuple[list[Any], list[PackedMask | str]]:
    """Read the records, with `[<number>]` in the place of each mask, and the masks by number.

    The memory that it takes is bounded.

    Raises:
        InputError: the file cannot be read, or is no list of records.
    """
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
            rest, masks = _cut_masks(path, text)
        read = parse_json(rest)
    except (OSError, ValueError) as error:
        raise InputError(
            format_path(path), f"cannot be read as JSON: {describe_failure(error)}", "give gie_bench.json as released"
        ) from error
    if not isinstance(read, list):
        raise InputError(format_path(path), "is not a list of records", "give gie_bench.json")
    return read, masks


def _cut_masks(path: Path, text: mmap.mmap) -> tuple[bytes, list[PackedMask | str]]:
    """Cut the masks out of the text; return the rest and the masks.

    The rest has `[<number>]` in the place of each mask. Nothing else can look like this, since
    every list after the key `object_mask` is cut out.
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
        # The mask's line ends stay, so that a JSON error names the right line of the file.
        rest += text[start : key.end()] + b"[%d]" % len(masks) + b"\n" * body.count(b"\n")
        masks.append(_pack_mask(body))
        start = key.end() + len(body)
    if len(rest) + len(text) - start > MAX_REST:
        raise _not_released(path)
    rest += text[start:]
    return bytes(rest.removeprefix(b"\xef\xbb\xbf")), masks


def _find_list_end(text: mmap.mmap, start: int) -> int:
    """Find the end of a list of numbers: the position of the next quote or closing brace, or -1."""
    limit = min(len(text), start + MAX_REST)
    quote = text.find(b'"', start, limit)
    brace = text.find(b"}", start, quote if quote >= 0 else limit)
    return brace if brace >= 0 else quote


def _not_released(path: Path) -> InputError:
    what = f"has more than {MAX_REST >> 20} MiB besides its masks"
    return InputError(format_path(path), what, "give gie_bench.json as released")


def _pack_mask(body: bytes) -> PackedMask | str:
    """Pack a mask's JSON text to bits; return what is wrong with it if it is no mask."""
    text = body.translate(None, _SPACE)
    if len(text) != SIDE * len(_ZEROS) + 1 or text[:1] != b"[" or text[-1:] != b"]":
        return _OTHER
    rows = np.frombuffer(text[1:-1] + b",", np.uint8).reshape(SIDE, len(_ZEROS))
    if not ((rows == _ZEROS) | (rows == _ONES)).all():
        return _OTHER
    return np.packbits(rows[:, 1:-1:2] == ord("1"), axis=1)


def _write(path: Path, data: bytes) -> int:
    """Write a file atomically; return its size in bytes."""
    try:
        write_file(path, data)
    except OSError as error:
        raise InputError(format_path(path), f"cannot be written: {error.strerror}") from error
    return len(data)
