"""The official data: JSON lists of records that name images by the authors' paths."""

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from ...base.digest import content_digest, digest_bytes, file_digest
from ...base.errors import InputError
from ...base.images import format_path
from ...base.text import format_count
from ..dataset import ItemRef, Problem, format_notes, resolve_official_path
from ..records import ItemField, RecordsFile, ReleasedRecord, read_json
from ..texts import File, Name, Text, is_blank
from .taxonomy import LISTS, LONG, MOST_PAIRS, MULTI, ROUNDS, SINGLE

_FOLDER_NAMES = {"sharegpt4v(llava)": "sharegpt4v"}
"""Folders that the official code looks for under another name."""


def _number_to_text(answer: Any) -> Any:
    """Turn numbers and truth values into texts: `2` into "2", `true` into "True"."""
    plain = isinstance(answer, int) or (isinstance(answer, float) and math.isfinite(answer))
    return str(answer) if plain else answer


class Pair(BaseModel):
    """A question about the right result, and its answer; other fields are left aside."""

    model_config = ConfigDict(extra="ignore", frozen=True)
    question: Text
    correct_answer: Annotated[Text, BeforeValidator(_number_to_text)]


def _is_whole(pair: Any) -> bool:
    """Whether a pair has a question and an answer; the released scorer skips others."""
    texts = (pair.get("question"), pair.get("correct_answer")) if isinstance(pair, dict) else ("",)
    return all(t is not None and not (isinstance(t, str) and is_blank(t)) for t in texts)


def _whole_pairs(pairs: Any) -> Any:
    if not isinstance(pairs, list):
        return pairs
    whole = [pair for pair in pairs if _is_whole(pair)]
    if pairs and not whole:
        raise ValueError("no pair has a question and an answer")
    return whole


class Record(ReleasedRecord):
    """One edit; fields that are not here are left aside.

    Attributes:
        sample_id: Of the image; several folders and levels have the same.
        level: `low` or `high`, the semantic scale; in a dialogue the round, from 1.
        modification_text: The instruction.
        original_image_path: The image before the edit.
        modified_image_path: The target; the name of its folder is the data set's.
        target_mask_path: What was edited in the target; white is edited.
        qa_pairs: Questions that are asked about the result; generated where there are none.
        scale: Of a round of a dialogue: its semantic scale, where somebody added it.
    """

    sample_id: Annotated[Name, ItemField("id")] = ""
    level: Annotated[str, ItemField("level")] = Field("", pattern=r"^(low|high|[1-9]\d*)$", coerce_numbers_to_str=True)
    modification_text: Annotated[Text, ItemField("instruction")] = ""
    original_image_path: Annotated[File, ItemField("source")] = ""
    modified_image_path: Annotated[File, ItemField("target")] = ""
    target_mask_path: Annotated[File, ItemField("mask")] = ""
    qa_pairs: Annotated[tuple[Pair, ...], BeforeValidator(_whole_pairs), ItemField("questions", is_required=False)] = ()
    scale: Annotated[Literal["low", "high"] | None, ItemField("scale", is_required=False)] = None

    @property
    def folder(self) -> str:
        """The data set's folder, by its name among the outputs."""
        name = PurePosixPath(self.modified_image_path).parent.name
        return _FOLDER_NAMES.get(name, name)

    @property
    def round(self) -> int:
        """The round of a dialogue, from 1; 0 for a single edit."""
        return int(self.level) if self.level.isdecimal() else 0


_NAMED_BY = ("sample_id", "level", "modified_image_path")
"""The fields of a record that make its id: without them it is no item."""


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

    nouns = ("entry", "entries")
    # Squashing mask and target to a square would hide that the mask is another picture's.
    mask_lies_over = ("target",)

    def __init__(self, path: Path, roots: Mapping[str, str] | None = None) -> None:
        super().__init__(path, roots=roots)
        there = [name for name in LISTS if (self.path / name).is_file()]
        # Its rounds were filtered into the other list: together they would count twice.
        self._unread = {MULTI, LONG} <= {*there}
        names = [name for name in there if not (self._unread and name == LONG)]
        self._files = [self.path] if self.path.is_file() else [self.path / one for one in names]
        self._counts: dict[str, int] = {}
        self._ids_with_skips: set[str] = set()
        if not self._files:
            raise InputError(
                format_path(path), f"no {SINGLE}, no {MULTI} and no {LONG}", "give their folder, or one of them"
            )

    @cached_property
    def digest(self) -> str:
        """The digest of the lists; images do not enter it."""
        return content_digest(b"".join(digest_bytes(file_digest(file)) for file in self._files))

    def _records(self) -> Iterator[tuple[str, ItemRef | str]]:
        for file in self._files:
            entries, _ = read_json(file, list, "a list of records")
            self._counts[file.name] = len(entries)
            for position, entry in enumerate(entries, 1):
                yield f"{file.name}, entry {position}", self._in_place(entry)

    @cached_property
    def _items_and_problems(self) -> tuple[list[ItemRef], list[Problem]]:
        """The items and problems; each round knows how its scale differs from the round before."""
        items, problems = super()._items_and_problems
        _tell_switches(items)
        return items, problems

    def notes(self) -> tuple[str, ...]:
        """Return lists of another length than in the release, and entries beyond the paper's."""
        items = self._items_and_problems[0]
        counts = [
            f"{name}: {format_count(count, 'entry', 'entries')}, {LISTS[name]:,} were released"
            for name, count in self._counts.items()
            if LISTS.get(name, count) != count
        ]
        unread = f"{LONG} is not read beside {MULTI}: give it by itself to judge its rounds"
        odd = {
            f"beyond round {ROUNDS}: counts in multi_turn, and has no column of its round": [
                one.id for one in items if one.data.round > ROUNDS
            ],
            "pairs without a question or an answer are skipped, as in the released scorer": [
                one.id for one in items if one.id in self._ids_with_skips
            ],
            f"more than {MOST_PAIRS} pairs of question and answer; all are asked": [
                one.id for one in items if len(one.data.qa_pairs) > MOST_PAIRS
            ],
        }
        return (*counts, *([unread] if self._unread else []), *format_notes(odd))

    def fix(self, refs: Sequence[ItemRef]) -> str:
        """Return that `--root` maps the authors' paths."""
        return "map the authors' folders to yours: --root OLD=NEW" if refs else ""

    def _in_place(self, entry: Any) -> ItemRef | str:
        """Make an item of a record, or return why it is none."""
        if not isinstance(entry, dict):
            return "is no object"
        record, wrong = Record.parse(entry)
        for name in _NAMED_BY:
            if name in wrong:
                return f"{name}: {wrong[name]}"
        if not record.folder:
            return f"modified_image_path: {record.modified_image_path} is in no folder"
        scene = f"{record.folder}/{record.sample_id}"
        key = f"{scene}_{record.level}"
        pairs = [{"question": p.question, "answer": p.correct_answer} for p in record.qa_pairs]
        texts = {
            "instruction": record.modification_text,
            "task": f"round_{record.round}" if record.round else record.level,
            "questions": tuple(pairs),
            "extra": {"scene": scene, "level": record.level, "switch": ""},
        }
        paths = {
            "source": record.original_image_path,
            "target": record.modified_image_path,
            "mask": record.target_mask_path,
        }
        files = {k: (resolve_official_path(p, self.roots) or p,) for k, p in paths.items()}
        if "qa_pairs" not in wrong and len(entry.get("qa_pairs") or ()) > len(pairs):
            self._ids_with_skips.add(key)
        return ItemRef(key, 0, texts, files, Record.flaws(wrong), record)


def _tell_switches(items: Sequence[ItemRef]) -> None:
    """Note for each round how its scale differs from the round before it."""
    before: dict[str, ItemRef] = {}
    rounds = [one for one in items if one.data.round]
    for item in sorted(rounds, key=lambda item: item.data.round):
        extra, scale = item.texts["extra"], item.data.scale
        last = before.get(extra["scene"])
        if last is not None and last.data.scale and scale:
            same = last.data.scale == scale
            extra["switch"] = "same_scale" if same else f"{last.data.scale}_to_{scale}"
        before[extra["scene"]] = item
