"""The released data, or what `compact.convert` made of it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
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

_OTHER_IMAGE = re.compile(
    r"\b(original(ly)?|unedited|unmodified|source image|before|previous(ly)?|earlier|initial(ly)?"
    r"|used to be|(both|two) images)\b",
    re.IGNORECASE,
)


def compares(question: str, options: Iterable[str]) -> bool:
    """Whether a question, or an option, speaks of the image as it was (section 3.5).

    The paper shows the source where the question asks for a comparison, and does not say how that
    is told. Here it is told by words that name the other image: original, before, previous,
    unedited, both images and the like.
    """
    return any(_OTHER_IMAGE.search(text) for text in (question, *options))


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
    def right_option(self) -> str | None:
        """The option that is the expected answer, case and a final full stop apart; or None."""
        try:
            return Option(self.multiple_choice_options).parse(self.expected_answer)
        except Unparsable:
            return None

    @property
    def question(self) -> dict[str, Any]:
        """As `MultipleChoice` asks it.

        An answer that is no option stays as it is: such a question cannot be answered right.
        """
        return {
            "question": self.evaluation_question,
            "options": list(self.multiple_choice_options),
            "answer": self.right_option or self.expected_answer,
            "expected": self.expected_answer,
            "compares": compares(self.evaluation_question, self.multiple_choice_options),
        }


class FrameMask(Mask):
    """A mask that is laid over the whole frame of an image, whatever its sides.

    The released masks are square, their images are not.
    """

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
        self._roots = sorted((roots or {}).items(), key=lambda one: -len(one[0]))
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
        for ref in self.items():
            (path,) = self.pictures(ref)
            if path.is_file():
                yield ref
            else:
                problems[int(ref.id)] = f"image: no such file: {show_path(path)}"
        if problems:
            raise unusable(self.path, [f"{i}: {what}" for i, what in sorted(problems.items())])
        if not self._usable[0]:
            raise InputError(show_path(self.path), "no items")

    def notes(self) -> tuple[str, ...]:
        """What is odd in the data as it was released, and changes what a score can be."""
        usable = self._usable[0]
        no_option = [i for i, one in usable.items() if one.record.right_option is None]
        literally = [
            i
            for i, one in usable.items()
            if one.record.expected_answer not in one.record.multiple_choice_options
        ]
        same = Counter((one.record.edit_instruction, one.record.image) for one in usable.values())
        black = [i for i, one in usable.items() if not one.mask.any()]
        white = [i for i, one in usable.items() if one.mask.min() == 255]
        found = {
            "the expected answer is no option, so the question cannot be won: it counts as"
            " wrong": no_option,
            "the expected answer is no option to the letter (`exact_match`)": literally,
            "an all-black mask: nothing may change": black,
            "an all-white mask: nothing is left outside it": white,
        }
        notes = [_listed(what, indices) for what, indices in found.items() if indices]
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
            mask=FrameMask(mask.name, mask.encoded, mask.pixels, mask.notes),
            **_texts(ref),
        )

    def pictures(self, ref: ItemRef) -> tuple[Path]:
        """The source; masks are no files."""
        image: str = ref.data.record.image
        for begins, root in self._roots:
            if image.startswith(begins):
                return (Path(root) / image.removeprefix(begins).lstrip("/"),)
        return (self._read.folder / image.lstrip("/"),)

    def outputs(self, folder: Path) -> Outputs:
        """`<folder>/<position>.png` and the like."""
        return OutputFolder(folder)


def _listed(what: str, indices: list[int]) -> str:
    shown = ", ".join(map(str, indices[:MAX_PROBLEMS]))
    more = ", …" if len(indices) > MAX_PROBLEMS else ""
    return f"{len(indices):,} item{'' if len(indices) == 1 else 's'}: {what} ({shown}{more})"


def _texts(ref: ItemRef) -> dict[str, Any]:
    record: Record = ref.data.record
    return {
        "id": ref.id,
        "instruction": record.edit_instruction,
        "task": EDIT_TYPES[record.edit_type],
        "questions": (record.question,),
        "extra": {"edit_type": record.edit_type, "content_type": record.image_content_type},
    }
