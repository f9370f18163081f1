"""JSON in its stored form: deflated with a dictionary of what comes again and again.

Prompts and evidence repeat each other. The first documents of a session become a dictionary, which
is kept in the file where it saves enough. A deflated text names its dictionary by itself (the field
DICTID of zlib), so each can be read alone.
"""

from __future__ import annotations

import json
import zlib
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from ..base.parse import parse_json

FIRST = 48
"""How many documents of a session a dictionary is made of."""
_WINDOW = 32 * 1024 - 512
"""Bytes that zlib looks back."""
_ENOUGH = 0.85
"""The share of its former size at which a dictionary is worth its place."""
_DEFLATED, _NAMES_DICTIONARY = b"x", 0x20


def dumps(value: object) -> str:
    """JSON text without spaces; the order of keys is kept.

    Raises:
        ValueError: a number is not finite.
    """
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


class Compressor:
    """Packs and unpacks the documents of a file.

    Args:
        dictionaries: Reads those that the file holds.
        keep: Keeps one more; None where none is to be made: what is purged must leave nothing.
    """

    def __init__(
        self, dictionaries: Callable[[], Iterable[bytes]], keep: Callable[[bytes], None] | None
    ) -> None:
        self._read = dictionaries
        self._keep = keep
        self._dictionaries: dict[int, bytes] | None = None
        self._latest = b""
        self._first_documents: list[bytes] = []

    def forget(self) -> None:
        """Read the dictionaries anew: one that was kept last may have been rolled back."""
        self._dictionaries = None

    def compress(self, value: object) -> bytes:
        """A document in its stored form.

        Raises:
            ValueError: a number is not finite.
        """
        data = dumps(value).encode("utf-8", "surrogatepass")
        if self._dictionaries is None:
            self._load()
        if self._keep is not None and len(self._first_documents) < FIRST:
            self._first_documents.append(data)
            if len(self._first_documents) == FIRST:
                self._add_dictionary(self._keep)
        return min(data, deflate(data, self._latest), key=len)

    def decompress(self, blob: bytes) -> Any:
        """What `pack` was given.

        Raises:
            ValueError: the stored form is damaged, or of a newer editjudge.
        """
        try:
            data = self._inflate(blob) if blob[:1] == _DEFLATED else blob
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

    def _add_dictionary(self, keep: Callable[[bytes], None]) -> None:
        """Keep a dictionary of the first documents where it makes them smaller."""
        candidate = make_dictionary(self._first_documents)
        sizes = [
            sum(len(deflate(d, by)) for d in self._first_documents)
            for by in (self._latest, candidate)
        ]
        if sizes[1] < _ENOUGH * sizes[0]:
            keep(zlib.compress(candidate, 9))
            self._dictionaries = {**(self._dictionaries or {}), zlib.adler32(candidate): candidate}
            self._latest = candidate


def make_dictionary(documents: Iterable[bytes]) -> bytes:
    """The lines of documents, each once; the most frequent stand last, where they cost least."""
    lines = Counter(line for document in documents for line in document.split(b"\\n"))
    ordered_lines = sorted(lines, key=lambda line: (lines[line] > 1, lines[line] * len(line)))
    return b"\\n".join(ordered_lines)[-_WINDOW:]


def deflate(data: bytes, by: bytes) -> bytes:
    """Data by zlib, with a dictionary where there is one."""
    deflating = zlib.compressobj(9, zdict=by) if by else zlib.compressobj(9)
    return deflating.compress(data) + deflating.flush()
