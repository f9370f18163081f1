"""How everything that is named by its content is named."""

from __future__ import annotations

import hashlib
import os

DIGEST = 32
"""Bytes of a digest."""
_SHA256 = "sha256:"


def content_digest(data: bytes) -> str:
    """`sha256:` and 64 hex digits."""
    return _SHA256 + hashlib.sha256(data).hexdigest()


def digest_bytes(digest: str) -> bytes:
    """The 32 bytes that a digest of ours writes in hex."""
    return bytes.fromhex(digest.removeprefix(_SHA256))


def digest_text(digest: bytes) -> str:
    """What `digest_bytes` was given."""
    return f"{_SHA256}{digest.hex()}"


def file_digest(path: str | os.PathLike[str]) -> str:
    """The same of a file's bytes, read in pieces.

    Raises:
        OSError: it cannot be read.
    """
    with open(path, "rb") as file:  # noqa: PTH123 - a hundred thousand times
        return _SHA256 + hashlib.file_digest(file, "sha256").hexdigest()
