"""What a multimodal LLM is asked: system text, then text and labelled images in order.

Text from data (instructions, hints, texts to render) is marked as such: transports break what would
be a control token in it, so that an instruction holding `<|im_end|>` stays text.
"""

from __future__ import annotations

import io
import json
import math
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from threading import Lock
from typing import TypeAlias, TypeVar
from weakref import WeakKeyDictionary

import pybase64
from PIL import Image as Pil

from ..base.digest import content_digest
from ..base.images import Image

T = TypeVar("T")
MAX_KEPT = 16 * 1024 * 1024
"""Bytes of pictures that stay at hand for images that may be loaded again."""
RULE = "lanczos-down"
"""How images are made to fit: Lanczos, never enlarged, aspect ratio kept."""


@dataclass(frozen=True, eq=False)
class Picture:
    """One image, ready to be sent.

    Attributes:
        data: PNG, JPEG or WebP, without EXIF or other metadata.
        media_type: `image/png` and so on.
        size: Width and height in pixels, after resizing.
        name: How errors call it.
        known_digest: Of the data, where it was made before.
    """

    data: bytes
    media_type: str
    size: tuple[int, int]
    name: str = "image"
    known_digest: str = ""

    @property
    def digest(self) -> str:
        """`sha256:` and 64 hex digits, of the bytes that are sent; made once."""
        return self.known_digest or self._once("digest", lambda: content_digest(self.data))

    @property
    def url_head(self) -> bytes:
        """What comes before `base64()` in its data URL, in ASCII."""
        return f"data:{self.media_type};base64,".encode("ascii")

    def base64(self) -> bytes:
        """The data in base64, in ASCII; made anew, for keeping it would take more than making it.

        As text of JSON it holds nothing to escape.
        """
        return pybase64.b64encode(self.data)

    @property
    def url(self) -> str:
        """The data URL as text."""
        return (self.url_head + self.base64()).decode("ascii")

    @property
    def base64_size(self) -> int:
        """Bytes of `base64()`."""
        return (len(self.data) + 2) // 3 * 4

    @property
    def memory_bytes(self) -> int:
        """Bytes that it takes in memory."""
        return len(self.data)

    def ready(self) -> Picture:
        """Itself, with all made that keeps until it is sent."""
        _ = self.digest
        return self

    def _once(self, name: str, make: Callable[[], T]) -> T:
        # The lock of Python 3.11's `cached_property` is one for all pictures.
        values: dict[str, T] = vars(self)
        value = values[f"_{name}"] if f"_{name}" in values else make()
        return values.setdefault(f"_{name}", value)


class PictureCache:
    """Prepares images for one judge, each once; may be used from several threads.

    What is prepared stays at hand as long as its image does, and the latest beyond that.

    Args:
        max_pixels: Larger images are made smaller.
        kept: Bytes of prepared images that stay at hand.
    """

    def __init__(self, max_pixels: int, max_bytes: int = MAX_KEPT) -> None:
        self.max_pixels = max_pixels
        self._max_bytes = max_bytes
        self._stored_bytes = 0
        self._by_digest: OrderedDict[str, Picture] = OrderedDict()
        self._by_image: WeakKeyDictionary[Image, Picture] = WeakKeyDictionary()
        self._lock = Lock()

    @property
    def rule(self) -> str:
        """For signatures."""
        return f"{RULE}.{self.max_pixels}"

    def prepare(self, image: Image) -> Picture:
        """The image as it is sent; the same object for the same image."""
        digest = image.digest
        with self._lock:
            stored_picture = self._by_image.get(image) or self._by_digest.get(digest)
        # Outside the lock: two threads may both prepare an image, and the first one's stays.
        picture = stored_picture or _prepare(image, self.max_pixels)
        with self._lock:
            picture = self._by_image.setdefault(image, self._by_digest.get(digest, picture))
            self._store(digest, picture)
        return picture

    def _store(self, digest: str, picture: Picture) -> None:
        """Put it first, and let go of the last."""
        if digest not in self._by_digest:
            self._by_digest[digest] = picture
            self._stored_bytes += picture.memory_bytes
        self._by_digest.move_to_end(digest)
        while self._stored_bytes > self._max_bytes:
            self._stored_bytes -= self._by_digest.popitem(last=False)[1].memory_bytes


def parse_max_pixels(rule: str) -> int:
    """The `max_pixels` of the `Pictures` with this `rule`."""
    return int(rule.rpartition(".")[2])


def fit_size(size: tuple[int, int], max_pixels: int) -> tuple[int, int]:
    """The largest size of (about) the same aspect ratio within the budget; never larger."""
    width, height = size
    if width * height <= max_pixels:
        return size
    scale = math.sqrt(max_pixels / (width * height))
    width, height = max(1, math.floor(width * scale)), max(1, math.floor(height * scale))
    # A sliver whose shorter side was raised to one pixel.
    return (min(width, max_pixels), 1) if height == 1 else (width, min(height, max_pixels // width))


def _prepare(image: Image, max_pixels: int) -> Picture:
    size = fit_size(image.size, max_pixels)
    if size == image.size and image.media_type:
        return Picture(image.encoded_bytes, image.media_type, size, image.name, image.digest)
    picture = Pil.fromarray(image.rgb)
    if size != image.size:
        picture = picture.resize(size, Pil.Resampling.LANCZOS)
    buffer = io.BytesIO()
    picture.save(buffer, "PNG", compress_level=1)
    return Picture(buffer.getvalue(), "image/png", size, image.name)


@dataclass(frozen=True, slots=True)
class Text:
    """A run of text.

    Attributes:
        data: It comes from an item or a model, not from a template of ours.
    """

    text: str
    is_data: bool = False


Part: TypeAlias = "Text | Picture"


@dataclass(frozen=True)
class Prompt:
    """One question: a system turn and a user turn; the assistant's comes from the model.

    Attributes:
        system: Template text; empty for none.
        parts: The user turn, in order.
    """

    system: str
    parts: tuple[Part, ...]

    @property
    def pictures(self) -> tuple[Picture, ...]:
        """The images in order."""
        return tuple(part for part in self.parts if isinstance(part, Picture))

    @cached_property
    def digest(self) -> str:
        """`sha256:` and 64 hex digits of all that a model sees of it."""
        contents = [
            self.system,
            *([p.digest] if isinstance(p, Picture) else [p.text, p.is_data] for p in self.parts),
        ]
        return content_digest(json.dumps(contents, ensure_ascii=False).encode("utf-8"))

    @cached_property
    def prefix(self) -> str:
        """Digest of what comes up to the last image: prompts that share it share computing."""
        last = max((i for i, p in enumerate(self.parts) if isinstance(p, Picture)), default=-1)
        return (
            Prompt(self.system, self.parts[: last + 1]).digest
            if last + 1 < len(self.parts)
            else self.digest
        )

    def followed_by(self, *parts: Part) -> Prompt:
        """The same prompt with more at its end."""
        return Prompt(self.system, (*self.parts, *parts))


def break_control_tokens(text: str, control_tokens: Iterable[str]) -> str:
    """The text with a zero-width space after the first character of each control token."""
    for token in sorted(control_tokens, key=len, reverse=True):
        text = text.replace(token, token[0] + "\u200b" + token[1:])
    return text
