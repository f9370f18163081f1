"""The official data: folders of annotations and images, or all annotations in one list."""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from ...base.digest import content_digest, digest_bytes, file_digest
from ...base.errors import InputError
from ...base.images import format_path
from ...base.text import format_count, group_by_key
from ..dataset import ItemRef, format_notes
from ..records import ItemField, RecordsFile, ReleasedRecord, read_json
from ..texts import File, Text
from .taxonomy import FOLDERS, FRAMES, TABLES, TEMPORAL, task_of

ANNOTATION = "annotation.json"
_FRAME = re.compile(r"(\d+)-(\d+)")


_Sources = Annotated[
    tuple[File, ...], Field(min_length=1), BeforeValidator(lambda one: (one,) if isinstance(one, str) else one)
]


class Record(ReleasedRecord):
    """One annotation.

    Attributes:
        ori_img: The source image, or several.
        gt_img: The ground truth; nothing where there is none.
        ins_en: The instruction.
        explain_en: What is to be expected and why; nothing where there is no such hint.
    """

    ori_img: Annotated[_Sources, ItemField("source")] = ()
    gt_img: Annotated[str, ItemField("target", is_required=False)] = ""
    ins_en: Annotated[Text, ItemField("instruction")] = ""
    explain_en: Annotated[Text, ItemField("hint", is_required=False)] = ""


class KrisData(RecordsFile):
    """KRIS-Bench as it is released.

    Items are `<folder>/<id>`, so a model's outputs are `<model>/<folder>/<id>.jpg` and the like.
    Folders that are not there are left out.

    Args:
        path: The folder with `<folder>/annotation.json`, or a JSON list of all annotations, each
            with `id` and `type` (its folder), beside these folders.
        roots: Folders outside its own whose pictures it may name.
    """

    def __init__(self, path: Path, roots: Mapping[str, str] | None = None) -> None:
        super().__init__(path, roots=roots)
        # By folder; a list of all has the folder ``.
        self._files = {"": self.path}
        if not self.path.is_file():
            files = {folder: self.path / folder / ANNOTATION for folder in FOLDERS}
            self._files = {folder: file for folder, file in files.items() if file.is_file()}
        if not self._files:
            raise InputError(
                format_path(path),
                f"no <task>/{ANNOTATION} and no list of annotations",
                "give the folder that holds color_change, biology, …, or the list itself",
            )

    @cached_property
    def digest(self) -> str:
        """The digest of the annotations; images do not enter it."""
        parts = ((f"{folder}\n", file_digest(file)) for folder, file in self._files.items())
        return content_digest(b"".join(name.encode() + digest_bytes(of) for name, of in parts))

    def _records(self) -> Iterator[tuple[str, ItemRef | str]]:
        for folder, file in self._files.items():
            if not folder:
                yield from _of_list(file)
                continue
            records, twice = read_json(file, dict, "an object of annotations by id")
            yield from ((f"{folder}/{name}", "twice in the file") for name in twice)
            for number, fields in records.items():
                yield f"{folder}/{number}", _in_place(folder, number, fields)

    def fix(self, refs: Sequence[ItemRef]) -> str:
        """Return that a list lies beside its folders; other runners keep it among their code."""
        beside = f"copy or link {self.path.name} to where the folders of its images are"
        return beside if refs and self.path.is_file() else ""

    def notes(self) -> tuple[str, ...]:
        """Return how the data differs from the release, by folder; later revisions exist."""
        every = self._items_and_problems[0]
        there = group_by_key((item.texts["extra"]["folder"], item) for item in every)
        by_folder = {f: there.get(f, []) for f in FOLDERS if f in there or f in self._files}
        counts = [
            f"{folder}: {format_count(len(items), 'item')}, {FOLDERS[folder]:,} were released"
            for folder, items in by_folder.items()
            if len(items) != FOLDERS[folder]
        ]
        if absent := [folder for folder in FOLDERS if folder not in by_folder]:
            counts.append(f"no items of {len(absent)} folders: {', '.join(absent)}")
        if counts:
            items = format_count(len(every), "item")
            counts.append(f"{items} in all, {sum(FOLDERS.values()):,} were released")
        odd = (note for folder, items in by_folder.items() for note in _odd(folder, items))
        return (*odd, *counts)


def _of_list(file: Path) -> Iterator[tuple[str, ItemRef | str]]:
    """Yield the annotations of a list, each with its folder and id."""
    fix = f"of <task>/{ANNOTATION} give the folder above <task>"
    records, twice = read_json(file, list, "a list of annotations", fix)
    yield from ((f"{file.name}/{name}", "twice in the file") for name in twice)
    for position, fields in enumerate(records, 1):
        where = f"{file.name}, entry {position}"
        if isinstance(fields, dict):
            folder, number = (str(fields.get(name, "")) for name in ("type", "id"))
            other_fields = {name: of for name, of in fields.items() if name not in {"id", "type"}}
            yield where, _in_place(folder, number, other_fields)
        else:
            yield where, "is no object"


def _in_place(folder: str, number: str, fields: Any) -> ItemRef | str:
    """Make an item of a record, or return why it is none."""
    if folder not in FOLDERS:
        return f"type {folder!r} is none of the {len(FOLDERS)} folders of KRIS-Bench"
    record, wrong = Record.parse(fields)
    sources, extra, frame = record.ori_img, dict[str, Any](folder=folder), None
    if folder == TEMPORAL:
        sources = tuple(sorted(sources, key=_frame))
        missing = set(range(1, FRAMES + 1)) - set(map(_frame, sources))
        if len(missing) != 1 or len(sources) != FRAMES - 1:
            # Which task it is, and so in which column it would count, nobody can tell.
            frames = list(map(_frame, sources))
            return f"ori_img must name three of the frames 1 to {FRAMES}, not {frames}"
        frame = extra["position"] = missing.pop()
        if record.gt_img and _frame(record.gt_img) != frame:
            wrong["gt_img"] = f"{record.gt_img} is not frame {frame}, which is the one left out"
    if folder == "viewpoint_change" and not record.gt_img:
        wrong.setdefault("gt_img", "is missing, though its prompt needs the ground truth")
    texts = {
        "instruction": record.ins_en,
        "hint": record.explain_en or None,
        "task": task_of(folder, frame),
        "extra": extra,
    }
    image_fields = {"source": sources, "target": (record.gt_img,) if record.gt_img else ()}
    files = {n: tuple(str(Path(folder, p)) for p in of) for n, of in image_fields.items() if of}
    return ItemRef(f"{folder}/{number}", 0, texts, {"source": (), **files}, Record.flaws(wrong))


def _odd(folder: str, items: Sequence[ItemRef]) -> list[str]:
    """Return which of a folder's items differ from the release in sources or explanations."""
    low, high = TABLES["sources"].get(folder, (1, 1))
    has = f"{low}" if low == high else f"{low} to {high}"
    without = [one.id for one in items if not one.texts["hint"]]
    lacking = TABLES["unexplained"].get(folder, len(items))
    if len(without) <= lacking:
        without = []
    notes = {
        f"another number of sources than in the release, which has {has}": [
            one.id for one in items if not low <= len(one.files["source"]) <= high
        ],
        f"no explanation, which {lacking} of the release lack": without,
    }
    return [f"{folder}: {note}" for note in format_notes(notes)]


def _frame(name: str) -> int:
    match = _FRAME.search(name)
    return int(match[2]) if match else 0
