"""Data sets, whose items are loaded one by one, and the outputs of models to them."""

from __future__ import annotations

import hashlib
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, TypeAlias, TypeVar

import numpy as np

from ..base.errors import ImageError, InputError
from ..base.file_states import ABSENT, stat_of
from ..base.images import Image, Mask, format_path, load_image, load_mask
from ..base.item import Flaws, Item
from ..base.text import format_count
from ..base.verdict import NoScore, make_failure
from .outputs import SOURCES_FOLDER, NamedOutputs, Outputs

T = TypeVar("T")
MAX_PROBLEMS = 20
"""How many unusable entries a message lists at most."""
NO_FILE = "no such file"
OUTSIDE = "lies outside the folder of the data"


@dataclass(slots=True, eq=False)  # frozen it would take three times as long to make
class ItemRef:
    """An item as its data describes it, before any image is read.

    Attributes:
        id: Unique within the data.
        index: Position in the data, from 0.
        texts: The item's fields but for its id and its images; those with a flaw are empty.
        files: What `source`, `mask` and `target` are called; relative names are in the data's
            folder. A mask or target that an item has not is left out.
        flaws: Fields that the data holds in an unusable form.
        data: The record or line that the item comes from.
        other_inputs: Whatever else judgements depend on, beside texts and files.
    """

    id: str
    index: int
    texts: Mapping[str, Any]
    files: Mapping[str, tuple[str, ...]]
    flaws: Flaws
    data: Any = None
    other_inputs: tuple[object, ...] = ()


Problem: TypeAlias = tuple[str, str]
"""Where an entry that is no item stands, and what is wrong with it."""


def flaw(reason: str) -> NoScore:
    """Return the verdict of dimensions that need a field which the data holds in unusable form."""
    return NoScore(kind="degenerate", reason=reason)


def format_notes(items_by_note: Mapping[str, Iterable[object]]) -> list[str]:
    """Return a line for each note with its items; a note without items has no line."""
    notes = []
    for what, ids in items_by_note.items():
        if items := tuple(dict.fromkeys(map(str, ids))):
            id_list = ", ".join(items[:MAX_PROBLEMS])
            more = ", …" if len(items) > MAX_PROBLEMS else ""
            notes.append(f"{format_count(len(items), 'item')}: {what} ({id_list}{more})")
    return notes


class AllowedFolders:
    """The folders whose images data may name: its own, and those that the user named.

    What is sent to a judge is read by whoever runs it, so data that somebody else wrote does not
    choose from the whole disk. It goes by words: data can write `..` and absolute paths. A link is
    made by the owner of the disk and may lead anywhere, as those of downloaded snapshots do.

    Args:
        folder: The data's folder.
        roots: Folders by the names that the data has for them, as in a run's specification.
    """

    def __init__(self, folder: str | Path, roots: Mapping[str, str] | None = None) -> None:
        allowed_paths = (Path(path).absolute() for path in (folder, *(roots or {}).values()))
        folders = [os.path.normpath(path) for path in allowed_paths]
        self._prefixes = tuple(map(_with_separator, folders))
        self._resolved_prefixes = tuple(_with_separator(os.path.realpath(path)) for path in folders)

    def covers(self, path: str | Path) -> bool:
        """Whether the image at an absolute path may be used."""
        within = self._resolved_prefixes if ".." in str(path) else self._prefixes
        return f"{_resolve_parents(path)}{os.sep}".startswith(within)


def _resolve_parents(path: str | Path) -> str:
    """Return a path without `..`, which behind a link leads elsewhere than it reads."""
    if ".." not in str(path):
        return os.path.normpath(path)
    folder, name = os.path.split(path)
    return os.path.normpath(f"{os.path.realpath(folder)}{os.sep}{name}")


def _with_separator(folder: str) -> str:
    return f"{folder.rstrip(os.sep)}{os.sep}"


def has_path_mapping(roots: Mapping[str, str] | None) -> bool:
    """Whether a root maps a path of the data to another folder."""
    return any(old != new for old, new in (roots or {}).items())


def resolve_official_path(path: str, roots: Mapping[str, str]) -> str | None:
    """Return where the file lies that the data names by an official path.

    Args:
        roots: Folders that are here by the beginnings of paths that they stand for. The longest
            one that fits whole names counts.

    Returns:
        An absolute path; None where no beginning fits.
    """
    for old in sorted(roots, key=len, reverse=True):
        rest = path.removeprefix(old)
        if rest != path and (old.endswith("/") or rest.startswith("/") or not rest):
            return str((Path(roots[old]) / rest.lstrip("/")).absolute())
    return None


class Dataset(ABC):
    """The items of a benchmark. A subclass lists them; this class checks and loads them.

    Attributes:
        path: The file or folder that holds it.
        folder: What names of its files are relative to.
        is_released: Whether this is data as its authors released it, which users do not mend.
        nouns: What the data calls one of its items, and several.
        has_masks: Whether every item has a mask inside the data instead of a file.
        mask_lies_over: The images whose size the mask of an item must fit.
        stat: The stat of a file, in 8 bytes, as it was when it was first looked for.
    """

    is_released: ClassVar[bool] = True
    nouns: ClassVar[tuple[str, str]] = ("item", "items")
    has_masks: ClassVar[bool] = False
    mask_lies_over: ClassVar[tuple[str, ...]] = ("source", "target")

    def __init__(
        self, path: Path, folder: Path | None = None, roots: Mapping[str, str] | None = None
    ) -> None:
        self.path = path.absolute()
        self.folder = folder or (self.path if self.path.is_dir() else self.path.parent)
        self.roots = dict(roots or {})
        self._allowed_folders = AllowedFolders(self.folder, roots)
        self._folder_prefix = f"{self.folder}{os.sep}"
        self.stat = lru_cache(65_536)(stat_of)  # several ask for the same files
        self._is_usable = lru_cache(65_536)(self._usable_file)
        self._last_resolved: tuple[ItemRef | None, dict[str, tuple[str, ...]], Flaws] = None, {}, {}

    @property
    @abstractmethod
    def digest(self) -> str:
        """`sha256:` and 64 hex digits of what says which items there are and what is asked."""

    @abstractmethod
    def _read(
        self, only: Container[int] | None = None, problems: list[Problem] | None = None
    ) -> Iterator[ItemRef]:
        """Yield the items in their order.

        Args:
            only: The positions to yield, by default all.
            problems: Receives the entries that are no items; None if nobody needs them.
        """

    def notes(self) -> tuple[str, ...]:
        """Return what users should know of the data and need not mend, one line each.

        How it differs from its release, and what is odd in the release itself.
        """
        return ()

    def list_rejected_entries(self) -> Sequence[Problem]:
        """Return the entries of the data that are no items."""
        return ()

    def mend(self, refs: Sequence[ItemRef]) -> str:
        """Return how to name the place of these items' missing files; "" if there is no way."""
        return ""

    def items(self, only: Container[int] | None = None) -> Iterator[ItemRef]:
        """Yield the items in their order, without reading images.

        Args:
            only: The positions to yield, by default all.
        """
        return self._read(only)

    def check_items(self) -> Iterator[ItemRef]:
        """Yield the items in their order, and check all that is cheap to check.

        What spoils only the dimensions that read it is a flaw of the item (`flaws`).

        Raises:
            InputError: after the last item, with everything that is wrong at once: no item has
                its sources, or an entry of one's own data is no item.
        """
        problems: list[Problem] = []
        count, sourceless = 0, list[ItemRef]()
        for ref in self._read(None, problems):
            count += 1
            if "source" in self.flaws(ref):
                sourceless.append(ref)
            yield ref
        if not count and not problems:
            raise InputError(format_path(self.path), "no items")
        all_lack_sources = len(sourceless) == count
        if all_lack_sources:
            problems += [(ref.id, self.flaws(ref)["source"].reason) for ref in sourceless]
        if problems and (all_lack_sources or not self.is_released):
            raise self._unusable(problems, sourceless)

    def _unusable(self, problems: Sequence[Problem], sourceless: Sequence[ItemRef]) -> InputError:
        """Return one error that lists all problems, up to `MAX_PROBLEMS`.

        Args:
            without: The items that lack their sources.
        """
        lines = [f"{where}: {what}" for where, what in problems[:MAX_PROBLEMS]]
        if len(problems) > MAX_PROBLEMS:
            lines.append(f"and {len(problems) - MAX_PROBLEMS:,} more")
        text = "\n  ".join(lines)
        count = format_count(len(problems), *self.nouns)
        mend = self.mend(sourceless)
        return InputError(format_path(self.path), f"{count} cannot be used:\n  {text}", mend)

    def shape_key(self, ref: ItemRef) -> Hashable:
        """Return a key that items share if the same of their fields are filled."""
        texts = (bool(ref.texts.get(name)) for name in ("target_text", "hint", "questions"))
        return len(ref.files["source"]), *ref.files, *texts

    def flaws(self, ref: ItemRef) -> Flaws:
        """Return the item's fields that cannot be used, also because their files are missing."""
        return self._resolve_files(ref)[1]

    def image_paths(self, ref: ItemRef) -> Mapping[str, tuple[Path, ...]]:
        """Return the files that `load` reads, as far as they exist, by the item's field.

        `source`, and `mask` and `target` with one each; a field without a file is left out.
        """
        files, flaws = self._resolve_files(ref)
        return {name: tuple(map(Path, of)) for name, of in files.items() if name not in flaws}

    def files(self, ref: ItemRef) -> tuple[str, ...]:
        """Return all files that the item names, missing ones among them, sources first."""
        return tuple(chain.from_iterable(self._resolve_files(ref)[0].values()))

    def record_digest(self, ref: ItemRef) -> bytes:
        """Return a digest of 32 bytes of what the data says of an item.

        The order of its fields and the names of its files do not enter it.
        """
        wrong = {name: outcome.model_dump(mode="json") for name, outcome in ref.flaws.items()}
        counts = {name: len(paths) for name, paths in ref.files.items()}
        content = [ref.texts, wrong, counts, ref.other_inputs]
        # What JSON cannot hold is told by its name; texts may hold lone surrogates.
        return hashlib.sha256(json.dumps(content, sort_keys=True, default=repr).encode()).digest()

    def outline(self, ref: ItemRef) -> Item:
        """Return the item with placeholders for images; it shows which dimensions apply."""
        files, flaws = self._resolve_files(ref)
        usable = files.keys() - flaws.keys() if flaws else files
        has_mask = "mask" in usable or (self.has_masks and "mask" not in flaws)
        return Item(
            id=ref.id,
            sources=(placeholder(),) * len(files["source"]) if "source" in usable else (),
            mask=placeholder_mask() if has_mask else None,
            target=placeholder() if "target" in usable else None,
            flaws=flaws,
            **ref.texts,
        )

    def load(self, ref: ItemRef, max_lazy_pixels: int = 0) -> Item:
        """Load an item with its images.

        An image that cannot be read, or a mask that does not fit, is a flaw. An image that exists
        may be whole the next time, so it is `Failure`.

        Args:
            max_lazy_pixels: See `load_image`.
        """
        files, known_flaws = self._resolve_files(ref)
        flaws = dict(known_flaws)

        def read(name: str, how: Callable[[], T]) -> T | None:
            try:
                return None if name in flaws else how()
            except ImageError as error:
                flaws[name] = make_failure(error)
                return None

        def images(name: str) -> tuple[Image, ...]:
            paths = files.get(name, ())
            return tuple(load_image(path, max_lazy_pixels=max_lazy_pixels) for path in paths)

        sources = read("source", lambda: images("source")) or ()
        targets = read("target", lambda: images("target")) or ()
        over = {"source": sources if len(sources) == 1 else (), "target": targets}
        fits = [image for name in self.mask_lies_over for image in over[name]]
        mask = read("mask", lambda: self._mask(ref, *files.get("mask", ()), over=fits))
        target = next(iter(targets), None)
        return Item(id=ref.id, sources=sources, mask=mask, target=target, flaws=flaws, **ref.texts)

    def _mask(self, ref: ItemRef, *files: str, over: Sequence[Image] = ()) -> Mask | None:
        """Load the mask of an item, if it has one.

        Args:
            over: The images that the mask must fit.

        Raises:
            ImageError: it cannot be read, or does not fit.
        """
        if not files:
            return None
        mask = load_mask(files[0])
        for image in over:
            mask.check_fits(image.size)
        return mask

    def has_outputs(self, folder: Path) -> bool:
        """Whether `outputs` can read the folder: it exists, or stands for the unedited sources."""
        return folder.name == SOURCES_FOLDER or folder.is_dir()

    def outputs(self, folder: Path) -> Outputs:
        """Return a model's outputs to these items, `<folder>/<item id>.png` and the like."""
        if folder.name != SOURCES_FOLDER:
            return Outputs(folder)
        sources = ((ref.id, self.image_paths(ref).get("source", ())) for ref in self.items())
        source_by_item = {item: paths[0] for item, paths in sources if len(paths) == 1}
        return NamedOutputs(folder, source_by_item, "{item} has not one source that is there")

    def _resolve_files(self, ref: ItemRef) -> tuple[dict[str, tuple[str, ...]], Flaws]:
        """Return absolute file names and flaws; those of the last item are cached."""
        if self._last_resolved[0] is not ref:
            prefix = self._folder_prefix  # joined by words, which is many times faster than by Path
            files = {
                name: tuple([path if path[:1] == os.sep else prefix + path for path in paths])
                for name, paths in ref.files.items()
            }
            flaws = ref.flaws
            if not all(map(self._is_usable, chain.from_iterable(files.values()))):
                flaws = {**flaws, **dict(self._find_unusable_files(files, flaws))}
            self._last_resolved = ref, files, flaws
        return self._last_resolved[1:]

    def _usable_file(self, path: str) -> bool:
        return self.stat(path) != ABSENT and self._allowed_folders.covers(path)

    def _find_unusable_files(
        self, files: Mapping[str, tuple[str, ...]], known_flaws: Flaws
    ) -> Iterator[tuple[str, NoScore]]:
        """Yield the flaws of fields whose images are missing or outside the allowed folders."""
        for name in (one for one in files if one not in known_flaws):
            absent = [format_path(Path(p)) for p in files[name] if self.stat(p) == ABSENT]
            outside = [path for path in files[name] if not self._allowed_folders.covers(path)]
            if absent:
                yield name, flaw(f"{name}: {NO_FILE}: {', '.join(absent)}")
            elif outside:
                first = Path(_resolve_parents(outside[0]))
                mend = f"if you mean it, add --root {format_path(first.parent)}"
                yield name, flaw(f"{name}: {OUTSIDE}: {format_path(first)}; {mend}")


@cache
def placeholder() -> Image:
    """Return the image that stands for any image in an item's outline."""
    return Image("placeholder", b"", np.zeros((1, 1, 3), np.uint8))


@cache
def placeholder_mask() -> Mask:
    """Return the mask that stands for any mask in an item's outline."""
    return Mask("placeholder", b"", np.zeros((1, 1), np.bool_))
