"""The official data, as released or as `release.convert` wrote it, and own data in its form.

`editjudge prepare questions` and `editjudge prepare masks` write data of one's own.
"""

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator

from ...answers.reply import Unparsable
from ...answers.texts import Option
from ...base.digest import content_digest
from ...base.errors import ConfigError
from ...base.images import Mask, format_path, load_mask
from ...base.text import format_count
from ..comparison_words import refers_to_source
from ..dataset import Dataset, ItemRef, format_notes, has_path_mapping, resolve_official_path
from ..items import USUAL, ItemsFile, Line
from ..records import ItemField, RecordsFile, ReleasedRecord
from ..texts import File, Text, find_question_flaw, is_blank
from . import release
from .release import PackedMask, unpack_mask
from .taxonomy import EDIT_TYPES, edit_type

_OPTIONAL: Mapping[str, tuple[type, str]] = {"compares": (bool, "true or false"), "expected": (str, "a text")}


def right_option(answer: str, options: Iterable[str]) -> str | None:
    """Return the option that an answer names, ignoring case and a final full stop, or None."""
    try:
        return Option(tuple(options)).parse(answer)
    except Unparsable:
        return None


def question_notes(pairs: Iterable[tuple[str, Mapping[str, Any]]]) -> list[str]:
    """Return what is odd in questions and their answers, one line each.

    Args:
        pairs: Ids of items with their questions, as `MultipleChoice` asks them.
    """
    questions = tuple(pairs)
    tests: Mapping[str, Callable[[Mapping[str, Any]], bool]] = {
        "the expected answer is no option, so the question cannot be won: it counts as wrong": (
            lambda question: question["answer"] not in question["options"]
        ),
        "the expected answer is no option to the letter (`exact_match`)": (
            lambda question: question["expected"] not in question["options"]
        ),
        "the question compares with the source, which the judge is shown too": (lambda question: question["compares"]),
    }
    return format_notes({k: [i for i, q in questions if test(q)] for k, test in tests.items()})


def _check_options(options: tuple[str, ...]) -> tuple[str, ...]:
    Option(_choices(options))
    return options


def _check_edit_type(label: str) -> str:
    if label not in EDIT_TYPES:
        raise ValueError(f"{label!r} is none of {', '.join(EDIT_TYPES)}")
    return label


class Record(ReleasedRecord):
    """One record, its mask apart. What users add to it is left aside.

    Attributes:
        multiple_choice_options: As they stand; a blank one is none that anybody could choose.
        edit_type: Of one that is unknown the edit counts in the overall figures alone.
        image: Begins with `/`, which stands for the folder of the images.
    """

    edit_instruction: Annotated[Text, ItemField("instruction")] = ""
    evaluation_question: Annotated[Text, ItemField("questions")] = ""
    expected_answer: Annotated[Text, ItemField("questions")] = ""
    multiple_choice_options: Annotated[tuple[str, ...], AfterValidator(_check_options), ItemField("questions")] = ()
    edit_type: Annotated[str, AfterValidator(_check_edit_type), ItemField("edit_type")] = ""
    image: Annotated[File, ItemField("source")] = ""
    image_content_type: str = ""

    def question(self, decision: bool | None = None) -> dict[str, Any]:
        """Return the question in the form that `MultipleChoice` asks.

        Args:
            decision: Whether it compares with the source, where somebody said so.
        """
        options = [one.strip() for one in self.multiple_choice_options]
        choices = list(_choices(options))
        return _as_asked(
            {
                "question": self.evaluation_question,
                "options": choices,
                "answer": self.expected_answer,
                **({} if decision is None else {"compares": decision}),
                **({} if choices == options else {"in_line": options}),
            }
        )


def _choices(options: Iterable[str]) -> tuple[str, ...]:
    """Return the options that are not blank, which alone can be chosen."""
    return tuple(one.strip() for one in options if not is_blank(one))


class GieData(RecordsFile):
    """GIE-Bench, 1,080 edits.

    Records have no id, and some share instruction and image: an item's id is its position in the
    list, from 0, so outputs are `<model>/0.png`, `<model>/1.png` and so on.

    Args:
        path: `gie_bench.json` as released, its folder, or the folder that
            `release.convert` wrote; the images lie beside the official file.
        roots: Where images lie, by how `image` begins: `{"/": "/data/pexels"}` for another
            folder than that.
    """

    has_masks = True
    ids_are_positions = True

    def __init__(self, path: Path, roots: Mapping[str, str] | None = None) -> None:
        self._data = release.read_release(path)
        super().__init__(path, self._data.folder, roots)

    @cached_property
    def digest(self) -> str:
        """The digest of records and masks; images do not enter it."""
        return self._data.digest

    def _records(self) -> Iterator[tuple[str, ItemRef]]:
        pairs = zip(self._data.records, self._data.masks, strict=True)
        for position, (fields, mask) in enumerate(pairs):
            yield str(position), self._in_place(position, fields, mask)

    def _in_place(self, position: int, fields: Any, mask: PackedMask | str) -> ItemRef:
        record, wrong = Record.parse(fields)
        flaws = dict(Record.flaws(wrong))
        if isinstance(mask, str):
            flaws |= {"mask": Record.flaws({"object_mask": mask})["object_mask"]}
        decision = self._data.compares.get(position)
        texts = {
            "instruction": record.edit_instruction,
            "task": EDIT_TYPES.get(record.edit_type, ""),
            "questions": () if "questions" in flaws else (record.question(decision),),
            "extra": {"edit_type": record.edit_type, "content_type": record.image_content_type},
        }
        shape = "" if isinstance(mask, str) else content_digest(mask.tobytes())
        image = resolve_official_path(record.image, self.roots) or record.image.lstrip("/")
        files, data = {"source": (image,)}, (record, mask)
        return ItemRef(str(position), position, texts, files, flaws, data, (shape,))

    def doubts(self) -> tuple[str, ...]:
        """Return how the list differs from the released one in length or order."""
        return tuple(filter(None, [self._data.describe_difference()]))

    def notes(self) -> tuple[str, ...]:
        """Return what is odd in the released data and limits the possible scores."""
        items = self._items_and_problems[0]
        same = Counter((one.data[0].edit_instruction, one.data[0].image) for one in items)
        masks = [(one.id, mask) for one in items if not isinstance(mask := one.data[1], str)]
        pairs = [(one.id, question) for one in items for question in one.texts["questions"]]
        odd = {
            "an option is blank: nobody can choose it, and the others are offered": [
                id_ for id_, question in pairs if "in_line" in question
            ],
            "an all-black mask: nothing may change": [id_ for id_, m in masks if not m.any()],
            "an all-white mask: nothing is outside it": [i for i, m in masks if m.min() == 255],
        }
        notes = [*self.doubts(), *question_notes(pairs), *format_notes(odd)]
        if duplicate_count := sum(count - 1 for count in same.values()):
            notes.append(
                f"{format_count(duplicate_count, 'item repeats', 'items repeat')} another's instruction and image"
            )
        if decision := len(self._data.compares):
            questions = format_count(decision, "question")
            notes.append(f"of {questions} {release.COMPARES} says which compare")
        return tuple(notes)

    def _mask(self, ref: ItemRef, *files: str, over: Sequence[Any] = ()) -> Mask:
        """The mask, which is no file and is laid over the whole frame."""
        mask = load_mask(unpack_mask(ref.data[1]), f"object_mask of {ref.id}")
        return replace(mask, stretches_to_frame=True)

    def fix(self, refs: Sequence[ItemRef]) -> str:
        """Where `image` begins otherwise."""
        images = [Path(ref.data[0].image) for ref in refs]
        if not images:
            return ""
        folders = [path.parent for path in images if path.is_absolute() and path.is_file()]
        if folders:
            folder = format_path(Path(os.path.commonpath(folders)))
            return f"`image` holds absolute paths: to allow them, add --root {folder}"
        return "if the images are in another folder, add --root /=FOLDER"


class OwnLine(Line):
    """One item: `task` is one of the nine edit types, and every question has its options.

    Without a mask nothing is said about preservation outside it, without questions nothing about
    functional correctness. An item of another task counts in the overall figures only.
    """

    @staticmethod
    def why_not_asked(question: Mapping[str, Any]) -> str:
        """Every question has an answer and options."""
        if absent := [n for n in ("question", "options", "answer") if n not in question]:
            return f"a question has no `{absent[0]}`"
        for name, (kind, kind_name) in _OPTIONAL.items():
            if name in question and not isinstance(question[name], kind):
                return f"`{name}` of a question is {kind_name}"
        return find_question_flaw(question)

    @property
    def texts(self) -> dict[str, Any]:
        """The item's fields, with the name of the edit type and with complete questions."""
        texts = super().texts
        questions = tuple(map(_as_asked, texts["questions"]))
        return {**texts, "task": edit_type(self.task), "questions": questions}


def _as_asked(question: dict[str, Any]) -> dict[str, Any]:
    """Complete a question to the form that `MultipleChoice` asks; its own fields stay.

    An answer that is no option stays as it is: such a question cannot be answered right. Whether
    it compares with the source, its words tell where nobody said so.
    """
    answer, options = question["answer"], question["options"]
    return {
        "compares": refers_to_source(question["question"], options),
        "expected": answer,
        **question,
        "answer": right_option(answer, options) or answer,
    }


class OwnItems(ItemsFile):
    """Data of one's own, judged as GIE-Bench: with masks and multiple-choice questions."""

    line = OwnLine

    def notes(self) -> tuple[str, ...]:
        """Return what is odd in the questions of usable lines."""
        questions_by_id = ((ref.id, one) for ref in self.items() for one in ref.texts["questions"])
        return tuple(question_notes(questions_by_id))

    def _mask(self, ref: ItemRef, *files: str, over: Sequence[Any] = ()) -> Mask | None:
        """Once it fits the source, it fits outputs too."""
        mask = super()._mask(ref, *files, over=over)
        return None if mask is None else replace(mask, stretches_to_frame=True)


def data(path: Path, roots: Mapping[str, str] | None = None) -> Dataset:
    """The official data, as it is or converted, or `items.jsonl` of one's own.

    A folder is one's own where it holds `items.jsonl` and neither form of the official data.

    Raises:
        ConfigError: `items.jsonl` does not name the paths of the release, which roots could map.
        InputError: there is nothing to read.
    """
    files = (release.CONVERTED_FILE, release.OFFICIAL_FILE)
    official = any((path / name).is_file() for name in files)
    if path.suffix != ".jsonl" and (official or not (path / USUAL).is_file()):
        return GieData(path, roots)
    if has_path_mapping(roots):
        raise ConfigError("--root OLD=NEW is for gie_bench.json, not for items.jsonl", "give --root FOLDER")
    return OwnItems(path, roots)
