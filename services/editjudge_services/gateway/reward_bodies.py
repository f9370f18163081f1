"""Bodies of requests for rewards: pictures are taken out of them while they arrive.

A batch may have a gigabyte. Its text is never in memory as a whole, and pictures that are sent
several times are held once.
"""

from __future__ import annotations

import binascii
import re
import secrets
from collections.abc import Mapping
from typing import Any, NamedTuple

import pybase64
from aiohttp import web
from aiohttp.multipart import BodyPartReader

from editjudge.base.digest import content_digest
from editjudge.base.images import MAX_BYTES
from editjudge.base.parse import parse_json

from .bounds import MAX_PARTS, check_json
from .schemas import InvalidRequest

ROOM_OF_BATCH = 4
"""How many times as much a batch may hold beside pictures as one request."""
REQUEST_PART = "request"
"""The part of a multipart body that is JSON; every other part is a picture."""
_SHORTEST = 1024
"""Characters of the shortest text that is taken out as a picture."""
_LONGEST = MAX_BYTES // 3 * 4 + 1024
_HEAD = re.compile(rb"data:image/[a-z.+-]{1,20};base64,")
_PICTURE = re.compile(rb"\x89PNG|\xff\xd8|RIFF|GIF8|BM|II\*\0|MM\0\*|P[1-6]\s")
"""How pictures begin: an instruction in one word of a thousand letters must stay one."""


class Body(NamedTuple):
    """The body of a request.

    Attributes:
        data: The JSON, in which the text of a picture may be replaced by a key of `pictures`.
        pictures: Digests and bytes of pictures, by keys that no caller can guess, or by the
            names of parts.
    """

    data: Any
    pictures: Mapping[str, tuple[str, bytes]]


class JsonReader:
    """Reads JSON piece by piece, and takes out long texts that are base64."""

    def __init__(self) -> None:
        self._key = secrets.token_hex()
        self._text = bytearray()
        self._string: bytearray | None = None
        self._count = 0
        self.pictures: dict[str, tuple[str, bytes]] = {}

    def feed(self, piece: bytes) -> None:
        """Read a piece.

        Raises:
            InvalidRequest: there are too many texts, or one is too long.
        """
        at = 0
        while at < len(piece):
            end = piece.find(b'"', at)
            part = piece[at : end if end >= 0 else len(piece)]
            at = len(piece) if end < 0 else end + 1
            if self._string is None:
                self._text += part
                self._string = bytearray() if end >= 0 else None
                continue
            self._string += part
            if len(self._string) > _LONGEST:
                raise InvalidRequest("body", "a text is too long", f"{_LONGEST:,} are the most")
            if end < 0:
                continue
            marks = len(self._string) - len(self._string.rstrip(b"\\"))
            if marks % 2:
                self._string += b'"'
                continue
            self._count += 1
            if self._count > ROOM_OF_BATCH * MAX_PARTS:
                raise InvalidRequest("body", f"more than {self._count - 1:,} texts", "send less")
            self._text += b'"%b"' % self._take_out(bytes(self._string))
            self._string = None

    def finish(self) -> Body:
        """Parse what is left.

        Raises:
            InvalidRequest: it is no JSON, or has too many parts or too much text.
        """
        check_json(bytes(self._text), ROOM_OF_BATCH)
        if self._string is not None:
            raise InvalidRequest("body", "it is no JSON: it ends too early", "send all of it")
        try:
            return Body(parse_json(bytes(self._text)), self.pictures)
        except ValueError as error:
            raise InvalidRequest("body", f"it is no JSON: {error}", "send JSON") from error

    def _take_out(self, text: bytes) -> bytes:
        if len(text) < _SHORTEST:
            return text
        head = _HEAD.match(text)
        try:
            base64_text = text[head.end() if head else 0 :].replace(b"\\/", b"/")
            picture = pybase64.b64decode(base64_text, validate=True)
        except binascii.Error:
            return text
        if not _PICTURE.match(picture):
            return text
        digest = content_digest(picture)
        key = f"{self._key} {digest}"
        self.pictures.setdefault(key, (digest, picture))
        return key.encode()


async def read_body(request: web.Request, largest: int) -> Body:
    """Read the body of a request: JSON, or `multipart/mixed` of JSON and pictures.

    Args:
        largest: The bytes for which there is room.

    Raises:
        HTTPUnsupportedMediaType: it is neither.
        InvalidRequest: it is larger, or cannot be read.
    """
    is_multipart = request.content_type == "multipart/mixed"
    if not is_multipart and request.content_type != "application/json":
        reason = "send application/json, or multipart/mixed"
        raise web.HTTPUnsupportedMediaType(reason=reason)
    if "content-encoding" in request.headers:
        raise InvalidRequest("body", "it has a content encoding", "send it without encodings")
    reader, size = JsonReader(), 0
    await send_continue(request)
    try:
        if not is_multipart:
            async for piece in request.content.iter_any():
                size += len(piece)
                _check_size(size, largest)
                reader.feed(piece)
            return reader.finish()
        async for part in await request.multipart():
            if not isinstance(part, BodyPartReader):
                raise InvalidRequest("body", "a part has parts", "send pictures as parts")
            data = bytes(await part.read())
            size += len(data)
            _check_size(size, largest)
            if part.name == REQUEST_PART:
                reader.feed(data)
            else:
                reader.pictures[part.name or ""] = content_digest(data), data
    except (web.RequestPayloadError, ValueError) as error:
        raise InvalidRequest("body", f"it cannot be read: {error}", "send all of it") from error
    return reader.finish()


async def send_continue(request: web.Request) -> None:
    """Ask for the body of a caller that waits for that."""
    if request.headers.get("expect", "").lower() == "100-continue":
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.writer.output_size = 0  # the response has not begun


def _check_size(size: int, largest: int) -> None:
    if size > largest:
        raise InvalidRequest("body", f"more than {largest:,} bytes", "say its content-length")
