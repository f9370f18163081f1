"""Where a model's outputs to the items of a data set are."""

from __future__ import annotations

import os
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ..base.images import format_path
from ..base.item import Missing

SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".tif", ".tiff", ".gif", ".ppm")
"""What an output's name may end with, in lower or upper case."""
_NAMES = (*SUFFIXES, *map(str.upper, SUFFIXES))
_ALONE = {name: (name,) for name in _NAMES}
SOURCES_FOLDER = ":sources"
"""In the place of a folder of outputs: the sources themselves, as of an editor that did nothing.

GIE-Bench checks its questions so (section 3.2: 17 % are right of unedited images).
"""


@dataclass(frozen=True, slots=True)
class Outputs:
    """The outputs of one model under test, `<folder>/<item id>.<suffix>`.

    An id with slashes names subfolders. Two files for one item are nobody's output.

    Attributes:
        suffixes_by_item: The suffixes of each item's files; None before the folder was listed.
    """

    folder: Path
    suffixes_by_item: Mapping[str, tuple[str, ...]] | None = field(default=None, kw_only=True)

    def path(self, item: str) -> str | None:
        """Return the file of the output to an item, or None."""
        suffixes = self._suffixes(item)
        return f"{self.folder}{os.sep}{item}{suffixes[0]}" if len(suffixes) == 1 else None

    def why_not(self, item: str) -> Missing:
        """Return why an item has no output: its file is absent, or there are several."""
        if suffixes := self._suffixes(item):
            names = ", ".join(f"{item}{suffix}" for suffix in sorted(suffixes))
            return Missing("several", f"{names} in {format_path(self.folder)}")
        expected_path = f"{format_path(self.folder)}/{item}.png"
        return Missing("absent", f"no {expected_path} (or {', '.join(SUFFIXES[1:])})")

    def index(self) -> Outputs:
        """List the folder and return outputs that need no further access to it."""
        suffixes: dict[str, tuple[str, ...]] = {}
        for name in _files(str(self.folder), ""):
            stem, dot, ending = name.rpartition(".")
            if (alone := _ALONE.get(dot + ending)) is not None:
                suffixes[stem] = suffixes.get(stem, ()) + alone
        return Outputs(self.folder, suffixes_by_item=suffixes)

    def list_unmatched(self, items: Container[str]) -> list[str]:
        """Return the images that are no output to any of these items, as paths in the folder."""
        outputs = self.index() if self.suffixes_by_item is None else self
        by_stem = outputs.suffixes_by_item or {}
        return sorted(s + suffix for s in by_stem if s not in items for suffix in by_stem[s])

    def _suffixes(self, item: str) -> tuple[str, ...]:
        if self.suffixes_by_item is not None:
            return self.suffixes_by_item.get(item, ())
        base = f"{self.folder}{os.sep}{item}"
        suffixes = tuple(name for name in _NAMES if os.path.exists(base + name))  # noqa: PTH110
        if len(suffixes) > 1 and _same_files(base, suffixes):
            return suffixes[:1]  # a file system that does not tell cases apart
        return suffixes


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
        return str(path) if path is not None and path.is_file() else None

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


def _same_files(base: str, suffixes: tuple[str, ...]) -> bool:
    there = (Path(base + suffix).stat() for suffix in suffixes)
    return len({(one.st_dev, one.st_ino) for one in there}) == 1
