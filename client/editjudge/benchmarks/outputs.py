"""Where a model's outputs to the items of a data set are."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ..base.errors import InputError
from ..base.file_states import ABSENT, stat_of
from ..base.images import format_path
from ..base.item import Missing
from ..base.objects import find_url, list_objects

SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".tif", ".tiff", ".gif", ".ppm")
"""What an output's name may end with, in lower or upper case."""
_NAMES = (*SUFFIXES, *map(str.upper, SUFFIXES))
_ALONE = {name: (name,) for name in _NAMES}
_NOTHING = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})
"""Errors of a path that leads to nothing. After any other, such as a refused access, the file may
be there: it is no missing output, and reading it fails."""
SOURCES_FOLDER = ":sources"
"""In the place of a folder of outputs: the sources themselves, as of an editor that did nothing.

GIE-Bench checks its questions so (section 3.2: 17 % are right of unedited images).
"""


@dataclass(frozen=True, slots=True)
class Outputs:
    """The outputs of one model under test, `<folder>/<item id>.<suffix>`.

    An id with slashes names subfolders. Two names for one item are nobody's output, also where
    one of them is a link to nothing: which of them was meant cannot be told.

    Attributes:
        suffixes_by_item: The suffixes of each item's names; None before the folder was listed.
        broken_names: The names that lead to no file, such as links to nothing; of the listed ones.
    """

    folder: Path
    suffixes_by_item: Mapping[str, tuple[str, ...]] | None = field(default=None, kw_only=True)
    broken_names: frozenset[str] = field(default=frozenset(), kw_only=True)

    def path(self, item: str) -> str | None:
        """Return the file of the output to an item; None where it has none, or several."""
        suffixes = self._suffixes(item)
        if len(suffixes) != 1 or self._is_broken(item + suffixes[0]):
            return None
        return f"{self.folder}{os.sep}{item}{suffixes[0]}"

    def why_not(self, item: str) -> Missing:
        """Return why an item has no output: no name, one that leads to no file, or several."""
        suffixes = self._suffixes(item)
        if len(suffixes) > 1:
            names = ", ".join(f"{item}{suffix}" for suffix in sorted(suffixes))
            return Missing("several", f"{names} in {format_path(self.folder)}")
        if suffixes:
            path = f"{format_path(self.folder)}/{item}{suffixes[0]}"
            return Missing("absent", f"{path} leads to no file")
        expected_path = f"{format_path(self.folder)}/{item}.png"
        return Missing("absent", f"no {expected_path} (or {', '.join(SUFFIXES[1:])})")

    def index(self) -> Outputs:
        """List the folder and return outputs that need no further access to it.

        Raises:
            InputError: a folder in it cannot be listed, so that what is missing cannot be told.
        """
        suffixes: dict[str, tuple[str, ...]] = {}
        broken_names: set[str] = set()
        for name, is_file in _list_files(self.folder):
            stem, dot, ending = name.rpartition(".")
            if (alone := _ALONE.get(dot + ending)) is not None:
                suffixes[stem] = suffixes.get(stem, ()) + alone
                if not is_file:
                    broken_names.add(name)
        return Outputs(self.folder, suffixes_by_item=suffixes, broken_names=frozenset(broken_names))

    def list_unmatched(self, items: Container[str]) -> list[str]:
        """Return the images that are no output to any of these items, as paths in the folder."""
        outputs = self.index() if self.suffixes_by_item is None else self
        by_stem = outputs.suffixes_by_item or {}
        return sorted(s + suffix for s in by_stem if s not in items for suffix in by_stem[s])

    def _suffixes(self, item: str) -> tuple[str, ...]:
        if self.suffixes_by_item is not None:
            return self.suffixes_by_item.get(item, ())
        base = f"{self.folder}{os.sep}{item}"
        suffixes = tuple(name for name in _NAMES if os.path.lexists(base + name))
        if len(suffixes) > 1 and _same_files(base, suffixes):
            return suffixes[:1]  # a file system that does not tell cases apart
        return suffixes

    def _is_broken(self, name: str) -> bool:
        if self.suffixes_by_item is not None:
            return name in self.broken_names
        return not _is_file(f"{self.folder}{os.sep}{name}")


@dataclass(frozen=True, slots=True)
class NamedOutputs(Outputs):
    """Outputs whose files are named one by one.

    Attributes:
        folder: Folder or file that names them.
        paths: By item.
        absence_reason: Why an item has no file; `{item}` stands for its id.
    """

    paths: Mapping[str, Path]
    absence_reason: str

    def path(self, item: str) -> str | None:
        """Return the item's file if it exists."""
        path = self.paths.get(item)
        return str(path) if path is not None and _is_file(path) else None

    def why_not(self, item: str) -> Missing:
        """Return that no file is named for the item, or that the file does not exist."""
        path = self.paths.get(item)
        why = self.absence_reason.format(item=item) if path is None else f"no {format_path(path)}"
        return Missing("absent", why)

    def index(self) -> NamedOutputs:
        """Return itself; the files are known."""
        return self

    def list_unmatched(self, items: Container[str]) -> list[str]:
        """Return nothing, since every file belongs to the item that names it."""
        return []


def is_folder(folder: Path) -> bool:
    """Whether outputs may lie in a folder: it exists, or objects lie below its URL."""
    if not (url := find_url(folder)):
        return folder.is_dir()
    try:
        return any(True for _ in list_objects(url))
    except OSError:  # `Outputs.index` says why
        return True


def _list_files(folder: Path) -> Iterator[tuple[str, bool]]:
    if not (url := find_url(folder)):
        yield from _files(str(folder), "")
        return
    try:
        yield from ((name, True) for name in list_objects(url))
    except OSError as error:
        why = f"cannot be listed: {error.strerror}"
        raise InputError(str(error.filename), why, "allow it to be listed") from error


def _files(folder: str, above: str) -> Iterator[tuple[str, bool]]:
    """Yield each name below a folder that an output may have, and whether it leads to a file."""
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                # Only a link is looked up: of others, the folder tells what they are.
                is_link = entry.is_symlink()
                if entry.name.endswith(_NAMES):
                    yield above + entry.name, _is_file(entry.path) if is_link else entry.is_file()
                elif Path(entry.path).is_dir() if is_link else entry.is_dir():
                    yield from _files(entry.path, f"{above}{entry.name}/")
    except OSError as error:
        if error.errno not in _NOTHING:
            why = f"cannot be listed: {error.strerror}"
            raise InputError(format_path(error.filename), why, "allow it to be read") from error


def _is_file(path: str | Path) -> bool:
    """Whether a path leads to a file, as far as can be told; see `_NOTHING`."""
    if find_url(path):
        return stat_of(path) != ABSENT
    try:
        return stat.S_ISREG(os.stat(path).st_mode)  # noqa: PTH116 - a hundred thousand times
    except (OSError, ValueError) as error:  # a ValueError: a name with a null character
        return getattr(error, "errno", errno.ENOENT) not in _NOTHING


def _same_files(base: str, suffixes: tuple[str, ...]) -> bool:
    there = (Path(base + suffix).lstat() for suffix in suffixes)
    return len({(one.st_dev, one.st_ino) for one in there}) == 1
