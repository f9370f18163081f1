"""Finds the pictures that a run judged: where data and outputs are now, or in the run's folder."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, islice, repeat
from pathlib import Path

from ..base.digest import digest_bytes
from ..base.file_states import ABSENT, FileStates, stat_of
from ..benchmarks.dataset import Dataset, ItemRef, resolve_official_path
from ..benchmarks.outputs import Outputs
from ..benchmarks.registry import load_benchmark
from ..engine.content_keys import KEY_BYTES, FileContent, ItemContents
from ..storage.store import RunStore
from .spec import RunSpec

THUMBNAILS, ORIGINALS = "pictures", "originals"
"""Folders of a bundle with pictures, which are named by the digest of what was judged."""


@dataclass(frozen=True, slots=True)
class Pictures:
    """The paths of the pictures of an edit.

    Attributes:
        outputs: By model under test; None where there is not exactly one file.
        sources: The sources of the item, in order.
        mask: None where it has none, or none that is a file.
        target: None where it has none.
    """

    outputs: dict[str, Path | None]
    sources: tuple[Path, ...] = ()
    mask: Path | None = None
    target: Path | None = None

    @property
    def files(self) -> tuple[Path, ...]:
        """The pictures of the item: sources, then the mask and the target where it has them."""
        return (*self.sources, *filter(None, (self.mask, self.target)))


@dataclass(frozen=True)
class Places:
    """Where the files of a run are now.

    Attributes:
        data: The data; None for where it was.
        roots: Folders by the beginning of the paths that they replace.
    """

    data: Path | None = None
    roots: Mapping[str, Path] = field(default_factory=dict)

    @property
    def are_named(self) -> bool:
        """Whether any place is another one."""
        return self.data is not None or bool(self.roots)

    def apply_to(self, spec: RunSpec) -> RunSpec:
        """Return the spec of a run with the places of today."""
        roots = {old: str(new) for old, new in self.roots.items()}

        def find(path: Path) -> Path:
            return Path(resolve_official_path(str(path), roots) or path)

        of_data = {old: find(new) for old, new in spec.roots.items()}
        is_official = load_benchmark(spec.benchmark).has_official_paths
        more = {old: new for old, new in self.roots.items() if is_official or old == str(new)}
        return spec.model_copy(
            update={
                "data": self.data or find(spec.data),
                "roots": {**of_data, **more},
                "outputs": {model: find(folder) for model, folder in spec.outputs.items()},
            }
        )


class PictureFinder:
    """Finds the pictures of a run.

    Args:
        items: The items of the run.
        live: The data where it is now; None where it cannot be read.
        outputs: The folder of outputs by model, as it is now.
        checks: Whether a file with other content than was judged is left out.

    Attributes:
        names: By path, the names that found pictures have in a bundle.
        others: Paths of files that were left out.
        needs: Whether an item will be asked for, by its id; what others have is not held.
    """

    def __init__(
        self, store: RunStore, items: Dataset, live: Dataset | None, outputs: Mapping[str, Path], *, checks: bool = True
    ) -> None:
        self.names: dict[Path, str] = {}
        self.others: set[str] = set()
        self.needs: Callable[[str], bool] = lambda _: True
        self._store, self._items, self._live, self._checks = store, items, live, checks
        self._contents = ItemContents(items, store.file_cache())
        self._outputs = {model: self._list_outputs(folder) for model, folder in outputs.items()}
        self._files = FileStates()

    @cached_property
    def _refs(self) -> tuple[Mapping[str, ItemRef], Mapping[str, ItemRef]]:
        """The items that are needed, and the same in the data where it is now, by id."""
        refs = {data: {r.id: r for r in data.items() if self.needs(r.id)} for data in {self._items, self._live} if data}
        return refs[self._items], refs[self._live] if self._live else {}

    def find(self, item: str) -> Pictures:
        """Find the pictures of an item and of its outputs; of an unknown item outputs alone."""
        outputs = {model: self._find_output(item, model) for model in self._outputs}
        paths: dict[str, tuple[Path, ...]] = {}
        if (ref := self._refs[0].get(item)) is not None:
            live_ref = self._refs[1].get(item)
            there = self._live.image_paths(live_ref) if self._live and live_ref else {}
            contents = map(self._contents.get_stored, self._items.files(ref))
            for name, of in ref.files.items():
                now = chain(there.get(name, ()), repeat(None))
                paths[name] = tuple(filter(None, map(self._find, islice(contents, len(of)), now)))
        (mask,), (target,) = (paths.get(name) or (None,) for name in ("mask", "target"))
        return Pictures(outputs, paths.get("source", ()), mask, target)

    def find_originals(self) -> Iterator[tuple[str, Path]]:
        """Yield every picture that is there as it was judged, each once, with its name."""
        names = set[str]()
        for item in self._refs[0]:
            pictures = self.find(item)
            for path in (*pictures.files, *filter(None, pictures.outputs.values())):
                name = self.names.get(path)
                if name and name not in names and path.parent != self._store.folder / THUMBNAILS:
                    names.add(name)
                    yield name, path

    def _list_outputs(self, folder: Path) -> Outputs | None:
        if self._live is not None and self._live.has_outputs(folder):
            return self._live.outputs(folder).index()
        return Outputs(folder).index() if folder.is_dir() else None

    def _find_output(self, item: str, model: str) -> Path | None:
        outputs = self._outputs[model]
        name = None if outputs is None else outputs.path(item)
        path = None if name is None else Path(name)
        edit = self._store.edit(item, model)
        file = None if edit is None else self._store.judged_edit(edit).output_file
        if file is None:
            return path
        return self._find(FileContent(file.stat, digest_bytes(file.digest)[:KEY_BYTES]), path)

    def _find(self, content: FileContent | None, path: Path | None) -> Path | None:
        """Find a picture: the file, or that of a bundle, if it is what was judged."""
        if content is None:
            return path  # nobody judged it yet
        name = content.digest.hex()
        if path is not None and not self._is_judged(str(path), content):
            self.others.add(str(path))
            path = None
        picture = path or self._own.get(name)
        if picture is not None:
            self.names[picture] = name
        return picture

    def _is_judged(self, path: str, content: FileContent) -> bool:
        if not self._checks or content.stat == stat_of(path) != ABSENT:
            return True
        state = self._files.get_state(path)
        return state is not None and digest_bytes(state.digest)[:KEY_BYTES] == content.digest

    @cached_property
    def _own(self) -> dict[str, Path]:
        """The pictures in the folder of the run, by name; originals come before thumbnails."""
        folders = (self._store.folder / name for name in (THUMBNAILS, ORIGINALS))
        return {file.stem: file for folder in folders for file in sorted(folder.glob("*"))}
