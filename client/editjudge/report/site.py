"""Writes the page of runs as one file or as a folder."""

import itertools
import secrets
import shutil
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from ..app.view import RunView
from ..base.errors import ConfigError
from ..base.output_files import check_overwrite, wrap_disk_errors, write_file
from ..base.text import format_count
from .edits import Edits, JsonObject, OpenRun, PageRun
from .page import Mode, PageOptions, build_report, dump_script_json, render_page
from .pictures import SIDE, PictureNames, make_thumbnails, to_data_uri

MAX_EDITS_IN_FILE = 1000
"""Most edits of a page that is one file."""
MAX_EDITS = 100_000
"""About how many edits with an output a folder lists; of more, it lists one item of so many."""
INDEX = "index.html"
_MARK = b'<meta name="generator" content="editjudge report">'
_HEAD = 4096
"""Number of leading bytes that contain the mark of a page."""
_DATA = "editjudge-"
"""Prefix of the folders of details; other folders beside them belong to somebody else."""
Progress = Callable[[Iterable[str | None], int], Iterable[str | None]]


@dataclass(frozen=True, slots=True)
class WrittenPage:
    """A page that was written.

    Attributes:
        page: The HTML file to open.
        edits: Number of edits that it shows.
        picture_problems: Why pictures cannot be shown, a line each.
    """

    page: Path
    edits: int
    picture_problems: tuple[str, ...]


@dataclass
class _FilePage:
    """A page that is one file and contains its details and pictures."""

    page: Path
    mode: Mode = "file"
    data: str = ""
    details: dict[str, str] = field(default_factory=dict)
    pictures: dict[str, str] = field(default_factory=dict)

    def save_chunk(self, name: str, chunk: JsonObject) -> None:
        """Store a chunk of details."""
        self.details[name] = dump_script_json(chunk)

    def save_picture(self, name: str, webp: bytes) -> None:
        """Store a thumbnail."""
        self.pictures[name] = to_data_uri(webp)

    def needs_picture(self, name: str) -> bool:
        """Whether a thumbnail is to be made."""
        return name not in self.pictures

    def finish(self, report: JsonObject, edits: JsonObject) -> None:
        """Write the page."""
        write_file(self.page, render_page(report, edits, self.details, self.pictures).encode())


class _FolderPage:
    """A page that loads details and pictures from files beside it."""

    mode: Mode = "folder"

    def __init__(self, out: Path) -> None:
        self.page = out / INDEX
        self.data = f"data/{_DATA}{secrets.token_hex(8)}"
        self._out = out
        for folder in (self.data, "pictures"):
            (out / folder).mkdir(parents=True, exist_ok=True)

    def save_chunk(self, name: str, chunk: JsonObject) -> None:
        """Write a chunk of details as a script."""
        text = f"editjudge.put({dump_script_json(name)},{dump_script_json(chunk)});\n"
        (self._out / self.data / f"{name}.js").write_bytes(text.encode())

    def save_picture(self, name: str, webp: bytes) -> None:
        """Write a thumbnail."""
        write_file(self._picture(name), webp)

    def needs_picture(self, name: str) -> bool:
        """Whether a thumbnail is to be made."""
        return not self._picture(name).is_file()

    def finish(self, report: JsonObject, edits: JsonObject) -> None:
        """Replace the old page, then remove its details."""
        write_file(self.page, render_page(report, edits, mode="folder").encode())
        for details in (self._out / "data").glob(f"{_DATA}*"):
            if details != self._out / self.data:
                shutil.rmtree(details, ignore_errors=True)

    def _picture(self, name: str) -> Path:
        return self._out / "pictures" / f"{name}.webp"


def write_report(
    runs: Sequence[Path],
    out: Path,
    *,
    with_published: bool = False,
    pictures: bool = True,
    side: int = SIDE,
    options: PageOptions | None = None,
    items: Sequence[str] | None = None,
    outputs: Sequence[Collection[str]] = (),
    progress: Progress = lambda outcomes, _: outcomes,
    open_run: OpenRun = RunView,
    is_bundle: bool = False,
) -> WrittenPage:
    """Write a page of runs: one file where its name ends in .html, else a folder.

    The page appears whole or not at all. A folder keeps the thumbnails that it already has.

    Args:
        with_published: Also show what the papers print.
        pictures: Include the pictures; otherwise the page names their files.
        side: Longer side of the pictures in pixels.
        options: Further contents of the page.
        items: Show only edits of these items, in this order; tables and figures are of all.
        outputs: The names of the outputs to show of each run; by default all.
        progress: Wraps the thumbnails and shows how many of how many are made.
        open_run: Opens a run.
        is_bundle: Whether the page is that of a bundle of one run, whose pictures are what was
            judged and are named by it.

    Raises:
        ConfigError: a folder holds no run, `out` cannot be written or is not a page of ours, or
            there are too many edits for one file.
        InputError: the data set of a run no longer exists.
        StoreError: a run is damaged, or the disk is full.
    """
    is_file = out.suffix.lower() in {".html", ".htm"}
    check_out(out, is_file=is_file)
    with ExitStack() as stack, wrap_disk_errors(out):
        views = [stack.enter_context(open_run(run)) for run in runs]
        # Those that have an output, and so a picture on the page.
        count = sum(e.missing is None and (items is None or e.item in items) for view in views for e in view.edits())
        if is_file and count > MAX_EDITS_IN_FILE:
            raise ConfigError(
                f"{count:,} edits with an output are too many for one file, at most {MAX_EDITS_IN_FILE:,}",
                f"give a folder: --out {out.with_suffix('')}",
            )
        target = _FilePage(out) if is_file else _FolderPage(out)
        page_runs, places = list[PageRun](), itertools.count()
        for number, view in enumerate(views):
            models = [name for name in view.header.outputs if not outputs or name in outputs[number]]
            page_runs.append(PageRun(view, number, dict(zip(models, places, strict=False)), checks=is_bundle))
        names = PictureNames(find_name=page_runs[0].finder.names.get if is_bundle else None)
        edits = Edits(names, target.save_chunk, step=-(-count // MAX_EDITS) or 1, items=items)
        for run in page_runs:
            run.read(edits, with_published=with_published)
        edits.flush()
        files = edits.names.files if pictures else {}
        missing = {name: file for name, file in files.items() if target.needs_picture(name)}
        outcomes = progress(make_thumbnails(missing, target.save_picture, side), len(missing))
        problems = tuple(why for why in outcomes if why is not None)
        options = options or PageOptions()
        warnings = options.warnings
        if problems:
            unseen = format_count(len(problems), "picture")
            warnings = (*warnings, f"{unseen} cannot be shown (first: {problems[0]})")
        options = replace(options, mode=target.mode, data=target.data, warnings=warnings)
        target.finish(build_report(page_runs, edits, options), edits.build_index())
    return WrittenPage(target.page, edits.count, problems)


def check_out(out: Path, *, is_file: bool) -> None:
    """Refuse to overwrite anything but a page of ours.

    Raises:
        ConfigError: `out` is something else.
    """
    fix = "give another --out, or remove it"
    if is_file:
        check_overwrite(out, _is_page, "page of editjudge report")
        return
    if out.exists() and not out.is_dir():
        raise ConfigError(f"{out} is a file", "give a folder, or a name that ends in .html")
    if RunView.exists_at(out):
        raise ConfigError(f"{out} is a run", "give another folder with --out")
    ours = any(out.glob(f"data/{_DATA}*"))
    if out.is_dir() and any(out.iterdir()) and not ours:
        raise ConfigError(f"{out} is not empty and is no page of editjudge report", fix)


def _is_page(file: Path) -> bool:
    with file.open("rb") as stream:
        return _MARK in stream.read(_HEAD)
