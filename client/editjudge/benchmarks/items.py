"""Data of one's own: `items.jsonl`, one item per line."""

from __future__ import annotations

import os
from collections.abc import Container, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from ..base.digest import file_digest
from ..base.errors import InputError, TextError
from ..base.images import MAX_PATH, Mask, load_image, load_mask, show_path
from ..base.item import MAX_TEXT_CHARACTERS, Item, check_text, unfit
from .dataset import (
    MAX_PROBLEMS,
    ItemRef,
    OutputFolder,
    Outputs,
    placeholder,
    placeholder_mask,
    unusable,
)

_MAX_ID = 255
USUAL = "items.jsonl"
"""What the file is called where a folder is given."""


def _printable(text: str) -> str:
    try:
        check_text("", text)
    except TextError as error:
        raise ValueError(error.reason) from None
    return text


def blank(text: str) -> bool:
    """Whether nothing of a text can be seen."""
    return not any(c.isprintable() and not c.isspace() for c in text)


def _worded(text: str) -> str:
    if blank(text):
        raise ValueError("is blank")
    return text


def _worded_or_left_out(text: str) -> str:
    """Of a field that need not be there."""
    try:
        return _worded(text).strip()
    except ValueError as error:
        mend = "write it, or leave the field out where there is none"
        raise ValueError(f"{error}: {mend}") from None


def _a_name(text: str) -> str:
    if len(text) > _MAX_ID or not text.isprintable():
        raise ValueError(f"an id has 1 to {_MAX_ID} printable characters")
    if any(part.strip() in {"", ".", ".."} for part in text.split("/")) or "\\" in text:
        raise ValueError("an id names a file: no empty part, no '.', '..' or backslash")
    return text


_Text = Annotated[str, Field(max_length=MAX_TEXT_CHARACTERS), AfterValidator(_printable)]
Text = Annotated[_Text, AfterValidator(_worded)]
"""As it stands, and not blank: what was released is judged to the letter."""
OwnText = Annotated[Text, AfterValidator(str.strip)]
OptionalText = Annotated[_Text, AfterValidator(_worded_or_left_out)]
Name = Annotated[str, Field(min_length=1, coerce_numbers_to_str=True), AfterValidator(_a_name)]
File = Annotated[str, Field(min_length=1, max_length=MAX_PATH)]


class Line(BaseModel):
    """One line of `items.jsonl`.

    Texts are read without the space around them, and a blank one is refused: what it should
    have said would be judged by nothing.

    Attributes:
        id: Unique in the file; outputs are `<folder>/<id>.png` and the like.
        instruction: What the editing model was told.
        source: The image before the edit, relative to the file's folder.
        sources: Several of them, instead of `source`.
        mask: Where the edit may change the source.
        mask_shows: What is white in the mask: what is `edited`, or what is to be `kept`.
        target: The ground-truth result.
        target_text: Text that the result must show.
        hint: World knowledge for the judge.
        task: Type of the edit, for dimensions and prompts that ask for it.
        questions: Questions that come with the item.
        extra: Anything else; kept for dimensions of your own.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    id: Name
    instruction: OwnText
    source: File | None = None
    sources: tuple[File, ...] = ()
    mask: File | None = None
    mask_shows: Literal["edited", "kept"] = "edited"
    target: File | None = None
    target_text: OptionalText | None = None
    hint: OptionalText | None = None
    task: Annotated[str, AfterValidator(str.strip)] = ""
    questions: tuple[dict[str, Any], ...] = ()
    extra: dict[str, Any] | None = None

    @model_validator(mode="after")
    def _with_a_source(self) -> Line:
        if (self.source is None) == (not self.sources):
            raise ValueError("give either `source` or `sources`")
        return self

    @classmethod
    def why_no_mask(cls, fields: Mapping[str, Any]) -> str:
        """Why a line with these fields needs no mask; "" where one can be of use.

        Args:
            fields: As they stand, perhaps not those of this benchmark.
        """
        return ""

    @property
    def texts(self) -> dict[str, Any]:
        """The item's fields but for its images; a benchmark's own go to `extra`."""
        return {
            "instruction": self.instruction,
            "target_text": self.target_text,
            "hint": self.hint,
            "task": self.task,
            "questions": self.questions,
            "extra": self.extra or {},
        }

    @property
    def images(self) -> tuple[str, ...]:
        """The sources, one or several."""
        return self.sources if self.source is None else (self.source,)


class ItemsFile:
    """Items in `items.jsonl`; a benchmark says what a line holds beyond the usual.

    Attributes:
        name: Of the benchmark.
        line: What a line is.

    Args:
        path: `items.jsonl`, or the folder that it lies in; UTF-8, one JSON object per line,
            empty lines do not count.

    Raises:
        InputError: there is no such file.
    """

    name: str
    line: type[Line] = Line

    def __init__(self, path: Path) -> None:
        self.path = _file(path.absolute())
        self._folder = str(self.path.parent)

    @cached_property
    def digest(self) -> str:
        """Of the file; its images are not in it."""
        return file_digest(self.path)

    def notes(self) -> tuple[str, ...]:
        """None: such data is one's own."""
        return ()

    def items(self, only: Container[int] | None = None) -> Iterator[ItemRef]:
        """The items; what `checked` would refuse may raise here."""
        for index, _, line in self._lines():
            if only is None or index in only:
                yield self._ref(index, line)

    def checked(self) -> Iterator[ItemRef]:
        """The items, while every line is looked at: its fields, its id, its files.

        Raises:
            InputError: after the last item, with all lines that cannot be used, up to
                `MAX_PROBLEMS`.
        """
        problems: list[str] = []
        count = 0
        seen: dict[str, int] = {}
        exists = lru_cache(4096)(os.path.isfile)
        for index, number, line in self._lines():
            try:
                ref = self._ref(index, line)
                problem = self._missing(ref.data, exists)
                if not problem and ref.id in seen:
                    problem = f"the id {ref.id!r} is that of line {seen[ref.id]} already"
                seen.setdefault(ref.id, number)
            except ValidationError as error:
                problem = said(error, self.line)
            if not problem:
                yield ref
                continue
            count += 1
            if count <= MAX_PROBLEMS:
                problems.append(f"line {number}: {problem}")
        if count:
            raise unusable(self.path, problems, ("line", "lines"), count=count)
        if not seen:
            raise InputError(show_path(self.path), "no items", "write one JSON object per line")

    def likeness(self, ref: ItemRef) -> tuple[bool | int, ...]:
        """How many sources, and which of the others."""
        line: Line = ref.data
        return (
            1 if line.source is not None else len(line.sources),
            line.mask is not None,
            line.target is not None,
            bool(line.target_text),
            bool(line.hint),
            bool(line.questions),
        )

    def outline(self, ref: ItemRef) -> Item:
        """Texts as they are, images as placeholders."""
        line: Line = ref.data
        image = placeholder()
        return Item(
            id=line.id,
            sources=(image,) * len(line.images),
            mask=placeholder_mask() if line.mask else None,
            target=image if line.target else None,
            **line.texts,
        )

    def load(self, ref: ItemRef) -> Item:
        """The item with its images; a mask that fits neither source nor target is unusable."""
        line: Line = ref.data
        item = Item(
            id=line.id,
            sources=tuple(load_image(self._at(path)) for path in line.images),
            mask=self._mask(line),
            target=load_image(self._at(line.target)) if line.target else None,
            **line.texts,
        )
        return replace(item, unusable=unfit(item.mask, item.source, item.target))

    def pictures(self, ref: ItemRef) -> tuple[Path, ...]:
        """Sources, mask and target."""
        return tuple(Path(self._at(path)) for path in _paths(ref.data))

    def outputs(self, folder: Path) -> Outputs:
        """`<folder>/<id>.png` and the like."""
        return OutputFolder(folder)

    def _usable(self) -> Iterator[ItemRef]:
        """The items whose lines can be read; `checked` tells what is wrong with the others."""
        for index, _, line in self._lines():
            with suppress(ValidationError):
                yield self._ref(index, line)

    def _mask(self, line: Line) -> Mask | None:
        if line.mask is None:
            return None
        mask = load_mask(self._at(line.mask))
        return mask.inverted() if line.mask_shows == "kept" else mask

    def _missing(self, line: Line, exists: Any) -> str:
        absent = [path for path in _paths(line) if not exists(self._at(path))]
        return f"no such file: {', '.join(absent)}" if absent else ""

    def _lines(self) -> Iterator[tuple[int, int, bytes]]:
        index = 0
        with self.path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if number == 1:
                    line = line.removeprefix(b"\xef\xbb\xbf")
                if line.strip():
                    yield index, number, line
                    index += 1

    def _ref(self, index: int, line: bytes) -> ItemRef:
        read = self.line.model_validate_json(line)
        return ItemRef(read.id, index, read)

    def _at(self, path: str) -> str:
        return os.path.join(self._folder, path)  # noqa: PTH118 - many times faster than Path


def _file(path: Path) -> Path:
    """A file of items, given as it is or by its folder."""
    if path.is_dir():
        path /= USUAL
        if not path.is_file():
            raise InputError(show_path(path.parent), f"holds no {USUAL}", f"give --data {USUAL}")
    if not path.is_file():
        raise InputError(show_path(path), "no such file", f"give --data {USUAL}")
    return path


def _paths(line: Line) -> tuple[str, ...]:
    return (*line.images, *filter(None, (line.mask, line.target)))


def said(error: ValidationError, model: type[BaseModel]) -> str:
    """What is wrong with an object, in one line.

    Args:
        model: What it was to be.
    """
    parts = []
    for problem in error.errors(include_url=False)[:3]:
        where = ".".join(str(part) for part in problem["loc"])
        what = problem["msg"].removeprefix("Value error, ")
        if problem["type"] == "extra_forbidden":
            what = f"no such field (there are {', '.join(model.model_fields)})"
        parts.append(f"{where}: {what}" if where else what)
    return "; ".join(parts)
