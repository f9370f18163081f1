"""Takes pictures out of JSON while it arrives.

A batch may have a gigabyte. Its text is never in memory as a whole, and pictures that are sent
several times are held once.
"""

import binascii
import re
import secrets

import pybase64

from ..base.digest import content_digest
from ..base.errors import InputError
from ..base.images import MAX_BYTES

_SHORTEST = 1024
"""Characters of the shortest text that is taken out as a picture."""
_LONGEST = MAX_BYTES // 3 * 4 + 1024
_HEAD = re.compile(rb"data:image/[a-z.+-]{1,20};base64,")
_PICTURE = re.compile(rb"\x89PNG|\xff\xd8|RIFF|GIF8|BM|II\*\0|MM\0\*|P[1-6]\s")
"""How pictures begin: an instruction in one word of a thousand letters must stay one."""


class JsonReader:
    """Reads JSON piece by piece, and takes out long texts that are base64.

    Args:
        most_texts: How many texts there may be.
        most_bytes: How many bytes there may be beside pictures.

    Attributes:
        pictures: Digests and bytes of the pictures, by keys that no caller can guess.
    """

    def __init__(self, most_texts: int, most_bytes: int) -> None:
        self._most_texts, self._most_bytes = most_texts, most_bytes
        self._key = secrets.token_hex()
        self._text = bytearray()
        self._string: bytearray | None = None
        self._piece_start = 0
        self._count = 0
        self._by_size: dict[int, tuple[str, bytes]] = {}
        self.pictures: dict[str, tuple[str, bytes]] = {}

    def feed(self, piece: bytes) -> None:
        """Read a piece.

        Raises:
            InputError: there are too many texts, too many bytes of them, or one is too long.
        """
        at, view = 0, memoryview(piece)
        while at < len(piece):
            end = piece.find(b'"', at)
            part = view[at : end if end >= 0 else len(piece)]
            at = len(piece) if end < 0 else end + 1
            if self._string is None:
                self._add_text(part)
                self._string, self._piece_start = bytearray() if end >= 0 else None, 0
                continue
            self._string += part
            if len(self._string) > _LONGEST:
                raise InputError("body", "a text is too long", f"{_LONGEST:,} are the most")
            if end < 0:
                continue
            if self._string.endswith(b"\\"):
                # From the last quote on: a text of megabytes may have a quote at every other character.
                last = self._string[self._piece_start :]
                if (len(last) - len(last.rstrip(b"\\"))) % 2:
                    self._string += b'"'
                    self._piece_start = len(self._string)
                    continue
            self._count += 1
            if self._count > self._most_texts:
                raise InputError("body", f"more than {self._most_texts:,} texts", "send less")
            self._add_text(b'"' + self._take_out(self._string) + b'"')
            self._string = None

    def finish(self) -> bytes:
        """Return the JSON, in which texts of pictures are keys of `pictures`.

        Raises:
            InputError: it ends within a text.
        """
        if self._string is not None:
            raise InputError("body", "it is no JSON: it ends too early", "send all of it")
        return bytes(self._text)

    def _add_text(self, text: bytes | bytearray | memoryview) -> None:
        self._text += text
        if len(self._text) > self._most_bytes:
            raise InputError("body", "too much text", f"{self._most_bytes:,} bytes are the most beside pictures")

    def _take_out(self, text: bytearray) -> bytes | bytearray:
        # No copy is made of a text on the way: it may have megabytes.
        if len(text) < _SHORTEST:
            return text
        head = _HEAD.match(text)
        try:
            plain_text = text.replace(b"\\/", b"/") if b"\\" in text else text
            picture = pybase64.b64decode(memoryview(plain_text)[head.end() if head else 0 :], validate=True)
        except binascii.Error:
            return text
        if not _PICTURE.match(picture):
            return text
        # To compare costs a tenth of a digest, and each source comes with all its edits.
        same_digest, same = self._by_size.get(len(picture), ("", b""))
        digest = same_digest if same == picture else content_digest(picture)
        key = f"{self._key} {digest}"
        self._by_size[len(picture)] = self.pictures.setdefault(key, (digest, picture))
        return key.encode()
