"""Bodies of requests for rewards: JSON, or parts, with pictures."""

from collections.abc import AsyncIterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from aiohttp import web
from aiohttp.http_exceptions import BadHttpMessage
from aiohttp.multipart import BodyPartReader

from editjudge.base.digest import content_digest
from editjudge.base.parse import parse_json
from editjudge.base.threads import in_thread
from editjudge.rewards.json_reader import JsonReader
from editjudge.rewards.schema import MAX_PICTURES

from .bounds import MAX_PARTS, MAX_TEXT_BYTES, check_json
from .schemas import InvalidRequest

ROOM_OF_BATCH = 4
"""How many times as much a batch may hold beside pictures as one request."""
_QUOTE = ord('"')  # NumPy counts in an eighth of the time of `bytes.count`
_FEW_QUOTES = 256
"""A piece with more is read in a thread, as parts are: many that have arrived together would hold up the event loop."""
REQUEST_PART = "request"
"""The part of a multipart body that is JSON; every other part is a picture."""


class Body(NamedTuple):
    """The body of a request.

    Attributes:
        data: The JSON, in which the text of a picture may be replaced by a key of `pictures`.
        pictures: Digests and bytes of pictures, by keys that no caller can guess, or by the
            names of parts.
    """

    data: Any
    pictures: Mapping[str, tuple[str, bytes]]


async def read_body(request: web.Request, largest: int) -> Body:
    """Read the body of a request: JSON, or `multipart/mixed` of JSON and pictures.

    Args:
        largest: The bytes for which there is room.

    Raises:
        HTTPUnsupportedMediaType: it is neither.
        InputError: it is larger, or cannot be read.
    """
    is_multipart = request.content_type == "multipart/mixed"
    if not is_multipart and request.content_type != "application/json":
        raise web.HTTPUnsupportedMediaType(reason="send application/json, or multipart/mixed")
    if "content-encoding" in request.headers:
        raise InvalidRequest("body", "it has a content encoding", "send it without encodings")
    reader, size = JsonReader(ROOM_OF_BATCH * MAX_PARTS, ROOM_OF_BATCH * MAX_TEXT_BYTES), 0
    await send_continue(request)
    try:
        async for name, piece in _read_parts(request) if is_multipart else _read_pieces(request):
            size += len(piece)
            if size > largest:
                raise InvalidRequest("body", f"more than {largest:,} bytes", "say its content-length")
            if name != REQUEST_PART:
                reader.pictures[name] = await in_thread(content_digest, piece), piece
            elif is_multipart or np.count_nonzero(np.frombuffer(piece, np.uint8) == _QUOTE) > _FEW_QUOTES:
                await in_thread(reader.feed, piece)
            else:
                reader.feed(piece)
    except (web.RequestPayloadError, BadHttpMessage, ValueError) as error:
        raise InvalidRequest("body", f"it cannot be read: {error}", "send all of it") from error
    return await in_thread(_parse, reader)


async def _read_pieces(request: web.Request) -> AsyncIterator[tuple[str, bytes]]:
    async for piece in request.content.iter_any():
        yield REQUEST_PART, piece


async def _read_parts(request: web.Request) -> AsyncIterator[tuple[str, bytes]]:
    count = 0
    async for part in await request.multipart():
        if not isinstance(part, BodyPartReader):
            raise InvalidRequest("body", "a part has parts", "send pictures as parts")
        if (count := count + 1) > MAX_PICTURES + 1:
            raise InvalidRequest("body", f"more than {MAX_PICTURES:,} pictures", "send fewer edits")
        yield part.name or "", bytes(await part.read())


async def send_continue(request: web.Request) -> None:
    """Ask for the body of a caller that waits for that."""
    if request.headers.get("expect", "").lower() == "100-continue":
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.writer.output_size = 0  # the response has not begun


def _parse(reader: JsonReader) -> Body:
    try:
        text = reader.finish()
        check_json(text, ROOM_OF_BATCH)
        return Body(parse_json(text), reader.pictures)
    except ValueError as error:
        raise InvalidRequest("body", f"it is no JSON: {error}", "send JSON") from error
