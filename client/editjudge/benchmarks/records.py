"""Official data: records that are all in memory, and what its readers have in common.

Released data is read as it stands. What a record lacks, or holds in a form that cannot be used,
is a flaw of one field (`Item.flaws`): it costs the dimensions that read this field, on this item.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from ..base.errors import InputError
from ..base.files import ABSENT, stat_of
from ..base.images import show_path
from ..base.item import Flaws, Item
from .dataset import (
    UNEDITED,
    Consent,
    ItemRef,
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
from .items import plainly


class Problem(NamedTuple):
    """What is no item, and where it stands."""

    where: str
    what: str


class ReleasedRecord(BaseModel):
    """A record as it was released: a field that cannot be used does not spoil the others.

    Fields that are not declared are left aside. Each field that a record must have is declared
    with an empty default, and named in `due`.

    Attributes:
        due: The fields that every record has.
    """

    model_config = ConfigDict(extra="ignore", frozen=True)
    due: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def read(cls, fields: Any) -> tuple[Self, dict[str, str]]:
        """A record, and by field why what stands there cannot be used.

        Raises:
            ValidationError: without these fields, too, it is no record.
        """
        fields = fields if isinstance(fields, dict) else {}
        wrong = {name: "is missing" for name in cls.due if fields.get(name) is None}
        usable = {name: value for name, value in fields.items() if name not in wrong}
        try:
            return cls.model_validate(usable), wrong
        except ValidationError as error:
            for problem in error.errors(include_url=False):
                if problem["loc"]:
                    wrong.setdefault(str(problem["loc"][0]), plainly(problem["msg"]))
        usable = {name: value for name, value in usable.items() if name not in wrong}
        return cls.model_validate(usable), wrong


def flaws_by(wrong: Mapping[str, str], fields: Mapping[str, str]) -> Flaws:
    """The flaws of an item.

    Args:
        wrong: By field of its record, why it cannot be used.
        fields: The item's field by that of the record; others count under their own names.
    """
    return {fields.get(name, name): flaw(f"{name}: {what}") for name, what in wrong.items()}


class Placed(Protocol):
    """A record in its place in the data.

    Attributes:
        id: Unique within the data.
        sources: The names of its source images.
        texts: The item's fields but for its id and its images.
        flaws: What the record holds and cannot be used.
    """

    id: str
    sources: tuple[str, ...]
    has_mask: bool
    has_target: bool
    texts: dict[str, Any]
    flaws: Flaws


@dataclass
class Usable:
    """The items, in their order, and what is none."""

    items: list[Any] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)


class RecordsFile(ABC):
    """Data as it was released; a benchmark says how it is read and what its images are.

    Attributes:
        name: Of the benchmark.
        path: The file or folder that holds it.
        entries: What the data calls one of its items, and several.
    """

    name: str
    path: Path
    released = True
    entries: ClassVar[tuple[str, str]] = ("item", "items")

    @property
    @abstractmethod
    def digest(self) -> str:
        """See `Dataset`."""

    @property
    @abstractmethod
    def _usable(self) -> Usable:
        """Everything that was read, once; items are `Placed`."""

    _looked_at: tuple[ItemRef | None, Mapping[str, tuple[Path, ...]], Flaws] = None, {}, {}

    @abstractmethod
    def _files_of(self, ref: ItemRef) -> Mapping[str, tuple[Path, ...]]:
        """The picture files of an item, by its field: `source`, `target`, `mask`."""

    @abstractmethod
    def likeness(self, ref: ItemRef) -> Hashable:
        """See `Dataset`."""

    @property
    @abstractmethod
    def _consent(self) -> Consent:
        """Where its pictures may be."""

    @cached_property
    def _stat(self) -> Callable[[str | Path], bytes]:
        """A file's stat; looked for once, since several ask."""
        return lru_cache(65_536)(stat_of)

    def _exists(self, path: str | Path) -> bool:
        return self._stat(path) != ABSENT

    def items(self, only: Container[int] | None = None) -> Iterator[ItemRef]:
        """The items, in the order of the data."""
        for index, record in enumerate(self._usable.items):
            if only is None or index in only:
                yield ItemRef(record.id, index, record)

    def checked(self) -> Iterator[ItemRef]:
        """The items, while their files are looked for.

        Raises:
            InputError: after the last item, where none has its sources, or there is none.
        """
        without: list[ItemRef] = []
        for ref in self.items():
            if "source" in self.flaws(ref):
                without.append(ref)
            yield ref
        problems = list(self._usable.problems)
        if not self._usable.items and not problems:
            raise InputError(show_path(self.path), f"no {self.entries[1]}")
        if len(without) == len(self._usable.items):
            problems += [Problem(ref.id, self.flaws(ref)["source"].reason) for ref in without]
            lines = [f"{where}: {what}" for where, what in problems]
            raise unusable(self.path, lines, self.entries, mend=self.mend(without))

    def _looked(self, ref: ItemRef) -> tuple[Mapping[str, tuple[Path, ...]], Flaws]:
        """Files and flaws; whoever looks at an item asks for them several times in a row."""
        looked_at = self._looked_at
        if looked_at[0] is not ref:
            record: Placed = ref.data
            files = self._files_of(ref)
            sound = {name: paths for name, paths in files.items() if name not in record.flaws}
            flaws = {**record.flaws, **lost(sound, self._exists, self._consent)}
            self._looked_at = looked_at = ref, files, flaws
        return looked_at[1:]

    def flaws(self, ref: ItemRef) -> Flaws:
        """Those of the record, and the files that are not there."""
        return self._looked(ref)[1]

    def pictures(self, ref: ItemRef) -> Mapping[str, tuple[Path, ...]]:
        """The files that `load` reads."""
        files, flaws = self._looked(ref)
        return {name: paths for name, paths in files.items() if name not in flaws}

    def files(self, ref: ItemRef) -> tuple[str, ...]:
        """All files that the record names, by field."""
        return tuple(str(path) for paths in self._looked(ref)[0].values() for path in paths)

    def stats(self, ref: ItemRef) -> bytes:
        """Of those files, when they were first looked for."""
        paths = (path for paths in self._looked(ref)[0].values() for path in paths)
        return b"".join(map(self._stat, paths))

    def record(self, ref: ItemRef) -> bytes:
        """Of its texts as they are read, and of what cannot be used."""
        record: Placed = ref.data
        return record_digest(record.texts, record.flaws, self._looked(ref)[0], *self._besides(ref))

    def _besides(self, ref: ItemRef) -> tuple[object, ...]:
        """What else there is to a record, beside texts and files."""
        return ()

    def outline(self, ref: ItemRef) -> Item:
        """Texts as they are, images as placeholders."""
        record: Placed = ref.data
        image, flaws = placeholder(), self.flaws(ref)
        return Item(
            id=ref.id,
            sources=() if "source" in flaws else (image,) * len(record.sources),
            target=image if record.has_target and "target" not in flaws else None,
            mask=placeholder_mask() if record.has_mask and "mask" not in flaws else None,
            flaws=flaws,
            **record.texts,
        )

    def has_outputs(self, folder: Path) -> bool:
        """Whether there is such a folder, or none is needed."""
        return folder.name == UNEDITED or folder.is_dir()

    def outputs(self, folder: Path) -> Outputs:
        """`<folder>/<item id>.png` and the like."""
        return SourceOutputs.of(self) if folder.name == UNEDITED else OutputFolder(folder)

    def mend(self, refs: Sequence[ItemRef]) -> str:
        """How to say where files lie that were not found; "" where there is no way."""
        return ""

    def left_out(self) -> tuple[Problem, ...]:
        """What the data holds that is no item."""
        return tuple(self._usable.problems)
