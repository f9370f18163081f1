"""The official data: JSON lists of records that name images by the authors' paths."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from ...base.errors import InputError
from ...base.images import load_image, load_mask, show_path
from ...base.item import Item
from ..dataset import ItemRef
from ..items import File, Name, Text, said
from ..records import Problem, RecordsFile, Usable
from .taxonomy import LISTS, LONG, MOST_PAIRS, MULTI, ROUNDS, SINGLE

_RENAMED = {"sharegpt4v(llava)": "sharegpt4v"}
"""Folders that the official code looks for under another name."""


def _written(answer: Any) -> Any:
    """Numbers and truth values as texts: an answer may be `2`, or `true`, which becomes `True`."""
    plain = isinstance(answer, int) or (isinstance(answer, float) and math.isfinite(answer))
    return str(answer) if plain else answer


class Pair(BaseModel):
    """A question about the right result, and its answer; other fields are left aside."""

    model_config = ConfigDict(extra="ignore", frozen=True)
    question: Text
    correct_answer: Annotated[Text, BeforeValidator(_written)]


class Record(BaseModel):
    """One edit; fields that are not here are left aside.

    A field whose name is nearly that of one that is not given is refused as misspelt.

    Attributes:
        sample_id: Of the image; several folders and levels have the same.
        level: `low` or `high`, the semantic scale; in a dialogue the round, from 1.
        modification_text: The instruction.
        original_image_path: The image before the edit.
        modified_image_path: The target; the name of its folder is the data set's.
        target_mask_path: What was edited in the target; white is edited.
        source_mask_path: The same in the original image; not used.
        entities: What was edited, with boxes; not used.
        qa_pairs: Questions that are asked about the result; generated where there are none.
        scale: Of a round of a dialogue: its semantic scale, where somebody added it.
    """

    model_config = ConfigDict(extra="ignore", frozen=True)
    sample_id: Name
    level: str = Field(pattern=r"^(low|high|[1-9]\d*)$", coerce_numbers_to_str=True)
    modification_text: Text
    original_image_path: File
    modified_image_path: File
    target_mask_path: File
    source_mask_path: Any = None
    entities: Any = None
    qa_pairs: tuple[Pair, ...] | None = None
    scale: Literal["low", "high"] | None = None

    @model_validator(mode="before")
    @classmethod
    def _spelt_right(cls, fields: Any) -> Any:
        if isinstance(fields, dict):
            absent = cls.model_fields.keys() - fields.keys() - _UNUSED
            for name in fields.keys() - cls.model_fields.keys() - _KNOWN:
                if near := get_close_matches(name, absent, n=1, cutoff=0.85):
                    raise ValueError(f"{name}: no such field, did you mean {near[0]}?")
        return fields

    @property
    def folder(self) -> str:
        """The data set's folder, under its name in the outputs."""
        name = PurePosixPath(self.modified_image_path).parent.name
        return _RENAMED.get(name, name)

    @property
    def paths(self) -> tuple[str, str, str]:
        """Original, target, and mask of the target, as they are given."""
        return self.original_image_path, self.modified_image_path, self.target_mask_path


_KNOWN = {"qa_pairs_error"}
_UNUSED = {"source_mask_path", "entities"}
_ID = TypeAdapter[str](Name)


@dataclass(frozen=True, slots=True)
class _Placed:
    """A record with what its neighbours say of it.

    Attributes:
        files: Original, target and mask, where they lie here.
        switch: Of a round: from which scale to which; empty where nobody knows.
    """

    id: str
    record: Record
    files: tuple[str, str, str]
    switch: str = ""
    has_mask = True
    has_target = True

    @property
    def sources(self) -> tuple[str]:
        """The original."""
        return self.files[:1]

    @property
    def texts(self) -> dict[str, Any]:
        """The instruction with its questions; scene, level and switch for the tables."""
        record = self.record
        return {
            "instruction": record.modification_text,
            "task": f"round_{self.round}" if self.round else record.level,
            "questions": tuple(
                {"question": pair.question, "answer": pair.correct_answer}
                for pair in record.qa_pairs or ()
            ),
            "extra": {"scene": self.scene, "level": record.level, "switch": self.switch},
        }

    @property
    def scene(self) -> str:
        """What the two scales of an image, or the rounds of a dialogue, have in common."""
        return f"{self.record.folder}/{self.record.sample_id}"

    @property
    def round(self) -> int:
        """Of a dialogue, from 1; 0 of a single edit."""
        return int(self.record.level) if self.record.level.isdecimal() else 0


@dataclass
class _Lists(Usable):
    """The items of the lists.

    Attributes:
        counts: How many entries each list has, by its file's name.
    """

    counts: dict[str, int] = field(default_factory=dict)


class OmniData(RecordsFile):
    """Omni IIE Bench as it is released.

    Items are `<data set's folder>/<sample_id>_<level>`, so a model's outputs are
    `<model>/<folder>/<sample_id>_<level>.png` and the like.

    Args:
        path: The folder with one or several of the lists, or one list. The long list of dialogues
            is read where the other one is not there.
        roots: Beginnings of the authors' paths, each with the folder that is here instead; the
            longest that fits counts. What is relative then lies beside the lists.
    """

    name = "omni_iie"
    entries = ("entry", "entries")

    def __init__(self, path: Path, roots: Mapping[str, str] | None = None) -> None:
        self.path = path.absolute()
        self.roots = dict(roots or {})
        self._folder = self.path if path.is_dir() else self.path.parent
        self._unread = False
        if self.path.is_file():
            self._files = [self.path]
        else:
            there = {name: self.path / name for name in LISTS if (self.path / name).is_file()}
            # Its rounds were filtered into the other list: together they would count twice.
            self._unread = there.keys() >= {MULTI, LONG}
            if self._unread:
                del there[LONG]
            self._files = list(there.values())
        if not self._files:
            raise InputError(
                show_path(path),
                f"no {SINGLE}, no {MULTI} and no {LONG}",
                "give their folder, or one of them",
            )

    @cached_property
    def digest(self) -> str:
        """Of the lists; images are not in it."""
        digest = hashlib.sha256()
        for file in self._files:
            digest.update(hashlib.sha256(file.read_bytes()).digest())
        return "sha256:" + digest.hexdigest()

    @cached_property
    def _usable(self) -> _Lists:
        read = _Lists()
        first: dict[str, str] = {}
        for file in self._files:
            listed = _list(file)
            read.counts[file.name] = len(listed)
            for position, entry in enumerate(listed, 1):
                where = f"{file.name}, entry {position}"
                record = self._placed(entry)
                if isinstance(record, str):
                    read.problems.append(Problem(where, record))
                elif record.id in first:
                    what = f"{record.id} is that of {first[record.id]} already"
                    read.problems.append(Problem(where, what))
                else:
                    first[record.id] = where
                    read.items.append(record)
        read.items = _with_switches(read.items)
        return read

    def notes(self) -> tuple[str, ...]:
        """Lists of another length than the release, and entries beyond what the paper has."""
        notes = []
        for name, due in LISTS.items():
            there = self._usable.counts.get(name)
            if there is not None and there != due:
                notes.append(f"{name}: {there:,} entries, {due:,} were released")
        if self._unread:
            notes.append(
                f"{LONG} is not read beside {MULTI}: give it by itself to judge its rounds"
            )
        late = [one.id for one in self._usable.items if one.round > ROUNDS]
        if late:
            notes.append(
                f"{len(late):,} entries are beyond round {ROUNDS}: they count in multi_turn and"
                f" have no column of their round (first: {late[0]})"
            )
        many = [one.id for one in self._usable.items if len(one.record.qa_pairs or ()) > MOST_PAIRS]
        if many:
            notes.append(
                f"{len(many):,} entries have more than {MOST_PAIRS} pairs of question and answer;"
                f" all are asked (first: {many[0]})"
            )
        return tuple(notes)

    def likeness(self, ref: ItemRef) -> bool:
        """Whether questions came with it; everything else all have."""
        return bool(ref.data.record.qa_pairs)

    def load(self, ref: ItemRef) -> Item:
        """The item with its images; the mask is the target's.

        Raises:
            ImageError: an image cannot be read, or the mask has another aspect ratio than the
                target.
        """
        source, where, area = self.pictures(ref)
        target, mask = load_image(where), load_mask(area)
        # Squashing both to a square would hide that the mask is another picture's.
        mask.fitted(target.size)
        return Item(
            id=ref.id,
            sources=(load_image(source),),
            target=target,
            mask=mask,
            **ref.data.texts,
        )

    def pictures(self, ref: ItemRef) -> tuple[Path, ...]:
        """Original, target and mask."""
        placed: _Placed = ref.data
        return tuple(map(Path, placed.files))

    def _mend_lost(self, lost: Sequence[ItemRef]) -> str:
        return "say where the authors' folders lie here: --root OLD=NEW" if lost else ""

    def _placed(self, entry: Any) -> _Placed | str:
        """A record in its place, or why it cannot be used."""
        if not isinstance(entry, dict):
            return "is no object"
        try:
            record = Record.model_validate(entry)
        except ValidationError as error:
            return said(error, Record)
        if not record.folder:
            return f"modified_image_path: {record.modified_image_path} is in no folder"
        key = f"{record.folder}/{record.sample_id}_{record.level}"
        try:
            _ID.validate_python(key)
        except ValidationError as error:
            path = record.modified_image_path
            return f"modified_image_path: {path} makes the id {key!r}: {said(error, Record)}"
        original, target, mask = map(self._here, record.paths)
        return _Placed(key, record, (original, target, mask))

    def _here(self, path: str) -> str:
        """Where a file lies that the authors had at a path."""
        for old in sorted(self.roots, key=len, reverse=True):
            rest = path.removeprefix(old)
            if rest != path and (old.endswith("/") or rest.startswith("/") or not rest):
                path = os.path.join(self.roots[old], rest.lstrip("/"))  # noqa: PTH118
                return str(Path(path).absolute())
        return os.path.join(self._folder, path)  # noqa: PTH118 - absolute ones stay


def _list(file: Path) -> list[Any]:
    try:
        read = json.loads(file.read_text("utf-8-sig"))
    except (OSError, ValueError) as error:
        raise InputError(show_path(file), f"cannot be read: {error}") from error
    if not isinstance(read, list):
        raise InputError(show_path(file), "is not a list of records")
    return read


def _with_switches(items: list[_Placed]) -> list[_Placed]:
    """Rounds whose scale is known told apart by the scale of the round before them."""
    before: dict[str, _Placed] = {}
    switches: dict[str, str] = {}
    rounds = [one for one in items if one.round]
    for item in sorted(rounds, key=lambda item: item.round):
        scene = item.scene
        last = before.get(scene)
        if last is not None and last.record.scale and item.record.scale:
            same = last.record.scale == item.record.scale
            named = f"{last.record.scale}_to_{item.record.scale}"
            switches[item.id] = "same_scale" if same else named
        before[scene] = item
    return [_Placed(one.id, one.record, one.files, switches.get(one.id, "")) for one in items]
