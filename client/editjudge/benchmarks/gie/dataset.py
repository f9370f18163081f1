"""The official data, or what `compact.convert` made of it."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from pydantic import field_validator

from ...answers import Option, Unparsable
from ...base.digest import content_digest
from ...base.images import load_mask, show_path
from ...base.item import Flaws, Item
from ...base.words import counted
from ..comparing import compares
from ..dataset import MAX_PROBLEMS, Consent, ItemRef, Loading, Outputs
from ..frame import FrameMask
from ..items import File, Text, blank
from ..records import RecordsFile, ReleasedRecord, Usable, flaws_by
from . import compact
from .listed import ListedOutputs, listed_outputs
from .official_file import Packed, unpacked
from .taxonomy import EDIT_TYPES


def right_option(answer: str, options: Iterable[str]) -> str | None:
    """The option that an answer is, case and a final full stop apart; None where it is none."""
    try:
        return Option(tuple(options)).parse(answer)
    except Unparsable:
        return None


def question_notes(asked: Iterable[tuple[str, Mapping[str, Any]]]) -> list[str]:
    """What is odd in questions and their answers, one line each.

    Args:
        asked: Ids of items with their questions, as `MultipleChoice` asks them.
    """
    questions = tuple(asked)
    kinds: Mapping[str, Callable[[Mapping[str, Any]], bool]] = {
        "the expected answer is no option, so the question cannot be won: it counts as wrong": (
            lambda question: question["answer"] not in question["options"]
        ),
        "the expected answer is no option to the letter (`exact_match`)": (
            lambda question: question["expected"] not in question["options"]
        ),
        "the question compares with the source, which the judge is shown too": (
            lambda question: question["compares"]
        ),
    }
    return listed(
        {what: [id_ for id_, one in questions if is_(one)] for what, is_ in kinds.items()}
    )


def listed(items_by_note: Mapping[str, Iterable[object]]) -> list[str]:
    """Which items are odd in what way, one line each; none for what no item is."""
    notes = []
    for what, ids in items_by_note.items():
        if items := tuple(dict.fromkeys(map(str, ids))):
            shown = ", ".join(items[:MAX_PROBLEMS])
            more = ", …" if len(items) > MAX_PROBLEMS else ""
            count = counted(len(items), "item")
            notes.append(f"{count}: {what} ({shown}{more})")
    return notes


class Record(ReleasedRecord):
    """One record, its mask apart. What users add to it is left aside.

    Attributes:
        multiple_choice_options: As they stand; a blank one is none that anybody could choose.
        edit_type: Of one that is unknown the edit counts in the overall figures alone.
        image: Begins with `/`, which stands for the folder of the images.
    """

    due: ClassVar[tuple[str, ...]] = (
        "edit_instruction",
        "evaluation_question",
        "expected_answer",
        "multiple_choice_options",
        "edit_type",
        "image",
    )
    edit_instruction: Text = ""
    evaluation_question: Text = ""
    expected_answer: Text = ""
    multiple_choice_options: tuple[str, ...] = ()
    edit_type: str = ""
    image: File = ""
    image_content_type: str = ""

    @field_validator("multiple_choice_options")
    @classmethod
    def _can_be_chosen(cls, options: tuple[str, ...]) -> tuple[str, ...]:
        Option(_choices(options))
        return options

    @field_validator("edit_type")
    @classmethod
    def _known(cls, label: str) -> str:
        if label not in EDIT_TYPES:
            raise ValueError(f"{label!r} is none of {', '.join(EDIT_TYPES)}")
        return label

    def question(self, *, decided: bool | None = None) -> dict[str, Any]:
        """As `MultipleChoice` asks it.

        An answer that is no option stays as it is: such a question cannot be answered right.

        Args:
            decided: Whether it compares with the source, where somebody said so; otherwise its
                words tell.
        """
        choices = _choices(self.multiple_choice_options)
        by_words = compares(self.evaluation_question, choices)
        asked = {
            "question": self.evaluation_question,
            "options": list(choices),
            "answer": right_option(self.expected_answer, choices) or self.expected_answer,
            "expected": self.expected_answer,
            "compares": by_words if decided is None else decided,
        }
        if len(choices) < len(self.multiple_choice_options):
            asked["in_line"] = [one.strip() for one in self.multiple_choice_options]
        return asked


def _choices(options: Iterable[str]) -> tuple[str, ...]:
    """The options that can be chosen: those that are not blank."""
    return tuple(one.strip() for one in options if not blank(one))


_FIELDS = {
    "edit_instruction": "instruction",
    "evaluation_question": "questions",
    "expected_answer": "questions",
    "multiple_choice_options": "questions",
    "image": "source",
    "object_mask": "mask",
}
"""The field of an item by that of a record."""


@dataclass(frozen=True, slots=True)
class _Placed:
    """A record with its mask.

    Attributes:
        position: In the list, from 0.
        mask: None where it is none; `flaws` says why.
        decided: Whether the question compares with the source, where somebody said so.
        flaws: What the record holds and cannot be used.
    """

    position: int
    record: Record
    mask: Packed | None
    decided: bool | None
    flaws: Flaws
    has_mask = True
    has_target = False

    @property
    def id(self) -> str:
        """The position: records have no id."""
        return str(self.position)

    @property
    def sources(self) -> tuple[str]:
        """The one source, as the record names it."""
        return (self.record.image,)

    @property
    def questions(self) -> tuple[dict[str, Any], ...]:
        """The one question, as it is asked; none where it cannot be."""
        return () if "questions" in self.flaws else (self.record.question(decided=self.decided),)

    @property
    def texts(self) -> dict[str, Any]:
        """The instruction with its question."""
        record = self.record
        return {
            "instruction": record.edit_instruction,
            "task": EDIT_TYPES.get(record.edit_type, ""),
            "questions": self.questions,
            "extra": {"edit_type": record.edit_type, "content_type": record.image_content_type},
        }


class GieData(RecordsFile):
    """GIE-Bench, 1,080 edits.

    Records have no id, and some share instruction and image: an item's id is its position in the
    list, from 0, so outputs are `<model>/0.png`, `<model>/1.png` and so on.

    Args:
        path: `gie_bench.json` as released, its folder, or the folder that
            `compact.convert` wrote; the images lie beside the official file.
        roots: Where images lie, by how `image` begins: `{"/": "/data/pexels"}` for another
            folder than that.
    """

    name = "gie"

    def __init__(self, path: Path, roots: Mapping[str, str] | None = None) -> None:
        self.path = path.absolute()
        self.roots = dict(roots or {})
        self._longest_first = sorted(self.roots.items(), key=lambda root: -len(root[0]))
        self._read = compact.read(path)
        self._listed: dict[Path, ListedOutputs] = {}

    @property
    def digest(self) -> str:
        """Of the records and masks; images are not in it."""
        return self._read.digest

    @cached_property
    def _usable(self) -> Usable:
        decided = self._read.compares
        both = zip(self._read.records, self._read.masks, strict=True)
        return Usable(
            [_placed(i, fields, mask, decided.get(i)) for i, (fields, mask) in enumerate(both)]
        )

    def notes(self) -> tuple[str, ...]:
        """What is odd in the data as it was released, and changes what a score can be."""
        usable: list[_Placed] = self._usable.items
        same = Counter((item.record.edit_instruction, item.record.image) for item in usable)
        masked = [(item.id, item.mask) for item in usable if item.mask is not None]
        odd = {
            "an option is blank: nobody can choose it, and the others are offered": [
                item.id for item in usable for one in item.questions if "in_line" in one
            ],
            "an all-black mask: nothing may change": [
                id_ for id_, mask in masked if not mask.any()
            ],
            "an all-white mask: nothing is left outside it": [
                id_ for id_, mask in masked if mask.min() == 255
            ],
        }
        asked = [(item.id, one) for item in usable for one in item.questions]
        notes = [*question_notes(asked), *listed(odd)]
        if shared := sum(count - 1 for count in same.values()):
            notes.append(
                f"{counted(shared, 'item repeats', 'items repeat')} another's instruction and image"
            )
        if self._read.compares:
            questions = counted(len(self._read.compares), "question")
            notes.append(f"of {questions} {compact.COMPARES} says which compare")
        return tuple(notes)

    def likeness(self, ref: ItemRef) -> tuple[str]:
        """All items have a source, a mask and a question."""
        return ("gie",)

    def load(self, ref: ItemRef, left_encoded: int = 0) -> Item:
        """The item with its source and its mask."""
        placed: _Placed = ref.data
        loading = Loading(self.flaws(ref), left_encoded)
        bits, name = placed.mask, f"object_mask of {ref.id}"
        read = None if bits is None else lambda: FrameMask.of(load_mask(unpacked(bits), name))
        return Item(
            id=ref.id,
            sources=loading.images("source", self._files_of(ref)["source"]),
            mask=loading.mask(read),
            flaws=loading.flaws,
            **placed.texts,
        )

    def outputs(self, folder: Path) -> Outputs:
        """`<folder>/<position>.png`, or what a copy of the file says (`edited_image_path`)."""
        if not folder.is_file():
            return super().outputs(folder)
        if folder not in self._listed:
            self._listed[folder] = listed_outputs(folder, self._read.records)
        return self._listed[folder]

    def has_outputs(self, folder: Path) -> bool:
        """A folder, or a copy of the released file."""
        return super().has_outputs(folder) or folder.is_file()

    @cached_property
    def _consent(self) -> Consent:
        return Consent(self._read.folder, self.roots)

    def _files_of(self, ref: ItemRef) -> Mapping[str, tuple[Path, ...]]:
        """The source; masks are no files."""
        image: str = ref.data.record.image
        for begins, root in self._longest_first:
            if image.startswith(begins):
                return {"source": (Path(root) / image.removeprefix(begins).lstrip("/"),)}
        return {"source": (self._read.folder / image.lstrip("/"),)}

    def _besides(self, ref: ItemRef) -> tuple[str]:
        """The mask, which is no file."""
        mask: Packed | None = ref.data.mask
        return ("" if mask is None else content_digest(mask.tobytes()),)

    def mend(self, refs: Sequence[ItemRef]) -> str:
        """Where `image` begins otherwise."""
        images = [ref.data.record.image for ref in refs]
        if not images:
            return ""
        here = [p.parent for p in map(Path, images) if p.is_absolute() and p.is_file()]
        if here:
            folder = show_path(Path(os.path.commonpath(here)))
            return f"`image` holds paths of this machine: add --root {folder}"
        return "where images lie in another folder, add --root /=FOLDER"


def _placed(position: int, fields: Any, mask: Packed | str, decided: bool | None) -> _Placed:
    """A record in its place; what cannot be used is a flaw of it."""
    record, wrong = Record.read(fields)
    if isinstance(mask, str):
        return _Placed(
            position,
            record,
            None,
            decided,
            flaws_by({**wrong, "object_mask": mask}, _FIELDS),
        )
    return _Placed(position, record, mask, decided, flaws_by(wrong, _FIELDS))
