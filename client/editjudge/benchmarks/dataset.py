"""Data sets: their items, which are loaded one by one, and the outputs of models to them.

Three words name what is wrong with data. A problem is an entry that is no item, so it is left out.
A flaw is a field of an item that cannot be used: only dimensions that need it are not scored. A
note is a peculiarity of released data that users need not fix.
"""

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
from ..base.objects import find_url, forget_listings, to_path
from ..base.text import format_count
from ..base.verdict import NoScore, make_failure
from .outputs import SOURCES_FOLDER, NamedOutputs, Outputs, is_folder

T = TypeVar("T")
MAX_PROBLEMS = 20
"""How many problems or items a message lists at most."""
NO_FILE = "no such file"
OUTSIDE = "lies outside the folder of the data"


@dataclass(slots=True, eq=False)  # frozen it would take three times as long to make
class ItemRef:
    """An item as its data describes it, before any image is read.

    Attributes:
        id: The item's id, unique within the data.
        index: Its position in the data, from 0.
        texts: Its fields except the id and the images. A field with a flaw is empty.
        files: The file names of `source`, `mask` and `target`, absolute or relative to the data's
            folder. `mask` and `target` are left out if the item has none.
        flaws: The fields whose values in the data cannot be used, with the outcome for dimensions
            that need them.
        data: The record or line that the item comes from.
        other_inputs: Other values that verdicts depend on, besides texts and files.
    """

    id: str
    index: int
    texts: Mapping[str, Any]
    files: Mapping[str, tuple[str, ...]]
    flaws: Flaws
    data: Any = None
    other_inputs: tuple[object, ...] = ()


Problem: TypeAlias = tuple[str, str]
"""The place of an entry that is no item, and why it is none."""
WasRead: TypeAlias = Callable[[str], bool]
"""A function that tells of a file, by its path, whether a run has read it."""


def flaw(reason: str) -> NoScore:
    """Return the outcome of the dimensions that need a field which cannot be used."""
    return NoScore(kind="degenerate", reason=reason)


def format_notes(items_by_note: Mapping[str, Iterable[object]]) -> list[str]:
    """Format each note with the ids of its items as one line; leave out notes without items."""
    notes = []
    for what, ids in items_by_note.items():
        if items := tuple(dict.fromkeys(map(str, ids))):
            id_list = ", ".join(items[:MAX_PROBLEMS])
            more = ", …" if len(items) > MAX_PROBLEMS else ""
            notes.append(f"{format_count(len(items), 'item')}: {what} ({id_list}{more})")
    return notes


class AllowedFolders:
    """The folders from which data may name images: its own folder, and those that the user allows.

    The operator of a judge sees all images that it gets. So data that somebody else wrote must not
    be able to name any file on the user's disk. The check compares the text of paths, since data
    can contain `..` and absolute paths. Symbolic links may lead anywhere: the owner of the disk
    made them, for example in downloaded snapshots.

    Args:
        folder: The data's folder.
        roots: The folders that the user allows, by the path that the data has for them.
    """

    def __init__(self, folder: str | Path, roots: Mapping[str, str] | None = None) -> None:
        allowed_paths = (to_path(path).absolute() for path in (folder, *(roots or {}).values()))
        folders = [os.path.normpath(path) for path in allowed_paths]
        self._prefixes = tuple(map(_with_separator, folders))
        self._resolved_prefixes = tuple(_with_separator(os.path.realpath(path)) for path in folders)

    def covers(self, path: str | Path) -> bool:
        """Whether the image at an absolute path may be used."""
        within = self._resolved_prefixes if ".." in str(path) else self._prefixes
        return f"{_resolve_parents(path)}{os.sep}".startswith(within)


def _resolve_parents(path: str | Path) -> str:
    """Return a path without `..`; links are resolved, since `..` after a link leads elsewhere."""
    if ".." not in str(path):
        return os.path.normpath(path)
    folder, name = os.path.split(path)
    return os.path.normpath(f"{os.path.realpath(folder)}{os.sep}{name}")


def _absolute(path: str, prefix: str) -> str:
    if find_url(path):
        return str(to_path(path))
    return path if path[:1] == os.sep else prefix + path


def _with_separator(folder: str) -> str:
    return f"{folder.rstrip(os.sep)}{os.sep}"


def has_path_mapping(roots: Mapping[str, str] | None) -> bool:
    """Whether one of the roots (`--root OLD=NEW`) maps a path of the data to another folder."""
    return any(old != new for old, new in (roots or {}).items())


def resolve_official_path(path: str, roots: Mapping[str, str]) -> str | None:
    """Map a path of the authors' machine, as the data has it, to a path of this machine.

    Args:
        path: A path in the data.
        roots: Folders of this machine, by the beginning of the authors' paths that each replaces.
            The longest beginning that ends at a whole name counts.

    Returns:
        An absolute path; None if no beginning matches.
    """
    for old in sorted(roots, key=len, reverse=True):
        rest = path.removeprefix(old)
        if rest != path and (old.endswith("/") or rest.startswith("/") or not rest):
            return str((to_path(roots[old]) / rest.lstrip("/")).absolute())
    return None


class Dataset(ABC):
    """The items of a benchmark. A subclass reads their records; this class checks and loads them.

    Attributes:
        path: The file or folder of the data.
        folder: The folder to which relative file names in the data refer.
        is_released: Whether this is data as its authors released it, which users do not fix.
        nouns: The data's word for one entry, and for several.
        ids_are_positions: Whether records have no ids, so that items are called by their positions
            from 0, and a record that was removed renames all after it.
        has_masks: Whether the data contains the mask of every item, so that masks have no files.
        mask_lies_over: The images (`source`, `target`) whose size an item's mask must fit.
        stat: Returns the stat digest of a file, 8 bytes, as it was when first asked for.
    """

    is_released: ClassVar[bool] = True
    nouns: ClassVar[tuple[str, str]] = ("item", "items")
    ids_are_positions: ClassVar[bool] = False
    has_masks: bool = False
    mask_lies_over: ClassVar[tuple[str, ...]] = ("source", "target")

    def __init__(self, path: Path, folder: Path | None = None, roots: Mapping[str, str] | None = None) -> None:
        forget_listings()
        self.path = to_path(path).absolute()
        self.folder = folder or (self.path if self.path.is_dir() else self.path.parent)
        self.roots = dict(roots or {})
        self._allowed_folders = AllowedFolders(self.folder, roots)
        self._folder_prefix = f"{self.folder}{os.sep}"
        self.stat = lru_cache(65_536)(stat_of)  # callers ask for one file several times
        self._is_usable = lru_cache(65_536)(self._usable_file)
        self._last_resolved: tuple[ItemRef | None, dict[str, tuple[str, ...]], Flaws] = None, {}, {}

    @property
    @abstractmethod
    def digest(self) -> str:
        """`sha256:` and 64 hex digits: the digest of all data that says what the items are."""

    @abstractmethod
    def _read(self, only: Container[int] | None = None, problems: list[Problem] | None = None) -> Iterator[ItemRef]:
        """Yield the items in the order of the data.

        Args:
            only: The positions to yield, by default all.
            problems: Receives the entries that are no items, unless it is None.
        """

    def notes(self) -> tuple[str, ...]:
        """Return the peculiarities of the data that users should know, one line each.

        They need no fix: differences from the release, and oddities of the release itself.
        """
        return ()

    def doubts(self) -> tuple[str, ...]:
        """Return why outputs may belong to other items than they are named after, one line each.

        Unlike the other notes, a run says them too.
        """
        return ()

    def list_rejected_entries(self) -> Sequence[Problem]:
        """Return the entries of the data that are no items."""
        return ()

    def fix(self, refs: Sequence[ItemRef]) -> str:
        """Suggest the `--root` option that finds these items' missing files, or ""."""
        return ""

    def items(self, only: Container[int] | None = None) -> Iterator[ItemRef]:
        """Yield the items in their order, without reading images.

        Args:
            only: The positions to yield, by default all.
        """
        return self._read(only)

    def check_items(self, was_read: WasRead | None = None) -> Iterator[ItemRef]:
        """Yield the items in the order of the data, and check what needs no image to be read.

        Args:
            was_read: See `flaws`.

        Raises:
            InputError: after the last item, listing all problems at once: there are no items, no
                item has its sources, or an entry of the user's own data is no item.
        """
        problems: list[Problem] = []
        count, sourceless = 0, list[ItemRef]()
        for ref in self._read(None, problems):
            count += 1
            if "source" in self.flaws(ref, was_read):
                sourceless.append(ref)
            yield ref
        if not count and not problems:
            raise InputError(format_path(self.path), "no items")
        if problems and not (self.is_released and len(sourceless) < count):
            raise self._unusable(problems)
        if len(sourceless) == count:
            what = f"none of {format_count(count, 'item')} has a source that can be read"
            first = f"first: {sourceless[0].id}: {self.flaws(sourceless[0])['source'].reason}"
            raise InputError(format_path(self.path), f"{what} ({first})", self.fix(sourceless))

    def _unusable(self, problems: Sequence[Problem]) -> InputError:
        """Return one error that lists all problems, up to `MAX_PROBLEMS`."""
        lines = [f"{where}: {what}" for where, what in problems[:MAX_PROBLEMS]]
        if len(problems) > MAX_PROBLEMS:
            lines.append(f"and {len(problems) - MAX_PROBLEMS:,} more")
        text = "\n  ".join(lines)
        count = format_count(len(problems), *self.nouns)
        return InputError(format_path(self.path), f"{count} cannot be used:\n  {text}")

    def shape_key(self, ref: ItemRef) -> Hashable:
        """Return a key that two items share if the same of their optional fields are filled."""
        texts = (bool(ref.texts.get(name)) for name in ("target_text", "hint", "questions"))
        return len(ref.files["source"]), *ref.files, *texts

    def flaws(self, ref: ItemRef, was_read: WasRead | None = None) -> Flaws:
        """Return the flaws of an item by field, also for files that are missing or not allowed.

        Args:
            was_read: Tells of a missing file whether a run has read it: then it is no flaw.
        """
        files, flaws = self._resolve_files(ref)
        if not flaws or was_read is None:
            return flaws
        return {**ref.flaws, **dict(self._find_unusable_files(files, ref.flaws, was_read))}

    def image_paths(self, ref: ItemRef) -> Mapping[str, tuple[Path, ...]]:
        """Return the existing files that `load` reads, by field: `source`, `mask` and `target`.

        `mask` and `target` have one file each. A field without a file, or with a flaw, is left out.
        """
        files, flaws = self._resolve_files(ref)
        return {name: tuple(map(Path, of)) for name, of in files.items() if name not in flaws}

    def files(self, ref: ItemRef) -> tuple[str, ...]:
        """Return all files that the item names, missing ones among them, sources first."""
        return tuple(chain.from_iterable(self._resolve_files(ref)[0].values()))

    def record_digest(self, ref: ItemRef) -> bytes:
        """Return the digest of an item's record, 32 bytes.

        The order of its fields and the names of its files do not enter it.
        """
        wrong = {name: outcome.model_dump(mode="json") for name, outcome in ref.flaws.items()}
        counts = {name: len(paths) for name, paths in ref.files.items()}
        content = [ref.texts, wrong, counts, ref.other_inputs]
        # A value that JSON cannot hold enters with its `repr`; texts may hold lone surrogates.
        return hashlib.sha256(json.dumps(content, sort_keys=True, default=repr).encode()).digest()

    def outline(self, ref: ItemRef, was_read: WasRead | None = None) -> Item:
        """Return the item with placeholders for images, which shows which dimensions apply.

        Args:
            was_read: See `flaws`.
        """
        files, flaws = self._resolve_files(ref)[0], self.flaws(ref, was_read)
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

        An image that cannot be read, or a mask that does not fit, becomes a flaw. The outcome of
        this flaw is a `Failure`, which is judged again, since the file may be complete then.

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
        """Whether `outputs` can read the folder: it exists, or it is `SOURCES_FOLDER`."""
        return folder.name == SOURCES_FOLDER or is_folder(folder)

    def outputs(self, folder: Path) -> Outputs:
        """Return a model's outputs, for example `<folder>/<item id>.png`.

        In the folder `SOURCES_FOLDER` the output to an item is its source, if it has only one.
        """
        if folder.name != SOURCES_FOLDER:
            return Outputs(folder).index() if find_url(folder) else Outputs(folder)
        sources = ((ref.id, self.image_paths(ref).get("source", ())) for ref in self.items())
        source_by_item = {item: paths[0] for item, paths in sources if len(paths) == 1}
        return NamedOutputs(folder, source_by_item, "{item} does not have exactly one source file that exists")

    def _resolve_files(self, ref: ItemRef) -> tuple[dict[str, tuple[str, ...]], Flaws]:
        """Return absolute file names and flaws; those of the last item are cached."""
        if self._last_resolved[0] is not ref:
            prefix = self._folder_prefix  # joined by words, which is many times faster than by Path
            files = {name: tuple([_absolute(path, prefix) for path in paths]) for name, paths in ref.files.items()}
            flaws = ref.flaws
            if not all(map(self._is_usable, chain.from_iterable(files.values()))):
                flaws = {**flaws, **dict(self._find_unusable_files(files, flaws))}
            self._last_resolved = ref, files, flaws
        return self._last_resolved[1:]

    def _usable_file(self, path: str) -> bool:
        return self.stat(path) != ABSENT and self._allowed_folders.covers(path)

    def _find_unusable_files(
        self, files: Mapping[str, tuple[str, ...]], known_flaws: Flaws, was_read: WasRead = lambda _: False
    ) -> Iterator[tuple[str, NoScore]]:
        """Yield the flaws of fields whose images are missing or outside the allowed folders."""
        for name in (one for one in files if one not in known_flaws):
            missing_paths = (path for path in files[name] if self.stat(path) == ABSENT)
            absent = [format_path(Path(path)) for path in missing_paths if not was_read(path)]
            outside = [path for path in files[name] if not self._allowed_folders.covers(path)]
            if absent:
                yield name, flaw(f"{name}: {NO_FILE}: {', '.join(absent)}")
            elif outside:
                first = Path(_resolve_parents(outside[0]))
                fix = f"to allow its folder, add --root {format_path(first.parent)}"
                yield name, flaw(f"{name}: {OUTSIDE}: {format_path(first)}; {fix}")


@cache
def placeholder() -> Image:
    """Return the image that stands for any image in an item's outline."""
    return Image("placeholder", b"", np.zeros((1, 1, 3), np.uint8))


@cache
def placeholder_mask() -> Mask:
    """Return the mask that stands for any mask in an item's outline."""
    return Mask("placeholder", b"", np.zeros((1, 1), np.bool_))
