"""What a caller asks, whichever protocol it came by, and what is wrong with it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from ..base.errors import ConfigError, EditjudgeError, InputError
from ..base.images import Image, load_image, load_mask, pixels_of
from ..base.item import Edit, Item
from ..benchmarks.benchmark import Rules
from ..benchmarks.dimension import Dimension
from ..benchmarks.registry import benchmark, select

T = TypeVar("T")
_MOST_SOURCES = 16
_MOST_PATTERNS = 512
_LONGEST_PATTERN = 200


class Unusable(InputError):
    """A request that cannot be judged.

    Attributes:
        field: Of the request, for example `edit.mask`.
    """

    def __init__(self, field: str, reason: str, mend: str = "") -> None:
        super().__init__(field, reason, mend)
        self.field = field


@dataclass(frozen=True, slots=True)
class Picture:
    """An encoded picture, and how messages call it."""

    data: bytes
    name: str = ""


@dataclass(frozen=True, slots=True)
class Asked:
    """One edit to judge.

    Attributes:
        id: How results call it; may be empty.
        model: The editing model; may be empty.
        instruction: What it was told.
        sources: The pictures before the edit.
        edited: The picture after it.
        mask: Where the edit may change the source.
        target: The ground-truth result.
        target_text: Text that the result must show.
        dimensions: Ids or globs; none means all of `core`.
    """

    instruction: str
    sources: tuple[Picture, ...]
    edited: Picture | None
    id: str = ""
    model: str = ""
    mask: Picture | None = None
    target: Picture | None = None
    target_text: str | None = None
    dimensions: tuple[str, ...] = ()

    def chosen(self) -> tuple[Dimension, ...]:
        """The dimensions that are asked for.

        Raises:
            Unusable: an id or glob matches none.
        """
        return chosen(self.dimensions, "dimensions", benchmark("core").rules())

    def pixels(self) -> int:
        """How many the heads of its pictures tell; nothing is decoded."""
        sent = (*self.sources[:_MOST_SOURCES], self.edited, self.mask, self.target)
        return sum(pixels_of(picture.data) for picture in sent if picture is not None)

    async def edit(self) -> Edit:
        """The edit, its pictures decoded beside the event loop.

        Raises:
            Unusable: naming the field.
        """
        if not self.sources:
            raise Unusable("edit.sources", "there is none", "send the picture before the edit")
        if len(self.sources) > _MOST_SOURCES:
            raise Unusable("edit.sources", f"more than {_MOST_SOURCES}", "send fewer")
        if self.edited is None:
            raise Unusable("edit.edited", "there is none", "send the picture after the edit")
        named = [(f"edit.sources[{i}]", each) for i, each in enumerate(self.sources)]
        *sources, edited = await asyncio.gather(
            *(_decoded(field, each) for field, each in (*named, ("edit.edited", self.edited)))
        )
        target = await _decoded("edit.target", self.target) if self.target else None
        mask = await _beside("edit.mask", load_mask, self.mask) if self.mask else None
        item = _tried(
            "edit.instruction",
            lambda: Item(
                id=self.id or "edit",
                instruction=self.instruction,
                sources=tuple(sources),
                mask=mask,
                target=target,
                target_text=self.target_text,
            ),
        )
        _tried("edit.mask", item.check_mask)
        return Edit(item, self.model, edited)


def chosen(
    patterns: Iterable[str], field: str, rules: Rules | None = None
) -> tuple[Dimension, ...]:
    """The dimensions that a request names; see `select`.

    Raises:
        Unusable: an id or glob matches none, or there are more than anybody means.
    """
    named = tuple(dict.fromkeys(patterns))
    if len(named) > _MOST_PATTERNS:
        raise Unusable(field, f"{len(named):,} ids and globs", f"send {_MOST_PATTERNS} at most")
    if any(len(name) > _LONGEST_PATTERN for name in named):
        raise Unusable(field, f"a name of more than {_LONGEST_PATTERN} characters", "send its id")
    try:
        return select(named, rules)
    except ConfigError as error:
        raise Unusable(field, error.message, error.mend) from error


async def _decoded(field: str, picture: Picture) -> Image:
    return await _beside(field, load_image, picture)


async def _beside(field: str, load: Callable[[bytes, str], T], picture: Picture) -> T:
    return await asyncio.to_thread(_tried, field, lambda: load(picture.data, picture.name))


def _tried(field: str, make: Callable[[], T]) -> T:
    try:
        return make()
    except InputError as error:
        raise Unusable(field, error.reason, error.mend) from error
    except (ValueError, EditjudgeError) as error:
        raise Unusable(field, str(error)) from error
