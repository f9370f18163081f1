"""Checkpoints on disk: their records, and folders that appear whole or not at all.

```
<models>/<entry>/checkpoint/pulled.json       weights from the hub, or imported from a file
<models>/<entry>/checkpoint/untrained.json    random weights
<models>/<entry>/<folder>.partial             unfinished: nothing reads it
```
"""

import errno
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout
from pydantic import Field

from editjudge.base.errors import ConfigError, EditjudgeError
from editjudge.base.strict import Strict

from .artefact import check_files, checkpoint_dir, hash_file, models_dir, read_record, replaced_folder

PULLED_RECORD, UNTRAINED_RECORD = "pulled.json", "untrained.json"
SEED = 0
_DISK_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_FEW_BYTES = 1 << 16


class ZooError(EditjudgeError):
    """Weights cannot be installed, or are not the right ones (exit 1)."""


class Checkpoint(Strict):
    """The record of a checkpoint: `pulled.json` or `untrained.json`.

    Attributes:
        entry: Its name in the manifest.
        hub: Repository that it was pulled from; "" if imported from a file or untrained.
        commit: Commit that was pulled.
        parts: Source of each part, by folder.
        licence: Licence at that time.
        accepted: The licence is restricted and was accepted with `--accept-license`.
        untrained: The weights are random.
        unchecked_files: Imported files whose digests nobody states.
        files: sha256 by path relative to the checkpoint's folder.
    """

    entry: str
    hub: str = ""
    commit: str = ""
    parts: dict[str, str] = Field(default_factory=dict)
    licence: str = ""
    accepted: bool = False
    untrained: bool = False
    unchecked_files: list[str] = Field(default_factory=list)
    files: dict[str, str]

    @property
    def is_imported(self) -> bool:
        """Whether the user brought it, without a commit of the hub."""
        return not (self.hub or self.commit or self.parts or self.untrained)

    @property
    def source(self) -> str:
        """The source of the weights, in short."""
        if self.untrained:
            return f"untrained, seed {SEED}"
        if self.parts:
            return " + ".join(self.parts.values())
        names = ", ".join(self.files) if len(self.files) == 1 else f"{len(self.files)} imported files"
        return f"{self.hub}@{self.commit}" if self.hub else names

    def save(self, folder: Path) -> None:
        """Write the record into a folder that is not yet installed."""
        name = UNTRAINED_RECORD if self.untrained else PULLED_RECORD
        (folder / name).write_text(self.model_dump_json(indent=2))

    def verify(self) -> None:
        """Check every file against its digest.

        Raises:
            ConfigError: a file is missing or has other content.
        """
        fix = f"run: editjudge models pull {self.entry}{' --untrained' * self.untrained}"
        check_files(checkpoint_dir(self.entry), self.files, fix)

    def is_intact(self) -> bool:
        """Whether every file is there and unchanged."""
        with suppress(ConfigError):
            self.verify()
            return True
        return False


def load_checkpoint(entry: str) -> Checkpoint | None:
    """Load the record of an entry's checkpoint; None if there is none.

    Raises:
        ConfigError: the record cannot be read.
    """
    for name in (PULLED_RECORD, UNTRAINED_RECORD):
        folder = checkpoint_dir(entry)
        if checkpoint := read_record(Checkpoint, folder / name, f"remove {folder}"):
            return checkpoint
    return None


def hash_files(folder: Path) -> dict[str, str]:
    """Compute the sha256 of every file below a folder, by relative path."""
    return {
        path.relative_to(folder).as_posix(): hash_file(path) for path in sorted(folder.rglob("*")) if path.is_file()
    }


def partial_folder(final: Path) -> Path:
    """Return the folder in which `final` is prepared."""
    return final.with_name(f"{final.name}.partial")


@contextmanager
def lock_entry(entry: str) -> Iterator[None]:
    """Lock an entry's folders against other processes.

    Raises:
        ZooError: another process holds the lock.
        ConfigError: the folder of models cannot be written.
    """
    folder = models_dir() / entry
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / ".lock", timeout=0)
        lock.acquire()
    except Timeout:
        raise ZooError(f"another process works on {entry}", "wait for it, then try again") from None
    except OSError as error:
        if is_disk_full(error, folder):
            raise disk_full_error(checkpoint_dir(entry)) from error
        raise ConfigError(f"{folder} cannot be written: {error.strerror}", "set EDITJUDGE_MODELS_DIR") from error
    try:
        yield
    finally:
        lock.release()


@contextmanager
def replace_folder(final: Path) -> Iterator[Path]:
    """Yield an empty folder that replaces `final` once the block ends without an error.

    Raises:
        ZooError: the disk is full.
    """
    staging = partial_folder(final)
    shutil.rmtree(staging, ignore_errors=True)
    try:
        with report_disk_full(final):
            staging.mkdir(parents=True)
            yield staging
            install_folder(staging, final)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def install_folder(staging: Path, final: Path) -> None:
    """Rename a finished folder to its final name, and remove the folder that had it.

    A reader sees the old folder, the new one, or for a moment none, which `read_record` waits out.
    """
    old = replaced_folder(final)
    shutil.rmtree(old, ignore_errors=True)
    if final.exists():
        final.rename(old)
    staging.rename(final)
    shutil.rmtree(old, ignore_errors=True)


@contextmanager
def report_disk_full(final: Path) -> Iterator[None]:
    """Turn a write that fails on a full disk into a `ZooError` that names the disk."""
    try:
        yield
    except EditjudgeError:
        raise
    except Exception as error:  # libraries raise anything, see `is_disk_full`
        if is_disk_full(error, final.parent):
            raise disk_full_error(final) from error
        raise


def is_disk_full(error: BaseException, folder: Path) -> bool:
    """Whether a write below a folder failed because of space, quota or a limit on file sizes.

    Libraries in Rust tell the number of the error in their text alone. torch does not tell it, so the space that is
    left decides.
    """
    if isinstance(error, OSError):
        return error.errno in _DISK_FULL
    is_told = any(f"(os error {number})" in str(error) for number in _DISK_FULL)
    return is_told or shutil.disk_usage(folder).free < _FEW_BYTES


def disk_full_error(final: Path, how: str = "") -> ZooError:
    """Make the error for a full disk; `how` says how full it is."""
    return ZooError(
        f"the disk is full: {final.parent}{how}",
        "free some space there, or move the folder of models to a larger disk and set EDITJUDGE_MODELS_DIR",
    )
