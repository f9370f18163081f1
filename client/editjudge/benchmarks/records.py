"""Released data, whose records are all in memory, and how each field of a record is read.

Released data is read as it stands. What a record lacks, or holds in a form that cannot be used,
is a flaw of one field (`Item.flaws`): it costs the dimensions that read this field, on this item.
"""

from abc import abstractmethod
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from ..base.errors import InputError
from ..base.images import format_path
from ..base.item import Flaws
from ..base.objects import find_url
from ..base.parse import describe_failure, list_problems, parse_json
from .dataset import Dataset, ItemRef, Problem, flaw
from .texts import check_name, find_repeated_keys, is_blank


@dataclass(frozen=True, slots=True)
class ItemField:
    """Marks a record's field with the item's field that it fills.

    Attributes:
        field: The item's field.
        is_required: Whether every record has the field. An optional field that is blank is absent.
    """

    field: str
    is_required: bool = True


class ReleasedRecord(BaseModel):
    """A record as it was released: a field that cannot be used does not spoil the others.

    Each field says by an `ItemField` which field of an item it becomes, and has an empty default.
    Fields that are not declared are ignored, unless their name is close to that of an absent one.
    """

    model_config = ConfigDict(extra="ignore", frozen=True)

    @classmethod
    @cache
    def item_fields(cls) -> Mapping[str, ItemField]:
        """Return the item's field that each of the record's fields fills."""
        marks = ((name, m) for name, info in cls.model_fields.items() for m in info.metadata)
        return {name: mark for name, mark in marks if isinstance(mark, ItemField)}

    @classmethod
    def parse(cls, fields: Any) -> tuple[Self, dict[str, str]]:
        """Parse a record, and return by field why its value cannot be used."""
        fields = fields if isinstance(fields, dict) else {}
        gives = cls.item_fields()
        optional = {name for name, field in gives.items() if not field.is_required}
        there = {
            name: value
            for name, value in fields.items()
            if name in cls.model_fields and not _is_nothing(value, blank_too=name in optional)
        }
        wrong = {n: "is missing" for n, f in gives.items() if f.is_required and n not in there}
        wrong |= _misspelt(fields.keys() - cls.model_fields.keys(), gives.keys() - fields.keys())
        try:
            return cls.model_validate(there), wrong
        except ValidationError as error:
            for problem in list_problems(error):
                name, _, rest = problem.where.partition(".")
                wrong.setdefault(name, str(problem._replace(where=rest)))
        usable = {name: value for name, value in there.items() if name not in wrong}
        return cls.model_validate(usable), wrong

    @classmethod
    def flaws(cls, wrong: Mapping[str, str]) -> Flaws:
        """Return the flaws of an item; a field that fills none keeps its own name.

        Args:
            wrong: By field of its record, why it cannot be used.
        """
        item_names = {name: mark.field for name, mark in cls.item_fields().items()}
        return {item_names.get(name, name): flaw(f"{name}: {what}") for name, what in wrong.items()}


def _is_nothing(value: Any, *, blank_too: bool) -> bool:
    return value is None or (blank_too and isinstance(value, str) and is_blank(value))


def _misspelt(unknown: Iterable[str], absent: Iterable[str]) -> dict[str, str]:
    """Return the absent fields whose names unknown fields resemble or begin."""
    wrong = {}
    absent = sorted(absent)
    for name in sorted(unknown):
        completions = [one for one in absent if one.startswith(name)]
        for near in completions or get_close_matches(name, absent, n=1, cutoff=0.85):
            wrong[near] = f"{name}: no such field; did you mean {near}?"
    return wrong


class RecordsFile(Dataset):
    """Released data; a subclass finds the records and makes items of them.

    Raises:
        InputError: the data is a URL.
    """

    def __init__(self, path: Path, folder: Path | None = None, roots: Mapping[str, str] | None = None) -> None:
        super().__init__(path, folder, roots)
        if url := find_url(self.path):
            why = "data of this benchmark is read from a folder; its outputs may be a URL"
            raise InputError(url, why, "copy it, or mount its bucket")

    @abstractmethod
    def _records(self) -> Iterator[tuple[str, ItemRef | str]]:
        """Yield where each record stands, with its item, or why it is none."""

    @cached_property
    def _items_and_problems(self) -> tuple[list[ItemRef], list[Problem]]:
        items: dict[str, ItemRef] = {}
        first: dict[str, str] = {}
        problems: list[Problem] = []
        for where, item in self._records():
            if isinstance(item, ItemRef):
                try:
                    check_name(item.id)
                except ValueError as error:
                    item = f"the id {item.id!r}: {error}"
            if isinstance(item, str):
                problems.append((where, item))
            elif item.id in items:
                problems.append((where, f"the id {item.id!r} is already used by {first[item.id]}"))
            else:
                item.index = len(items)
                items[item.id], first[item.id] = item, where
        return list(items.values()), problems

    def _read(self, only: Container[int] | None = None, problems: list[Problem] | None = None) -> Iterator[ItemRef]:
        items, no_items = self._items_and_problems
        if problems is not None:
            problems += no_items
        return (item for item in items if only is None or item.index in only)

    def list_rejected_entries(self) -> list[Problem]:
        """Return the entries of the data that are no items."""
        return self._items_and_problems[1]


def read_json(file: Path, kind: type, what: str, fix: str = "") -> tuple[Any, list[str]]:
    """Read the value in a JSON file, and the keys that an object in it has more than once.

    Args:
        kind: The type that the value must have.
        what: The same in words, for the error.
        fix: What to give instead, for the error.

    Raises:
        InputError: the file cannot be read, or its value has another type.
    """
    twice: list[str] = []

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        twice.extend(find_repeated_keys(pairs))
        return dict(pairs)

    try:
        value = parse_json(file.read_text("utf-8-sig"), pairs=members)
    except (OSError, ValueError) as error:
        raise InputError(format_path(file), f"cannot be read: {describe_failure(error)}") from error
    if not isinstance(value, kind):
        raise InputError(format_path(file), f"is not {what}", fix)
    return value, twice
