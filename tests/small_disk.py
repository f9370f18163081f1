"""A disk of few bytes, to be filled."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def mount_disk(folder: Path, mib: int) -> Iterator[Path]:
    """A file system of its own at a folder, which is made; the test is skipped where it may mount nothing."""
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={mib}m", "tmpfs", folder], check=False).returncode:
        pytest.skip("may mount nothing")
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


def fill_disk(disk: Path, free: int = 0) -> Path:
    """Take all but `free` bytes of a disk; returns the file that has them."""
    filler = disk / "filler"
    filler.unlink(missing_ok=True)
    filler.write_bytes(bytes(shutil.disk_usage(disk).free - free))
    return filler
