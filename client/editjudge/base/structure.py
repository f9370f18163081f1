"""What decoding a file would cost, read off its structure before it is decoded.

A decoder's work is bounded by bytes and pixels for every format but where a file may ask for the
same pixels again and again (scans of a JPEG), may come in countless tiny pieces, or is decoded by
Python code.
"""

from __future__ import annotations

import re

MAX_SCANS = 64
"""Of a JPEG; encoders write about ten, and each costs as much as the whole picture."""
MAX_PIECES = 1 << 18
"""Segments, chunks or blocks; 32 MiB in the longest blocks of a GIF are half as many."""
MAX_COMMENT = 1 << 20
"""Bytes of one comment of a GIF: Pillow's time grows with their square."""
MAX_SLOW = 8 * 1024 * 1024
"""Bytes of what Pillow decodes without C: numbers as text (PPM), run lengths (BMP)."""
MAX_REMARKS = 1000
"""In a picture of numbers as text, whose time grows with their square."""
_MARKER = re.compile(rb"\xff+([^\x00\xd0-\xd7\xff])")  # neither stuffing nor a restart
_START_OF_SCAN, _END_OF_IMAGE = 0xDA, 0xD9
_BARE = frozenset({0x01, 0xD8})
"""Markers of a JPEG without a segment; restarts are none of `_MARKER`."""


def check_structure(data: bytes) -> None:
    """Refuse a file that would take its decoder much longer than its size and its pixels say.

    Other formats, and what is damaged, pass: they are the decoder's business.

    Raises:
        ValueError: one line saying what there is too much of.
    """
    if data.startswith(b"\xff\xd8"):
        _check_jpeg(data)
    elif data.startswith((b"GIF87a", b"GIF89a")):
        _check_gif(data)
    elif data.startswith(b"\x89PNG\r\n\x1a\n"):
        _check_png(data)
    elif data.startswith((b"P1", b"P2", b"P3")):
        _check_slow(data, "numbers as text")
        if data.count(b"#") > MAX_REMARKS:
            raise ValueError(f"more than {MAX_REMARKS:,} comments")
    elif data.startswith(b"BM") and data[30:31] in {b"\x01", b"\x02"}:
        _check_slow(data, "run lengths")


def _check_slow(data: bytes, what: str) -> None:
    if len(data) > MAX_SLOW:
        raise ValueError(f"{len(data):,} bytes of {what}, the limit is {MAX_SLOW:,}")


def _check_jpeg(data: bytes) -> None:
    # Where the bytes of the marker are rare, there is no need to tell markers from what looks so.
    few = data.count(b"\xff\xda") <= MAX_SCANS
    scans = pieces = 0
    at = 2
    while marker := _MARKER.search(data, at):
        at, kind = marker.end(), marker[1][0]
        pieces += 1
        scans += kind == _START_OF_SCAN
        if pieces > MAX_PIECES:
            raise _in_pieces()
        if scans > MAX_SCANS:
            raise ValueError(f"more than {MAX_SCANS} scans")
        if kind == _END_OF_IMAGE or (few and scans):
            return
        if kind not in _BARE:
            at += int.from_bytes(data[at : at + 2])


def _check_gif(data: bytes) -> None:
    at = 13 + _colours(data, 10)
    pieces = 0
    while at < len(data):
        kind = data[at]
        if kind == 0x21:  # an extension, of a label and blocks
            comment, at = data[at + 1 : at + 2] == b"\xfe", at + 2
        elif kind == 0x2C:  # a frame, of 9 bytes, its colours, the size of a code and blocks
            comment, at = False, at + 11 + _colours(data, at + 9)
        elif kind == 0x3B:
            return
        else:
            at, pieces = at + 1, pieces + 1
            continue
        start = at
        while at < len(data) and data[at]:
            at, pieces = at + 1 + data[at], pieces + 1
            if pieces > MAX_PIECES:
                raise _in_pieces()
            if comment and at - start > MAX_COMMENT:
                raise ValueError(f"a comment of more than {MAX_COMMENT:,} bytes")
        at, pieces = at + 1, pieces + 1
        if pieces > MAX_PIECES:
            raise _in_pieces()


def _colours(data: bytes, at: int) -> int:
    """Bytes of the colour table that a GIF's flags announce."""
    flags = data[at] if at < len(data) else 0
    return 3 << ((flags & 7) + 1) if flags & 0x80 else 0


def _check_png(data: bytes) -> None:
    at = 8
    for _ in range(MAX_PIECES):
        if at >= len(data):
            return
        at += 12 + int.from_bytes(data[at : at + 4])
    raise _in_pieces()


def _in_pieces() -> ValueError:
    return ValueError(f"in more than {MAX_PIECES:,} pieces")
