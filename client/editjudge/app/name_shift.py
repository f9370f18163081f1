"""Outputs whose names are one place beside their items', told by sizes before anything is judged.

Names from 1 for positions from 0 leave a folder in which nearly every file is somebody's output,
and every number is a number. Where editors keep the size or the shape of a source, sizes tell: an
output then fits its own source. Nothing is told by items of one size, nor by a model that gives one
size or shape to all; and a model that fits a list of shapes of its own is closest to its own
source. Only headers are read, of some hundred items.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from ..base.errors import InputError
from ..base.images import format_path, read_header_size
from ..benchmarks.dataset import Dataset, ItemRef
from ..benchmarks.outputs import Outputs
from ..engine.run_plan import RunPlan

Size: TypeAlias = tuple[int, int]
_FitRule: TypeAlias = Callable[[Size, Size], bool]

BLOCK_COUNT, BLOCK_LENGTH = 3, 200
"""How many runs of neighbouring items are looked at, and how long each is."""
MIN_FITTING = 3
"""Outputs that fit their neighbour and not their own source."""
MIN_SHARE_OF_ALL = 0.8
"""Share of all outputs that fit their neighbour."""
MIN_SHARE_OF_FITTING = 0.9
"""Share that does so of those that fit their neighbour or their own, and not both."""
MAX_ASPECT_DIFFERENCE = 0.06
"""Aspect ratios are the same up to this factor (its logarithm): editors round to their grids."""


class _SizedItem(NamedTuple):
    """An item with the size of its source, where it has one source that can be read."""

    id: str
    size: Size | None


Block: TypeAlias = Sequence[_SizedItem]


@dataclass(frozen=True)
class NameShift:
    """Outputs that fit the items beside their own.

    Attributes:
        what: That is the same, the `size` or the `shape`.
        step: The place whose source they fit, -1 before or 1 after their own.
        fitting: How many fit that one and not their own.
        own: How many fit their own and not that one.
        first: The first of the former, in words.
    """

    what: Literal["size", "shape"]
    step: Literal[-1, 1]
    fitting: int
    own: int
    first: str

    def __str__(self) -> str:
        place = "before" if self.step < 0 else "after"
        return (
            f"{self.fitting:,} outputs have the {self.what} of the source {place} their own, and "
            f"{self.own:,} that of their own ({self.first}): the names seem to be shifted by one"
        )


def sample_blocks(dataset: Dataset, count: int) -> list[Block]:
    """Runs of neighbouring items, with the sizes of their sources.

    Args:
        count: How many items there are; all are looked at where they are few.
    """
    if count <= BLOCK_COUNT * BLOCK_LENGTH:
        starts = {0: count}
    else:
        starts = {
            (count - BLOCK_LENGTH) * n // (BLOCK_COUNT - 1): BLOCK_LENGTH
            for n in range(BLOCK_COUNT)
        }
    indices = {index for start, size in starts.items() for index in range(start, start + size)}
    sizes: dict[Path, Size | None] = {}
    by_index = {ref.index: _measure_source(dataset, ref, sizes) for ref in dataset.items(indices)}
    return [
        [by_index[i] for i in range(start, start + size) if i in by_index]
        for start, size in starts.items()
    ]


def find_shift(blocks: Sequence[Block], outputs: Outputs) -> NameShift | None:
    """How a model's outputs are shifted; None where they are not, or sizes do not tell."""
    for block in blocks:
        if len({place.size for place in block}) < 2:
            continue  # of sources of one size nothing can be told, and no output is opened
        paths = (outputs.path(place.id) for place in block)
        sizes = [None if path is None else read_header_size(path) for path in paths]
        for each in _find_shifts(block, sizes):
            return each
    return None


def refuse_shifted_outputs(plan: RunPlan) -> None:
    """Refuse outputs that clearly are those of neighbouring items.

    Raises:
        InputError: a model's outputs are.
    """
    dataset = plan.inputs.dataset
    blocks = sample_blocks(dataset, len(plan.ids))
    for model, folder in plan.inputs.outputs.items():
        if name_shift := find_shift(blocks, dataset.outputs(folder)):
            raise InputError(format_path(folder), f"of {model}, {name_shift}", SHIFT_MEND)


SHIFT_MEND = "rename them, or take them by their names with --as-named (`as_named=True`)"


def _measure_source(dataset: Dataset, ref: ItemRef, sizes: dict[Path, Size | None]) -> _SizedItem:
    if len(dataset.outline(ref).sources) != 1:
        return _SizedItem(ref.id, None)
    source = dataset.image_paths(ref)["source"][0]
    if source not in sizes:
        sizes[source] = read_header_size(source)
    return _SizedItem(ref.id, sizes[source])


def _find_shifts(block: Block, sizes: Sequence[Size | None]) -> Iterator[NameShift]:
    for what, fits in _FIT_RULES.items():
        for step in _STEPS:
            if each := _test_step(block, sizes, fits, what, step):
                yield each


def _test_step(
    block: Block,
    sizes: Sequence[Size | None],
    fits: _FitRule,
    what: Literal["size", "shape"],
    step: Literal[-1, 1],
) -> NameShift | None:
    count = all_fitting = own_count = 0
    fitting: list[Size] = []
    first = ""
    for at, (place, size) in enumerate(zip(block, sizes, strict=True)):
        beside = block[at + step] if 0 <= at + step < len(block) else None
        if size is None or place.size is None or beside is None or beside.size is None:
            continue
        fits_own, fits_beside = fits(size, place.size), fits(size, beside.size)
        count += 1
        all_fitting += fits_beside
        own_count += fits_own and not fits_beside
        if fits_beside and not fits_own:
            fitting.append(size)
            first = first or f"first: {place.id}, {_size_text(size)} as the source of {beside.id}"
    is_clear = all_fitting >= MIN_SHARE_OF_ALL * count and len(fitting) >= MIN_SHARE_OF_FITTING * (
        len(fitting) + own_count
    )
    # A model that gives one size to all fits whoever has it, and says nothing by it.
    has_variety = any(not fits(size, fitting[0]) for size in fitting)
    is_shift = len(fitting) >= MIN_FITTING and has_variety and is_clear
    return NameShift(what, step, len(fitting), own_count, first) if is_shift else None


def _same_shape(size: Size, other: Size) -> bool:
    (width, height), (w, h) = size, other
    return abs(math.log(width * h / (height * w))) <= MAX_ASPECT_DIFFERENCE


def _size_text(size: Size) -> str:
    return f"{size[0]}x{size[1]}"


_FIT_RULES: Mapping[Literal["size", "shape"], _FitRule] = {
    "size": lambda size, other: size == other,
    "shape": _same_shape,
}
_STEPS: tuple[Literal[-1, 1], ...] = (-1, 1)
