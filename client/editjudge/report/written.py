"""A page of results as a file, or as a folder where there are many edits."""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from ..app.view import RunView
from ..base.errors import ConfigError
from ..base.writing import on_disk, put
from .contents import About, ShownRun, report_of, title_of
from .gathered import Gathered, Plain
from .page import page_html, script_json
from .pictures import SIDE, PictureNames, data_uri, thumbnails
from .read import edits_asked, readings

LARGEST = 1000
"""Edits up to which a page may be one file."""
INDEX = "index.html"
_MARK = '<meta name="generator" content="editjudge report">'
_HEAD = 4096
"""Bytes of a page in which its mark is."""
_STAGED = ".editjudge-partial"
"""Folder of details that are not all there yet."""
_DETAILS = re.compile(r"[0-9a-f]{16}")
"""Name of a folder of details: other folders beside it are somebody else's."""
_DETAIL = re.compile(r"detail-\d+\.js")
_OWN = ".editjudge-report"
"""File that says that a folder is a page of ours, also where it is not whole yet."""
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
class Chunks:
    """The details of a page that is one file."""

    texts: dict[str, str] = field(default_factory=dict)

    def keep(self, number: int, chunk: Plain) -> None:
        """Hold a chunk."""
        self.texts[f"detail-{number}"] = script_json(chunk)


def write_report(
    runs: Sequence[Path],
    out: Path,
    *,
    published: bool = False,
    pictures: bool = True,
    side: int = SIDE,
    progress: Progress = lambda made, _: made,
) -> Written:
    """Write a page of runs: one file where its name ends in .html, else a folder.

    A page is there whole or not at all; in a folder thumbnails that are there are not made again.

    Args:
        published: Also what the papers print.
        pictures: Without them the page says where they lie.
        side: Pixels of the longer side of its pictures.
        progress: Shows how many thumbnails of how many are made.

    Raises:
        ConfigError: a folder holds no run, `out` cannot be written or is something else, or the
            edits are too many for one file.
        InputError: the data of a run is not there any more.
        StoreError: a run is damaged, or the disk is full.
    """
    one_file = out.suffix.lower() in {".html", ".htm"}
    _check_free(out, one_file=one_file)
    with ExitStack() as stack, on_disk(out):
        views = [stack.enter_context(RunView(run)) for run in runs]
        if one_file and (count := sum(map(edits_asked, views))) > LARGEST:
            raise ConfigError(
                f"{count:,} edits are too many for one file, at most {LARGEST:,}",
                f"give a folder: --out {out.with_suffix('')}",
            )
        write = _write_file if one_file else _write_folder
        return write(views, out, published, pictures, side, progress)


def gather(
    views: Sequence[RunView], gathered: Gathered, *, published: bool
) -> tuple[ShownRun, ...]:
    """Read runs one after another into one page."""
    return tuple(each.gather(gathered, published=published) for each in readings(views))


def whole_page(
    shown: Sequence[ShownRun],
    gathered: Gathered,
    details: Mapping[str, str],
    about: About,
    *,
    pictures: bool = True,
    side: int = SIDE,
    progress: Progress = lambda made, _: made,
) -> tuple[str, tuple[str, ...]]:
    """A page that is one file, and why pictures cannot be shown."""
    uris: dict[str, str] = {}

    def keep(name: str, webp: bytes) -> None:
        uris[name] = data_uri(webp)

    edits = gathered.index()
    files = gathered.names.files if pictures else {}
    lost = _lost(progress(thumbnails(files, keep, side), len(files)))
    about = replace(about, warnings=(*about.warnings, *_unshown(lost)), unshown=len(lost))
    report = report_of(shown, gathered, about, "file", side)
    return page_html(report, edits, details, uris, "file"), lost


def _write_file(
    views: Sequence[RunView],
    out: Path,
    published: bool,
    pictures: bool,
    side: int,
    progress: Progress,
) -> Written:
    chunks = Chunks()
    gathered = Gathered(PictureNames(), chunks.keep)
    shown = gather(views, gathered, published=published)
    about = About(title_of(shown))
    page, lost = whole_page(
        shown, gathered, chunks.texts, about, pictures=pictures, side=side, progress=progress
    )
    put(out, page.encode())
    return Written(out, gathered.count, lost)


def _write_folder(
    views: Sequence[RunView],
    out: Path,
    published: bool,
    pictures: bool,
    side: int,
    progress: Progress,
) -> Written:
    out.mkdir(parents=True, exist_ok=True)
    (out / _OWN).touch()
    staged = out / "data" / _STAGED
    shutil.rmtree(staged, ignore_errors=True)
    staged.mkdir(parents=True)
    digest = hashlib.sha256()

    def keep(number: int, chunk: Plain) -> None:
        name = f"detail-{number}"
        text = f"editjudge.put({script_json(name)},{script_json(chunk)});\n".encode()
        digest.update(text)
        (staged / f"{name}.js").write_bytes(text)

    gathered = Gathered(PictureNames(), keep)
    shown = gather(views, gathered, published=published)
    edits = gathered.index()
    folder = out / "pictures"
    folder.mkdir(exist_ok=True)
    missing = {
        name: file
        for name, file in (gathered.names.files if pictures else {}).items()
        if not (folder / f"{name}.webp").is_file()
    }

    def keep_picture(name: str, webp: bytes) -> None:
        put(folder / f"{name}.webp", webp)

    lost = _lost(progress(thumbnails(missing, keep_picture, side), len(missing)))
    version = digest.hexdigest()[:16]
    data = out / "data" / version
    if data.is_dir():
        shutil.rmtree(staged)
    else:
        staged.rename(data)
    about = About(title_of(shown), version, (), tuple(_unshown(lost)), f"data/{version}", len(lost))
    report = report_of(shown, gathered, about, "folder", side)
    # From here on the page is the new one; before it was the old one, with all that it loads.
    put(out / INDEX, page_html(report, edits, mode="folder").encode())
    _drop_others(out / "data", version)
    return Written(out / INDEX, gathered.count, lost)


def _drop_others(folder: Path, version: str) -> None:
    """Remove the details of pages that were replaced, and nothing that anybody else put there."""
    for details in folder.iterdir():
        if details.name != version and _DETAILS.fullmatch(details.name) and _are_details(details):
            shutil.rmtree(details, ignore_errors=True)


def _are_details(folder: Path) -> bool:
    """Whether a folder holds details and nothing else."""
    return (
        folder.is_dir()
        and not folder.is_symlink()
        and all(_DETAIL.fullmatch(file.name) and file.is_file() for file in folder.iterdir())
    )


def _lost(made: Iterable[str | None]) -> tuple[str, ...]:
    return tuple(why for why in made if why is not None)


def _unshown(lost: Sequence[str]) -> Iterator[str]:
    if lost:
        what = "picture" if len(lost) == 1 else "pictures"
        yield f"{len(lost):,} {what} cannot be shown (first: {lost[0]})"


def _check_free(out: Path, *, one_file: bool) -> None:
    """Refuse to write over what is no page of ours.

    Raises:
        ConfigError: it is something else.
    """
    mend = "give another --out, or remove it"
    if one_file:
        if out.is_dir():
            raise ConfigError(f"{out} is a folder", "give a file, or a name without .html")
        if out.exists() and not _is_ours(out):
            raise ConfigError(f"{out} is there, and is no page of editjudge report", mend)
        return
    if out.exists() and not out.is_dir():
        raise ConfigError(f"{out} is a file", "give a folder, or a name that ends in .html")
    if RunView.is_at(out):
        raise ConfigError(f"{out} is a run", "give another folder with --out")
    if out.is_dir() and any(out.iterdir()) and not (out / _OWN).is_file():
        raise ConfigError(f"{out} holds something, and is no page of editjudge report", mend)


def _is_ours(file: Path) -> bool:
    with file.open("rb") as opened:
        return _MARK.encode() in opened.read(_HEAD)
