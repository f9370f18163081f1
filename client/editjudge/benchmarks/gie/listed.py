"""Outputs as the authors' scripts look for them: in a copy of the released file."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...base.errors import InputError
from ...base.images import show_path
from ...base.item import Missing
from .official_file import read_official

FIELD = "edited_image_path"
"""What users of the released scripts add to every record."""


@dataclass(frozen=True, slots=True)
class ListedOutputs:
    """The outputs of one model, as a copy of the released file names them.

    Attributes:
        file: The copy.
        paths: By item; relative ones lie beside the file.
    """

    file: Path
    paths: Mapping[str, Path]

    def path(self, item: str) -> str | None:
        """The file that the record names, if it is there."""
        path = self.paths.get(item)
        return str(path) if path is not None and path.is_file() else None

    def why_not(self, item: str) -> Missing:
        """What the record says."""
        if path := self.paths.get(item):
            return Missing("absent", f"no {show_path(path)}")
        return Missing("absent", f"record {item} of {show_path(self.file)} has no `{FIELD}`")

    def index(self) -> ListedOutputs:
        """Itself."""
        return self

    def others(self, items: Container[str]) -> list[str]:
        """None: a path belongs to the record that names it."""
        return []


def listed_outputs(file: Path, records: Sequence[Any]) -> ListedOutputs:
    """Read where a copy of the released file says that the edits lie.

    Args:
        records: Of the data; the copy has the same instructions in the same order.

    Raises:
        InputError: it cannot be read, is no such copy, or names no output.
    """
    copies = read_official(file).records
    if [_told(one) for one in copies] != [_told(one) for one in records]:
        raise InputError(
            show_path(file),
            "its records are not those of --data",
            f"give a copy of gie_bench.json with `{FIELD}` in its records, or a folder",
        )
    named = {
        str(position): file.parent / path
        for position, one in enumerate(copies)
        if isinstance(path := one.get(FIELD) if isinstance(one, dict) else None, str) and path
    }
    if not named:
        raise InputError(show_path(file), f"no record has `{FIELD}`", "or give a folder")
    return ListedOutputs(file, named)


def _told(record: Any) -> Any:
    return record.get("edit_instruction") if isinstance(record, dict) else None
