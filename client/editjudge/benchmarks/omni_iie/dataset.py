"""The official data: JSON lists of records that name images by the authors' paths."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cached_property, partial
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError

from ...base.errors import InputError
from ...base.images import load_mask, show_path
from ...base.item import Flaws, Item
from ...base.parse import parse_json
from ...base.words import counted
from ..dataset import Consent, ItemRef, Loading
from ..items import File, Name, Text, blank, said
from ..records import Problem, RecordsFile, ReleasedRecord, Usable, flaws_by
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


def _is_blank(pair: Any) -> bool:
    """Whether a pair lacks its question or its answer: the released scorer skips such."""
    texts = (pair.get("question"), pair.get("correct_answer")) if isinstance(pair, dict) else ("",)
    return any(text is None or (isinstance(text, str) and blank(text)) for text in texts)


class Record(ReleasedRecord):
    """One edit; fields that are not here are left aside.

    A field whose name is nearly that of one that is not given is a flaw of that one: misspelt.

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

    due: ClassVar[tuple[str, ...]] = (
        "sample_id",
        "level",
        "modification_text",
        "original_image_path",
        "modified_image_path",
        "target_mask_path",
    )
    sample_id: Name = ""
    level: str = Field("", pattern=r"^(low|high|[1-9]\d*)$", coerce_numbers_to_str=True)
    modification_text: Text = ""
    original_image_path: File = ""
    modified_image_path: File = ""
    target_mask_path: File = ""
    source_mask_path: Any = None
    entities: Any = None
    qa_pairs: tuple[Pair, ...] | None = None
    scale: Literal["low", "high"] | None = None

    @classmethod
    def read(cls, fields: Any) -> tuple[Self, dict[str, str]]:
        """A record; pairs without a question or an answer are left out of it, as released."""
        record, wrong = super().read(cls._with_whole_pairs(fields))
        absent = cls.model_fields.keys() - fields.keys() - _UNUSED
        for name in fields.keys() - cls.model_fields.keys() - _KNOWN:
            if near := get_close_matches(name, absent, n=1, cutoff=0.85):
                wrong[near[0]] = f"{name}: no such field, did you mean {near[0]}?"
        if fields.get("qa_pairs") and not record.qa_pairs:
            wrong.setdefault("qa_pairs", "no pair has a question and an answer")
        return record, wrong

    @staticmethod
    def _with_whole_pairs(fields: dict[str, Any]) -> dict[str, Any]:
        pairs = fields.get("qa_pairs")
        if not isinstance(pairs, list):
            return fields
        return {**fields, "qa_pairs": [pair for pair in pairs if not _is_blank(pair)]}

    @property
    def folder(self) -> str:
        """The data set's folder, under its name in the outputs."""
        name = PurePosixPath(self.modified_image_path).parent.name
        return _RENAMED.get(name, name)

    @property
    def paths(self) -> tuple[str, str, str]:
        """Original, target, and mask of the target, as they are given."""
        return self.original_image_path, self.modified_image_path, self.target_mask_path


_FIELDS = {
    "modification_text": "instruction",
    "original_image_path": "source",
    "modified_image_path": "target",
    "target_mask_path": "mask",
    "qa_pairs": "questions",
}
"""The field of an item by that of a record."""
_NAMED_BY = ("sample_id", "level", "modified_image_path")
"""The fields of a record that make its id: without them it is no item."""
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
    flaws: Flaws = field(default_factory=dict)
    skipped_pairs: int = 0
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
                notes.append(f"{name}: {counted(there, 'entry', 'entries')}, {due:,} were released")
        if self._unread:
            notes.append(
                f"{LONG} is not read beside {MULTI}: give it by itself to judge its rounds"
            )
        late = [one.id for one in self._usable.items if one.round > ROUNDS]
        if late:
            notes.append(
                f"{counted(len(late), 'entry is', 'entries are')} beyond round {ROUNDS}, which"
                f" count in multi_turn and have no column of their round (first: {late[0]})"
            )
        blank_ones = [one.id for one in self._usable.items if one.skipped_pairs]
        if blank_ones:
            notes.append(
                f"{counted(len(blank_ones), 'entry has', 'entries have')} pairs without a question"
                " or an answer, which are skipped as in the released scorer"
                f" (first: {blank_ones[0]})"
            )
        many = [one.id for one in self._usable.items if len(one.record.qa_pairs or ()) > MOST_PAIRS]
        if many:
            notes.append(
                f"{counted(len(many), 'entry has', 'entries have')} more than {MOST_PAIRS} pairs of"
                f" question and answer; all are asked (first: {many[0]})"
            )
        return tuple(notes)

    def likeness(self, ref: ItemRef) -> bool:
        """Whether questions came with it; everything else all have."""
        return bool(ref.data.record.qa_pairs)

    def load(self, ref: ItemRef, left_encoded: int = 0) -> Item:
        """The item with its images; the mask is the target's, and has its aspect ratio."""
        loading, files = Loading(self.flaws(ref), left_encoded), self._files_of(ref)
        (source,), (where,), (area,) = files["source"], files["target"], files["mask"]
        target = loading.image("target", where)
        return Item(
            id=ref.id,
            sources=loading.images("source", (source,)),
            target=target,
            # Squashing both to a square would hide that the mask is another picture's.
            mask=loading.mask(partial(load_mask, area), target),
            flaws=loading.flaws,
            **ref.data.texts,
        )

    @cached_property
    def _consent(self) -> Consent:
        return Consent(self._folder, self.roots)

    def _files_of(self, ref: ItemRef) -> Mapping[str, tuple[Path, ...]]:
        """Original, target and mask."""
        placed: _Placed = ref.data
        names = ("source", "target", "mask")
        return {name: (Path(p),) for name, p in zip(names, placed.files, strict=True)}

    def mend(self, refs: Sequence[ItemRef]) -> str:
        """Their paths are the authors'."""
        return "say where the authors' folders lie here: --root OLD=NEW" if refs else ""

    def _placed(self, entry: Any) -> _Placed | str:
        """A record in its place, or why it cannot be used."""
        if not isinstance(entry, dict):
            return "is no object"
        record, wrong = Record.read(entry)
        for name in _NAMED_BY:
            if name in wrong:
                return f"{name}: {wrong[name]}"
        if not record.folder:
            return f"modified_image_path: {record.modified_image_path} is in no folder"
        key = f"{record.folder}/{record.sample_id}_{record.level}"
        try:
            _ID.validate_python(key)
        except ValidationError as error:
            path = record.modified_image_path
            return f"modified_image_path: {path} makes the id {key!r}: {said(error, Record)}"
        original, target, mask = map(self._here, record.paths)
        skipped = len(entry.get("qa_pairs") or ()) - len(record.qa_pairs or ())
        flaws = flaws_by(wrong, _FIELDS)
        return _Placed(
            key,
            record,
            (original, target, mask),
            flaws=flaws,
            skipped_pairs=0 if "questions" in flaws else skipped,
        )

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
        read = parse_json(file.read_text("utf-8-sig"))
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
    return [replace(one, switch=switches.get(one.id, "")) for one in items]
