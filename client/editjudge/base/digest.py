"""How everything that is named by its content is named."""

from __future__ import annotations

import hashlib
import os


def content_digest(data: bytes) -> str:
    """`sha256:` and 64 hex digits."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def file_digest(path: str | os.PathLike[str]) -> str:
    """The same of a file's bytes, read in pieces.

    Raises:
        OSError: it cannot be read.
    """
    with open(path, "rb") as file:  # noqa: PTH123 - a hundred thousand times
        return "sha256:" + hashlib.file_digest(file, "sha256").hexdigest()
