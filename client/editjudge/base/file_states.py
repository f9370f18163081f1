"""Detects whether files have changed since they were read, without reading them again.

A file counts as unchanged while its device, inode, size and times are equal. So a file that was
moved over another, a link that points elsewhere and a restored backup count as changed. An object
of a store counts as unchanged while its size and its version are equal. Two changes
within one tick of the file system's clock leave the same times: a file that had just changed when
it was read is therefore read again.
"""

import os
import stat
import struct
from hashlib import blake2b
from time import time_ns
from typing import NamedTuple

from .digest import file_digest
from .objects import find_url, get_object_state

STAT = 8
"""Bytes of a stat."""
ABSENT = bytes(STAT)
"""In the place of the stat of a file that is not there, or had just changed when it was read."""
_UNKNOWN = b"unknown"
"""In the place of the stat of an object of which the store does not tell."""
SETTLING_TIME = 2 * 10**9
"""Nanoseconds after a change until it shows in a file's times: FAT counts every other second."""
_MAX_FILES = 100_000
"""Files that are remembered within a session."""
_LAYOUT = struct.Struct("<QQQqq")


class FileState(NamedTuple):
    """The stat and digest of a file when it was read.

    Attributes:
        stat: 8 bytes, see `stat_of`; `ABSENT` if the file may change without showing it.
        digest: `sha256:` and 64 hex digits of the content.
    """

    stat: bytes
    digest: str


def stat_of(path: str | os.PathLike[str], *, fresh: bool = False) -> bytes:
    """Digest the device, inode, size and times of a file; links are followed.

    Args:
        fresh: Ask for an object now; by default it is as when its folder was listed.

    Returns:
        8 bytes of a digest that are equal while it is the same file with the same content;
        `ABSENT` where there is no file.
    """
    return _stat(path, fresh=fresh)[0]


def _stat(path: str | os.PathLike[str], *, fresh: bool = False) -> tuple[bytes, int]:
    """The result of `stat_of`, and the file's change time in ns; 0 if there is no file."""
    if url := find_url(path):
        try:
            return get_object_state(url, fresh=fresh).version, 0
        except FileNotFoundError:
            return ABSENT, 0
        except OSError:  # it may be there: reading it says why it cannot be read
            return _UNKNOWN, time_ns()
    try:
        state = os.stat(path)  # noqa: PTH116 - a hundred thousand times
    except (OSError, ValueError):
        return ABSENT, 0
    if not stat.S_ISREG(state.st_mode):
        return ABSENT, 0
    packed_stat = _LAYOUT.pack(state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns)
    return blake2b(packed_stat, digest_size=STAT).digest(), state.st_ctime_ns


class FileRead:
    """Observes a file while it is read. Make it before the file is opened."""

    def __init__(self, path: str) -> None:
        self.before, self._change_time = _stat(path)
        self._path = path
        self._began = time_ns()

    def stat(self) -> bytes:
        """The stat after the file was read; `ABSENT` if it may have changed without showing it."""
        at_rest = self._change_time + SETTLING_TIME <= self._began
        is_same = at_rest and stat_of(self._path, fresh=True) == self.before
        return self.before if is_same else ABSENT

    def has_changed(self) -> bool:
        """Whether the stat of the file differs from the one before reading."""
        return stat_of(self._path, fresh=True) != self.before


class FileStates:
    """A cache of file digests for one session; an unchanged file is read once."""

    def __init__(self) -> None:
        self._states: dict[str, FileState] = {}

    def get_state(self, path: str) -> FileState | None:
        """Get the current state of a file; None if it is missing or cannot be read."""
        reading = FileRead(path)
        previous = self._states.get(path)
        if previous is not None and previous.stat == reading.before != ABSENT:
            return previous
        if reading.before == ABSENT:  # opening what is no file, such as a pipe, may wait for ever
            return None
        try:
            digest = file_digest(path)
        except OSError:
            return None
        if len(self._states) >= _MAX_FILES:
            self._states.clear()
        state = self._states[path] = FileState(reading.stat(), digest)
        return state
