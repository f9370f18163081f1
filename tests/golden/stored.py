"""Runs as earlier versions stored them, each in one archive with its data: they still open.

`python -m tests.golden.stored` stores them as today's code does, below the number of today's form.
An archive is never made anew: of a form that is no longer today's nothing can write it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import sqlite3
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from .cases import CASES
from .compare import versions
from .services import GREY
from .taken import judged, normalised, spoken, told

FOLDER = Path(__file__).parent / "stored"
TOLD = ("rescore", "ledger", "summary", "signatures", "show")
LASTING = TOLD[:2]
"""What is told by other versions of packages too: verdicts without a stored reply then wait."""
# By case the dimensions that are judged; all where none is named.
_STORED = {
    "core": (
        *("core.psnr.*", "core.aligned_psnr.source.whole", "core.features.dinov3.source.*"),
        *("core.lpips.vgg.target.inside", "core.lpips.alex.source.whole", "core.quality.piqe"),
        *("core.text_content_accuracy", "core.editing_artifacts", "core.physical_plausibility"),
        *("core.multiple_choice", "core.fact_check"),
    ),
    "kris.paper": (),
}
_READ_OTHERWISE = {"core.aligned_psnr.source.whole"}
"""What is judged otherwise since: an edit that cannot be aligned is measured unaligned."""
_HERE = "/golden"
"""What stands in archives for the folder in which they are."""


def stored() -> list[Path]:
    """The archives there are."""
    return sorted(FOLDER.glob("v*/*.zip"))


def documents(archive: Path, folder: Path) -> dict[str, Any]:
    """What today's code says of a stored run, brought up to date below a folder.

    All of `TOLD` by the versions of packages that it was stored with, otherwise what is `LASTING`.
    """
    shutil.unpack_archive(archive, folder)
    _moved(folder / "run" / "run.sqlite", _HERE, str(folder))
    case = next(one for one in CASES if one.name == archive.stem)
    # Older forms are opened for writing once.
    _, changes = spoken("rescore", folder / "run", "--write", "--json")
    changed = {one["dimension"] for one in changes if one["changed"]}
    assert changed <= _READ_OTHERWISE, "rescore changes a stored run"
    found = told(case, folder / "run")
    then = json.loads((folder / "versions.json").read_text(encoding="utf-8"))
    names = TOLD if then == versions() else LASTING
    return normalised({name: found[name] for name in names}, folder)


def _moved(file: Path, old: str, new: str) -> int:
    """Let a run's data lie elsewhere; the number of its form. Of version 2."""
    with contextlib.closing(sqlite3.connect(file)) as db, db:
        for table, column in (("header", "value"), ("edits", "missing")):
            db.execute(f"UPDATE {table} SET {column} = replace({column}, ?, ?)", (old, new))  # noqa: S608
        (version,) = db.execute("PRAGMA user_version").fetchone()
    return int(version)


async def _store(name: str, dimensions: tuple[str, ...]) -> None:
    # What failed is done again where a version changes, so nothing fails here.
    case = replace(next(one for one in CASES if one.name == name), magenta=GREY)
    flags = [part for one in dimensions for part in ("--dimension", one)]
    with tempfile.TemporaryDirectory() as made, tempfile.TemporaryDirectory() as packed:
        await judged(case, Path(made), *flags)
        for part in ("data", "ours", "theirs"):
            shutil.copytree(Path(made) / part, Path(packed) / part)
        file = Path(packed) / "run" / "run.sqlite"
        file.parent.mkdir()
        with (
            contextlib.closing(sqlite3.connect(Path(made) / "run" / "run.sqlite")) as db,
            contextlib.closing(sqlite3.connect(file)) as copy,
        ):
            db.backup(copy)
            copy.execute("PRAGMA journal_mode = DELETE")
            copy.execute("VACUUM")
        (Path(packed) / "versions.json").write_text(json.dumps(versions()), encoding="utf-8")
        version = _moved(file, made, _HERE)
        to = FOLDER / f"v{version}" / name
        if to.with_name(f"{name}.zip").exists():
            raise FileExistsError(f"{to}.zip")
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.make_archive(str(to), "zip", packed)


def main() -> None:
    """Store the runs as today's code does."""
    os.environ["EDITJUDGE_STATE_DIR"] = tempfile.gettempdir()
    for name, dimensions in _STORED.items():
        asyncio.run(_store(name, dimensions))


if __name__ == "__main__":
    main()
