"""What a caller asks, whichever protocol it came by, and what is wrong with it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar, get_args

from editjudge.base.errors import EditjudgeError, InputError
from editjudge.base.images import Image, load_image, load_mask, pixels_of
from editjudge.base.item import Edit, Flaws, Item, Missing, Need, check_text
from editjudge.base.threads import in_thread
from editjudge.benchmarks.frame import FrameMask
from editjudge.benchmarks.registry import CORE

from .protocols import Protocol, Unusable

T = TypeVar("T")
_MOST_SOURCES = 16
_FIELDS = frozenset({*get_args(Need), "instruction"})


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
        edited: The picture after it; None where `missing` says why.
        mask: Where the edit may change the source.
        target: The ground-truth result.
        target_text: Text that the result must show.
        hint: World knowledge for the judge.
        questions: That came with the item.
        task: The benchmark's own task type.
        extra: What only this benchmark needs.
        flaws: What the data holds and cannot be used.
        missing: Why there is no picture after the edit.
        mask_over_frame: The mask is stretched over whole pictures, whatever their sides.
        dimensions: Ids or globs; none means all of the benchmark.
        protocol: By which rules is judged.
    """

    instruction: str
    sources: tuple[Picture, ...]
    edited: Picture | None
    id: str = ""
    model: str = ""
    mask: Picture | None = None
    target: Picture | None = None
    target_text: str | None = None
    hint: str | None = None
    questions: tuple[Mapping[str, Any], ...] = ()
    task: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict)
    flaws: Flaws = field(default_factory=dict)
    missing: Missing | None = None
    mask_over_frame: bool = False
    dimensions: tuple[str, ...] = ()
    protocol: Protocol = field(default_factory=Protocol)

    def pixels(self) -> int:
        """How many the heads of its pictures tell; nothing is decoded."""
        sent = (*self.sources[:_MOST_SOURCES], self.edited, self.mask, self.target)
        return sum(pixels_of(picture.data) for picture in sent if picture is not None)

    async def edit(self) -> Edit:
        """The edit, its pictures decoded beside the event loop.

        Raises:
            Unusable: naming the field.
        """
        self._check()
        named = [(f"edit.sources[{i}]", each) for i, each in enumerate(self.sources)]
        others = ("edit.edited", self.edited), ("edit.target", self.target)
        sources, (edited, target) = await asyncio.gather(
            asyncio.gather(*(_decoded(field, each) for field, each in named)),
            asyncio.gather(*(_decoded(f, each) if each else _nothing() for f, each in others)),
        )
        mask = await _beside("edit.mask", load_mask, self.mask) if self.mask else None
        item = _tried(
            "edit.instruction",
            lambda: Item(
                id=self.id or "edit",
                instruction=self.instruction,
                sources=tuple(sources),
                mask=FrameMask.of(mask) if mask and self.mask_over_frame else mask,
                target=target,
                target_text=self.target_text,
                hint=self.hint,
                questions=self.questions,
                task=self.task,
                extra=self.extra,
                flaws=self.flaws,
            ),
        )
        if self.protocol.benchmark == CORE and not self.mask_over_frame:
            # Over which pictures a mask lies, others than these say themselves.
            _tried("edit.mask", item.check_mask)
        return Edit(item, self.model, edited, self.missing)

    def _check(self) -> None:
        if not self.sources and "source" not in self.flaws:
            raise Unusable("edit.sources", "there is none", "send the picture before the edit")
        if len(self.sources) > _MOST_SOURCES:
            raise Unusable("edit.sources", f"more than {_MOST_SOURCES}", "send fewer")
        if self.edited is None and self.missing is None:
            raise Unusable("edit.edited", "there is none", "send the picture after the edit")
        if self.edited is not None and self.missing is not None:
            raise Unusable("edit.missing", "there is a picture", "send one of the two")
        for name in self.flaws:
            if name not in _FIELDS:
                there = f"there are {', '.join(sorted(_FIELDS))}"
                raise Unusable("edit.flaws", f"an edit has no field {name[:40]!r}", there)
        if self.hint is not None:
            hint = self.hint
            _tried("edit.hint", lambda: check_text("hint", hint))
        _tried("edit.task", lambda: check_text("task", self.task))


async def _nothing() -> None:
    """Of a picture that is not there."""


async def _decoded(field: str, picture: Picture) -> Image:
    return await _beside(field, load_image, picture)


async def _beside(field: str, load: Callable[[bytes, str], T], picture: Picture) -> T:
    return await in_thread(_tried, field, lambda: load(picture.data, picture.name))


def _tried(field: str, make: Callable[[], T]) -> T:
    try:
        return make()
    except InputError as error:
        raise Unusable(field, error.reason, error.mend) from error
    except (ValueError, EditjudgeError) as error:
        raise Unusable(field, str(error)) from error
