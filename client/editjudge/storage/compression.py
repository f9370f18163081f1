"""Compresses JSON documents by zlib, with a dictionary of lines that occur in many of them.

Prompts and evidence repeat each other. The first documents of a session become a dictionary, which
is stored in the file where it saves enough. A compressed document names its dictionary (the field
DICTID of zlib), so each document can be read alone.
"""

import json
import zlib
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from ..base.parse import parse_json

FIRST = 48
"""How many documents of a session are made into a dictionary."""
_WINDOW = 32 * 1024 - 512
"""Largest dictionary in bytes: zlib looks back no further."""
_ENOUGH = 0.85
"""A new dictionary is stored if documents shrink below this share of their former size."""
_DEFLATE_MARK, _NAMES_DICTIONARY = b"x", 0x20


def dumps(value: object) -> str:
    """Make JSON text without spaces; keys stay in their order.

    Raises:
        ValueError: a number is not finite.
    """
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


class Compressor:
    """Compresses and decompresses the documents of one file.

    Args:
        dictionaries: Reads the dictionaries of the file.
        keep: Stores a new dictionary; None where none may be made: a ledger can be purged, and
            a dictionary would retain texts of purged prompts.
    """

    def __init__(self, dictionaries: Callable[[], Iterable[bytes]], keep: Callable[[bytes], object] | None) -> None:
        self._read = dictionaries
        self._keep = keep
        self._dictionaries: dict[int, bytes] | None = None
        self._latest = b""
        self._samples: list[bytes] = []

    def forget(self) -> None:
        """Read the dictionaries again at the next use: the last one may have been rolled back."""
        self._dictionaries = None

    def compress(self, value: object) -> bytes:
        """Compress a JSON document.

        Raises:
            ValueError: a number is not finite.
        """
        data = dumps(value).encode("utf-8", "surrogatepass")
        if self._dictionaries is None:
            self._load()
        if self._keep is not None and len(self._samples) < FIRST:
            self._samples.append(data)
            if len(self._samples) == FIRST:
                self._add_dictionary(self._keep)
        return min(data, deflate(data, self._latest), key=len)

    def decompress(self, blob: bytes) -> Any:
        """Restore the document that `compress` was given.

        Raises:
            ValueError: the stored form is damaged, or of a newer editjudge.
        """
        try:
            data = self._inflate(blob) if blob[:1] == _DEFLATE_MARK else blob
            return parse_json(data.decode("utf-8", "surrogatepass"))
        except (zlib.error, IndexError, ValueError) as error:
            raise ValueError(f"stored text cannot be read: {error}") from error

    def _inflate(self, blob: bytes) -> bytes:
        if not blob[1] & _NAMES_DICTIONARY:
            return zlib.decompress(blob)
        name = int.from_bytes(blob[2:6], "big")
        if self._dictionaries is None or name not in self._dictionaries:
            self._load()  # another process may have kept it
        if self._dictionaries is None or name not in self._dictionaries:
            raise ValueError(f"its dictionary {name} is lost")
        inflating = zlib.decompressobj(zdict=self._dictionaries[name])
        data = inflating.decompress(blob)
        if not inflating.eof:
            raise ValueError("it is cut off")
        return data

    def _load(self) -> None:
        dictionaries = [zlib.decompress(one) for one in self._read()]
        self._dictionaries = {zlib.adler32(one): one for one in dictionaries}
        self._latest = dictionaries[-1] if dictionaries else b""

    def _add_dictionary(self, keep: Callable[[bytes], object]) -> None:
        """Store a dictionary of the first documents if it makes them enough smaller."""
        new = make_dictionary(self._samples)
        sizes = [sum(len(deflate(d, by)) for d in self._samples) for by in (self._latest, new)]
        if sizes[1] < _ENOUGH * sizes[0]:
            keep(zlib.compress(new, 9))
            self._dictionaries = {**(self._dictionaries or {}), zlib.adler32(new): new}
            self._latest = new


def make_dictionary(documents: Iterable[bytes]) -> bytes:
    """Join the distinct lines of documents; the most frequent come last, where zlib needs least."""
    lines = Counter(line for document in documents for line in document.split(b"\\n"))
    ordered_lines = sorted(lines, key=lambda line: (lines[line] > 1, lines[line] * len(line)))
    return b"\\n".join(ordered_lines)[-_WINDOW:]


def deflate(data: bytes, by: bytes) -> bytes:
    """Compress data by zlib, with a dictionary unless it is empty."""
    deflating = zlib.compressobj(9, zdict=by) if by else zlib.compressobj(9)
    return deflating.compress(data) + deflating.flush()
