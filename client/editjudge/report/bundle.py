"""Writes a run with its pictures and its page as one file, which opens anywhere.

A bundle is a zip of one folder: the folder of the run, with `index.html` and pictures beside it.
Pictures are named by the digest of what was judged, so no name of the data is a path in it.
"""

import re
import shutil
import zipfile
from dataclasses import dataclass
from pathlib import Path

from ..app.pictures import ORIGINALS
from ..app.view import RUN_FILE, RunView
from ..base.objects import find_url, read_object
from ..base.output_files import check_overwrite, wrap_disk_errors, write_atomically
from ..benchmarks.outputs import SUFFIXES
from .edits import OpenRun
from .site import Progress, WrittenPage, write_report

_DENSE_SUFFIXES = frozenset({*SUFFIXES, ".webp"})
"""Suffixes of files that compressing again makes no smaller."""


@dataclass(frozen=True, slots=True)
class WrittenBundle:
    """A bundle that was written.

    Attributes:
        page: What was written of its page.
        size: Bytes of the file.
        originals: How many pictures are in it as they were judged.
    """

    page: WrittenPage
    size: int
    originals: int


def write_bundle(
    run: Path,
    file: Path,
    *,
    originals: bool = False,
    progress: Progress = lambda outcomes, _: outcomes,
    open_run: OpenRun = RunView,
) -> WrittenBundle:
    """Write a run, the pictures that were judged and its page to one file, as a whole or not.

    Args:
        originals: Add the pictures as they were judged; otherwise there are thumbnails alone.
        progress: See `write_report`.
        open_run: Opens the run.

    Raises:
        ConfigError: the folder holds no run, or another file is in the place of the bundle.
        StoreError: the run is damaged, or the disk is full.
    """
    check_overwrite(file, is_bundle, "former bundle of editjudge")
    top = re.sub(r"[^\w.-]", "_", file.stem).strip(".") or "run"
    parts = file.with_name(f".{file.name}.parts")
    shutil.rmtree(parts, ignore_errors=True)  # of a process that was killed
    try:
        with wrap_disk_errors(file), open_run(run) as view, write_atomically(file) as partial:
            page = write_report([run], parts, progress=progress, open_run=open_run, is_bundle=True)
            view.copy_to(parts / RUN_FILE)
            with zipfile.ZipFile(partial, "w", strict_timestamps=False) as bundle:
                for path in sorted(parts.rglob("*")):
                    if path.is_file():
                        _add(bundle, path, f"{top}/{path.relative_to(parts).as_posix()}")
                finder, count = view.make_picture_finder(checks=True), 0
                for name, path in finder.find_originals() if originals else ():
                    count += 1
                    suffix = path.suffix.lower() if path.suffix.lower() in SUFFIXES else ""
                    _add(bundle, path, f"{top}/{ORIGINALS}/{name}{suffix}")
            size = partial.stat().st_size
    finally:
        shutil.rmtree(parts, ignore_errors=True)
    return WrittenBundle(page, size, count)


def is_bundle(file: Path) -> bool:
    """Whether a file is a bundle."""
    if not zipfile.is_zipfile(file):
        return False
    with zipfile.ZipFile(file) as bundle:
        return any(name.endswith(f"/{RUN_FILE}") for name in bundle.namelist())


def _add(bundle: zipfile.ZipFile, path: Path, name: str) -> None:
    is_dense = path.suffix.lower() in _DENSE_SUFFIXES
    compression = zipfile.ZIP_STORED if is_dense else zipfile.ZIP_DEFLATED
    if url := find_url(path):
        bundle.writestr(name, read_object(url), compression)
    else:
        bundle.write(path, name, compression)
