"""Makes the pictures of a page: small WebP files under names that reveal nothing."""

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
    """Names the pictures that a page may show; no other files are read for it.

    Attributes:
        files: Picture files by their names on the page; see `name_picture`.

    Args:
        find_name: Finds the name of a file; None where it has none and is not shown.
    """

    def __init__(self, find_name: Callable[[Path], str | None] | None = None) -> None:
        self.files: dict[str, Path] = {}
        self._find_name = find_name or name_picture
        self._names: dict[Path, str | None] = {}

    def name(self, file: Path | None) -> str | None:
        """Return the name of a picture on the page; None where there is no such file."""
        if file is None:
            return None
        if file not in self._names:
            self._names[file] = name = self._find_name(file)
            if name is not None:
                self.files[name] = file
        return self._names[file]


def name_picture(file: Path) -> str | None:
    """Name a picture by its current state: a file that changes gets another name.

    Returns:
        16 hex digits of a digest over path, size and times; None where there is no file.
    """
    stat = stat_of(file)
    if stat == ABSENT:
        return None
    # A path may hold bytes that are not text.
    where = os.fsencode(file.absolute())
    return hashlib.sha256(where + stat).hexdigest()[:_NAME]


def make_thumbnail(file: Path, side: int = SIDE) -> bytes:
    """Read a picture and encode it as WebP, its longer side at most `side` pixels.

    Raises:
        ImageError: the file cannot be read; see `load_image`.
    """
    return encode_thumbnail(load_image(file).rgb, side)


def encode_thumbnail(pixels: RGB, side: int = SIDE) -> bytes:
    """Encode pixels as WebP, the longer side at most `side` pixels; never enlarges."""
    picture = Pil.fromarray(pixels)
    picture.thumbnail((side, side), Pil.Resampling.BICUBIC, reducing_gap=3.0)
    buffer = io.BytesIO()
    picture.save(buffer, "WEBP", quality=_QUALITY, method=_QUICK)
    return buffer.getvalue()


def to_data_uri(webp: bytes) -> str:
    """Return a thumbnail as a data URI."""
    return f"data:image/webp;base64,{pybase64.b64encode(webp).decode('ascii')}"


def make_thumbnails(
    files: Mapping[str, Path], save: Callable[[str, bytes], None], side: int = SIDE
) -> Iterator[str | None]:
    """Make thumbnails on all cores and hand each over as soon as it is made.

    Args:
        files: Picture files by name.
        save: Receives the name and the WebP of each, one after another.

    Yields:
        For each picture why it could not be made; None where it could.
    """

    def make_one(name: str) -> tuple[str, bytes | ImageError]:
        try:
            return name, make_thumbnail(files[name], side)
        except ImageError as error:
            return name, error

    remaining = iter(files)
    # Threads suffice since Pillow releases the interpreter's lock; few pictures are held at once.
    with ThreadPoolExecutor(os.cpu_count() or 1, "thumbnails") as pool:
        while some := list(islice(remaining, _AHEAD)):
            for name, webp in pool.map(make_one, some):
                if isinstance(webp, ImageError):
                    yield str(webp)
                else:
                    save(name, webp)
                    yield None
