"""Images as a multimodal LLM gets them: resized once to a budget, encoded once, reused."""

from __future__ import annotations

import base64
import io
import math
from collections import OrderedDict
from dataclasses import dataclass
from functools import cached_property
from threading import Lock
from weakref import WeakKeyDictionary

from PIL import Image as Pil

from ..base.digest import content_digest
from ..base.images import Image

RULE = "lanczos-down"
"""How images are made to fit: Lanczos, never enlarged, aspect ratio kept."""

_MEDIA_TYPES = {"PNG": "image/png", "JPEG": "image/jpeg", "WEBP": "image/webp"}
# What Pillow reads of a file that tells nothing about who made it, where or with what.
_HARMLESS = frozenset(
    {
        "jfif",
        "jfif_version",
        "jfif_unit",
        "jfif_density",
        "dpi",
        "progressive",
        "progression",
        "interlace",
        "loop",
        "background",
        "timestamp",
        "duration",
        "gamma",
        "srgb",
        "aspect",
    }
)


@dataclass(frozen=True, eq=False)
class Picture:
    """One image, ready to be sent.

    Attributes:
        data: PNG, JPEG or WebP, without EXIF or other metadata.
        media_type: `image/png` and so on.
        size: Width and height in pixels, after resizing.
        name: How errors call it.
    """

    data: bytes
    media_type: str
    size: tuple[int, int]
    name: str = "image"

    @cached_property
    def digest(self) -> str:
        """`sha256:` and 64 hex digits, of the bytes that are sent."""
        return content_digest(self.data)

    @cached_property
    def url(self) -> str:
        """The image as a data URL."""
        return f"data:{self.media_type};base64,{base64.b64encode(self.data).decode('ascii')}"

    @cached_property
    def json_url(self) -> bytes:
        """The data URL as a JSON string, made once: base64 holds nothing to escape."""
        return b'"' + self.url.encode("ascii") + b'"'


class Pictures:
    """Prepares images for one generalist, each once; may be used from several threads.

    What is prepared stays at hand as long as its image does, and the latest beyond that.

    Args:
        max_pixels: Larger images are made smaller.
        kept: How many prepared images stay at hand.
    """

    def __init__(self, max_pixels: int, kept: int = 64) -> None:
        self.max_pixels = max_pixels
        self._kept = kept
        self._made: OrderedDict[str, Picture] = OrderedDict()
        self._of: WeakKeyDictionary[Image, Picture] = WeakKeyDictionary()
        self._lock = Lock()

    @property
    def rule(self) -> str:
        """For signatures."""
        return f"{RULE}.{self.max_pixels}"

    def prepared(self, image: Image) -> Picture:
        """The image as it is sent; the same object for the same image."""
        with self._lock:
            known = self._of.get(image) or self._made.get(image.digest)
        # Outside the lock: two threads may both prepare an image, and the first one's stays.
        made = known or _prepare(image, self.max_pixels)
        with self._lock:
            made = self._of.setdefault(image, self._made.setdefault(image.digest, made))
            self._made.move_to_end(image.digest)
            if len(self._made) > self._kept:
                self._made.popitem(last=False)
        return made


def max_pixels_of(rule: str) -> int:
    """The `max_pixels` of the `Pictures` with this `rule`."""
    return int(rule.rpartition(".")[2])


def size_within(size: tuple[int, int], max_pixels: int) -> tuple[int, int]:
    """The largest size of (about) the same aspect ratio within the budget; never larger."""
    width, height = size
    if width * height <= max_pixels:
        return size
    scale = math.sqrt(max_pixels / (width * height))
    width, height = max(1, math.floor(width * scale)), max(1, math.floor(height * scale))
    # A sliver whose shorter side was raised to one pixel.
    return (min(width, max_pixels), 1) if height == 1 else (width, min(height, max_pixels // width))


def _prepare(image: Image, max_pixels: int) -> Picture:
    size = size_within(image.size, max_pixels)
    if size == image.size and (media_type := _as_it_is(image)):
        return Picture(image.encoded, media_type, size, image.name)
    picture = Pil.fromarray(image.rgb)
    if size != image.size:
        picture = picture.resize(size, Pil.Resampling.LANCZOS)
    buffer = io.BytesIO()
    picture.save(buffer, "PNG", compress_level=1)
    return Picture(buffer.getvalue(), "image/png", size, image.name)


def _as_it_is(image: Image) -> str | None:
    """The media type of an image whose own bytes can be sent, or None.

    Not those that were converted on the way (turned, flattened, reduced): the generalist would see
    another picture than the specialists. Not those with metadata.
    """
    if image.notes:
        return None
    with Pil.open(io.BytesIO(image.encoded)) as picture:
        picture.load()
        if picture.mode not in {"RGB", "L"} or set(picture.info) - _HARMLESS or picture.getexif():
            return None
        return _MEDIA_TYPES.get(str(picture.format))
