"""Detects outputs that are named after neighbouring items, before anything is judged.

If outputs are numbered from 1 and items from 0, nearly every output belongs to another item, and
every score is wrong without a failure. If one output was left out when files were numbered, this is
so from there on. Up to 150 items are looked at.

Most edits keep most of the picture, so an output should look like its own source. Its thumbnail is
compared with those of all sources around it. Neighbours that look alike, and a model that generates
without regard to the source, show nothing.
"""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..base.errors import InputError
from ..base.images import format_path, read_thumbnail
from ..benchmarks.dataset import Dataset, ItemRef
from ..benchmarks.outputs import Outputs
from ..engine.run_plan import RunPlan

BLOCK_COUNT, BLOCK_LENGTH = 3, 50
"""The number of blocks of neighbouring items that are examined, and their length."""
THUMBNAIL_SIDE = 16
"""Rows and columns of the thumbnails whose correlations are compared."""
MIN_MARGIN = 0.1
"""The least difference of two correlations that says which of two sources an output looks like."""
MAX_BEHIND = 0.02
"""How far behind the source that fits best another one may be and still count as the best."""
OWN_WEIGHT = 4.0
"""How many times an output that looks like its own source counts against a shift."""
NEITHER = 0.02
"""How much an output that looks like neither counts against it: rare chances do not add up."""
MIN_EVIDENCE, MIN_ALIKE = 4.0, 5
"""The least sum of margins, and number of outputs, for a shift.

Of 2,300 simulated models without a shift (edits of all kinds, free generation) only two reached it,
whose outputs were made of other pictures of the same scene.
"""


class _SourcedItem(NamedTuple):
    """An item with its source; None unless it has exactly one."""

    id: str
    source: Path | None


@dataclass(eq=False)
class Block:
    """Neighbouring items in the order of the data."""

    items: Sequence[_SourcedItem]

    @cached_property
    def features(self) -> NDArray[np.float32]:
        """The features of the sources, see `_describe_pictures`."""
        return _describe_pictures([item.source for item in self.items])


@dataclass(frozen=True)
class NameShift:
    """Evidence that outputs belong to the items beside their own.

    Attributes:
        step: The item whose source they look like: -1 for the one before, 1 for the one after.
        fitting: Number of outputs that look like that source and not like their own.
        own: Number of outputs that look like their own source and not like that one.
        first: The first of the fitting outputs, in words.
        extent: From which of the items that were looked at, in words; "" for all.
    """

    step: int
    fitting: int
    own: int
    first: str
    extent: str = ""

    def __str__(self) -> str:
        place = "before" if self.step < 0 else "after"
        return (
            f"{self.fitting:,} outputs look like the source {place} their own, and {self.own:,} "
            f"their own ({self.first}): the names{self.extent} seem to be shifted by one"
        )


def sample_blocks(dataset: Dataset, count: int) -> list[Block]:
    """Sample blocks of neighbouring items, with their sources.

    Args:
        count: Number of all items; if they are few, the only block holds all of them.
    """
    if count <= BLOCK_COUNT * BLOCK_LENGTH:
        starts = {0: count}
    else:
        last = count - BLOCK_LENGTH
        starts = {last * n // (BLOCK_COUNT - 1): BLOCK_LENGTH for n in range(BLOCK_COUNT)}
    indices = {index for start, size in starts.items() for index in range(start, start + size)}
    by_index = {ref.index: _find_source(dataset, ref) for ref in dataset.items(indices)}
    return [Block([by_index[i] for i in range(start, start + size) if i in by_index]) for start, size in starts.items()]


def find_shift(blocks: Sequence[Block], outputs: Outputs) -> NameShift | None:
    """Find a shift of a model's outputs; None if there is none or nothing can show one."""
    for number, block in enumerate(blocks):
        if len(block.items) < MIN_ALIKE:
            continue
        paths = [outputs.path(item.id) for item in block.items]
        if name_shift := _find_in_block(block, paths, is_first=not number):
            return name_shift
    return None


def refuse_shifted_outputs(plan: RunPlan) -> None:
    """Refuse outputs that clearly belong to neighbouring items.

    Args:
        plan: Where nothing is left to judge of a model, its outputs are not looked at.

    Raises:
        InputError: the outputs of a model do.
    """
    dataset = plan.inputs.dataset
    models = [model for model, todo in plan.todo.items() if any(todo)]
    blocks = sample_blocks(dataset, len(plan.ids)) if models else []
    for model in models:
        folder = plan.inputs.outputs[model]
        outputs = dataset.outputs(folder)
        why = find_output_beyond(dataset, outputs, len(plan.all_ids)) or find_shift(blocks, outputs)
        if why:
            raise InputError(format_path(folder), f"of {model}, {why}", SHIFT_FIX)


def find_output_beyond(dataset: Dataset, outputs: Outputs, count: int) -> str:
    """Find an output that is named by a position beyond the end of the data's list.

    Args:
        count: Number of all items.

    Returns:
        What it means; "" if there is none, or if items are not called by their positions.
    """
    if not dataset.ids_are_positions:
        return ""
    stems = (Path(name).stem for name in outputs.list_unmatched(frozenset()))
    last = max((int(stem) for stem in stems if stem.isdecimal()), default=0)
    what = f"one is named {last}, and the last record of the data is {count - 1}: they were made of"
    return "" if last < count else f"{what} another list, or are numbered from 1"


SHIFT_FIX = "rename them, or match them by name with --as-named (`as_named=True`)"


def _find_source(dataset: Dataset, ref: ItemRef) -> _SourcedItem:
    if len(dataset.outline(ref).sources) != 1:
        return _SourcedItem(ref.id, None)
    return _SourcedItem(ref.id, dataset.image_paths(ref)["source"][0])


def _describe_pictures(paths: Sequence[str | Path | None]) -> NDArray[np.float32]:
    """Describe pictures by features whose scalar product says how alike two of them are.

    It is the mean of the correlations of the grey thumbnails and of the coloured ones, -1..1. No
    correlation depends on brightness and contrast, and that of grey on no colours.

    Returns:
        float32 of shape (n, 4 * 16 * 16); 0 for a path that is None, a picture that cannot be read,
        and one of a single colour.
    """
    read = partial(read_thumbnail, side=THUMBNAIL_SIDE)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        there = dict.fromkeys(path for path in paths if path is not None)
        thumbnails = dict(zip(there, pool.map(read, there), strict=True))
    nothing = np.zeros((THUMBNAIL_SIDE, THUMBNAIL_SIDE, 3), np.uint8)
    by_path = (None if path is None else thumbnails[path] for path in paths)
    colours = np.array([nothing if one is None else one for one in by_path], np.float32)
    parts: list[NDArray[np.float32]] = []
    for pixels in (colours.mean(axis=3, keepdims=True), colours):
        differences = (pixels - pixels.mean(axis=(1, 2), keepdims=True)).reshape(len(paths), -1)
        lengths = np.linalg.norm(differences, axis=1, keepdims=True)
        parts.append(differences / np.maximum(lengths, 1.0))
    features: NDArray[np.float32] = np.concatenate(parts, axis=1) / np.sqrt(2, dtype=np.float32)
    return features


def _find_in_block(block: Block, paths: Sequence[str | None], *, is_first: bool) -> NameShift | None:
    """Find the neighbours whose outputs look like the source beside their own.

    An output counts where it looks most like its own source, or the one beside, among all sources
    of the block. So one that looks like no source counts in neither way.

    Args:
        paths: The files of the outputs.
        is_first: Whether no block before was looked at.
    """
    items, features = block.items, _describe_pictures(paths)
    alike = features @ block.features.T
    own = np.diagonal(alike)
    least = alike.max(axis=1) - MAX_BEHIND
    for step in (-1, 1):
        beside = np.diagonal(np.roll(alike, -step, axis=1))  # the last and the first are neighbours
        margin = beside - own
        fits_own = (own >= least) & (margin <= -MIN_MARGIN)
        fits_beside = (beside >= least) & (margin >= MIN_MARGIN)
        # Of edits and their reversals in turn, outputs look like the sources on both sides.
        opposite = np.diagonal(np.roll(alike, step, axis=1))
        fits_opposite = (opposite >= least) & (opposite - own >= MIN_MARGIN) & ~fits_beside
        evidence = np.where(fits_own, OWN_WEIGHT, fits_beside) * margin
        evidence -= OWN_WEIGHT * fits_opposite * (opposite - own)
        evidence -= NEITHER * (features.any(axis=1) & ~fits_own & ~fits_beside)
        start, end = _find_largest_sum(evidence)
        fitting = start + np.flatnonzero(fits_beside[start:end])
        if evidence[start:end].sum() < MIN_EVIDENCE or len(fitting) < MIN_ALIKE:
            continue
        first = items[fitting[0]].id
        is_part = not is_first or bool(fits_own[:start].any())
        what = f"first: {first}, like the source of {items[(fitting[0] + step) % len(items)].id}"
        own_count = int(fits_own[start:end].sum())
        return NameShift(step, len(fitting), own_count, what, f" from {first} on" if is_part else "")
    return None


def _find_largest_sum(values: NDArray[np.float32]) -> tuple[int, int]:
    """Find the neighbouring values with the largest sum: where they start and end."""
    sums = np.concatenate([[0.0], np.cumsum(values)])
    gains = sums - np.minimum.accumulate(sums)
    end = int(gains.argmax())
    return int(sums[: end + 1].argmin()), end
