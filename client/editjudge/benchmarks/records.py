"""Official data: records that are all in memory, and what its readers have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol

from ..base.errors import InputError
from ..base.images import show_path
from ..base.item import Item
from .dataset import ItemRef, OutputFolder, Outputs, placeholder, placeholder_mask, unusable


class Problem(NamedTuple):
    """What cannot be used, and where it stands."""

    where: str
    what: str


class Placed(Protocol):
    """A record in its place in the data.

    Attributes:
        id: Unique within the data.
        sources: The names of its source images.
        texts: The item's fields but for its id and its images.
    """

    id: str
    sources: tuple[str, ...]
    has_mask: bool
    has_target: bool
    texts: dict[str, Any]


@dataclass
class Usable:
    """The records that can be used, in their order, and what is wrong with the others."""

    items: list[Any] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)


class RecordsFile(ABC):
    """Data as it was released; a benchmark says how it is read and what its images are.

    Attributes:
        name: Of the benchmark.
        path: The file or folder that holds it.
        entries: What the data calls one of its items, and several.
        absent: What is said of an item's files that are not there.
    """

    name: str
    path: Path
    entries: ClassVar[tuple[str, str]] = ("item", "items")
    absent: ClassVar[str] = "no such file"

    @property
    @abstractmethod
    def _usable(self) -> Usable:
        """Everything that was read, once; items are `Placed`."""

    @abstractmethod
    def pictures(self, ref: ItemRef) -> tuple[Path, ...]:
        """The files that `load` reads."""

    def items(self, only: Container[int] | None = None) -> Iterator[ItemRef]:
        """The items that can be read, in the order of the data."""
        for index, record in enumerate(self._usable.items):
            if only is None or index in only:
                yield ItemRef(record.id, index, record)

    def checked(self) -> Iterator[ItemRef]:
        """The items, while their fields, ids and files are checked.

        Raises:
            InputError: after the last item, with all that is wrong, up to `MAX_PROBLEMS`.
        """
        problems = list(self._usable.problems)
        lost: list[ItemRef] = []
        for ref in self.items():
            files = [show_path(path) for path in self.pictures(ref) if not path.is_file()]
            if files:
                lost.append(ref)
                problems.append(Problem(ref.id, f"{self.absent}: {', '.join(files)}"))
            else:
                yield ref
        if problems:
            lines = [f"{where}: {what}" for where, what in self._ordered(problems)]
            raise unusable(self.path, lines, self.entries, mend=self._mend_lost(lost))
        if not self._usable.items:
            raise InputError(show_path(self.path), f"no {self.entries[1]}")

    def outline(self, ref: ItemRef) -> Item:
        """Texts as they are, images as placeholders."""
        record: Placed = ref.data
        image = placeholder()
        return Item(
            id=ref.id,
            sources=(image,) * len(record.sources),
            target=image if record.has_target else None,
            mask=placeholder_mask() if record.has_mask else None,
            **record.texts,
        )

    def outputs(self, folder: Path) -> Outputs:
        """`<folder>/<item id>.png` and the like."""
        return OutputFolder(folder)

    def _ordered(self, problems: list[Problem]) -> list[Problem]:
        """In the order in which they are told: first what is wrong with records, then files."""
        return problems

    def _mend_lost(self, lost: Sequence[ItemRef]) -> str:
        """How to say where files lie that were not found; "" where none is lost."""
        return ""
