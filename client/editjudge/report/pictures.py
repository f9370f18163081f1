"""Pictures for a page: small, in one form, and called by a name that tells nothing."""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path

import pybase64
from PIL import Image as Pil

from ..base.errors import ImageError
from ..base.file_states import ABSENT, stat_of
from ..base.images import RGB, load_image

SIDE = 512
"""Pixels of the longer side of a thumbnail."""
_QUALITY = 80
_QUICK = 2
"""How long WebP's encoder looks for a smaller file, of 0 to 6."""
_NAME = 16
_AHEAD = 64


class PictureNames:
    """The pictures that a page may show, as they are once: no others are ever read for it.

    Attributes:
        files: By the name that the page knows; see `picture_name`.

    Args:
        files: Those of names that were made before, which stay known; nothing by default.
    """

    def __init__(self, files: dict[str, Path] | None = None) -> None:
        self.files: dict[str, Path] = {} if files is None else files
        self._names: dict[Path, str | None] = {}

    def name(self, file: Path | None) -> str | None:
        """What the page calls a picture; None where there is no such file."""
        if file is None:
            return None
        if file not in self._names:
            self._names[file] = name = name_picture(file)
            if name is not None:
                self.files[name] = file
        return self._names[file]


def name_picture(file: Path) -> str | None:
    """The name of a picture as it is now: another one as soon as it changes.

    Returns:
        16 hex digits of where the file lies, its size and its times; None where there is no file.
    """
    stat = stat_of(file)
    if stat == ABSENT:
        return None
    # A path may hold bytes that are no text.
    where = os.fsencode(file.absolute())
    return hashlib.sha256(where + stat).hexdigest()[:_NAME]


def make_thumbnail(file: Path, side: int = SIDE) -> bytes:
    """A picture as WebP, at most so large; never enlarged.

    Raises:
        ImageError: it cannot be read; see `load_image`.
    """
    return encode_thumbnail(load_image(file).rgb, side)


def encode_thumbnail(pixels: RGB, side: int = SIDE) -> bytes:
    """The same of pixels."""
    picture = Pil.fromarray(pixels)
    picture.thumbnail((side, side), Pil.Resampling.BICUBIC, reducing_gap=3.0)
    buffer = io.BytesIO()
    picture.save(buffer, "WEBP", quality=_QUALITY, method=_QUICK)
    return buffer.getvalue()


def to_data_uri(webp: bytes) -> str:
    """A thumbnail that needs no file."""
    return f"data:image/webp;base64,{pybase64.b64encode(webp).decode('ascii')}"


def make_thumbnails(
    files: Mapping[str, Path], keep: Callable[[str, bytes], None], side: int = SIDE
) -> Iterator[str | None]:
    """Make thumbnails on all cores, and hand each over as soon as it is made.

    Args:
        files: By name.
        keep: Gets the name and the WebP, one after another.

    Yields:
        After each, why it could not be made; None where it could.
    """

    def make_one(name: str) -> tuple[str, bytes | ImageError]:
        try:
            return name, make_thumbnail(files[name], side)
        except ImageError as error:
            return name, error

    remaining = iter(files)
    # In threads, for Pillow works without the interpreter's lock; few are held at once.
    with ThreadPoolExecutor(os.cpu_count() or 1, "thumbnails") as pool:
        while some := list(islice(remaining, _AHEAD)):
            for name, webp in pool.map(make_one, some):
                if isinstance(webp, ImageError):
                    yield str(webp)
                else:
                    keep(name, webp)
                    yield None
