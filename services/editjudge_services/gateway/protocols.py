"""What the protocol of a request means here, within bounds."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from threading import Lock
from typing import Any

from editjudge import Dimension, RunSpec
from editjudge.base.errors import ConfigError
from editjudge.service import DimensionSet

from ..runtime.cache import BoundedCache
from .schemas import InvalidRequest, Protocol

_MOST_GLOBS = 512
_LONGEST_NAME = 200
_MOST_PROMPTS = 512
_LONGEST_PROMPTS = 1024 * 1024
MAX_DIMENSIONS = 8192
"""Of a protocol, in all rounds of all judges."""
_BYTES_OF_ONE = 2048
"""That a dimension takes with its signature."""
_STORED_BYTES = 128 * 1024 * 1024
"""Of protocols whose dimensions are stored ready."""


def list_dimensions(patterns: Iterable[str], field: str) -> tuple[Dimension, ...]:
    """Dimensions of all benchmarks by their usual rules; all of them for no pattern.

    Raises:
        InvalidRequest: an id or glob matches none.
    """
    return select_dimensions(Protocol(), tuple(patterns) or ("*",), field)[1]


def select_dimensions(
    protocol: Protocol, names: Iterable[str], field: str = "dimensions"
) -> tuple[DimensionSet, tuple[Dimension, ...]]:
    """The dimensions of a protocol, and those of them that a request names.

    Raises:
        InvalidRequest: the protocol cannot be used, an id or glob matches none, there are more than
            anybody means, or official prompts that are asked are not imported here.
    """
    dimensions = load_dimensions(protocol)
    named = tuple(dict.fromkeys(names))
    if any(len(name) > _LONGEST_NAME for name in named):
        raise InvalidRequest(
            field, f"a name of more than {_LONGEST_NAME} characters", "send its id"
        )
    globs = [name for name in named if name not in dimensions.by_id]
    if len(globs) > _MOST_GLOBS:
        raise InvalidRequest(field, f"{len(globs):,} globs", f"send {_MOST_GLOBS} at most")
    try:
        return dimensions, dimensions.select(named)
    except ConfigError as error:
        raise InvalidRequest(field, error.message, error.mend) from error


_stored: BoundedCache[DimensionSet] = BoundedCache(_STORED_BYTES)
_lock = Lock()


def load_dimensions(protocol: Protocol) -> DimensionSet:
    """The dimensions of a protocol; those of the latest are stored, for all threads.

    Raises:
        InvalidRequest: naming the field.
    """
    key = protocol.model_dump_json()
    with _lock:
        stored = _stored.get(key)
    if stored is not None:
        return stored
    made = _build(protocol)
    with _lock:
        _stored.put(key, made, estimate_size(key, made))
    return made


def estimate_size(key: str, dimensions: DimensionSet) -> int:
    """Bytes that the dimensions of a protocol take with their prompts, about."""
    return len(key) + len(dimensions.by_id) * _BYTES_OF_ONE


def _build(protocol: Protocol) -> DimensionSet:
    length = sum(map(len, protocol.prompts.values()))
    if len(protocol.prompts) > _MOST_PROMPTS or length > _LONGEST_PROMPTS:
        most = f"send {_MOST_PROMPTS} files of {_LONGEST_PROMPTS:,} characters at most"
        told = f"{len(protocol.prompts):,} files of {length:,} characters"
        raise InvalidRequest("protocol.prompts", told, most)
    fields: dict[str, Any] = {"data": Path()}
    for field in Protocol.model_fields:  # one by one, to name the one that cannot be used
        fields["protocol" if field == "name" else field] = getattr(protocol, field)
        try:
            spec = RunSpec(**fields)
        except ConfigError as error:
            raise InvalidRequest(f"protocol.{field}", error.message, error.mend) from error
    try:
        return DimensionSet(spec, MAX_DIMENSIONS)
    except ConfigError as error:
        raise InvalidRequest("protocol.rounds", error.message, error.mend) from error
