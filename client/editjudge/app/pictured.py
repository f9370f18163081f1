"""Where the pictures of edits lie, for files that other programs read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from ..base.errors import ConfigError
from .view import RunView

PICTURES = ("source", "edited", "mask", "target")
"""The columns; further sources are `source_2` and so on, where a form has room for them."""
LOCAL = "/data/local-files/?d="
"""What Label Studio serves from its machine begins so."""


class Placed:
    """The paths of the pictures of a run's edits, by their names; nothing is opened.

    Args:
        urls: By folder, what stands in its place in each path.

    Raises:
        InputError: the data of the run is not there any more.
    """

    def __init__(self, view: RunView, urls: Mapping[str, str] | None = None) -> None:
        self._urls = {_absolute(Path(folder)): url for folder, url in (urls or {}).items()}
        self._dataset = view.resolved.dataset
        self._refs = {ref.id: ref for ref in self._dataset.items()}
        folders = view.spec.outputs.items()
        self._outputs = {model: self._dataset.outputs(folder) for model, folder in folders}

    def of(self, item: str, model: str) -> dict[str, str]:
        """The pictures that an edit has: `source`, `source_2`, …, `mask`, `target`, `edited`."""
        paths: dict[str, str] = {}
        if (ref := self._refs.get(item)) is not None:
            outline = self._dataset.outline(ref)
            names = [f"source_{n}" if n > 1 else "source" for n in _from_1(outline.sources)]
            names += ["mask"] * (outline.mask is not None)
            names += ["target"] * (outline.target is not None)
            files = map(str, self._dataset.pictures(ref))
            paths.update(zip(names, files, strict=False))
        if output := self._outputs[model].path(item):
            paths["edited"] = output
        return {name: self._placed(Path(path)) for name, path in paths.items()}

    def _placed(self, path: Path) -> str:
        path = _absolute(path)
        for folder, url in self._urls.items():
            if path.is_relative_to(folder):
                return f"{url.rstrip('/')}/{quote(path.relative_to(folder).as_posix())}"
        if self._urls:
            folders = ", ".join(map(str, self._urls))
            raise ConfigError(f"{path} is in none of {folders}", "give its folder a --url too")
        return str(path)


def _absolute(path: Path) -> Path:
    return path.expanduser().absolute()


def _from_1(things: tuple[object, ...]) -> range:
    return range(1, len(things) + 1)
