"""What a request may hold beside its pictures, counted on its bytes before anything is parsed.

Parsers of messages and of JSON hold Python's lock and take up to a thousand times as much memory as
a request of many tiny parts. The counts here stop at the first excess and copy nothing.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from google.protobuf.message import DecodeError

from .schemas import InvalidRequest

MAX_PARTS = 32_768
"""How many parts a request has at most: fields and entries of lists, those within JSON included."""
MAX_TEXT_BYTES = 4 * 1024 * 1024
"""How many bytes of a request are no picture at most."""
_PICTURE, _PICTURE_FIELD = "editjudge.v1.Picture.data", b"data"
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FIXED_BYTES = {_FIXED64: 8, _FIXED32: 4}
_MAX_VARINT_BYTES = 10
_MARKS = (b",", b":", b"[", b"{")
"""The characters of JSON between strings of which each part has at least one."""
_ESCAPE, _ESCAPED_SLASH, _ESCAPED_QUOTE = b"\\", b"\\/", b'\\"'
_STEP_BYTES = 256 * 1024
_ESCAPED_QUOTES_IN_PART = 8
"""Each takes a step to find the end of its string, and a template may have many."""


def check_message(data: bytes, descriptor: Any) -> None:
    """Check the encoded message of a request.

    Args:
        descriptor: The descriptor of the message.

    Raises:
        InvalidRequest: it has too many parts or too much text. The error names the field where
            this shows.
        DecodeError: it is no message: it ends too early, has a group or a number that is too long.
    """
    _Message(data).check(descriptor)


class _Message:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._parts = self._pictures = 0

    def check(self, descriptor: Any) -> None:
        self._walk(0, len(self._data), descriptor, ())
        _check_text(len(self._data) - self._pictures, "request")

    def _walk(self, at: int, end: int, descriptor: Any, path: tuple[str, ...]) -> None:
        fields = descriptor.fields_by_number
        while at < end:
            tag, at = self._read_number(at, end)
            field, kind = fields.get(tag >> 3), tag & 7
            inner = (*path, field.name) if field else path
            self._parts += 1
            _check_parts(self._parts, inner)
            if kind == _VARINT:
                _, at = self._read_number(at, end)
                continue
            if kind == _BYTES:
                size, at = self._read_number(at, end)
            elif kind in _FIXED_BYTES:
                size = _FIXED_BYTES[kind]
            else:
                raise DecodeError  # a group, which proto3 does not have
            if at + size > end:
                raise DecodeError
            if kind == _BYTES and field is not None:
                self._enter(at, at + size, field, inner)
            at += size

    def _enter(self, at: int, end: int, field: Any, path: tuple[str, ...]) -> None:
        """Count what a field holds: a message, JSON or a picture."""
        if field.message_type is not None:
            self._walk(at, end, field.message_type, path)
        elif field.full_name == _PICTURE:
            self._pictures += end - at
        elif field.name.endswith("_json"):
            _check_text(end - at, _join(path))
            self._parts += sum(count for count, _ in _count_json(self._data[at:end]))
            _check_parts(self._parts, path)

    def _read_number(self, at: int, end: int) -> tuple[int, int]:
        value = 0
        for i, byte in enumerate(self._data[at : min(end, at + _MAX_VARINT_BYTES)]):
            value |= (byte & 0x7F) << (7 * i)
            if byte < 0x80:
                return value, at + i + 1
        raise DecodeError


def check_json(body: bytes, requests: int = 1) -> None:
    """Check the body of a request in JSON; one that is no JSON may pass.

    Args:
        requests: For how many requests of usual size there is room.

    Raises:
        InvalidRequest: it has too many parts or too much text.
    """
    parts = pictures = 0
    for count, size in _count_json(body):
        parts, pictures = parts + count, pictures + size
        _check_parts(parts, ("body",), requests)
    _check_text(len(body) - pictures, "body", requests)


def _count_json(body: bytes) -> Iterator[tuple[int, int]]:
    """Yield, up to the end of each string, how many parts there are and how long the picture is."""
    for count in _count(body, (_ESCAPED_QUOTE,), 0, len(body)):
        yield count // _ESCAPED_QUOTES_IN_PART, 0
    at, key = 0, b""
    for start, end in _strings(body):
        for count in _count(body, _MARKS, at, start):
            yield count, 0
        is_picture = key == _PICTURE_FIELD and (
            body.find(_ESCAPE, start, end) < 0
            or sum(_count(body, (_ESCAPE,), start, end)) == sum(_count(body, (_ESCAPED_SLASH,), start, end))
        )
        yield 1, end - start if is_picture else 0
        at, key = end, body[start : min(end, start + 2 * len(_PICTURE_FIELD))]
    for count in _count(body, _MARKS, at, len(body)):
        yield count, 0


def _count(body: bytes, marks: Iterable[bytes], at: int, end: int) -> Iterator[int]:
    """Count marks between two places, by steps: each holds Python's lock."""
    for start in range(at, end, _STEP_BYTES):
        yield sum(body.count(mark, start, min(start + _STEP_BYTES + len(mark) - 1, end)) for mark in marks)


def _strings(body: bytes) -> Iterator[tuple[int, int]]:
    """Yield where each string of a JSON text begins and ends, without its quotes."""
    start = body.find(b'"') + 1
    while start:
        begin, end = start, body.find(b'"', start)
        # A quote after an odd number of backslashes is a character of the string.
        while end > begin and body[end - 1 : end] == _ESCAPE:
            piece = body[begin:end]
            if (len(piece) - len(piece.rstrip(_ESCAPE))) % 2 == 0:
                break
            begin, end = end + 1, body.find(b'"', end + 1)
        if end < 0:
            return
        yield start, end
        start = body.find(b'"', end + 1) + 1


def _check_parts(parts: int, path: tuple[str, ...], requests: int = 1) -> None:
    if parts > (most := requests * MAX_PARTS):
        fix = "send fewer entries, or ask in several requests"
        raise InvalidRequest(_join(path), f"more than {most:,} parts", fix)


def _check_text(size: int, field: str, requests: int = 1) -> None:
    if size > (most := requests * MAX_TEXT_BYTES):
        fix = f"{most:,} are the most beside pictures"
        raise InvalidRequest(field, f"{size:,} bytes of text", fix)


def _join(path: tuple[str, ...]) -> str:
    """Name a field as in a request of its own, also where a stream wraps the request."""
    return ".".join(path).removeprefix("request.") or "request"
