"""Files that commands write: over nothing of anybody else, and there whole or not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from .errors import ConfigError, StoreError

_OTHER = "give another --out"
_NO_PLACE = (
    FileExistsError,
    FileNotFoundError,
    IsADirectoryError,
    NotADirectoryError,
    PermissionError,
)


def check_overwrite(file: Path, is_ours: Callable[[Path], bool], what: str) -> None:
    """Refuse to write over what the same command did not write; an empty file is free.

    Args:
        is_ours: Whether a file that is not empty came from the command.
        what: The command writes: `export of editjudge`.

    Raises:
        ConfigError: something else is there, or cannot be looked at.
        StoreError: the disk fails.
    """
    with wrap_disk_errors(file):
        free = not file.exists() or (file.is_file() and (not file.stat().st_size or is_ours(file)))
    if not free:
        raise ConfigError(f"{file} is there, and is no {what}", f"{_OTHER}, or move it away")


@contextmanager
def write_atomically(file: Path) -> Iterator[Path]:
    """Give a path to write to; what is there in the end becomes the file, unless it failed.

    Folders above it are made.

    Raises:
        OSError: it cannot be written; see `wrap_disk_errors`.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_name(f".{file.name}.partial")
    try:
        yield partial
        partial.replace(file)
    finally:
        partial.unlink(missing_ok=True)


def write_file(file: Path, content: bytes) -> None:
    """Write a file that is there whole or not at all; see `write_atomically`."""
    with write_atomically(file) as partial:
        partial.write_bytes(content)


@contextmanager
def wrap_disk_errors(out: Path) -> Iterator[None]:
    """Tell what the disk refuses in one line.

    Raises:
        ConfigError: it cannot be written there.
        StoreError: there is no room.
    """
    try:
        yield
    except _NO_PLACE as error:
        raise ConfigError(f"{out}: {error.strerror}", _OTHER) from error
    except OSError as error:
        raise StoreError(f"{out}: {error}", f"make room, or {_OTHER}") from error
