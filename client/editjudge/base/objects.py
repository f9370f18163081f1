"""Files in object stores by fsspec: `s3://bucket/key` and `gs://bucket/key`.

Within the package such a URL is the path `/s3:/bucket/key`, so that names, suffixes and folders are
those of any path. A folder is listed once, which tells the states of all its files.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from hashlib import blake2b
from pathlib import Path, PurePosixPath
from threading import RLock
from typing import Any, NamedTuple

from .errors import MissingExtra
from .text import one_line

SCHEMES = ("s3", "gs")
"""The object stores, by the beginning of their URLs."""
EXTRA = "objects"
_URL = re.compile(rf"/?({'|'.join(SCHEMES)}):/+(.*)", re.DOTALL)
# What tells one content of an object from another, in S3 and in Google's store.
_VERSIONS = ("ETag", "etag")
_FOLDERS: dict[str, dict[str, ObjectState] | None] = {}
_LOCK = RLock()


class ObjectState(NamedTuple):
    """What a store says of an object.

    Attributes:
        version: Digest of 8 bytes, equal while the object has the same content; empty for a folder.
        size: In bytes.
    """

    version: bytes
    size: int


def to_path(path: str | Path) -> Path:
    """The path that stands for a URL; any other path as it is."""
    match = _URL.fullmatch(str(path))
    return Path(f"/{match[1]}:/{match[2]}") if match else Path(path)


def find_url(path: str | os.PathLike[str]) -> str:
    """The URL that a path of `to_path` stands for; "" for a file of this machine."""
    text = os.fspath(path)
    match = _URL.fullmatch(text) if ":/" in text else None  # most have none
    return f"{match[1]}://{match[2]}" if match else ""


def read_object(url: str) -> bytes:
    """Read an object.

    Raises:
        OSError: it cannot be read, with the reason as its `strerror`.
    """
    return bytes(_ask(url, "cat_file"))


def get_object_state(url: str, *, fresh: bool = False) -> ObjectState:
    """Get the state of an object.

    Args:
        fresh: Ask for it alone; by default as it was when its folder was listed.

    Raises:
        OSError: there is no such object, or the store does not tell.
    """
    folder, _, name = url.rpartition("/")
    states = None if fresh else _list_folder(folder)
    state = _read_state(_ask(url, "info")) if states is None else states.get(name)
    if state is None or not state.version:
        raise FileNotFoundError(errno.ENOENT, "no such object", url)
    if fresh and (states := _FOLDERS.get(folder)) is not None:
        states[name] = state
    return state


def list_objects(url: str) -> Iterator[str]:
    """Yield the names of all objects below a folder, relative to it.

    Raises:
        OSError: a folder cannot be listed.
    """
    states = _list_folder(url.rstrip("/"))
    if states is None:
        _ask(url, "ls")
    for name, state in (states or {}).items():
        if state.version:
            yield name
        else:
            yield from (f"{name}/{below}" for below in list_objects(f"{url.rstrip('/')}/{name}"))


def forget_listings() -> None:
    """Have folders listed again, as they are now."""
    with _LOCK:
        _FOLDERS.clear()


def _list_folder(url: str) -> dict[str, ObjectState] | None:
    """List a folder, at most once; None where it may not be listed."""
    with _LOCK:
        if url not in _FOLDERS:
            entries: list[dict[str, Any]] | None = []
            with suppress(FileNotFoundError):
                try:
                    entries = _ask(url, "ls", detail=True)
                except PermissionError:
                    entries = None
            states = ((PurePosixPath(one["name"]).name, _read_state(one)) for one in entries or ())
            _FOLDERS[url] = None if entries is None else dict(states)
        return _FOLDERS[url]


def _read_state(entry: Mapping[str, Any]) -> ObjectState:
    if entry["type"] == "directory":
        return ObjectState(b"", 0)
    version = next(entry[name] for name in _VERSIONS if name in entry)
    size = int(entry["size"])
    return ObjectState(blake2b(f"{version} {size}".encode(), digest_size=8).digest(), size)


def _ask(url: str, method: str, **options: Any) -> Any:
    scheme, _, path = url.partition("://")
    store = _connect(scheme)
    try:
        return getattr(store, method)(path, **options)
    except FileNotFoundError as error:
        raise FileNotFoundError(errno.ENOENT, "no such object", url) from error
    except PermissionError as error:
        raise PermissionError(errno.EACCES, "no permission", url) from error
    except Exception as error:  # each store's package has kinds of its own
        raise OSError(errno.EIO, f"{type(error).__name__}: {one_line(error)}", url) from error


@cache
def _connect(scheme: str) -> Any:
    """Connect to a store, by the credentials of its own environment variables and files.

    Raises:
        MissingExtra: its packages are not installed.
    """
    try:
        import fsspec

        return fsspec.filesystem(scheme, use_listings_cache=False)
    except ImportError as error:
        raise MissingExtra(f"{scheme}:// paths", EXTRA) from error
