"""Data of one's own: `items.jsonl`, one item per line."""

from __future__ import annotations

import math
import os
import re
from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from ..answers import Option
from ..base.digest import file_digest
from ..base.errors import InputError, TextError
from ..base.files import ABSENT, stat_of
from ..base.images import MAX_PATH, Mask, load_mask, show_path
from ..base.item import MAX_TEXT_CHARACTERS, Flaws, Item, check_text
from ..base.parse import parse_json
from ..base.verdict import Unscored
from .dataset import (
    MAX_PROBLEMS,
    UNEDITED,
    Consent,
    ItemRef,
    Loading,
    OutputFolder,
    Outputs,
    SourceOutputs,
    flaw,
    lost,
    placeholder,
    placeholder_mask,
    record_digest,
    unusable,
)

_MAX_ID = 255
_NO_JSON = "this is no JSON"
_AS_LINES = "write one JSON object per line, in UTF-8, without commas or a list around them"
# As the parser says where in one line it stopped.
_STOPPED = re.compile(r"(?P<why>.*) at line \d+ column (?P<place>\d+)")
_WHY = {
    "trailing characters": "something follows the object",
    "expected value": "a value is due",
    "invalid unicode code point": "it is not in UTF-8",
}
_PLAINER = {
    "missing": "is missing",
    "model_type": "is no object",
    "model_attributes_type": "is no object",
}
# A value that stands where JSON has numbers; texts may hold the like, so it is looked at again.
# Of fewer digits none is infinite with an exponent of two.
_MAY_BE_NO_NUMBER = re.compile(rb"NaN|Infinity|[eE]\+?\d{3}|\d{200}")
_NO_NAMES = frozenset({"", ".", ".."})
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
    if text[:1].isalnum():  # nearly always, and this is asked of every text of a hundred thousand
        return False
    return not any(c.isprintable() and not c.isspace() for c in text)


def _worded(text: str) -> str:
    if blank(text):
        raise ValueError("is blank")
    return text


def why_unusable(text: str) -> str:
    """Why no judge could read a text as meant; "" where it can be used."""
    if blank(text):
        return "is blank"
    try:
        check_text("", text)
    except TextError as error:
        return error.reason
    return ""


def question_flaw(question: Mapping[str, Any]) -> str:
    """Why a question that came with an item cannot be asked; "" where it can, or has no answer.

    Args:
        question: As it stands: `question` and `answer`, and `options` where it has any.
    """
    for name in ("question", "answer"):
        text = question.get(name, "-")
        if not isinstance(text, str):
            return f"`{name}` of a question is a text, not {text!r}"
        if why := why_unusable(text):
            return f"`{name}` of a question {why}" if why == "is blank" else f"`{name}`: {why}"
    options = question.get("options", ["-", "--"])
    if not isinstance(options, list) or not all(isinstance(one, str) for one in options):
        return f"`options` of a question is a list of texts, not {options!r}"
    if any(map(blank, options)):
        return "one of the `options` of a question is blank"
    try:
        Option(tuple(options))
    except ValueError as error:
        return f"`options` of a question: {error}"
    return ""


def _a_name(text: str) -> str:
    if len(text) > _MAX_ID or not text.isprintable():
        raise ValueError(f"an id has 1 to {_MAX_ID} printable characters")
    if not _NO_NAMES.isdisjoint(map(str.strip, text.split("/"))) or "\\" in text:
        raise ValueError("an id names a file: no empty part, no '.', '..' or backslash")
    return text


_Text = Annotated[str, Field(max_length=MAX_TEXT_CHARACTERS), AfterValidator(_printable)]
Text = Annotated[_Text, AfterValidator(_worded)]
"""As it stands, and not blank: what was released is judged to the letter."""
OwnText = Annotated[str, AfterValidator(str.strip)]
"""As people write it; what cannot be used is a flaw of the item."""
Name = Annotated[str, Field(min_length=1, coerce_numbers_to_str=True), AfterValidator(_a_name)]
File = Annotated[str, Field(min_length=1, max_length=MAX_PATH)]


_EMPTY: Mapping[str, Any] = {
    "instruction": "",
    "target_text": None,
    "hint": None,
    "questions": (),
}


class Line(BaseModel):
    """One line of `items.jsonl`.

    Texts are read without the space around them. One that is blank, or that no judge could read,
    is a flaw: what it should have said is judged by nothing.

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
    target_text: OwnText | None = None
    hint: OwnText | None = None
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

    @classmethod
    def by_its_mask(cls, fields: Mapping[str, Any], phrase: str) -> Mapping[str, str]:
        """What a line takes of the words for what is white in its mask; most take nothing.

        Args:
            fields: As they stand, `mask_shows` among them; perhaps not those of this benchmark.
            phrase: What the mask was found by.
        """
        return {}

    @property
    def flaws(self) -> dict[str, Unscored]:
        """What is given and cannot be used, by field."""
        flaws = {
            name: flaw(f"{name}: {why}")
            for name in ("instruction", "target_text", "hint")
            if (text := getattr(self, name)) is not None and (why := why_unusable(text))
        }
        for question in self.questions:
            if why := self.why_not_asked(question):
                return {**flaws, "questions": flaw(f"questions: {why}")}
        return flaws

    @staticmethod
    def why_not_asked(question: Mapping[str, Any]) -> str:
        """Why a question of the line cannot be asked; "" where it can."""
        return question_flaw(question)

    @property
    def texts(self) -> dict[str, Any]:
        """The item's fields but for its images; a benchmark's own go to `extra`.

        Those that have a flaw are empty.
        """
        texts: dict[str, Any] = {
            "instruction": self.instruction,
            "target_text": self.target_text,
            "hint": self.hint,
            "task": self.task,
            "questions": self.questions,
            "extra": self.extra or {},
        }
        return texts | {name: _EMPTY[name] for name in self.flaws}

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
        roots: Folders outside its own whose pictures it may name; see `Consent`.

    Raises:
        InputError: there is no such file.
    """

    name: str
    released = False
    line: type[Line] = Line

    def __init__(self, path: Path, roots: Mapping[str, str] | None = None) -> None:
        self.path = _file(path.absolute())
        self._folder = str(self.path.parent)
        self._consent = Consent(self._folder, roots)
        self._read = TypeAdapter(self.line).validator.validate_json
        self._stat = lru_cache(4096)(lambda file: stat_of(self._at(file)))
        self._is_there = lru_cache(4096)(self._is_usable)
        self._looked_at: tuple[ItemRef | None, Flaws] = (None, {})

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

        What costs no more than the dimensions that read it is a flaw of the item (`flaws`).

        Raises:
            InputError: after the last item, with all lines that are no items, up to
                `MAX_PROBLEMS`; likewise where no item has its sources.
        """
        wrong, without = _Problems(), _Problems()
        seen: dict[str, int] = {}
        for index, number, line in self._lines():
            try:
                ref = self._ref(index, line)
            except ValidationError as error:
                wrong.add(number, said(error, self.line))
                continue
            if _MAY_BE_NO_NUMBER.search(line) and (what := no_number(line)):
                wrong.add(number, what)
                continue
            # Every key has a colon: most lines have no more of them than fields.
            if line.count(b":") > len(ref.data.model_fields_set) and (what := repeated(line)):
                wrong.add(number, what)
                continue
            if ref.id in seen:
                wrong.add(number, f"the id {ref.id!r} is that of line {seen[ref.id]} already")
                continue
            seen[ref.id] = number
            if "source" in (flaws := self.flaws(ref)):
                without.add(number, flaws["source"].reason)
            yield ref
        if not wrong.count and without.count == len(seen):
            wrong = without
        if wrong.count:
            mend = _AS_LINES if any(_NO_JSON in line for line in wrong.lines) else ""
            lines = ("line", "lines")
            raise unusable(self.path, wrong.lines, lines, count=wrong.count, mend=mend)
        if not seen:
            raise InputError(show_path(self.path), "no items", _AS_LINES)

    def flaws(self, ref: ItemRef) -> Flaws:
        """Those of the line, and the files that are not there."""
        looked_at = self._looked_at
        if looked_at[0] is not ref:  # whoever looks at all items asks twice in a row
            lost_files = self._lost(ref.data)
            flaws = {**ref.data.flaws, **lost_files} if lost_files else ref.data.flaws
            self._looked_at = looked_at = ref, flaws
        return looked_at[1]

    def _is_usable(self, file: str) -> bool:
        return self._stat(file) != ABSENT and self._consent.covers(self._at(file))

    @staticmethod
    def _is_file(path: str | Path) -> bool:
        return os.path.isfile(path)  # noqa: PTH113 - many times faster than Path

    def _lost(self, line: Line) -> Flaws:
        if all(map(self._is_there, _named(line))):
            return {}
        there = {name: map(self._at, paths) for name, paths in _files_of(line).items()}
        return lost(there, self._is_file, self._consent)

    def mend(self, refs: Sequence[ItemRef]) -> str:
        """Nothing: paths are written in the file."""
        return ""

    def left_out(self) -> tuple[()]:
        """Nothing: a line that is no item is refused."""
        return ()

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
        image, flaws = placeholder(), self.flaws(ref)
        return Item(
            id=line.id,
            sources=() if "source" in flaws else (image,) * len(line.images),
            mask=placeholder_mask() if line.mask and "mask" not in flaws else None,
            target=image if line.target and "target" not in flaws else None,
            flaws=flaws,
            **line.texts,
        )

    def load(self, ref: ItemRef, left_encoded: int = 0) -> Item:
        """The item with its images; a mask that fits neither source nor target is unusable."""
        line: Line = ref.data
        loading = Loading(self.flaws(ref), left_encoded)
        sources = loading.images("source", map(self._at, line.images))
        target = loading.image("target", line.target and self._at(line.target))
        source = sources[0] if len(sources) == 1 else None
        read = partial(self._mask, line) if line.mask else None
        mask = loading.mask(read, source, target)
        return Item(
            id=line.id,
            sources=sources,
            mask=mask,
            target=target,
            flaws=loading.flaws,
            **line.texts,
        )

    def pictures(self, ref: ItemRef) -> Mapping[str, tuple[Path, ...]]:
        """Sources, mask and target, as far as they are there."""
        flaws = self.flaws(ref)
        there = (each for each in _files_of(ref.data).items() if each[0] not in flaws)
        return {name: tuple(Path(self._at(path)) for path in paths) for name, paths in there}

    def files(self, ref: ItemRef) -> tuple[str, ...]:
        """Sources, mask and target."""
        return tuple(map(self._at, _named(ref.data)))

    def stats(self, ref: ItemRef) -> bytes:
        """Of those files, when they were first looked for."""
        return b"".join(map(self._stat, _named(ref.data)))

    def record(self, ref: ItemRef) -> bytes:
        """Of its texts as they are read, and of what its mask shows."""
        line: Line = ref.data
        shows = line.mask_shows if line.mask else ""
        return record_digest(line.texts, line.flaws, _files_of(line), shows)

    def has_outputs(self, folder: Path) -> bool:
        """Whether there is such a folder, or none is needed."""
        return folder.name == UNEDITED or folder.is_dir()

    def outputs(self, folder: Path) -> Outputs:
        """`<folder>/<id>.png` and the like."""
        return SourceOutputs.of(self) if folder.name == UNEDITED else OutputFolder(folder)

    def _usable(self) -> Iterator[ItemRef]:
        """The items whose lines can be read; `checked` tells what is wrong with the others."""
        for index, _, line in self._lines():
            with suppress(ValidationError):
                yield self._ref(index, line)

    def _mask(self, line: Line) -> Mask:
        mask = load_mask(self._at(line.mask or ""))
        return mask.inverted() if line.mask_shows == "kept" else mask

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
        read = self._read(line.strip())
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


def _named(line: Line) -> tuple[str, ...]:
    """The picture files: sources, mask and target."""
    if line.mask is None and line.target is None:
        return line.images
    return (*line.images, *filter(None, (line.mask, line.target)))


def _files_of(line: Line) -> dict[str, tuple[str, ...]]:
    """The picture files by field."""
    files: dict[str, tuple[str, ...]] = {"source": line.images}
    for name, path in (("mask", line.mask), ("target", line.target)):
        if path:
            files[name] = (path,)
    return files


@dataclass
class _Problems:
    """Lines that cannot be used: how many, and the first of them."""

    count: int = 0
    lines: list[str] = field(default_factory=list)

    def add(self, number: int, what: str) -> None:
        """Note what is wrong with a line."""
        self.count += 1
        if self.count <= MAX_PROBLEMS:
            self.lines.append(f"line {number}: {what}")


def plainly(message: str) -> str:
    """What a validation said, as people say it."""
    return message.removeprefix("Value error, ")


def no_number(line: bytes) -> str:
    """What in a line of JSON is no number though it stands for one; "" where there is nothing."""
    read = [parse_json(line.strip(), number=_finite)]
    while read:
        value = read.pop()
        if isinstance(value, _NoNumber):
            return f"{value} is no number that can be kept"
        read += value.values() if isinstance(value, dict) else ()
        read += value if isinstance(value, list) else ()
    return ""


def repeated(line: bytes) -> str:
    """Which keys an object in a line of JSON has more than once; "" where none has.

    Which of their values is meant, nobody can tell.
    """
    twice: dict[str, None] = {}

    def members(pairs: list[tuple[str, Any]]) -> None:
        if len(pairs) > len(dict(pairs)):
            counts = Counter(name for name, _ in pairs)
            twice.update(dict.fromkeys(name for name, count in counts.items() if count > 1))

    parse_json(line.strip(), pairs=members)
    return f"{', '.join(map(repr, twice))}: given more than once" if twice else ""


class _NoNumber(str):
    """As it stands in the file."""

    __slots__ = ()


def _finite(text: str) -> float | _NoNumber:
    value = float(text)
    return value if math.isfinite(value) else _NoNumber(text)


def _no_json(error: str) -> str:
    """Why a line cannot be parsed, in words and with the place in it."""
    stopped = _STOPPED.fullmatch(error)
    if stopped is None:
        return f"{_NO_JSON}: {error}"
    why = _WHY.get(stopped["why"], stopped["why"].replace("EOF while", "it ends while"))
    return f"{_NO_JSON}, at character {stopped['place']}: {why}"


def said(error: ValidationError, model: type[BaseModel]) -> str:
    """What is wrong with an object, in one line.

    Args:
        model: What it was to be.
    """
    parts = []
    for problem in error.errors(include_url=False)[:3]:
        where = ".".join(str(part) for part in problem["loc"])
        what = plainly(problem["msg"])
        if problem["type"] == "json_invalid":
            what = _no_json(str(problem["ctx"]["error"]))
        elif problem["type"] in _PLAINER:
            what = _PLAINER[problem["type"]]
        elif problem["type"] == "extra_forbidden":
            what = f"no such field (there are {', '.join(model.model_fields)})"
        parts.append(f"{where}: {what}" if where else what)
    return "; ".join(parts)
