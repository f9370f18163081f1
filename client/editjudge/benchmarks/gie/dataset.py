"""The released data, or what `compact.convert` made of it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image as Pil
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from ...answers import Option, Unparsable
from ...errors import InputError
from ...images import Mask, load_image, load_mask, show_path
from ...item import Item
from ..dataset import (
    MAX_PROBLEMS,
    ItemRef,
    OutputFolder,
    Outputs,
    placeholder,
    placeholder_mask,
    unusable,
)
from ..items import File, Text, said
from . import compact
from .released import Packed, unpacked
from .taxonomy import EDIT_TYPES

PLACES = (
    "altar", "audience", "building", "camera", "crowd", "curtain", "door", "fire", "fireplace",
    "gate", "house", "mirror", "screen", "table", "wall", "window",
)  # fmt: skip
"""What people and things stand before."""
_OTHER_IMAGE = re.compile(
    rf"""\b(
        original(ly)? | unedited | unmodified | unaltered | previous(ly)? | earlier | initial(ly)?
      | (first|input|source)\ (image|picture|photo\w*)
      | (both|two)\ (images|pictures|photos)
      | the\ source (?!\ of\b)
      # Not of a place, as before the altar; but before the house was painted.
      | before (?!\ (the|an?)\ ({"|".join(PLACES)})\b (?!\ (was|were|is|are|had|has|got)\b))
      | used\ to\ be | than\ (it|they|s?he)\ (was|were)
      | compar\w* | differ\w* | changed | unchanged | (stay(s|ed)?|remain\w*)\ the\ same
    )\b""",
    re.IGNORECASE | re.VERBOSE,
)
_QUOTED = re.compile(
    r"""(?<!\w)(?:"[^"]*"|'(?=\S)[^']*'|\u201c[^\u201d]*\u201d|\u2018[^\u2019]*\u2019)(?!\w)"""
)
"""What stands in quotes; an apostrophe within a word opens and closes none."""
_SO_CALLED = re.compile(
    r"""(?<!\w)["'\u201c\u2018](\w+)["'\u201d\u2019](?=\s+(image|picture|photo))""", re.IGNORECASE
)
"""One word in quotes that says which image: the "original" image."""


def compares(question: str, options: Iterable[str]) -> bool:
    """Whether a question, or an option, speaks of the image as it was (section 3.5).

    The paper shows the source where the question asks for a comparison, and does not say how that
    is told. Here it is told by words: those that name the other image (original, first image,
    unedited, both images, …), a time before (before, previously, used to be, …) and those of
    comparing (compared, different, changed, unchanged, stayed the same). What is quoted does not
    count, since it is text in the image, unless it is one word that says which image is meant.
    Where in doubt the source is shown: a question that needs it cannot be answered without.
    """
    return any(_OTHER_IMAGE.search(_unquoted(text)) for text in (question, *options))


def _unquoted(text: str) -> str:
    """Without what is quoted, and with single spaces."""
    return " ".join(_QUOTED.sub(" ", _SO_CALLED.sub(r"\1", text)).split())


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
            lambda one: one["answer"] not in one["options"]
        ),
        "the expected answer is no option to the letter (`exact_match`)": (
            lambda one: one["expected"] not in one["options"]
        ),
        "the question compares with the source, which the judge is shown too": (
            lambda one: one["compares"]
        ),
    }
    return listed(
        {what: [id_ for id_, one in questions if is_(one)] for what, is_ in kinds.items()}
    )


def listed(found: Mapping[str, Iterable[object]]) -> list[str]:
    """Which items are odd in what way, one line each; none for what no item is."""
    notes = []
    for what, given in found.items():
        if items := tuple(dict.fromkeys(map(str, given))):
            shown = ", ".join(items[:MAX_PROBLEMS])
            more = ", …" if len(items) > MAX_PROBLEMS else ""
            count = f"{len(items):,} item{'' if len(items) == 1 else 's'}"
            notes.append(f"{count}: {what} ({shown}{more})")
    return notes


class Record(BaseModel):
    """One record, its mask apart. What users add to it is left aside.

    Attributes:
        image: Begins with `/`, which stands for the folder of the images.
    """

    model_config = ConfigDict(extra="ignore", frozen=True)
    edit_instruction: Text
    evaluation_question: Text = Field(min_length=1)
    expected_answer: Text = Field(min_length=1)
    multiple_choice_options: tuple[Text, ...]
    edit_type: str
    image: File
    image_content_type: str = ""

    @field_validator("multiple_choice_options")
    @classmethod
    def _can_be_chosen(cls, given: tuple[str, ...]) -> tuple[str, ...]:
        options = tuple(one.strip() for one in given)
        Option(options)
        return options

    @field_validator("edit_type")
    @classmethod
    def _known(cls, given: str) -> str:
        if given not in EDIT_TYPES:
            raise ValueError(f"{given!r} is none of {', '.join(EDIT_TYPES)}")
        return given

    @property
    def question(self) -> dict[str, Any]:
        """As `MultipleChoice` asks it.

        An answer that is no option stays as it is: such a question cannot be answered right.
        """
        return {
            "question": self.evaluation_question,
            "options": list(self.multiple_choice_options),
            "answer": right_option(self.expected_answer, self.multiple_choice_options)
            or self.expected_answer,
            "expected": self.expected_answer,
            "compares": compares(self.evaluation_question, self.multiple_choice_options),
        }


class FrameMask(Mask):
    """A mask that is laid over the whole frame of an image, whatever its sides.

    The released masks are square, their images are not; and an output may have another aspect
    ratio than the source that a mask was made for.
    """

    @classmethod
    def of(cls, mask: Mask) -> FrameMask:
        """A mask, laid over whole frames from now on."""
        return cls(mask.name, mask.encoded, mask.pixels, mask.notes)

    def fitted(self, size: tuple[int, int]) -> FrameMask:
        """The mask at another size, stretched (nearest neighbour)."""
        if size == self.size:
            return self
        stretched = Pil.fromarray(self.selected).resize(size, Pil.Resampling.NEAREST)
        (width, height), (w, h) = self.size, size
        note = f"mask stretched from {width}x{height} to {w}x{h} (nearest)"
        return replace(
            self, pixels=np.asarray(stretched, dtype=np.bool_), notes=(*self.notes, note)
        )


@dataclass(frozen=True, slots=True)
class _One:
    """A record with its mask."""

    record: Record
    mask: Packed


class GieData:
    """GIE-Bench, 1,080 edits.

    Records have no id, and some share instruction and image: an item's id is its position in the
    list, from 0, so outputs are `<model>/0.png`, `<model>/1.png` and so on.

    Args:
        path: `gie_bench.json` as released, its folder, or the folder that
            `compact.convert` wrote; the images lie beside the released file.
        roots: Where images lie, by how `image` begins: `{"/": "/data/pexels"}` for another
            folder than that.
    """

    name = "gie"

    def __init__(self, path: Path, roots: Mapping[str, str] | None = None) -> None:
        self.path = path.absolute()
        self.roots = dict(roots or {})
        self._longest_first = sorted(self.roots.items(), key=lambda one: -len(one[0]))
        self._read = compact.read(path)

    @property
    def digest(self) -> str:
        """Of the records and masks; images are not in it."""
        return self._read.digest

    @cached_property
    def _usable(self) -> tuple[dict[int, _One], dict[int, str]]:
        """Items by position, and what is wrong with the others."""
        usable: dict[int, _One] = {}
        problems: dict[int, str] = {}
        for index, (given, mask) in enumerate(
            zip(self._read.records, self._read.masks, strict=True)
        ):
            try:
                record = Record.model_validate(given)
            except ValidationError as error:
                problems[index] = said(error, Record)
                continue
            if isinstance(mask, str):
                problems[index] = f"object_mask: {mask}"
            else:
                usable[index] = _One(record, mask)
        return usable, problems

    def items(self, only: Container[int] | None = None) -> Iterator[ItemRef]:
        """The items that can be read, in the order of the list."""
        for index, (position, one) in enumerate(self._usable[0].items()):
            if only is None or index in only:
                yield ItemRef(str(position), index, one)

    def checked(self) -> Iterator[ItemRef]:
        """The items, while their fields, masks and files are checked.

        Raises:
            InputError: after the last item, with all that is wrong, up to `MAX_PROBLEMS`.
        """
        problems = dict(self._usable[1])
        lost: list[ItemRef] = []
        for ref in self.items():
            (path,) = self.pictures(ref)
            if path.is_file():
                yield ref
            else:
                lost.append(ref)
                problems[int(ref.id)] = f"image: no such file: {show_path(path)}"
        if problems:
            told = [f"{i}: {what}" for i, what in sorted(problems.items())]
            raise unusable(self.path, told, mend=_where_images_are(lost))
        if not self._usable[0]:
            raise InputError(show_path(self.path), "no items")

    def notes(self) -> tuple[str, ...]:
        """What is odd in the data as it was released, and changes what a score can be."""
        usable = self._usable[0]
        same = Counter((one.record.edit_instruction, one.record.image) for one in usable.values())
        masks = {
            "an all-black mask: nothing may change": [
                i for i, one in usable.items() if not one.mask.any()
            ],
            "an all-white mask: nothing is left outside it": [
                i for i, one in usable.items() if one.mask.min() == 255
            ],
        }
        asked = ((str(i), one.record.question) for i, one in usable.items())
        notes = [*question_notes(asked), *listed(masks)]
        if shared := sum(count - 1 for count in same.values()):
            notes.append(f"{shared:,} items repeat another's instruction and image")
        return tuple(notes)

    def shape(self, ref: ItemRef) -> tuple[str]:
        """All items have a source, a mask and a question."""
        return ("gie",)

    def outline(self, ref: ItemRef) -> Item:
        """Texts as they are, images as placeholders."""
        return Item(sources=(placeholder(),), mask=placeholder_mask(), **_texts(ref))

    def load(self, ref: ItemRef) -> Item:
        """The item with its source and its mask."""
        mask = load_mask(unpacked(ref.data.mask), f"object_mask of {ref.id}")
        return Item(
            sources=tuple(map(load_image, self.pictures(ref))),
            mask=FrameMask.of(mask),
            **_texts(ref),
        )

    def pictures(self, ref: ItemRef) -> tuple[Path]:
        """The source; masks are no files."""
        image: str = ref.data.record.image
        for begins, root in self._longest_first:
            if image.startswith(begins):
                return (Path(root) / image.removeprefix(begins).lstrip("/"),)
        return (self._read.folder / image.lstrip("/"),)

    def outputs(self, folder: Path) -> Outputs:
        """`<folder>/<position>.png` and the like."""
        return OutputFolder(folder)


def _where_images_are(lost: Iterable[ItemRef]) -> str:
    """How to say where images lie that were not found."""
    images = [ref.data.record.image for ref in lost]
    if not images:
        return ""
    if any(Path(one).is_absolute() and Path(one).is_file() for one in images):
        return "`image` holds paths of this machine: add --root /=/"
    return "where images lie in another folder, add --root /=FOLDER"


def _texts(ref: ItemRef) -> dict[str, Any]:
    record: Record = ref.data.record
    return {
        "id": ref.id,
        "instruction": record.edit_instruction,
        "task": EDIT_TYPES[record.edit_type],
        "questions": (record.question,),
        "extra": {"edit_type": record.edit_type, "content_type": record.image_content_type},
    }
