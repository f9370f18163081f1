"""Data sets: items that are loaded one by one, and where a model's outputs to them are."""

from __future__ import annotations

import os
from collections.abc import Container, Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ..base.errors import InputError
from ..base.images import Image, Mask, show_path
from ..base.item import Item, Missing

SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".tif", ".tiff", ".gif", ".ppm")
"""What an output's name may end with, in lower or upper case."""
_NAMES = (*SUFFIXES, *map(str.upper, SUFFIXES))


@dataclass(frozen=True, slots=True)
class ItemRef:
    """An item that is not loaded yet.

    Attributes:
        id: Unique within the data.
        index: Position in the data, from 0.
        data: What the reader knows of it; of no meaning to others.
    """

    id: str
    index: int
    data: Any


MAX_PROBLEMS = 20
"""How many things that cannot be used are listed."""


def unusable(
    path: Path,
    problems: Sequence[str],
    what: tuple[str, str] = ("item", "items"),
    *,
    count: int | None = None,
    mend: str = "",
) -> InputError:
    """The one error that tells everything that cannot be used in a file or folder.

    Args:
        problems: Each in one line; beyond `MAX_PROBLEMS` they are counted.
        what: One of them, and several.
        count: How many there are, where only the first are given.
    """
    count = len(problems) if count is None else count
    more = [f"and {count - MAX_PROBLEMS:,} more"] if count > MAX_PROBLEMS else []
    lines = "\n  ".join([*problems[:MAX_PROBLEMS], *more])
    said = f"{count:,} {what[count != 1]} cannot be used:\n  {lines}"
    return InputError(show_path(path), said, mend)


class Dataset(Protocol):
    """The items of a benchmark.

    Attributes:
        name: Of the benchmark.
        path: The file or folder that holds it.
    """

    name: str
    path: Path

    @property
    def digest(self) -> str:
        """`sha256:` and 64 hex digits of what says which items there are and what is asked."""

    def checked(self) -> Iterator[ItemRef]:
        """The items in their order, while everything is checked that costs little.

        Raises:
            InputError: after the last item, with everything that is wrong.
        """

    def notes(self) -> tuple[str, ...]:
        """What is to be known of the data and need not be mended, one line each.

        How it differs from its release, and what is odd in the release itself.
        """

    def items(self, only: Container[int] | None = None) -> Iterator[ItemRef]:
        """The items in their order; images are not read.

        Args:
            only: The positions to give, by default all.
        """

    def likeness(self, ref: ItemRef) -> Hashable:
        """What items that are alike have in common: the same fields, filled or not."""

    def outline(self, ref: ItemRef) -> Item:
        """An item with `placeholder()` for every image: enough to tell what applies to it."""

    def load(self, ref: ItemRef) -> Item:
        """An item with its images, decoded.

        Raises:
            InputError: an image cannot be read, or the mask does not fit.
        """

    def pictures(self, ref: ItemRef) -> tuple[Path, ...]:
        """The files that `load` reads."""

    def outputs(self, folder: Path) -> Outputs:
        """A model's outputs to these items."""


class Outputs(Protocol):
    """The outputs of one model under test."""

    def path(self, item: str) -> str | None:
        """The file that is the output to an item, or None."""

    def why_not(self, item: str) -> Missing:
        """Why there is none."""

    def index(self) -> Outputs:
        """The same for a look at all of them: lists the folder once."""

    def others(self, items: Container[str]) -> list[str]:
        """Pictures that are no output to any of these items, as paths in the folder."""


@dataclass(frozen=True, slots=True)
class OutputFolder:
    """Outputs as `<folder>/<item id>.<suffix>`; an id with slashes names subfolders.

    Two files for one item are nobody's output.
    """

    folder: Path

    def path(self, item: str) -> str | None:
        """Looks for every suffix."""
        suffixes = self._found(item)
        return _join(self.folder, item) + suffixes[0] if len(suffixes) == 1 else None

    def why_not(self, item: str) -> Missing:
        """What was looked for, or what there is too much of."""
        return _why_not(self.folder, item, self._found(item))

    def index(self) -> IndexedFolder:
        """With the names of all files in memory."""
        known: dict[str, str] = {}
        several: dict[str, list[str]] = {}
        for name in _files(str(self.folder), ""):
            stem, dot, ending = name.rpartition(".")
            suffix = _INTERNED.get(dot + ending)
            if suffix is None:
                continue
            if known.setdefault(stem, suffix) != suffix:
                several.setdefault(stem, [known[stem]]).append(suffix)
        for stem in several:
            del known[stem]
        return IndexedFolder(self.folder, f"{self.folder}{os.sep}", known, several)

    def others(self, items: Container[str]) -> list[str]:
        """Lists the folder."""
        return self.index().others(items)

    def _found(self, item: str) -> list[str]:
        base = _join(self.folder, item)
        suffixes = [name for name in _NAMES if os.path.exists(base + name)]  # noqa: PTH110
        if len(suffixes) > 1 and _same_files(base, suffixes):
            return suffixes[:1]  # a file system that does not tell cases apart
        return suffixes


@dataclass(frozen=True, slots=True)
class IndexedFolder:
    """An `OutputFolder` that was listed."""

    folder: Path
    above: str
    known: dict[str, str]
    several: dict[str, list[str]]

    def path(self, item: str) -> str | None:
        """Looks into the list."""
        suffix = self.known.get(item)
        return f"{self.above}{item}{suffix}" if suffix else None

    def why_not(self, item: str) -> Missing:
        """What was looked for, or what there is too much of."""
        return _why_not(self.folder, item, self.several.get(item, []))

    def index(self) -> IndexedFolder:
        """Itself."""
        return self

    def others(self, items: Container[str]) -> list[str]:
        """Looks into the list."""
        single = [stem + suffix for stem, suffix in self.known.items() if stem not in items]
        more = [s + suffix for s, all_ in self.several.items() if s not in items for suffix in all_]
        return sorted(single + more)


@cache
def placeholder() -> Image:
    """Stands where an image is, in an item that is only looked at."""
    return Image("placeholder", b"", np.zeros((1, 1, 3), np.uint8))


@cache
def placeholder_mask() -> Mask:
    """Stands where a mask is."""
    return Mask("placeholder", b"", np.zeros((1, 1), np.bool_))


_INTERNED = {name: name for name in _NAMES}


def _files(folder: str, above: str) -> Iterator[str]:
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                # A link need not be followed where its name says enough.
                if not entry.name.endswith(_NAMES) and entry.is_dir():
                    yield from _files(entry.path, f"{above}{entry.name}/")
                else:
                    yield above + entry.name
    except OSError:
        return


def _same_files(base: str, suffixes: list[str]) -> bool:
    there = (Path(base + suffix).stat() for suffix in suffixes)
    return len({(one.st_dev, one.st_ino) for one in there}) == 1


def _join(folder: Path, item: str) -> str:
    return f"{folder}{os.sep}{item}"


def _why_not(folder: Path, item: str, suffixes: list[str]) -> Missing:
    if suffixes:
        names = ", ".join(f"{item}{suffix}" for suffix in sorted(suffixes))
        return Missing("several", f"{names} in {show_path(folder)}")
    expected = f"{show_path(folder)}/{item}.png"
    return Missing("absent", f"no {expected} (or {', '.join(SUFFIXES[1:])})")
