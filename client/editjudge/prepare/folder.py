"""The folder of a preparation: the completed data, its record and the review page."""

import json
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from ..answers.questions import ChoiceQuestion, QuestionAnswer
from ..base.digest import content_digest, file_digest
from ..base.errors import ConfigError, InputError, StoreError
from ..base.images import format_path
from ..base.output_files import lock_folder, write_output
from ..base.strict import pick_fields
from ..benchmarks.items import ItemsFile, Line
from ..benchmarks.texts import describe_error
from .items import FIELDS, Entry, Status, What

DATA = "items.jsonl"
CALLS = "prepare.sqlite"
REVIEW = "review.html"
ACCEPT_FILE = "accepted.jsonl"
REJECT_FILE = "rejected.jsonl"
_RECORD = "prepared.json"
_LOCK = "prepare.lock"
_MASKS = "masks"
_PICTURES = "pictures"
_OWN_FILES = (DATA, REVIEW, ACCEPT_FILE, REJECT_FILE, _MASKS)
"""The files and folders that a preparation overwrites once the folder belongs to it."""


class Record(BaseModel):
    """The record of a preparation, stored as `prepared.json` in its folder.

    Attributes:
        format: The version of this file's format.
        what: What is generated: instructions, questions or masks.
        data: The path of the data file.
        data_digest: Digest of the data file.
        made_by: Identities of the services, by role.
        statuses: The status of each item, by id.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    format: Literal[1] = 1
    what: What
    data: str
    data_digest: str
    made_by: dict[str, str] = {}
    statuses: dict[str, Status] = {}


class Folder:
    """The folder of a preparation.

    Args:
        path: The folder; `lock` creates it if it does not exist.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def items(self) -> Path:
        """The path of the completed data."""
        return self.path / DATA

    def lock(self) -> AbstractContextManager[object]:
        """Keep other processes out of the folder as long as the returned lock is held.

        Raises:
            ConfigError: another process uses the folder, or it cannot be written.
        """
        return lock_folder(self.path, _LOCK)

    def record(self) -> Record | None:
        """Read the record of the preparation; None for a folder without one.

        Raises:
            InputError: its record cannot be read.
        """
        file = self.path / _RECORD
        if not file.is_file():
            return None
        try:
            return Record.model_validate_json(file.read_bytes())
        except ValidationError as error:
            raise InputError(
                format_path(file), describe_error(error, Record), "prepare the data again, in another folder"
            ) from error

    def begin(self, data: ItemsFile, what: What) -> Record:
        """Take the folder for a preparation, or resume the one that it holds.

        Returns:
            The record of it.

        Raises:
            ConfigError: the folder is that of another preparation, or holds the data itself.
        """
        if os.path.realpath(data.path) == os.path.realpath(self.items):
            raise ConfigError(f"--out {self.path} holds the data itself", "give another folder")
        record = self.record()
        if record is None:
            if there := next((name for name in _OWN_FILES if (self.path / name).exists()), None):
                raise ConfigError(f"{self.path / there} exists, but no preparation wrote it", "give another folder")
            record = Record(what=what, data=str(data.path), data_digest=data.digest)
            self.write_record(record)
        elif (record.what, record.data_digest) != (what, data.digest):
            raise ConfigError(
                f"{self.path} has {record.what} for {record.data} ({record.data_digest[:19]}…), not"
                f" {what} for {data.path} ({data.digest[:19]}…)",
                "give another folder",
            )
        return record

    def write_record(self, record: Record) -> None:
        """Write the record of the preparation."""
        write_output(self.path / _RECORD, record.model_dump_json(indent=1).encode())

    def write_mask(self, item_id: str, mask: bytes) -> str:
        """Write an item's mask.

        Returns:
            Its path in the folder.
        """
        name = f"{_MASKS}/{item_id}.png"
        write_output(self.path / name, mask)
        return name

    def write_items(self, data: ItemsFile, entries: Mapping[str, Entry]) -> None:
        """Write the completed data; its paths are rewritten to lead to the same files."""
        move = _path_mover(data.path.parent, self.path)
        lines = []
        for ref in data.items():
            entry = entries[ref.id]
            new_fields: dict[str, object] = {}
            if entry.instruction:
                new_fields["instruction"] = entry.instruction
            if entry.questions:
                new_fields["questions"] = tuple(map(_question_fields, entry.questions))
            if entry.mask is not None:
                new_fields["mask"] = f"{_MASKS}/{ref.id}.png"
                new_fields["mask_shows"] = entry.mask_shows
            lines.append(move(ref.data).model_copy(update=new_fields))
        write_lines(self.items, lines)

    def review_digest(self, line: Line) -> str:
        """Compute the digest of what a reviewer sees of an item; a change needs a new decision."""
        mask = self.path / line.mask if line.mask else None
        review_content = pick_fields(line, "id", "instruction", "images", "questions", "mask_shows")
        review_content["mask"] = file_digest(mask) if mask and mask.is_file() else None
        return content_digest(json.dumps(review_content, sort_keys=True).encode())


def _question_fields(question: ChoiceQuestion | QuestionAnswer) -> dict[str, object]:
    """Make the fields of a question for a line, without those that are None."""
    return {name: value for name, value in question._asdict().items() if value is not None}


def _link_pictures(before: Path, after: Path) -> bool:
    """Link the pictures of the data into a folder, and say whether they are linked.

    So what was made names no picture outside its own folder: that would take its user's consent
    (`AllowedFolders`).

    Raises:
        StoreError: the link cannot be made.
    """
    link = after / _PICTURES
    to = os.path.relpath(os.path.realpath(before), os.path.realpath(after))
    try:
        if link.is_symlink() and os.readlink(link) != to:  # noqa: PTH115
            link.unlink()
        if not os.path.lexists(link):
            link.symlink_to(to)
    except OSError as error:
        raise StoreError(f"{format_path(link)}: {error.strerror or error}") from error
    return link.is_symlink()


def _path_mover(before: Path, after: Path) -> Callable[[Line], Line]:
    """Make the function that rewrites a line's paths for another folder; see `_link_pictures`."""
    real, new = os.path.realpath(before), os.path.realpath(after)
    is_linked = _link_pictures(before, after)

    def move_path(path: str) -> str:
        plain = os.path.normpath(path)
        for folder in (real, before.absolute()):
            plain = plain.removeprefix(f"{folder}{os.sep}")
        if Path(plain).is_absolute():
            return path
        if is_linked and plain.partition("/")[0] != "..":
            return f"{_PICTURES}/{plain}"
        return Path(os.path.relpath(Path(real) / path, new)).as_posix()

    def move(line: Line) -> Line:
        names = [name for name in ("source", "mask", "target") if getattr(line, name)]
        paths: dict[str, object] = {name: move_path(getattr(line, name)) for name in names}
        if line.sources:
            paths["sources"] = tuple(map(move_path, line.sources))
        return line.model_copy(update=paths)

    return move


def strip_made(line: Line, what: What) -> Line:
    """Remove the generated fields from a line; a line without them stays as it is."""
    made_fields = {*FIELDS[what]} if getattr(line, FIELDS[what][0]) else set()
    fields = line.model_dump(exclude_unset=True, exclude=made_fields)
    # A line has an instruction, if only a blank one.
    return type(line).model_validate({"instruction": "", **fields})


def write_lines(file: Path, lines: Iterable[Line]) -> None:
    """Write lines of `items.jsonl` with the fields that they were given; see `write_output`."""
    fields = (line.model_dump(mode="json", exclude_unset=True) for line in lines)
    text = "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in fields)
    write_output(file, text.encode())
