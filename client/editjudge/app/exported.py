"""Which files are former exports, so that an export may take their place."""

from __future__ import annotations

import json
import os
from pathlib import Path

from ..base import writing
from ..base.errors import ConfigError
from ..storage.store import FILE
from .label_studio import CONFIGURATION, TASKS

_HEAD = 4096
_PARQUET = b"PAR1"
METADATA = "editjudge.run"
"""The key of the run's header in a parquet file."""
COLUMNS = (("item", "model", "dimension"), ("item", "model", "missing"))
"""How the columns of a table begin: one row for each verdict, or for each edit."""


def check_free(run: Path, file: Path, form: str) -> None:
    """Refuse to export over anything but a former export, or into what belongs to the run.

    Raises:
        ConfigError: something else is there, or the name is taken.
        StoreError: the disk fails.
    """
    files = [file]
    if form == "label-studio":
        if file.suffix.lower() == ".xml":
            raise ConfigError(
                f"{file} is the name of the labelling configuration beside the tasks",
                "give --out a name that ends in .json",
            )
        files.append(file.with_suffix(".xml"))
    for each in files:
        # SQLite keeps more beside its file, and empty files lock it.
        if each.name.startswith(f"{Path(FILE).stem}.") and _same(each.parent, run):
            raise ConfigError(f"{each} is a file of the run itself", "give another --out")
        writing.check_free(each, is_export, "former export of editjudge")


def is_export(file: Path) -> bool:
    """Whether a file is what some `export` wrote, told by how it begins; parquet, how it ends."""
    with file.open("rb") as opened:
        head = opened.read(_HEAD)
        if head.startswith(_PARQUET):
            opened.seek(-8, os.SEEK_END)
            length = int.from_bytes(opened.read(4), "little")
            opened.seek(-min(8 + length, file.stat().st_size), os.SEEK_END)
            return METADATA.encode() in opened.read()
        if head.startswith((TASKS.encode(), CONFIGURATION.encode())) or head == b"[]\n":
            return True
        if not head.startswith(b"{"):
            return head.startswith(tuple(",".join(columns).encode() for columns in COLUMNS))
        opened.seek(0)
        try:
            fields = json.loads(opened.readline())
        except ValueError:
            return False
    return tuple(fields)[:3] in COLUMNS


def _same(folder: Path, other: Path) -> bool:
    return os.path.realpath(folder) == os.path.realpath(other)
