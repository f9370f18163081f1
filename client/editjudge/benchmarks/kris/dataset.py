"""The official data: folders of annotations and images, or all annotations in one list."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

from pydantic import BaseModel, Field, ValidationError, model_validator

from ...base.errors import InputError
from ...base.images import show_path
from ...base.item import Flaws, Item
from ...base.parse import parse_json
from ...base.words import counted
from ..dataset import Consent, ItemRef, Loading
from ..items import File, Name, Text, said
from ..records import Problem, RecordsFile, ReleasedRecord, Usable, flaws_by
from .taxonomy import FOLDERS, FRAMES, SOURCES, TEMPORAL, UNEXPLAINED, task_of

ANNOTATION = "annotation.json"
_FRAME = re.compile(r"(\d+)-(\d+)")


class Record(ReleasedRecord):
    """One annotation.

    Attributes:
        ori_img: The source image, or several.
        gt_img: The ground truth; nothing where there is none.
        ins_en: The instruction.
        explain_en: What is to be expected and why; nothing where there is no such hint.
    """

    due: ClassVar[tuple[str, ...]] = ("ori_img", "ins_en")
    ori_img: Annotated[tuple[File, ...], Field(min_length=1)] = ()
    gt_img: str = ""
    ins_en: Text = ""
    explain_en: Text = ""

    @classmethod
    def read(cls, fields: Any) -> tuple[Self, dict[str, str]]:
        """A record; a field that is not there, under a part of its name, is misspelt."""
        record, wrong = super().read(fields)
        there = fields.keys() if isinstance(fields, dict) else set[str]()
        for absent in cls.model_fields.keys() - there:
            for name in sorted(there - cls.model_fields.keys()):
                if absent.startswith(name):
                    wrong[absent] = f"{name}: no such field, did you mean {absent}?"
        return record, wrong

    @model_validator(mode="before")
    @classmethod
    def _as_released(cls, fields: Any) -> Any:
        """One source is a sequence of one; what is blank says nothing."""
        kept = dict(fields)
        for name in ("gt_img", "explain_en"):
            if name in kept and _is_blank(kept[name]):
                del kept[name]
        if isinstance(kept.get("ori_img"), str):
            kept["ori_img"] = (kept["ori_img"],)
        return kept


_FIELDS = {
    "ori_img": "source",
    "gt_img": "target",
    "ins_en": "instruction",
    "explain_en": "hint",
}
"""The field of an item by that of an annotation."""


def _is_blank(value: Any) -> bool:
    """Whether nothing stands in a field; the release has empty texts there."""
    return value is None or (isinstance(value, str) and not value.strip())


class _Id(BaseModel):
    id: Name


@dataclass(frozen=True, slots=True)
class _Annotated:
    """A record in its place.

    Attributes:
        id: `<folder>/<id>`: outputs lie in the same folders.
        frame: Of temporal prediction: the one to be predicted, 1 to 4.
    """

    id: str
    folder: str
    record: Record
    frame: int | None
    flaws: Flaws = field(default_factory=dict)

    @property
    def sources(self) -> tuple[str, ...]:
        """The source images, frames in the order of time."""
        if self.frame is None:
            return self.record.ori_img
        return tuple(sorted(self.record.ori_img, key=_frame))

    @property
    def has_mask(self) -> bool:
        """No item has one."""
        return False

    @property
    def has_target(self) -> bool:
        """Whether there is a ground truth."""
        return bool(self.record.gt_img)

    @property
    def texts(self) -> dict[str, Any]:
        """Instruction and explanation; of a frame its position too."""
        extra: dict[str, Any] = {"folder": self.folder}
        if self.frame is not None:
            extra["position"] = self.frame
        return {
            "instruction": self.record.ins_en,
            "hint": self.record.explain_en or None,
            "task": task_of(self.folder, self.frame),
            "extra": extra,
        }


class KrisData(RecordsFile):
    """KRIS-Bench as it is released.

    Items are `<folder>/<id>`, so a model's outputs are `<model>/<folder>/<id>.jpg` and the like.
    Folders that are not there are left out.

    Args:
        path: The folder with `<folder>/annotation.json`, or a JSON list of all annotations, each
            with `id` and `type` (its folder), beside these folders.
        roots: Folders outside its own whose pictures it may name.
    """

    name = "kris"

    def __init__(self, path: Path, roots: Mapping[str, str] | None = None) -> None:
        self.path = path.absolute()
        self._folder = self.path if path.is_dir() else self.path.parent
        self._roots = dict(roots or {})
        self._files = self._annotations()
        if not self._files:
            raise InputError(
                show_path(path), f"no <task>/{ANNOTATION} and no list of annotations", self._mend()
            )

    def _annotations(self) -> dict[str, Path]:
        """Files by folder; a list of all has the folder ``."""
        if self.path.is_file():
            return {"": self.path}
        files = {folder: self.path / folder / ANNOTATION for folder in FOLDERS}
        return {folder: file for folder, file in files.items() if file.is_file()}

    def _mend(self) -> str:
        """What to give instead of a folder without annotations."""
        if not self.path.exists():
            return "there is no such file or folder"
        lists = list(self.path.glob("*.json"))
        if len(lists) == 1 and any((self.path / folder).is_dir() for folder in FOLDERS):
            return f"if the list of all annotations is {lists[0].name}, give {show_path(lists[0])}"
        return "give the folder that holds color_change, biology, …, or the list itself"

    @cached_property
    def digest(self) -> str:
        """Of the annotations; images are not in it."""
        digest = hashlib.sha256()
        for folder, file in self._files.items():
            digest.update(f"{folder}\n".encode())
            digest.update(hashlib.sha256(file.read_bytes()).digest())
        return "sha256:" + digest.hexdigest()

    @cached_property
    def _usable(self) -> Usable:
        read = Usable()
        seen: set[str] = set()
        for folder, file in self._files.items():
            for where, number, fields in _records(folder, file, read.problems):
                record = _annotated(where, number, fields)
                if isinstance(record, str):
                    read.problems.append(Problem(f"{where}/{number}", record))
                elif record.id in seen:
                    problem = Problem(record.id, "there is an item of this id already")
                    read.problems.append(problem)
                else:
                    seen.add(record.id)
                    read.items.append(record)
        return read

    def checked(self) -> Iterator[ItemRef]:
        """The items, while their fields, ids and files are checked.

        Raises:
            InputError: after the last item, with all that is wrong, up to `MAX_PROBLEMS`.
        """
        self._beside()
        yield from super().checked()

    def _beside(self) -> None:
        """A list needs its folders beside it; other runners keep it among their code."""
        folders = dict.fromkeys(record.folder for record in self._usable.items)
        if folders and not any((self._folder / folder).is_dir() for folder in folders):
            raise InputError(
                show_path(self.path),
                f"is not beside its images: {show_path(self._folder)} holds no folder"
                f" {next(iter(folders))}, nor any other that the list names",
                f"copy or link the list to where these folders are, or give their folder where"
                f" it has <task>/{ANNOTATION}",
            )

    def notes(self) -> tuple[str, ...]:
        """How the data differs from the release, by folder; there are later revisions."""
        by_folder: dict[str, list[_Annotated]] = {
            folder: [] for folder in FOLDERS if folder in self._files
        }
        for record in self._usable.items:
            by_folder.setdefault(record.folder, []).append(record)
        there = [folder for folder in FOLDERS if folder in by_folder]
        counts = [
            f"{folder}: {counted(len(by_folder[folder]), 'item')},"
            f" {FOLDERS[folder]:,} were released"
            for folder in there
            if len(by_folder[folder]) != FOLDERS[folder]
        ]
        if absent := [folder for folder in FOLDERS if folder not in by_folder]:
            counts.append(f"no items of {len(absent)} folders: {', '.join(absent)}")
        if counts:
            released = sum(FOLDERS.values())
            items = counted(len(self._usable.items), "item")
            counts.append(f"{items} in all, {released:,} were released")
        odd = (note for folder in there for note in _odd(folder, by_folder[folder]))
        return (*odd, *counts)

    def likeness(self, ref: ItemRef) -> tuple[int, bool, bool]:
        """How many sources, and whether there are a ground truth and an explanation."""
        record = ref.data.record
        return len(record.ori_img), bool(record.gt_img), bool(record.explain_en)

    def load(self, ref: ItemRef, left_encoded: int = 0) -> Item:
        """The item with its images, frames in the order of time."""
        record: _Annotated = ref.data
        loading, files = Loading(self.flaws(ref), left_encoded), self._files_of(ref)
        return Item(
            id=ref.id,
            sources=loading.images("source", files["source"]),
            target=loading.image("target", next(iter(files.get("target", ())), None)),
            flaws=loading.flaws,
            **record.texts,
        )

    @cached_property
    def _consent(self) -> Consent:
        return Consent(self._folder, self._roots)

    def _files_of(self, ref: ItemRef) -> Mapping[str, tuple[Path, ...]]:
        """Sources, then the ground truth."""
        record: _Annotated = ref.data
        folder = self._folder / record.folder
        files = {"source": tuple(folder / name for name in record.sources)}
        if record.record.gt_img:
            files["target"] = (folder / record.record.gt_img,)
        return files


def _records(
    folder: str, file: Path, problems: list[Problem]
) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Folder, id and fields of each annotation."""

    def fields(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        by_name = dict(pairs)
        if len(by_name) < len(pairs):
            names = [name for name, _ in pairs]
            twice = dict.fromkeys(name for name in names if names.count(name) > 1)
            places = (f"{folder or file.name}/{name}" for name in twice)
            problems.extend(Problem(place, "twice in the file") for place in places)
        return by_name

    try:
        read = parse_json(file.read_text("utf-8-sig"), pairs=fields)
    except (OSError, ValueError) as error:
        raise InputError(show_path(file), f"cannot be read: {error}") from error
    if folder and isinstance(read, dict):
        for number, annotation in read.items():
            yield folder, number, annotation
    elif not folder and isinstance(read, list):
        for position, annotation in enumerate(read, 1):
            if isinstance(annotation, dict):
                rest = {k: v for k, v in annotation.items() if k not in {"id", "type"}}
                yield str(annotation.get("type", "")), str(annotation.get("id", "")), rest
            else:
                problems.append(Problem(file.name, f"entry {position} is no object"))
    else:
        kind = "an object of annotations by id" if folder else "a list of annotations"
        mend = "" if folder else f"of <task>/{ANNOTATION} give the folder above <task>"
        raise InputError(show_path(file), f"is not {kind}", mend)


def _annotated(folder: str, number: str, fields: Any) -> _Annotated | str:
    """A record in its place, or why it cannot be used."""
    if folder not in FOLDERS:
        return f"type {folder!r} is none of the {len(FOLDERS)} folders of KRIS-Bench"
    try:
        name = _Id(id=number).id
    except ValidationError as error:
        return said(error, Record)
    record, wrong = Record.read(fields)
    frame = None
    if folder == TEMPORAL:
        frames = sorted(map(_frame, record.ori_img))
        missing = set(range(1, FRAMES + 1)) - set(frames)
        if len(missing) != 1 or len(frames) != FRAMES - 1:
            # Which task it is, and so in which column it would count, nobody can tell.
            return f"ori_img: three of the frames 1 to {FRAMES} are due, not {frames}"
        frame = missing.pop()
        if record.gt_img and _frame(record.gt_img) != frame:
            wrong["gt_img"] = f"{record.gt_img} is not frame {frame}, which is the one left out"
    if folder == "viewpoint_change" and not record.gt_img:
        wrong.setdefault("gt_img", "is missing, though its prompt needs the ground truth")
    return _Annotated(f"{folder}/{name}", folder, record, frame, flaws_by(wrong, _FIELDS))


def _odd(folder: str, items: Sequence[_Annotated]) -> Iterator[str]:
    """Where a folder's items have other sources, or fewer explanations, than the release."""
    due = SOURCES[folder]
    others = [one for one in items if len(one.sources) not in due]
    if others:
        counts = sorted({len(one.sources) for one in others})
        has = f"{due[0]} to {due[-1]}" if len(due) > 1 else f"{due[0]}"
        yield (
            f"{folder}: {counted(len(others), 'item')} with {' or '.join(map(str, counts))}"
            f" source{'' if counts == [1] else 's'} where the release has {has}"
            f" (first: {others[0].id})"
        )
    without = [one for one in items if not one.record.explain_en]
    released = UNEXPLAINED.get(folder, len(items))
    if len(without) > released:
        yield (
            f"{folder}: {counted(len(without), 'item')} without an explanation where the release"
            f" has {released} (first: {without[0].id})"
        )


def _frame(name: str) -> int:
    match = _FRAME.search(name)
    return int(match[2]) if match else 0
