"""Resolves the protocol of a request into dimensions, within limits on its size."""

from collections.abc import Iterable
from pathlib import Path
from threading import Lock
from typing import Any

from editjudge import Dimension, RunSpec
from editjudge.base.errors import ConfigError
from editjudge.service import DimensionSet

from ..runtime.cache import BoundedCache
from .schemas import MAX_DIMENSIONS, InvalidRequest, Protocol

_MAX_GLOBS = 512
_MAX_NAME_CHARS = 200
_MAX_PROMPT_CHARS = 1024 * 1024
_BYTES_PER_DIMENSION = 2048
"""The memory that a dimension takes with its signature, about."""
_CACHE_BYTES = 128 * 1024 * 1024
"""The memory for protocols that are cached: one that was dropped takes up to a second to make."""


def list_dimensions(patterns: Iterable[str], field: str) -> tuple[Dimension, ...]:
    """List dimensions of all benchmarks under their default protocols; no pattern means all.

    Raises:
        InvalidRequest: an id or glob matches no dimension.
    """
    return select_dimensions(Protocol(), tuple(patterns) or ("*",), field)[1]


def select_dimensions(
    protocol: Protocol, names: Iterable[str], field: str = "dimensions"
) -> tuple[DimensionSet, tuple[Dimension, ...]]:
    """Resolve a protocol, and select the dimensions that a request names by ids or globs.

    Returns:
        All dimensions of the protocol, and the selected ones.

    Raises:
        InvalidRequest: the protocol cannot be used, an id or glob matches no dimension, there are
            too many globs, or the protocol needs official prompts that are not imported here.
    """
    dimensions = load_dimensions(protocol)
    patterns = tuple(dict.fromkeys(names))
    if any(len(name) > _MAX_NAME_CHARS for name in patterns):
        what = f"a name of more than {_MAX_NAME_CHARS} characters"
        raise InvalidRequest(field, what, "send its id")
    globs = [name for name in patterns if name not in dimensions.by_id]
    if len(globs) > _MAX_GLOBS:
        raise InvalidRequest(field, f"{len(globs):,} globs", f"send {_MAX_GLOBS} at most")
    try:
        return dimensions, dimensions.select(patterns)
    except ConfigError as error:
        raise InvalidRequest(field, error.message, error.fix) from error


def is_in_memory(protocol: Protocol) -> bool:
    """Whether a protocol has been resolved, and not been dropped since."""
    with _lock:
        return _cache.get(protocol.model_dump_json()) is not None


_cache: BoundedCache[DimensionSet] = BoundedCache(_CACHE_BYTES)
_lock = Lock()


def load_dimensions(protocol: Protocol) -> DimensionSet:
    """Resolve a protocol into its dimensions; recent ones come from a cache of all threads.

    Raises:
        InvalidRequest: naming the field.
    """
    key = protocol.model_dump_json()
    with _lock:
        dimensions = _cache.get(key)
    if dimensions is None:
        dimensions = _build(protocol)
        with _lock:
            _cache.put(key, dimensions, estimate_size(key, dimensions))
    return dimensions


def estimate_size(key: str, dimensions: DimensionSet) -> int:
    """Estimate the bytes that the dimensions of a protocol take with their prompts."""
    return len(key) + len(dimensions.by_id) * _BYTES_PER_DIMENSION


def _build(protocol: Protocol) -> DimensionSet:
    length = sum(map(len, protocol.prompts.values()))
    if length > _MAX_PROMPT_CHARS:
        fix = f"send {_MAX_PROMPT_CHARS:,} at most"
        raise InvalidRequest("protocol.prompts", f"{length:,} characters", fix)
    fields: dict[str, Any] = {"data": Path()}
    for field in Protocol.model_fields:  # one by one, to name the one that cannot be used
        fields["protocol" if field == "name" else field] = getattr(protocol, field)
        try:
            spec = RunSpec(**fields)
        except ConfigError as error:
            raise InvalidRequest(f"protocol.{field}", error.message, error.fix) from error
    try:
        return DimensionSet(spec, MAX_DIMENSIONS)
    except ConfigError as error:
        raise InvalidRequest("protocol.rounds", error.message, error.fix) from error
