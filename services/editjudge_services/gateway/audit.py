"""The audit log: a file with a line of JSON for each request, deleted by team and by age."""

import fcntl
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import BinaryIO

from editjudge.base.errors import ConfigError, StoreError
from editjudge.base.local_stack import private
from editjudge.base.terminal import print_notice

_TEAM = re.compile(rb'"team": "([^"]*)"')
"""The team in a line. Quotes within a value are escaped, so no other value can look like it."""
_TIME = b'{"time": "'
"""How a line begins; the time follows, in UTC, so that lines sort by it."""


class AuditLog:
    """The audit log, with one line of JSON for each request.

    The file is opened for each line, so log rotation may move it away at any time, and lines may be
    deleted from it (`delete_lines`). A line that cannot be written is lost, and the request is
    answered all the same.

    Args:
        where: The file. `-` is standard error; None turns the log off.
        on_loss: Called for each line that could not be written.

    Attributes:
        file: The file; None if lines go to standard error, or nowhere.

    Raises:
        ConfigError: the file cannot be written.
    """

    def __init__(self, where: Path | None, on_loss: Callable[[], None] = lambda: None) -> None:
        self._uses_stderr = str(where) == "-"
        self.file = None if self._uses_stderr else where
        self._on_loss = on_loss
        self._failing = False
        self._repeats: dict[tuple[str, ...], tuple[int, Callable[[int], str]]] = {}
        if self.file is not None:
            try:
                _append(self.file, "")
            except OSError as error:
                raise ConfigError(f"{where}: {error.strerror}", "give another file") from error

    def write(self, make_line: Callable[[], str]) -> None:
        """Append a line. Of several failures in a row only the first prints a notice."""
        if self._uses_stderr:
            print_notice(make_line())
        if self.file is None:
            return
        try:
            _append(self.file, f"{make_line()}\n")
        except OSError as error:
            if not self._failing:
                print_notice(f"{self.file}: lines of the audit log are lost: {error.strerror}")
            self._failing = True
            self._on_loss()
        else:
            self._failing = False

    def count(self, kind: tuple[str, ...], make_line: Callable[[int], str]) -> None:
        """Append the line of the first of a kind, and count those that come until the next flush.

        Args:
            make_line: Makes the line that stands for so many.
        """
        if kind in self._repeats:
            self._repeats[kind] = self._repeats[kind][0] + 1, make_line
        else:
            self._repeats[kind] = 0, make_line
            self.write(partial(make_line, 1))

    def flush(self) -> None:
        """Append a line for all that were counted, of each kind."""
        repeats, self._repeats = self._repeats, {}
        for number, make_line in repeats.values():
            if number:
                self.write(partial(make_line, number))


def find_logs(files: Iterable[Path]) -> tuple[list[Path], list[Path]]:
    """Find audit logs with what log rotation made of them: files whose names begin with theirs.

    Returns:
        The files that have lines, and those that do not, for example compressed ones.

    Raises:
        ConfigError: there is no such file.
    """
    logs: tuple[list[Path], list[Path]] = [], []
    for file in files:
        paths = [each for each in sorted(file.parent.glob("*")) if each.name.startswith(file.name)]
        if not paths:
            raise ConfigError(f"{file}: there is no such file", "give the --audit of the service")
        for path in filter(Path.is_file, paths):
            with path.open("rb") as log:
                logs[log.read(len(_TIME)) not in (_TIME, b"")].append(path)
    return logs


def count_lines(path: Path) -> Counter[str]:
    """Count the lines of each team."""
    with path.open("rb") as file:
        return Counter(name.decode() for line in file for name in set(_TEAM.findall(line)))


def delete_lines(path: Path, team: str | None, before_day: str | None) -> int:
    """Delete lines from an audit log; a Judge service may write to it meanwhile.

    The other lines are copied to a new file, which then takes the place of the old one. A line that
    was cut short has the team that it names, and no age: it goes with the first lines that do.

    Args:
        team: The team whose lines are deleted; None means all teams.
        before_day: Only lines of earlier days, in UTC (ISO 8601); None means all.

    Returns:
        The number of deleted lines.

    Raises:
        StoreError: the file cannot be written, or was moved away meanwhile.
    """
    end = None if before_day is None else _TIME + before_day.encode()
    name = None if team is None else team.encode()

    def is_deleted(line: bytes) -> bool:
        return (end is None or line < end) and (name is None or name in _TEAM.findall(line))

    count = 0
    for stale_copy in path.parent.glob(f".{path.name}.*.purge"):
        stale_copy.unlink(missing_ok=True)  # the other purge then fails, if it still runs
    copy = path.with_name(f".{path.name}.{os.getpid()}.purge")
    try:
        with path.open("rb") as old, open(copy, "wb", opener=private) as new:
            if name is None and not is_deleted(old.readline()):
                return 0  # the oldest line comes first
            old.seek(0)
            owner = os.fstat(old.fileno())
            os.fchmod(new.fileno(), owner.st_mode & 0o777)
            os.fchown(new.fileno(), owner.st_uid, owner.st_gid)
            # Who writes waits only while what was written meanwhile is copied.
            for lock in (fcntl.LOCK_UN, fcntl.LOCK_EX):
                fcntl.flock(old, lock)
                for line in _read_lines(old, to_end=lock == fcntl.LOCK_EX):
                    count += is_deleted(line)
                    new.write(b"" if is_deleted(line) else line)
                new.flush()
                os.fsync(new.fileno())
            if count and not os.path.samestat(owner, path.stat()):
                raise StoreError(f"{path}: it was moved away meanwhile", "ask again")
            if count:
                copy.replace(path)
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror}", "purge as its owner, with room") from error
    else:
        return count
    finally:
        copy.unlink(missing_ok=True)


def _read_lines(file: BinaryIO, *, to_end: bool) -> Iterator[bytes]:
    """Read lines; a last one that is still being written is left, unless to the end."""
    for line in file:
        if not (to_end or line.endswith(b"\n")):
            file.seek(-len(line), os.SEEK_CUR)
            break
        yield line


def _append(path: Path, text: str) -> None:
    """Append to a file, which is made where there is none, while nobody replaces it."""
    while True:
        with open(path, "ab", opener=private) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            # It may have been replaced or moved away before it was locked.
            if path.exists() and os.path.samestat(os.fstat(file.fileno()), path.stat()):
                file.write(text.encode())
                return
