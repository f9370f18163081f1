"""What a number depends on, written beside it.

Two numbers with the same signature agree within the tolerance of their dimension; two
numbers with different signatures are not comparable until someone has argued that they
are. The idea is sacreBLEU's, extended to everything a served judge depends on.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version

_RESERVED = str.maketrans({"|": "/", "\n": " "})


@dataclass(frozen=True, slots=True)
class Signature:
    """Ordered `key:value` pairs.

    Attributes:
        fields: Keys are unique; values hold neither `|` nor newlines.
    """

    fields: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, fields: Mapping[str, object] | Iterable[tuple[str, object]]) -> Signature:
        """Build from pairs, dropping empty values."""
        pairs = fields.items() if isinstance(fields, Mapping) else fields
        texts = ((key, str(value).translate(_RESERVED)) for key, value in pairs)
        return cls(tuple((key, text) for key, text in texts if text))

    @classmethod
    def parsed(cls, text: str) -> Signature:
        """Of a signature that is there as text, as `str` gives it."""
        pairs = (field.partition(":") for field in text.split("|"))
        return cls(tuple((key, value) for key, _, value in pairs))

    def __str__(self) -> str:
        return "|".join(f"{key}:{value}" for key, value in self.fields)

    @property
    def digest(self) -> str:
        """The first 12 hex digits of the SHA-256 of the text: for tables."""
        return hashlib.sha256(str(self).encode()).hexdigest()[:12]

    def __or__(self, other: Mapping[str, object]) -> Signature:
        """The signature with further fields; a key given again is replaced."""
        return Signature.of({**dict(self.fields), **other})


@cache
def package_version(name: str) -> str:
    """The installed version of a distribution, or `absent`."""
    try:
        return version(name)
    except PackageNotFoundError:
        return "absent"


def flat(spec: Mapping[str, object]) -> str:
    """A scorer's parameters as one value: `a=1,b=x`, in a fixed order."""
    return ",".join(f"{key}={spec[key]}" for key in sorted(spec))
