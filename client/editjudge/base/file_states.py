"""Which files are still what they were when they were read, told without reading them again.

A file is told by where it lies on its disk, its size and its times, all of which must be equal: a
file that was moved into the place of another, a link that points elsewhere, or a backup that came
back with its old times is another one. Nothing is compared with a clock, but for one thing: two
changes within a tick of the file system's clock leave the same times. So the times of a file that
had just changed when it was read tell nothing, and it is read again.
"""

from __future__ import annotations

import os
import stat
import struct
from hashlib import blake2b
from time import time_ns
from typing import NamedTuple

from .digest import file_digest

STAT = 8
"""Bytes of a stat."""
ABSENT = bytes(STAT)
"""In the place of the stat of a file that is not there, or had just changed when it was read."""
SETTLED = 2 * 10**9
"""Nanoseconds after a change until it shows in a file's times: FAT counts every other second."""
_KNOWN = 100_000
"""Files that are remembered within a session."""
_PACKED = struct.Struct("<QQQqq")


class FileState(NamedTuple):
    """A file as it was read.

    Attributes:
        stat: 8 bytes; `ABSENT` where they tell nothing.
        digest: Of its content: `sha256:` and 64 hex digits.
    """

    stat: bytes
    digest: str


def stat_of(path: str | os.PathLike[str]) -> bytes:
    """Device, inode, size and times of a file, which a link is followed to.

    Returns:
        8 bytes of a digest that are equal while it is the same file with the same content;
        `ABSENT` where there is no file.
    """
    return _stat(path)[0]


def _stat(path: str | os.PathLike[str]) -> tuple[bytes, int]:
    """The same, and when the file changed; 0 where there is none."""
    try:
        of = os.stat(path)  # noqa: PTH116 - a hundred thousand times
    except (OSError, ValueError):
        return ABSENT, 0
    if not stat.S_ISREG(of.st_mode):
        return ABSENT, 0
    packed_stat = _PACKED.pack(of.st_dev, of.st_ino, of.st_size, of.st_mtime_ns, of.st_ctime_ns)
    return blake2b(packed_stat, digest_size=STAT).digest(), of.st_ctime_ns


class FileRead:
    """A file that is about to be read."""

    def __init__(self, path: str) -> None:
        self.before, self._change_time = _stat(path)
        self._path = path
        self._began = time_ns()

    def stat(self) -> bytes:
        """Its stat, once it was read; `ABSENT` where it may have changed without showing it."""
        at_rest = self._change_time + SETTLED <= self._began
        return self.before if at_rest and stat_of(self._path) == self.before else ABSENT

    def has_changed(self) -> bool:
        """Whether it is another file now, as far as its stat tells."""
        return stat_of(self._path) != self.before


class FileStates:
    """Files of one session, each read once while it stays what it is."""

    def __init__(self) -> None:
        self._states: dict[str, FileState] = {}

    def get_state(self, path: str) -> FileState | None:
        """A file as it is now; None where it is not there or cannot be read."""
        reading = FileRead(path)
        previous = self._states.get(path)
        if previous is not None and previous.stat == reading.before != ABSENT:
            return previous
        try:
            digest = file_digest(path)
        except OSError:
            return None
        if len(self._states) >= _KNOWN:
            self._states.clear()
        state = self._states[path] = FileState(reading.stat(), digest)
        return state
