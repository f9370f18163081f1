"""Runs as earlier versions stored them, each in one archive with its data: they still open.

`python -m tests.golden.stored` stores them as today's code does, below the number of today's form.
An archive is never made anew: of a form that is no longer today's nothing can write it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from editjudge.app.view import RunView
from editjudge.benchmarks.registry import benchmark
from editjudge.storage.checksums import Checks, expressions
from editjudge.storage.store import RunStore
from editjudge.storage.tables import EDITS, HEADER

from .cases import CASES, Case
from .services import GREY
from .taken import judged, lasting, normalised, spoken, told

FOLDER = Path(__file__).parent / "stored"
TOLD = ("rescore", "ledger", "summary", "signatures", "versions", "show")
# By archive the dimensions that are judged, all where none is named. It is named after its case;
# what stands behind a `+` is a switch that is on.
_STORED: Mapping[str, tuple[str, ...]] = {
    "core": (
        *("core.psnr.*", "core.ssim.*", "core.aligned_psnr.source.whole"),
        *("core.features.dinov3.source.*", "core.lpips.vgg.target.inside", "core.quality.piqe"),
        *("core.lpips.alex.source.whole", "core.text_content_accuracy", "core.editing_artifacts"),
        *("core.physical_plausibility", "core.multiple_choice", "core.fact_check"),
    ),
    "co_edit.paper": (),
    "gie.paper+unmasked_pixels": (),
    "i2i.paper": (
        *("i2i.*.image_quality", "i2i.*.text_content_style_accuracy", "i2i.me.subject_*"),
        *("i2i.se.spatial_accuracy", "i2i.se.non_edited_region_fidelity"),
    ),
    "kris.paper": (),
    "omni_iie.paper": (),
}
_WITH_CHECKSUMS = 5
"""The form since which rows have checksums."""
_HERE = "/golden"
"""What stands in archives for the folder in which they are."""


def stored() -> list[Path]:
    """The archives there are."""
    return sorted(FOLDER.glob("v*/*.zip"))


def documents(archive: Path, folder: Path) -> dict[str, Any]:
    """What today's code says of a stored run, brought up to date below a folder.

    Of one by an older reading of its benchmark, which `run` and `summary` refuse, what lasts.
    """
    shutil.unpack_archive(archive, folder)
    _moved(folder / "run" / "run.sqlite", _HERE, str(folder))
    case, _ = _judged_by(archive.stem)
    with RunStore.open(folder / "run") as store:  # older forms are opened for writing once
        protocol = store.header.protocol
    if f".{benchmark(case.benchmark).version}" not in protocol.partition("+")[0]:
        found = lasting(case, folder / "run")
    else:
        same = _signed_as_today(folder / "run")
        _, changes = spoken("rescore", folder / "run", "--write", "--json")
        changed = {one["dimension"] for one in changes if one["changed"]}
        assert not changed & same, "rescore changes what today's code signs as it was"
        found = told(case, folder / "run")
    return normalised({name: found[name] for name in TOLD if name in found}, folder)


def _signed_as_today(run: Path) -> set[str]:
    """The dimensions whose stored signatures are today's: what they compute is the same."""
    with RunView(run) as view:
        today = view.resolved.order.signatures(view.header.identities)
        stored = {(one.dimension, one.signature) for one in view.verdicts(evidence=False)}
    return {name for name, signature in today.items() if (name, signature) in stored}


def _moved(file: Path, old: str, new: str) -> int:
    """Let a run's data lie elsewhere; the number of its form."""
    with contextlib.closing(sqlite3.connect(file)) as db, db:
        (version,) = db.execute("PRAGMA user_version").fetchone()
        why = "missing" if version == 2 else "reason"
        for table, column in (("header", "value"), ("edits", why)):
            db.execute(f"UPDATE {table} SET {column} = replace({column}, ?, ?)", (old, new))  # noqa: S608
        if version >= _WITH_CHECKSUMS:
            Checks().register(db)
            for of in (HEADER, EDITS):
                checksum = f"row_checksum({expressions(of)})"
                db.execute(f"UPDATE {of.name} SET checksum = {checksum}")  # noqa: S608
    return int(version)


def _judged_by(name: str) -> tuple[Case, tuple[str, ...]]:
    """The case of an archive, and the flags that its run has besides."""
    base, *switches = name.split("+")
    case = next(one for one in CASES if one.name == base)
    return case, tuple(part for one in switches for part in ("--with", one))


async def _store(name: str, dimensions: tuple[str, ...]) -> None:
    # What failed is done again where a version changes, so nothing fails here.
    case, flags = _judged_by(name)
    case = replace(case, magenta=GREY)
    flags += tuple(part for one in dimensions for part in ("--dimension", one))
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
