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


class Packer:
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
        self._known: dict[int, bytes] | None = None
        self._latest = b""
        self._first: list[bytes] = []

    def forget(self) -> None:
        """Read the dictionaries anew: one that was kept last may have been rolled back."""
        self._known = None

    def pack(self, value: object) -> bytes:
        """A document in its stored form.

        Raises:
            ValueError: a number is not finite.
        """
        data = dumps(value).encode("utf-8", "surrogatepass")
        if self._known is None:
            self._load()
        if self._keep is not None and len(self._first) < FIRST:
            self._first.append(data)
            if len(self._first) == FIRST:
                self._learn(self._keep)
        return min(data, deflated(data, self._latest), key=len)

    def unpack(self, stored: bytes) -> Any:
        """What `pack` was given.

        Raises:
            ValueError: the stored form is damaged, or of a newer editjudge.
        """
        try:
            data = self._inflated(stored) if stored[:1] == _DEFLATED else stored
            return parse_json(data.decode("utf-8", "surrogatepass"))
        except (zlib.error, IndexError, ValueError) as error:
            raise ValueError(f"stored text cannot be read: {error}") from error

    def _inflated(self, stored: bytes) -> bytes:
        if not stored[1] & _NAMES_DICTIONARY:
            return zlib.decompress(stored)
        name = int.from_bytes(stored[2:6], "big")
        if self._known is None or name not in self._known:
            self._load()  # another process may have kept it
        if self._known is None or name not in self._known:
            raise ValueError(f"its dictionary {name} is lost")
        inflating = zlib.decompressobj(zdict=self._known[name])
        data = inflating.decompress(stored)
        if not inflating.eof:
            raise ValueError("it is cut off")
        return data

    def _load(self) -> None:
        known = [zlib.decompress(one) for one in self._read()]
        self._known = {zlib.adler32(one): one for one in known}
        self._latest = known[-1] if known else b""

    def _learn(self, keep: Callable[[bytes], None]) -> None:
        """Keep a dictionary of the first documents where it makes them smaller."""
        candidate = dictionary(self._first)
        sizes = [sum(len(deflated(d, by)) for d in self._first) for by in (self._latest, candidate)]
        if sizes[1] < _ENOUGH * sizes[0]:
            keep(zlib.compress(candidate, 9))
            self._known = {**(self._known or {}), zlib.adler32(candidate): candidate}
            self._latest = candidate


def dictionary(documents: Iterable[bytes]) -> bytes:
    """The lines of documents, each once; the most frequent stand last, where they cost least."""
    lines = Counter(line for document in documents for line in document.split(b"\\n"))
    ordered = sorted(lines, key=lambda line: (lines[line] > 1, lines[line] * len(line)))
    return b"\\n".join(ordered)[-_WINDOW:]


def deflated(data: bytes, by: bytes) -> bytes:
    """Data by zlib, with a dictionary where there is one."""
    deflating = zlib.compressobj(9, zdict=by) if by else zlib.compressobj(9)
    return deflating.compress(data) + deflating.flush()
