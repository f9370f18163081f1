"""Data sets: items that are loaded one by one, and where a model's outputs to them are."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ..base.errors import ImageError, InputError
from ..base.images import Image, Mask, load_image, show_path
from ..base.item import Flaws, Item, Missing
from ..base.verdict import Unscored, failed
from ..base.words import counted

SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".tif", ".tiff", ".gif", ".ppm")
"""What an output's name may end with, in lower or upper case."""
_NAMES = (*SUFFIXES, *map(str.upper, SUFFIXES))


@dataclass(slots=True, eq=False)  # frozen it would take three times as long to make
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
    said = f"{counted(count, *what)} cannot be used:\n  {lines}"
    return InputError(show_path(path), said, mend)


def flaw(reason: str) -> Unscored:
    """What dimensions become that read a field of which the data holds nothing usable."""
    return Unscored(kind="degenerate", reason=reason)


class Consent:
    """The folders whose pictures data may name: its own, and those that its user named.

    What is sent to a judge is read by whoever runs it, so data that somebody else wrote does not
    choose from the whole disk. It goes by words: data can write `..` and absolute paths. A link is
    made by the owner of the disk and may lead anywhere, as those of downloaded snapshots do.

    Args:
        folder: Of the data.
        roots: As of a spec: where files are, by what they are called in the data.
    """

    def __init__(self, folder: str | Path, roots: Mapping[str, str] | None = None) -> None:
        named = (Path(path).absolute() for path in (folder, *(roots or {}).values()))
        whole = [os.path.normpath(path) for path in named]
        self._plain = tuple(map(_above, whole))
        self._real = tuple(_above(os.path.realpath(path)) for path in whole)

    def covers(self, path: str | Path) -> bool:
        """Whether a picture at an absolute path may be used."""
        within = self._real if ".." in str(path) else self._plain
        return f"{plainly_at(path)}{os.sep}".startswith(within)


def plainly_at(path: str | Path) -> str:
    """A path without `..`: behind a link these lead elsewhere than they read."""
    if ".." not in str(path):
        return os.path.normpath(path)
    folder, name = os.path.split(path)
    return os.path.normpath(f"{os.path.realpath(folder)}{os.sep}{name}")


def _above(folder: str) -> str:
    return f"{folder.rstrip(os.sep)}{os.sep}"


def mapped(roots: Mapping[str, str] | None) -> bool:
    """Whether a root says more than that the pictures of a folder may be used."""
    return any(old != new for old, new in (roots or {}).items())


def lost(
    files: Mapping[str, Iterable[str | Path]],
    exists: Callable[[str | Path], bool],
    consent: Consent,
) -> dict[str, Unscored]:
    """The flaws of an item whose pictures are not there, or are none of its data.

    Args:
        files: By field of the item.
        exists: Whether there is a file.
        consent: Where pictures may be.
    """
    flaws: dict[str, Unscored] = {}
    for name, paths in files.items():
        paths = tuple(paths)
        absent = [show_path(Path(path)) for path in paths if not exists(path)]
        outside = [path for path in paths if not consent.covers(path)]
        if absent:
            flaws[name] = flaw(f"{name}: {NO_FILE}: {', '.join(absent)}")
        elif outside:
            first = plainly_at(outside[0])
            mend = f"if you mean it, add --root {show_path(Path(first).parent)}"
            flaws[name] = flaw(f"{name}: {OUTSIDE}: {show_path(Path(first))}; {mend}")
    return flaws


NO_FILE = "no such file"
OUTSIDE = "lies outside the folder of the data"


def record_digest(
    texts: Mapping[str, Any],
    flaws: Flaws,
    files: Mapping[str, Sequence[object]],
    *others: object,
) -> bytes:
    """What the data says of an item, as its benchmark reads it, in 32 bytes.

    In which order its fields stand, and what its files are called, is not in it.

    Args:
        texts: The item's fields but for its id and its images.
        flaws: What stands there and cannot be used.
        files: The item's picture files, by field.
        others: What else there is to it.
    """
    wrong = {name: outcome.model_dump(mode="json") for name, outcome in flaws.items()}
    counts = {name: len(paths) for name, paths in files.items()}
    # What JSON cannot hold is told by its name; texts may hold lone surrogates.
    said = json.dumps([texts, wrong, counts, others], sort_keys=True, default=repr)
    return hashlib.sha256(said.encode()).digest()


class Loading:
    """Loads the pictures of one item; what cannot be read is a flaw of its field.

    A picture that is there and cannot be read may be whole the next time, so it is `Failed`.

    Args:
        flaws: What is known beforehand; of these fields no file is opened.
        left_encoded: See `load_image`.
    """

    def __init__(self, flaws: Flaws, left_encoded: int = 0) -> None:
        self.flaws = dict(flaws)
        self._left_encoded = left_encoded

    def images(self, name: str, paths: Iterable[str | Path]) -> tuple[Image, ...]:
        """The pictures of a field, all of them or none."""
        if name in self.flaws:
            return ()
        try:
            return tuple(load_image(path, left_encoded=self._left_encoded) for path in paths)
        except ImageError as error:
            self.flaws[name] = failed(error)
            return ()

    def image(self, name: str, path: str | Path | None) -> Image | None:
        """The picture of a field, if it has one."""
        return next(iter(self.images(name, () if path is None else (path,))), None)

    def mask(
        self, read: Callable[[], Mask] | None, *over: Image | None, frame: bool = False
    ) -> Mask | None:
        """The mask, if there is one and it fits all the pictures over which it lies.

        Args:
            read: Reads it.
            frame: It is laid over whole frames, so it fits any.
        """
        if read is None or "mask" in self.flaws:
            return None
        try:
            mask = read()
            for image in () if frame else over:
                if image is not None:
                    mask.check_fits(image.size)
        except ImageError as error:
            self.flaws["mask"] = failed(error)
            return None
        return mask


class Dataset(Protocol):
    """The items of a benchmark.

    Attributes:
        name: Of the benchmark.
        path: The file or folder that holds it.
        released: Whether it is data as its authors released it, not the caller's to mend.
    """

    name: str
    path: Path
    released: bool

    @property
    def digest(self) -> str:
        """`sha256:` and 64 hex digits of what says which items there are and what is asked."""

    def checked(self) -> Iterator[ItemRef]:
        """The items in their order, while everything is checked that costs little.

        Raises:
            InputError: after the last item, where no item can be used, or an entry of one's own
                data is none.
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

    def flaws(self, ref: ItemRef) -> Flaws:
        """What the data holds of an item and cannot be used, files that are not there among it."""

    def left_out(self) -> Sequence[tuple[str, str]]:
        """What the data holds that is no item: where it stands, and why."""

    def mend(self, refs: Sequence[ItemRef]) -> str:
        """How to say where the files of these items lie, which were not found; "" for no way."""

    def outline(self, ref: ItemRef) -> Item:
        """An item with `placeholder()` for every image: enough to tell what applies to it."""

    def load(self, ref: ItemRef, left_encoded: int = 0) -> Item:
        """An item with its images.

        One that cannot be read, or a mask that does not fit, is a flaw.

        Args:
            left_encoded: See `load_image`.
        """

    def pictures(self, ref: ItemRef) -> Mapping[str, tuple[Path, ...]]:
        """The files that `load` reads, as far as they are there, by the item's field.

        `source`, and `mask` and `target` with one each; a field without a file is left out.
        """

    def files(self, ref: ItemRef) -> tuple[str, ...]:
        """All files that the item names, also those that are not there, sources first."""

    def stats(self, ref: ItemRef) -> bytes:
        """The stats of these files, 8 bytes each; see `base.files`."""

    def record(self, ref: ItemRef) -> bytes:
        """See `record_digest`: 32 bytes that change where something else is asked."""

    def has_outputs(self, folder: Path) -> bool:
        """Whether there is what `outputs` reads."""

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


UNEDITED = ":sources"
"""In the place of a folder of outputs: the sources themselves, as of an editor that did nothing."""


class _Pictured(Protocol):
    """As much of a data set as tells where its sources are."""

    def items(self, only: Container[int] | None = None) -> Iterator[ItemRef]: ...
    def outline(self, ref: ItemRef) -> Item: ...
    def pictures(self, ref: ItemRef) -> Mapping[str, tuple[Path, ...]]: ...


@dataclass(frozen=True, slots=True)
class SourceOutputs:
    """The sources as outputs, of items that have exactly one.

    GIE-Bench checks its questions so (section 3.2: 17 % are right of unedited images).
    """

    sources: Mapping[str, Path]

    @classmethod
    def of(cls, dataset: _Pictured) -> SourceOutputs:
        """Of the items of a data set."""
        single = (ref for ref in dataset.items() if len(dataset.outline(ref).sources) == 1)
        return cls({ref.id: dataset.pictures(ref)["source"][0] for ref in single})

    def path(self, item: str) -> str | None:
        """The item's source."""
        path = self.sources.get(item)
        return None if path is None else str(path)

    def why_not(self, item: str) -> Missing:
        """It has none, or several."""
        return Missing("absent", f"{item} has not one source that is there")

    def index(self) -> SourceOutputs:
        """Itself."""
        return self

    def others(self, items: Container[str]) -> list[str]:
        """None."""
        return []


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
