"""Signatures: all that a number depends on, stored beside it.

Two numbers with the same signature agree within the tolerance of their dimension; two
numbers with different signatures are not comparable until someone has argued that they
are. The idea is sacreBLEU's, extended to everything a served judge depends on.

What we compute ourselves is in it by a number (`implementation`), not by the versions of the
libraries that it is built on: `tests/parity` holds its numbers to the same over all versions that
are allowed. Which versions there were is kept beside the signature (`versions`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import TypeVar

from pydantic_core import CoreSchema, core_schema

T = TypeVar("T", bound="Callable[..., object]")

PACKAGES = ("editjudge", "numpy", "opencv-python-headless", "pillow", "rapidfuzz")
"""Distributions that take part in numbers of ours."""

ABSENT = "absent"
"""The version of a distribution that is not installed."""
_ESCAPES = str.maketrans({"|": "/", "\n": " "})


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
        texts = ((key, str(value).translate(_ESCAPES)) for key, value in pairs)
        return cls(tuple((key, text) for key, text in texts if text))

    @classmethod
    def parse(cls, text: str) -> Signature:
        """Parse the text of a signature, as `str` gives it."""
        pairs = (field.partition(":") for field in text.split("|"))
        return cls(tuple((key, value) for key, _, value in pairs))

    @classmethod
    def __get_pydantic_core_schema__(cls, *_: object) -> CoreSchema:
        text = core_schema.to_string_ser_schema()
        return core_schema.is_instance_schema(cls, serialization=text)

    @classmethod
    def __get_pydantic_json_schema__(cls, *_: object) -> dict[str, str]:
        return {"type": "string"}

    def __str__(self) -> str:
        return "|".join(f"{key}:{value}" for key, value in self.fields)

    @property
    def digest(self) -> str:
        """The first 12 hex digits of the SHA-256 of the text: for tables."""
        return hashlib.sha256(str(self).encode()).hexdigest()[:12]

    def __or__(self, other: Mapping[str, object]) -> Signature:
        """The signature with further fields; a key given again is replaced."""
        return Signature.of({**dict(self.fields), **other})


def implementation(number: int, moved_by: str = "", usual: str = "") -> Callable[[T], T]:
    """Number a function or class of ours whose result numbers rest on; 1 without.

    The number is part of every signature that rests on it. Raise it whenever equal inputs get
    another number than before, beyond the tolerance of a dimension: verdicts from before are then
    judged again.

    Args:
        moved_by: A distribution of which another major version gives other numbers: that version
            is named beside the number.
        usual: That version where the distribution is not installed: others compute then, and a
            service with another one is told from it.
    """

    def set_number(of: T) -> T:
        of.implementation, of.moved_by = number, moved_by  # type: ignore[attr-defined]
        of.usual = usual  # type: ignore[attr-defined]
        return of

    return set_number


def name_implementation(of: Callable[..., object], name: str = "") -> str:
    """The name of an implementation in signatures, with its number: `ssim.1`."""
    text = f"{name or of.__name__}.{getattr(of, 'implementation', 1)}"
    package = getattr(of, "moved_by", "")
    if not package:
        return text
    version = package_version(package)
    major = version.partition(".")[0] if version != ABSENT else getattr(of, "usual", version)
    return f"{text}({package} {major})"


def describe_parameter(value: object) -> str:
    """Describe a parameter for signatures; a callable by its number and its own parameters."""
    if isinstance(value, Mapping):
        return ";".join(f"{key}={describe_parameter(value[key])}" for key in sorted(value))
    if not callable(value):
        return str(value)
    if hasattr(value, "__name__"):
        return name_implementation(value)
    parameters = value.spec() if hasattr(value, "spec") else _fields(value)
    values = {key: describe_parameter(parameters[key]) for key in parameters}
    return f"{name_implementation(type(value))}({join_parameters(values)})"


def _fields(value: object) -> Mapping[str, object]:
    if not is_dataclass(value):
        raise TypeError(f"{value!r} cannot be told in a signature: use a function or a dataclass")
    return {f.name: getattr(value, f.name) for f in fields(value)}


@cache
def versions() -> str:
    """The installed versions of `PACKAGES`, which are stored beside a verdict's signature."""
    return str(Signature.of((name, package_version(name)) for name in PACKAGES))


@cache
def package_version(name: str) -> str:
    """The installed version of a distribution, or `absent`."""
    try:
        return version(name)
    except PackageNotFoundError:
        return ABSENT


def join_parameters(spec: Mapping[str, object]) -> str:
    """Join a scorer's parameters to one value in a fixed order: `a=1,b=x`."""
    return ",".join(f"{key}={spec[key]}" for key in sorted(spec))
