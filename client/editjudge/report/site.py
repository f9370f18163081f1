"""Pages of runs, written as a file or as a folder."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from ..app.view import RunView
from ..base.errors import ConfigError
from ..base.output_files import on_disk, put
from ..base.text import counted
from .edits import Edits, PageRun, Plain
from .page import About, Mode, page_html, report_of, script_json
from .pictures import SIDE, PictureNames, data_uri, thumbnails

LARGEST = 1000
"""Edits up to which a page may be one file."""
INDEX = "index.html"
_MARK = b'<meta name="generator" content="editjudge report">'
_HEAD = 4096
"""Bytes of a page in which its mark is."""
_DATA = "editjudge-"
"""How folders of details begin: other folders beside them are somebody else's."""
Progress = Callable[[Iterable[str | None], int], Iterable[str | None]]


@dataclass(frozen=True, slots=True)
class Written:
    """What was written.

    Attributes:
        page: The file to be opened.
        edits: How many it shows.
        unshown: Why pictures cannot be shown, a line each.
    """

    page: Path
    edits: int
    unshown: tuple[str, ...]


@dataclass
class _File:
    """A page that is one file: it holds details and pictures."""

    page: Path
    mode: Mode = "file"
    data: str = ""
    details: dict[str, str] = field(default_factory=dict)
    pictures: dict[str, str] = field(default_factory=dict)

    def keep(self, name: str, chunk: Plain) -> None:
        """Hold a chunk of details."""
        self.details[name] = script_json(chunk)

    def keep_picture(self, name: str, webp: bytes) -> None:
        """Hold a thumbnail."""
        self.pictures[name] = data_uri(webp)

    def lacks(self, name: str) -> bool:
        """Whether a thumbnail is to be made."""
        return name not in self.pictures

    def end(self, report: Plain, edits: Plain) -> None:
        """Write the page."""
        put(self.page, page_html(report, edits, self.details, self.pictures).encode())


class _Folder:
    """A page that loads details and pictures from files beside it."""

    mode: Mode = "folder"

    def __init__(self, out: Path) -> None:
        self.page = out / INDEX
        self.data = f"data/{_DATA}{secrets.token_hex(8)}"
        self._out = out
        for folder in (self.data, "pictures"):
            (out / folder).mkdir(parents=True, exist_ok=True)

    def keep(self, name: str, chunk: Plain) -> None:
        """Write a chunk of details as a script."""
        text = f"editjudge.put({script_json(name)},{script_json(chunk)});\n"
        (self._out / self.data / f"{name}.js").write_bytes(text.encode())

    def keep_picture(self, name: str, webp: bytes) -> None:
        """Write a thumbnail."""
        put(self._picture(name), webp)

    def lacks(self, name: str) -> bool:
        """Whether a thumbnail is to be made."""
        return not self._picture(name).is_file()

    def end(self, report: Plain, edits: Plain) -> None:
        """Write the page in the place of the old one, whose details go then."""
        put(self.page, page_html(report, edits, mode="folder").encode())
        for details in (self._out / "data").glob(f"{_DATA}*"):
            if details != self._out / self.data:
                shutil.rmtree(details, ignore_errors=True)

    def _picture(self, name: str) -> Path:
        return self._out / "pictures" / f"{name}.webp"


def write_report(
    runs: Sequence[Path],
    out: Path,
    *,
    published: bool = False,
    pictures: bool = True,
    side: int = SIDE,
    about: About | None = None,
    progress: Progress = lambda made, _: made,
) -> Written:
    """Write a page of runs: one file where its name ends in .html, else a folder.

    A page is there whole or not at all; in a folder thumbnails that are there are not made again.

    Args:
        published: Also what the papers print.
        pictures: Without them the page says where they lie.
        side: Pixels of the longer side of its pictures.
        about: What it says besides.
        progress: Shows how many thumbnails of how many are made.

    Raises:
        ConfigError: a folder holds no run, `out` cannot be written or is something else, or the
            edits are too many for one file.
        InputError: the data of a run is not there any more.
        StoreError: a run is damaged, or the disk is full.
    """
    one_file = out.suffix.lower() in {".html", ".htm"}
    _check_out(out, one_file=one_file)
    with ExitStack() as stack, on_disk(out):
        views = [stack.enter_context(RunView(run)) for run in runs]
        if one_file and (count := sum(map(_edits_asked, views))) > LARGEST:
            raise ConfigError(
                f"{count:,} edits are too many for one file, at most {LARGEST:,}",
                f"give a folder: --out {out.with_suffix('')}",
            )
        place = _File(out) if one_file else _Folder(out)
        edits = Edits(PictureNames(), place.keep)
        page_runs = PageRun.of(views)
        for run in page_runs:
            run.read(edits, published=published)
        edits.end()
        named = edits.names.files if pictures else {}
        missing = {name: file for name, file in named.items() if place.lacks(name)}
        made = progress(thumbnails(missing, place.keep_picture, side), len(missing))
        lost = tuple(why for why in made if why is not None)
        about = about or About()
        warnings = (*about.warnings, *_unshown(lost))
        data = place.data
        about = replace(about, mode=place.mode, version=data, data=data, warnings=warnings)
        place.end(report_of(page_runs, edits, about), edits.index())
    return Written(place.page, edits.count, lost)


def _edits_asked(view: RunView) -> int:
    """How many edits a page of a run would have."""
    return sum(1 for _ in view.resolved.dataset.items()) * len(view.header.outputs)


def _unshown(lost: Sequence[str]) -> Iterator[str]:
    if lost:
        yield f"{counted(len(lost), 'picture')} cannot be shown (first: {lost[0]})"


def _check_out(out: Path, *, one_file: bool) -> None:
    """Refuse to write over what is no page of ours.

    Raises:
        ConfigError: it is something else.
    """
    mend = "give another --out, or remove it"
    if one_file:
        if out.is_dir():
            raise ConfigError(f"{out} is a folder", "give a file, or a name without .html")
        if out.exists() and not _is_page(out):
            raise ConfigError(f"{out} is there, and is no page of editjudge report", mend)
        return
    if out.exists() and not out.is_dir():
        raise ConfigError(f"{out} is a file", "give a folder, or a name that ends in .html")
    if RunView.is_at(out):
        raise ConfigError(f"{out} is a run", "give another folder with --out")
    ours = any(out.glob(f"data/{_DATA}*"))
    if out.is_dir() and any(out.iterdir()) and not ours:
        raise ConfigError(f"{out} holds something, and is no page of editjudge report", mend)


def _is_page(file: Path) -> bool:
    with file.open("rb") as opened:
        return _MARK in opened.read(_HEAD)
