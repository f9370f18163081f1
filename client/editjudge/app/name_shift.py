"""Detects outputs that are named after neighbouring items, before anything is judged.

If outputs are numbered from 1 and items from 0, nearly every output belongs to another item, and
every score is wrong without a failure. Editors usually keep the size or the shape of the source, so
an output should fit its own source. Sizes show nothing if all items have the same size, or a model
gives one size or shape to all outputs; a model with a list of shapes of its own still fits its own
source best. Only the headers of some hundred items are read.
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
"""The number of blocks of neighbouring items that are examined, and their length."""
MIN_FITTING = 3
"""The least number of outputs that fit the neighbour's source and not their own."""
MIN_SHARE_OF_ALL = 0.8
"""The least share of all outputs that fit the neighbour's source."""
MIN_SHARE_OF_FITTING = 0.9
"""The least share of these among the outputs that fit exactly one of the two sources."""
MAX_ASPECT_DIFFERENCE = 0.06
"""Aspect ratios are equal up to this difference of logarithms, since editors round sizes."""


class _SizedItem(NamedTuple):
    """An item with the size of its source; None unless it has one source that can be read."""

    id: str
    size: Size | None


Block: TypeAlias = Sequence[_SizedItem]


@dataclass(frozen=True)
class NameShift:
    """Evidence that outputs belong to the items beside their own.

    Attributes:
        what: The property that matches, `size` or `shape`.
        step: The item whose source they fit: -1 for the one before, 1 for the one after.
        fitting: Number of outputs that fit that source and not their own.
        own: Number of outputs that fit their own source and not that one.
        first: The first of the fitting outputs, in words.
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
    """Sample blocks of neighbouring items, with the sizes of their sources.

    Args:
        count: Number of all items; if they are few, the only block holds all of them.
    """
    if count <= BLOCK_COUNT * BLOCK_LENGTH:
        starts = {0: count}
    else:
        last = count - BLOCK_LENGTH
        starts = {last * n // (BLOCK_COUNT - 1): BLOCK_LENGTH for n in range(BLOCK_COUNT)}
    indices = {index for start, size in starts.items() for index in range(start, start + size)}
    sizes: dict[Path, Size | None] = {}
    by_index = {ref.index: _measure_source(dataset, ref, sizes) for ref in dataset.items(indices)}
    return [
        [by_index[i] for i in range(start, start + size) if i in by_index]
        for start, size in starts.items()
    ]


def find_shift(blocks: Sequence[Block], outputs: Outputs) -> NameShift | None:
    """Find a shift of a model's outputs; None if there is none or sizes cannot show one."""
    for block in blocks:
        if len({place.size for place in block}) < 2:
            continue  # sources of one size show nothing, so no output is opened
        paths = (outputs.path(place.id) for place in block)
        sizes = [None if path is None else read_header_size(path) for path in paths]
        for each in _find_shifts(block, sizes):
            return each
    return None


def refuse_shifted_outputs(plan: RunPlan) -> None:
    """Refuse outputs that clearly belong to neighbouring items.

    Raises:
        InputError: the outputs of a model do.
    """
    dataset = plan.inputs.dataset
    blocks = sample_blocks(dataset, len(plan.ids))
    for model, folder in plan.inputs.outputs.items():
        if name_shift := find_shift(blocks, dataset.outputs(folder)):
            raise InputError(format_path(folder), f"of {model}, {name_shift}", SHIFT_MEND)


SHIFT_MEND = "rename them, or match them by name with --as-named (`as_named=True`)"


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
            first = first or f"first: {place.id}, {_format_size(size)} as the source of {beside.id}"
    is_clear = all_fitting >= MIN_SHARE_OF_ALL * count and len(fitting) >= MIN_SHARE_OF_FITTING * (
        len(fitting) + own_count
    )
    # A model that gives one size to all outputs fits any source of that size, which shows nothing.
    has_variety = any(not fits(size, fitting[0]) for size in fitting)
    is_shift = len(fitting) >= MIN_FITTING and has_variety and is_clear
    return NameShift(what, step, len(fitting), own_count, first) if is_shift else None


def _same_shape(size: Size, other: Size) -> bool:
    (width, height), (w, h) = size, other
    return abs(math.log(width * h / (height * w))) <= MAX_ASPECT_DIFFERENCE


def _format_size(size: Size) -> str:
    return f"{size[0]}x{size[1]}"


_FIT_RULES: Mapping[Literal["size", "shape"], _FitRule] = {
    "size": lambda size, other: size == other,
    "shape": _same_shape,
}
_STEPS: tuple[Literal[-1, 1], ...] = (-1, 1)
