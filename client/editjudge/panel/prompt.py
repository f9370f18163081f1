"""A prompt for a multimodal LLM: system text, then text and labelled images in order.

Text from data (instructions, hints, texts to render) is marked as such. Transports break what would
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
from typing import Any, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

import pybase64
from PIL import Image as Pil

from ..base.digest import content_digest
from ..base.images import Image
from ..base.threads import in_thread

MAX_KEPT = 16 * 1024 * 1024
"""Bytes of pictures that are stored although their image is gone: it may be loaded again."""
PIXELS_PER_TOKEN = 32 * 32
"""About as many pixels of a picture are one token."""
_SHORT_CHARACTERS = 8192
_SLACK_BYTES = 64 * 1024
"""Of a file beside eight bytes a pixel; one that is larger still is not sent as it is."""
T = TypeVar("T")
_ENCODER = json.JSONEncoder(ensure_ascii=False)
RULE = "lanczos-down"
"""How images are resized: Lanczos, never enlarged, with the same aspect ratio."""


@dataclass(frozen=True, eq=False)
class Picture:
    """One image, encoded to be sent.

    Attributes:
        data: PNG, JPEG or WebP, without EXIF or other metadata.
        media_type: `image/png` and so on.
        size: Width and height in pixels, after resizing.
        name: The name in errors.
        digest: Digest of `data`, `sha256:` and 64 hex digits; computed unless it is given.
    """

    data: bytes
    media_type: str
    size: tuple[int, int]
    name: str = "image"
    digest: str = ""

    def __post_init__(self) -> None:
        if not self.digest:
            object.__setattr__(self, "digest", content_digest(self.data))

    @property
    def url_head(self) -> bytes:
        """The beginning of its data URL, up to `base64()`, in ASCII."""
        return f"data:{self.media_type};base64,".encode("ascii")

    def base64(self) -> bytes:
        """The data in base64, in ASCII. As text of JSON nothing in it needs escaping.

        It is made at each call: storing it would cost more memory than making it costs time.
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


class PictureCache:
    """Prepares images for one judge, each image once.

    A picture is stored as long as its image is in memory, and the latest pictures longer than that.
    All methods may be called from several threads: two that prepare the same image get the same
    picture.

    Args:
        max_pixels: Larger images are made smaller.
        max_bytes: Bytes of pictures that are stored although their image is gone.
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
        """The rule by which images are resized, for signatures."""
        return f"{RULE}.{self.max_pixels}"

    def prepare(self, image: Image) -> Picture:
        """The picture of an image; the same object for the same image."""
        digest = image.digest
        with self._lock:
            stored_picture = self._by_image.get(image) or self._by_digest.get(digest)
        # Outside the lock: two threads may both prepare an image; the first picture is stored.
        picture = stored_picture or _prepare(image, self.max_pixels)
        with self._lock:
            picture = self._by_image.setdefault(image, self._by_digest.get(digest, picture))
            self._store(digest, picture)
        return picture

    def _store(self, digest: str, picture: Picture) -> None:
        """Store a picture as the latest, and drop the oldest beyond `max_bytes`."""
        if digest not in self._by_digest:
            self._by_digest[digest] = picture
            self._stored_bytes += picture.memory_bytes
        self._by_digest.move_to_end(digest)
        while self._stored_bytes > self._max_bytes:
            self._stored_bytes -= self._by_digest.popitem(last=False)[1].memory_bytes


def parse_max_pixels(rule: str) -> int:
    """The `max_pixels` in a `PictureCache.rule`."""
    return int(rule.rpartition(".")[2])


def fit_size(size: tuple[int, int], max_pixels: int) -> tuple[int, int]:
    """The largest size within a number of pixels, of about the same aspect ratio; never enlarged.

    Args:
        size: Width and height in pixels.
        max_pixels: The most pixels.
    """
    width, height = size
    if width * height <= max_pixels:
        return size
    scale = math.sqrt(max_pixels / (width * height))
    width, height = max(1, math.floor(width * scale)), max(1, math.floor(height * scale))
    # A sliver whose shorter side was raised to one pixel.
    return (min(width, max_pixels), 1) if height == 1 else (width, min(height, max_pixels // width))


def _prepare(image: Image, max_pixels: int) -> Picture:
    size = fit_size(image.size, max_pixels)
    is_padded = len(image.encoded_bytes) > _SLACK_BYTES + 8 * size[0] * size[1]
    if size == image.size and image.media_type and not is_padded:
        return Picture(image.encoded_bytes, image.media_type, size, image.name, image.digest)
    picture = Pil.fromarray(image.rgb)
    if size != image.size:
        picture = picture.resize(size, Pil.Resampling.LANCZOS)
    buffer = io.BytesIO()
    picture.save(buffer, "PNG", compress_level=1)
    return Picture(buffer.getvalue(), "image/png", size, image.name)


@dataclass(frozen=True, slots=True)
class Text:
    """A run of text in a prompt.

    Attributes:
        text: The text.
        is_data: Whether it comes from an item or a model, and not from a template.
    """

    text: str
    is_data: bool = False


Part: TypeAlias = "Text | Picture"


@dataclass(frozen=True)
class Prompt:
    """One question: a system turn and a user turn.

    Attributes:
        system: System text; empty for none.
        parts: The user turn, in order.
    """

    system: str
    parts: tuple[Part, ...]

    @property
    def pictures(self) -> tuple[Picture, ...]:
        """The images in order."""
        return tuple(part for part in self.parts if isinstance(part, Picture))

    async def work(self, work: Callable[..., T], *args: Any) -> T:
        """Run a function of the prompt; in a thread where its texts are long."""
        return work(*args) if self._is_short else await in_thread(work, *args)

    @cached_property
    def _is_short(self) -> bool:
        length = sum(len(part.text) for part in self.parts if isinstance(part, Text))
        return len(self.system) + length <= _SHORT_CHARACTERS

    @cached_property
    def digest(self) -> str:
        """Digest of all that a model sees of it: `sha256:` and 64 hex digits."""
        parts = ([p.digest] if isinstance(p, Picture) else [p.text, p.is_data] for p in self.parts)
        text = _ENCODER.encode([self.system, *parts])
        return content_digest(text.encode("utf-8"))

    @cached_property
    def prefix(self) -> str:
        """Digest of the prompt up to the last image: equal prefixes can share a prefix cache."""
        last = max((i for i, p in enumerate(self.parts) if isinstance(p, Picture)), default=-1)
        end = last + 1
        return self.digest if end == len(self.parts) else Prompt(self.system, self.parts[:end]).digest

    @property
    def source(self) -> str:
        """Digest of the first image, 64 hex digits; empty without images.

        Prompts about edits of one source share it, whatever was made of the source.
        """
        return self.pictures[0].digest.rpartition(":")[2] if self.pictures else ""

    def followed_by(self, *parts: Part) -> Prompt:
        """The same prompt with more parts at its end."""
        return Prompt(self.system, (*self.parts, *parts))


def break_token(token: str) -> str:
    """The token with a zero-width space (U+200B) after its first character."""
    return token[0] + "\u200b" + token[1:]


def break_control_tokens(text: str, control_tokens: Iterable[str]) -> str:
    """The text with each control token broken."""
    for token in sorted(control_tokens, key=len, reverse=True):
        text = text.replace(token, break_token(token))
    return text
