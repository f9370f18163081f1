"""SHA-256 digests of content."""

import hashlib
import os

from .objects import find_url, read_object

DIGEST = 32
"""Bytes of a digest."""
_SHA256 = "sha256:"
_PIECE, _SHORT = 2047, 65_536
"""From 2,048 bytes on hashlib gives up Python's lock, and an event loop waits to get it back."""


def content_digest(data: bytes) -> str:
    """The digest of bytes: `sha256:` and 64 hex digits."""
    if len(data) > _SHORT:
        return _SHA256 + hashlib.sha256(data).hexdigest()
    digest = hashlib.sha256()
    for at in range(0, len(data), _PIECE):
        digest.update(data[at : at + _PIECE])
    return _SHA256 + digest.hexdigest()


def digest_bytes(digest: str) -> bytes:
    """Decode a digest, with or without `sha256:`, to its 32 bytes."""
    return bytes.fromhex(digest.removeprefix(_SHA256))


def digest_text(digest: bytes) -> str:
    """Encode the 32 bytes of a digest as `sha256:` and hex digits."""
    return f"{_SHA256}{digest.hex()}"


def file_digest(path: str | os.PathLike[str]) -> str:
    """The digest of a file, which is read in pieces.

    Raises:
        OSError: the file cannot be read.
    """
    if url := find_url(path):
        return content_digest(read_object(url))
    with open(path, "rb") as file:  # noqa: PTH123 - a hundred thousand times
        return _SHA256 + hashlib.file_digest(file, "sha256").hexdigest()
