"""Output files of commands: written atomically, and never over a file of somebody else."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from .errors import ConfigError, StoreError

_OTHER = "give another --out"
_NO_PLACE = (FileExistsError, FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError)


def check_overwrite(file: Path, is_ours: Callable[[Path], bool], what: str) -> None:
    """Refuse to overwrite a file that the same command did not write; an empty file may be.

    Args:
        is_ours: Tells whether a file that is not empty was written by the command.
        what: What the command writes, for messages: `export of editjudge`.

    Raises:
        ConfigError: another file is there, or the place cannot be read.
        StoreError: the disk fails.
    """
    with wrap_disk_errors(file):
        free = not file.exists() or (file.is_file() and (not file.stat().st_size or is_ours(file)))
    if not free:
        raise ConfigError(f"{file} exists and is no {what}", f"{_OTHER}, or move it away")


@contextmanager
def write_atomically(file: Path) -> Iterator[Path]:
    """Give a temporary path to write to, which becomes the file when the block ends without error.

    The parent folders are created.

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
    """Write a file atomically; see `write_atomically`."""
    with write_atomically(file) as partial:
        partial.write_bytes(content)


def write_output(file: Path, content: bytes) -> None:
    """Write a file atomically: who reads it meanwhile reads the old content.

    Raises:
        ConfigError: the path cannot be written to.
        StoreError: the disk is full or fails.
    """
    with wrap_disk_errors(file):
        write_file(file, content)


@contextmanager
def wrap_disk_errors(out: Path) -> Iterator[None]:
    """Turn errors of the disk into errors of one line that name the file.

    Raises:
        ConfigError: the path cannot be written to.
        StoreError: the disk is full or fails.
    """
    try:
        yield
    except _NO_PLACE as error:
        raise ConfigError(f"{out}: {error.strerror}", _OTHER) from error
    except OSError as error:
        raise StoreError(f"{out}: {error}", f"make room, or {_OTHER}") from error


def lock_folder(folder: Path, name: str) -> AbstractContextManager[object]:
    """Make a folder and lock it; the lock is released by leaving its `with`, or with the process.

    Args:
        name: The name of the lock file in the folder.

    Raises:
        ConfigError: another process holds the lock, or the folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return FileLock(folder / name).acquire(timeout=0)
    except Timeout as error:
        why = f"{folder} is in use by another process"
        raise ConfigError(why, "wait for it, or end it") from error
    except (OSError, NotImplementedError) as error:
        raise ConfigError(
            f"{folder}: {getattr(error, 'strerror', None) or error}", "give a folder that can be written"
        ) from error
