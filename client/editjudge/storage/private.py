"""Files of SQLite that nobody but their owner may read, whatever the umask."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from ..base.errors import ConfigError
from ..base.local import private

_BESIDE = ("", "-wal", "-shm")


def made_private(path: Path) -> None:
    """Make a file that is to hold a database, or close one that is there to others.

    What SQLite puts beside it has the file's mode. One that belongs to somebody else stays as its
    owner made it.

    Raises:
        ConfigError: it cannot be made.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(private(str(path), os.O_RDWR | os.O_CREAT))
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}", "give another folder") from error
    for end in _BESIDE:
        with contextlib.suppress(FileNotFoundError, PermissionError):
            path.with_name(path.name + end).chmod(0o600)
