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
        self._pictures = view.all_pictures()

    def of(self, item: str, model: str) -> dict[str, str]:
        """The pictures that an edit has: `source`, `source_2`, …, `mask`, `target`, `edited`."""
        pictures = self._pictures(item)
        paths: dict[str, Path | None] = {
            "source" if number == 1 else f"source_{number}": path
            for number, path in enumerate(pictures.sources, 1)
        }
        paths |= {"mask": pictures.mask, "target": pictures.target}
        paths["edited"] = pictures.outputs[model]
        return {name: self._placed(path) for name, path in paths.items() if path}

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
