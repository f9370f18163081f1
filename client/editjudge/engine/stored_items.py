"""The items of a run as its last session read them, so that a run can be read without its data."""

import json
import zlib
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from ..base.errors import InputError
from ..base.file_states import ABSENT
from ..base.images import format_path
from ..base.item import Flaws, Item
from ..base.parse import parse_json
from ..base.verdict import NoScore
from ..benchmarks.dataset import OUTSIDE, Dataset, ItemRef, Problem, WasRead

_ITEMS_AT_ONCE = 100
"""How many items are compressed together."""
_FLAWS = TypeAdapter(dict[str, NoScore])


def encode_items(refs: Iterable[ItemRef]) -> tuple[bytes, ...]:
    """Encode items in their order; none where one holds a value that JSON cannot hold."""
    blocks, remaining = [], iter(refs)
    try:
        while several := list(islice(remaining, _ITEMS_AT_ONCE)):
            blocks.append(_compress([_item_json(ref) for ref in several]))
    except TypeError:
        return ()
    return tuple(blocks)


def encode_traits(dataset: Dataset, flaws_by_item: Mapping[str, Flaws]) -> bytes:
    """Encode what is known of data besides its items.

    Args:
        flaws_by_item: By item id, the flaws that missing files and those outside its folder are.
    """
    flaws = {item: _FLAWS.dump_python(dict(of), mode="json") for item, of in flaws_by_item.items()}  # type: ignore[arg-type]
    traits = {"folder": str(dataset.folder), "has_masks": dataset.has_masks, "flaws": flaws}
    return _compress(traits)


def decode_items(blocks: Iterable[bytes]) -> Iterator[ItemRef]:
    """Decode what `encode_items` returned."""
    for block in blocks:
        for name, index, texts, files, flaws, others in _decompress(block):
            if "questions" in texts:
                texts["questions"] = tuple(texts["questions"])
            paths = {field: tuple(of) for field, of in files.items()}
            flaws = _FLAWS.validate_python(flaws)
            yield ItemRef(name, index, texts, paths, flaws, other_inputs=tuple(others))


class StoredItems(Dataset):
    """The items of a run as its last session read them; no file of the data is looked at.

    Args:
        path: Where the data was.
        digest: Digest of the data.
        read_blocks: Reads what `encode_items` returned.
        traits: What `encode_traits` returned.
    """

    def __init__(self, path: Path, digest: str, read_blocks: Callable[[], Iterable[bytes]], traits: bytes) -> None:
        self._digest, self._read_blocks = digest, read_blocks
        own_traits = _decompress(traits)
        super().__init__(path, Path(own_traits["folder"]))
        self.has_masks = own_traits["has_masks"]
        self.stat = lru_cache(1)(lambda _: ABSENT)
        self._file_flaws: Mapping[str, Any] = own_traits["flaws"]

    @property
    def digest(self) -> str:
        """The digest of the data that was stored."""
        return self._digest

    def _read(self, only: Container[int] | None = None, problems: list[Problem] | None = None) -> Iterator[ItemRef]:
        for ref in decode_items(self._read_blocks()):
            if only is None or ref.index in only:
                yield ref

    def check_items(self, was_read: WasRead | None = None) -> Iterator[ItemRef]:
        """Yield the items; they were checked when they were stored."""
        return self.items()

    def flaws(self, ref: ItemRef, was_read: WasRead | None = None) -> Flaws:
        """Return the flaws that the last session saw."""
        files, flaws = self._resolve_files(ref)
        if was_read is None or flaws == ref.flaws:
            return flaws
        return {
            name: flaw
            for name, flaw in flaws.items()
            if name in ref.flaws or OUTSIDE in flaw.reason or not all(map(was_read, files[name]))
        }

    def _resolve_files(self, ref: ItemRef) -> tuple[dict[str, tuple[str, ...]], Flaws]:
        prefix = self._folder_prefix
        files = {
            name: tuple(path if path[:1] == "/" else prefix + path for path in paths)
            for name, paths in ref.files.items()
        }
        return files, {**ref.flaws, **self.find_file_flaws(ref)}

    def find_file_flaws(self, ref: ItemRef) -> Flaws:
        """Find the flaws that missing files, and files outside the data's folder, are."""
        flaws = self._file_flaws.get(ref.id)
        return {} if flaws is None else dict(_FLAWS.validate_python(flaws))

    def load(self, ref: ItemRef, max_lazy_pixels: int = 0) -> Item:
        """Refuse: what a mask shows, for example, the data alone says.

        Raises:
            InputError: always.
        """
        raise InputError(format_path(self.path), "its pictures are needed, and it is not here")

    def has_outputs(self, folder: Path) -> bool:
        """Return False: outputs count as those that were judged."""
        return False


def _item_json(ref: ItemRef) -> list[Any]:
    flaws = {name: flaw.model_dump(mode="json") for name, flaw in ref.flaws.items()}
    return [ref.id, ref.index, dict(ref.texts), dict(ref.files), flaws, ref.other_inputs]


def _compress(value: object) -> bytes:
    return zlib.compress(json.dumps(value, separators=(",", ":")).encode())


def _decompress(data: bytes) -> Any:
    return parse_json(zlib.decompress(data).decode())
