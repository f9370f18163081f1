"""The folder of a run: one file, and a lock that the system takes away with the process."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from filelock import FileLock, Timeout

from ..base.errors import ConfigError
from ..base.words import few

FILE = "run.sqlite"
_LOCK = "run.lock"


def no_run(folder: Path) -> ConfigError:
    """The error where a folder holds none; its mend names the runs in folders below."""
    below = [str(file.parent) for file in sorted(folder.glob(f"*/{FILE}"))]
    runs = f", such as {few(below)}" if below else ""
    return ConfigError(f"{folder} holds no run", f"give the folder of a run{runs}")


def lock(folder: Path, resources: ExitStack) -> None:
    """Hold a run until `resources` are closed, at the latest until the process ends.

    Raises:
        ConfigError: another process holds it, or the folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        resources.enter_context(FileLock(folder / _LOCK).acquire(timeout=0))
    except Timeout as error:
        raise ConfigError(
            f"{folder} is in use by another process", "wait for it, or end it"
        ) from error
    except (OSError, NotImplementedError) as error:
        raise ConfigError(f"{folder}: {error}", "give a folder that can be written") from error
