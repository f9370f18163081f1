"""The user's own data: `items.jsonl`, one item per line."""

import os
import re
import weakref
from collections.abc import Container, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, TypeAdapter, ValidationError, model_validator

from ..base.digest import file_digest
from ..base.errors import InputError
from ..base.images import Mask, format_path
from ..base.objects import find_url, get_object_state, read_object, to_path
from ..base.verdict import NoScore
from .dataset import Dataset, ItemRef, Problem, flaw
from .texts import NO_JSON, File, Name, OwnText, describe_error, find_misreading, find_question_flaw, why_unusable

USUAL = "items.jsonl"
"""What the file is called where a folder is given."""
_AS_LINES = "data is JSON lines, one object a line in UTF-8 (docs/howto/runs.md): convert a list, CSV or Parquet first"
# A value that stands where JSON has numbers; texts may hold the like, so it is looked at again.
# Of fewer digits none is infinite with an exponent of two.
_MAY_BE_NO_NUMBER = re.compile(rb"NaN|Infinity|[eE]\+?\d{3}|\d{200}")
_EMPTY: Mapping[str, Any] = {"instruction": "", "questions": ()}
_TEXT_FIELDS = ("instruction", "target_text", "hint")
"""The texts that a judge reads."""


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
        extra: Anything else, for custom dimensions.
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
    def _with_a_source(self) -> Self:
        if (self.source is None) == (not self.sources):
            raise ValueError("give either `source` or `sources`")
        return self

    @classmethod
    def why_no_mask(cls, fields: Mapping[str, Any]) -> str:
        """Return why a line with these fields needs no mask; "" if a mask can be of use.

        Args:
            fields: As they stand, perhaps not those of this benchmark.
        """
        return ""

    @staticmethod
    def why_not_asked(question: Mapping[str, Any]) -> str:
        """Return why a question of the line cannot be asked; "" if it can."""
        return find_question_flaw(question)

    @property
    def flaws(self) -> dict[str, NoScore]:
        """The fields that cannot be used, with the reason."""
        flaws = {
            name: flaw(f"{name}: {why}")
            for name in _TEXT_FIELDS
            if (text := getattr(self, name)) is not None and (why := why_unusable(text))
        }
        if why := next(filter(None, map(self.why_not_asked, self.questions)), ""):
            flaws["questions"] = flaw(f"questions: {why}")
        return flaws

    @property
    def texts(self) -> dict[str, Any]:
        """The item's fields but for its images; a benchmark's own go to `extra`."""
        texts: dict[str, Any] = {
            "instruction": self.instruction,
            "target_text": self.target_text,
            "hint": self.hint,
            "task": self.task,
            "questions": self.questions,
            "extra": self.extra or {},
        }
        for name in self.flaws:
            texts[name] = _EMPTY.get(name)
        return texts

    @property
    def images(self) -> tuple[str, ...]:
        """The source files, one or several."""
        return self.sources if self.source is None else (self.source,)

    @property
    def files(self) -> dict[str, tuple[str, ...]]:
        """The picture files by field."""
        files = {"source": self.images}
        if self.mask:
            files["mask"] = (self.mask,)
        if self.target:
            files["target"] = (self.target,)
        return files

    @property
    def other_inputs(self) -> tuple[str]:
        """What the mask shows, if there is one."""
        return (self.mask_shows if self.mask else "",)


class ItemsFile(Dataset):
    """Items in `items.jsonl`; a benchmark says what a line holds beyond the usual.

    Attributes:
        line: The type of a line.

    Args:
        path: `items.jsonl`, or the folder that it lies in; UTF-8, one JSON object per line,
            empty lines do not count.
        roots: Folders outside its own whose pictures it may name; see `AllowedFolders`.

    Raises:
        InputError: there is no such file.
    """

    is_released = False
    nouns = ("line", "lines")
    line: ClassVar[type[Line]] = Line

    def __init__(self, path: Path, roots: Mapping[str, str] | None = None) -> None:
        super().__init__(_file(to_path(path).absolute()), roots=roots)
        self._parse = TypeAdapter(self.line).validator.validate_json

    @cached_property
    def digest(self) -> str:
        """The digest of the file; images do not enter it."""
        return file_digest(self._copy)

    @cached_property
    def _copy(self) -> Path:
        """The file, or a copy of an object."""
        if not (url := find_url(self.path)):
            return self.path
        with NamedTemporaryFile(suffix=".jsonl", delete=False) as copy:
            weakref.finalize(self, os.unlink, copy.name)
            try:
                copy.write(read_object(url))
            except OSError as error:
                raise InputError(url, f"cannot be read: {error.strerror}") from error
        return Path(copy.name)

    def _read(self, only: Container[int] | None = None, problems: list[Problem] | None = None) -> Iterator[ItemRef]:
        numbers: dict[str, int] = {}
        for index, number, text in self._lines():
            if only is not None and index not in only:
                continue
            try:
                line = self._parse(text)
                why = "" if problems is None else _why_unclear(text, line, numbers)
            except ValidationError as error:
                why = describe_error(error, self.line)
            if not why:
                numbers[line.id] = number
                others = line.other_inputs
                yield ItemRef(line.id, index, line.texts, line.files, line.flaws, line, others)
            elif problems is not None:
                problems.append((f"line {number}", why))

    def _unusable(self, problems: Sequence[Problem]) -> InputError:
        error = super()._unusable(problems)
        if any(what.startswith((NO_JSON, "must be a table")) for _, what in problems):
            return InputError(error.name, error.reason, _AS_LINES)
        return error

    def _lines(self) -> Iterator[tuple[int, int, bytes]]:
        """Yield the position of each item, the number of its line, and the line."""
        index = 0
        with self._copy.open("rb") as file:
            for number, line in enumerate(file, 1):
                text = (line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line).strip()
                if text:
                    yield index, number, text
                    index += 1

    def _mask(self, ref: ItemRef, *files: str, over: Sequence[Any] = ()) -> Mask | None:
        """Load the mask; white is what is edited, whatever the file shows."""
        mask = super()._mask(ref, *files, over=over)
        return mask.invert() if mask is not None and ref.data.mask_shows == "kept" else mask


def _why_unclear(text: bytes, line: Line, numbers: Mapping[str, int]) -> str:
    """Return why a line that can be parsed is no item all the same.

    Args:
        numbers: The ids so far, each with the number of its line.
    """
    # Every key has a colon: most lines have no more of them than fields.
    odd = text.count(b":") > len(line.model_fields_set) or _MAY_BE_NO_NUMBER.search(text)
    if odd and (why := find_misreading(text)):
        return why
    number = numbers.get(line.id)
    return f"the id {line.id!r} is already used by line {number}" if number else ""


def _file(path: Path) -> Path:
    """Return the file of items, given as it is or by its folder."""
    if find_url(path):
        path = path if path.suffix else path / USUAL
        url = find_url(path)
        try:
            get_object_state(url, fresh=True)
        except OSError as error:
            raise InputError(url, str(error.strerror), f"give --data …/{USUAL}") from error
        return path
    if path.is_dir():
        path /= USUAL
        if not path.is_file():
            raise InputError(format_path(path.parent), f"holds no {USUAL}", f"give --data {USUAL}")
    if not path.is_file():
        raise InputError(format_path(path), "no such file", f"give --data {USUAL}")
    return path
