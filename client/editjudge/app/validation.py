"""Checks data and outputs completely, before a run calls any service."""

import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import field
from functools import partial
from itertools import chain
from pathlib import Path
from statistics import median
from typing import Literal, NamedTuple, TypeAlias

from pydantic import computed_field
from pydantic.dataclasses import dataclass as result

from ..base.errors import ImageError, InputError
from ..base.images import MAX_PIXELS, format_path, load_image, load_mask
from ..base.item import Item, Need
from ..base.strict import STRICT
from ..base.text import format_count, shorten_list
from ..benchmarks.dataset import NO_FILE, Dataset, ItemRef
from ..benchmarks.dimension import Dimension
from ..benchmarks.outputs import Outputs
from ..benchmarks.registry import CORE
from ..engine.run_inputs import RunInputs
from ..engine.run_plan import FlawedItem, check_applicable, inspect_items
from .name_shift import SHIFT_FIX, find_output_beyond, find_shift, sample_blocks

_DataKind: TypeAlias = Literal["data", "release", "field", "mask"]
_ImageKind: TypeAlias = Literal["unreadable", "misnamed", "shifted", "size", "flat"]
Kind: TypeAlias = _DataKind | _ImageKind | Literal["missing", "extra", "folder"]
MAX_USUAL_SHARE = 0.5
"""The median share of masks above which they may be inverted. Of GIE-Bench's it is 14 %, and only
edits of scenes and backgrounds may change more than half of their image."""


@result(frozen=True, slots=True, config=STRICT)
class Problem:
    """A finding in data or outputs: a problem, or only a note.

    Attributes:
        kind: `data` (fields, ids or files of the benchmark), `release` (a remark of the reader on
            the data, see `Dataset.notes`), `field` (items that lack a field that a dimension
            needs; a problem if most dimensions can be judged on no item), `mask` (does not fit its
            image, or selects nothing or everything), `missing` and `extra` outputs, `unreadable`
            and `misnamed` images, `shifted` (outputs that fit the neighbouring items), `size`
            (outputs of another size than their source), `flat` (outputs of a single colour),
            `folder` (does not exist, or belongs to two models).
        where: A model under test, or `data`.
        what: Description in one or several lines.
        note: Whether this is only a note: it changes no number, and the caller need not fix it.
    """

    kind: Kind
    where: str
    what: str
    note: bool = False


@result(config=STRICT)
class Validation:
    """The result of `validate`: the numbers of items and outputs, and their problems.

    Attributes:
        problems: Problems and notes, in the order in which they were found.
        items: Number of usable items.
        outputs: Number of existing outputs, by model.
        mask_share: Median share of its image that a mask lets change, 0..1; None without masks.
    """

    items: int = 0
    outputs: dict[str, int] = field(default_factory=dict)
    mask_share: float | None = None
    problems: list[Problem] = field(default_factory=list)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def counts(self) -> dict[Kind, int]:
        """Number of problems and notes by kind."""
        return dict(Counter(problem.kind for problem in self.problems))

    @computed_field  # type: ignore[prop-decorator]
    @property
    def wrong(self) -> bool:
        """Whether there is any problem that is not only a note."""
        return any(not one.note for one in self.problems)

    def select(self, kind: Kind) -> list[Problem]:
        """The problems and notes of one kind."""
        return [one for one in self.problems if one.kind == kind]


def _make_note(kind: Kind, where: str, lines: Sequence[str], singular: str, plural: str) -> list[Problem]:
    """Make a note that counts some items or files and quotes the first; none for an empty list.

    Args:
        lines: A text for each item or file.
        singular: The words for a single item or file.
        plural: The words for several.
    """
    what = f"{format_count(len(lines), singular, plural)} (first: {lines[0]})" if lines else ""
    return [Problem(kind, where, what, note=True)] if lines else []


def validate(inputs: RunInputs, single_image: Collection[str] = (), *, as_named: bool = False) -> Validation:
    """Check data and outputs; every image is decoded.

    Args:
        single_image: Models that need no output for items with several sources.
        as_named: Match outputs to items by name, without comparing sizes and contents.
    """
    validation = Validation()
    problems = validation.problems
    dataset = inputs.dataset
    refs = list(_list_usable_refs(dataset, validation))
    has_unusable = bool(problems)
    validation.items = len(refs)
    problems += _find_flaws(dataset, refs)
    problems += [Problem("release", "data", one, note=True) for one in dataset.notes()]
    problems += _find_missing_fields(inputs, refs)
    # With unusable items no run starts, and the neighbours of an item may be missing.
    blocks = [] if as_named or has_unusable else sample_blocks(dataset, len(refs[: inputs.limit]))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        pictures = dict(chain.from_iterable(_list_image_paths(dataset, ref) for ref in refs))
        data_checks = pool.map(partial(_check, "data"), pictures, pictures.values())
        checks = dict(zip(pictures, data_checks, strict=True))
        problems += [one.problem for one in checks.values() if one.problem]
        validation.mask_share, mask_problems = _check_masks(dataset, refs, pool)
        problems += mask_problems
        sources = {ref.id: _find_source_check(dataset, ref, checks) for ref in refs}
        for model, folder in inputs.outputs.items():
            if not dataset.has_outputs(folder):
                problems.append(Problem("folder", model, f"no such folder: {format_path(folder)}"))
                continue
            first = next(name for name, paths in inputs.outputs.items() if paths == folder)
            if first != model:
                what = f"the same folder as {first}'s: {format_path(folder)}"
                problems.append(Problem("folder", model, what, note=True))
            outputs = dataset.outputs(folder).index()
            alone = model in single_image
            there = dict(_existing_outputs(dataset, refs, outputs, validation, model, alone=alone))
            validation.outputs[model] = len(there)
            pending = pool.map(partial(_check, model), there.values())
            results = dict(zip(there, pending, strict=True))
            problems += [one.problem for one in results.values() if one.problem]
            beyond = "" if as_named else find_output_beyond(dataset, outputs, len(refs))
            if why := beyond or find_shift(blocks, outputs):
                problems.append(Problem("shifted", model, f"{why}\n  {SHIFT_FIX}"))
            problems += _find_other_sizes(model, results, sources)
            flat = [i for i, one in results.items() if one.is_flat and not sources[i].is_flat]
            words = "output has a single colour", "outputs have a single colour"
            problems += _make_note("flat", model, flat, *words)
            strays = outputs.list_unmatched(frozenset(ref.id for ref in refs))
            problems += _find_extra_outputs(model, strays, is_complete=not has_unusable)
    without_outputs = [model for model in inputs.outputs if not validation.outputs.get(model)]
    if refs and not has_unusable and not without_outputs:
        try:
            check_applicable(inspect_items(inputs))
        except InputError as error:
            problems.append(Problem("field", "data", error.reason))
    return validation


def _list_usable_refs(dataset: Dataset, validation: Validation) -> Iterator[ItemRef]:
    try:
        yield from dataset.check_items()
    except InputError as error:
        fix = f"\n  {error.fix}" if error.fix else ""
        validation.problems.append(Problem("data", "data", f"{error.name}: {error.reason}{fix}"))


def _find_flaws(dataset: Dataset, refs: Iterable[ItemRef]) -> Iterator[Problem]:
    """Report flaws of items; those of a release are notes, except for missing files."""
    items = [FlawedItem(ref, flaws) for ref in refs if (flaws := dataset.flaws(ref))]
    without_file = [one for one in items if any(NO_FILE in f.reason for f in one.flaws.values())]
    fix = dataset.fix([one.ref for one in without_file]) if without_file else ""
    for item in items:
        note = dataset.is_released and item not in without_file
        yield Problem("data", "data", item.description, note=note)
    if fix:
        yield Problem("data", "data", fix, note=True)
    for where, what in dataset.list_rejected_entries():
        yield Problem("data", "data", f"{where}: no item: {what}")


def _find_missing_fields(order: RunInputs, refs: Iterable[ItemRef]) -> list[Problem]:
    """Note for each field the items that lack it and the dimensions that need it.

    It is a problem if most dimensions of a benchmark can be judged on no item.
    """
    dimensions = [dimension for dimension in order.dimensions if not dimension.round_of]
    ids_by_need: dict[Need, dict[str, set[str]]] = {}
    judged_counts: Counter[str] = Counter()
    lacking: dict[str, Counter[str]] = {}
    for ref in refs:
        item = order.dataset.outline(ref)
        for dimension in dimensions:
            name = dimension.id
            if (need := _find_missing_need(dimension, item)) is not None:
                ids_by_need.setdefault(need, {}).setdefault(ref.id, set()).add(name)
                flaw = item.flaws.get(need)
                field_name = flaw.reason.partition(":")[0] if flaw else need
                lacking.setdefault(name, Counter())[field_name] += 1
            elif dimension.when(item) is None:
                judged_counts[name] += 1
    problems: list[Problem] = []
    for need, items in ids_by_need.items():
        names = sorted(set().union(*items.values()))
        effect = f"no {need}, and so no score on {shorten_list(names)}"
        problems += _make_note("field", "data", [*items], f"item has {effect}", f"items have {effect}")
    own = {name for name in lacking.keys() | judged_counts if not name.startswith(f"{CORE}.")}
    nowhere = own - judged_counts.keys()
    if 2 * len(nowhere) > len(own):
        lines = [
            f"{name}: {judged_counts[name]:,} of {judged_counts[name] + counts.total():,} items"
            " have its fields"
            f" ({', '.join(f'{count:,} without {lacks}' for lacks, count in counts.items())})"
            for name, counts in lacking.items()
        ]
        benchmark = min(nowhere).partition(".")[0]
        count = f"{len(nowhere):,} of {len(own):,} dimensions"
        listing = f"editjudge list dimensions {benchmark}.* names them"
        what = f"{count} can be judged on no item, for want of fields; {listing}"
        problems.append(Problem("field", "data", "\n  ".join([what, *lines])))
    return problems


def _find_missing_need(dimension: Dimension, item: Item) -> Need | None:
    """Find the first input that an item lacks for a dimension that would otherwise apply."""
    for need in sorted(dimension.needs):
        if not getattr(item, need) and not (need == "source" and item.sources):
            return need if dimension.when(item) is None else None
    return None


def _existing_outputs(
    dataset: Dataset, refs: Iterable[ItemRef], outputs: Outputs, validation: Validation, model: str, *, alone: bool
) -> Iterator[tuple[str, Path]]:
    """Yield existing outputs by item, and report missing ones as problems."""
    for ref in refs:
        path = outputs.path(ref.id)
        if path is not None:
            yield ref.id, Path(path)
            continue
        why = outputs.why_not(ref.id)
        if why.was_given or not (alone and len(dataset.outline(ref).sources) > 1):
            validation.problems.append(Problem("missing", model, f"{ref.id}: {why}"))


def _find_extra_outputs(model: str, others: Sequence[str], *, is_complete: bool) -> list[Problem]:
    """Report outputs that belong to no item; only a note if there are unusable items."""
    if is_complete:
        return [Problem("extra", model, f"{name}: no item") for name in others]
    what = "to no item that can be used"
    return _make_note("extra", model, others, f"output belongs {what}", f"outputs belong {what}")


class _Check(NamedTuple):
    """The result of decoding a picture.

    Attributes:
        problem: The problem of the picture, if any.
        size: Width and height; None if the picture cannot be read.
        is_flat: Whether all pixels have the same colour.
    """

    problem: Problem | None
    size: tuple[int, int] | None = None
    is_flat: bool = False


def _check(where: str, path: Path, role: str = "source") -> _Check:
    try:
        image = load_image(path, max_lazy_pixels=MAX_PIXELS)
    except ImageError as error:
        if role == "mask":
            # A mask has no scale, so it may hold what is no picture: values of 0 and 1 in 16 bits.
            with suppress(ImageError):
                return _Check(None, load_mask(path).size)
        return _Check(Problem("unreadable", where, f"{error.name}: {error.reason}"))
    misnamed_notes = (
        # The content decides the format; official data was published with wrong names.
        Problem("misnamed", where, f"{image.name}: {note}", note=where == "data")
        for note in image.notes
        if note.kind == "misnamed"
    )
    flat = bool((image.rgb == image.rgb[0, 0]).all())
    return _Check(next(misnamed_notes, None), image.size, flat)


def _list_image_paths(dataset: Dataset, ref: ItemRef) -> Iterator[tuple[Path, str]]:
    """Yield the pictures of an item, each with its role."""
    for role, paths in dataset.image_paths(ref).items():
        yield from ((path, role) for path in paths)


def _find_source_check(dataset: Dataset, ref: ItemRef, checks: Mapping[Path, _Check]) -> _Check:
    """The check of the source of an item; an empty one unless it has exactly one source."""
    if len(dataset.outline(ref).sources) != 1:
        return _Check(None)
    return checks[dataset.image_paths(ref)["source"][0]]


def _find_other_sizes(model: str, results: Mapping[str, _Check], sources: Mapping[str, _Check]) -> list[Problem]:
    """Note outputs of another size than their source, which are resized when they are judged."""
    others = [
        f"{item}: {one.size[0]}x{one.size[1]} for a source of {size[0]}x{size[1]}"
        for item, one in results.items()
        for size in [sources[item].size]
        if one.size and size and one.size != size
    ]
    words = "output has another size than its source", "outputs have another size than their source"
    return _make_note("size", model, others, *words)


def _check_masks(dataset: Dataset, refs: list[ItemRef], pool: ThreadPoolExecutor) -> tuple[float | None, list[Problem]]:
    """Report masks that do not fit their image; note those that select nothing or everything.

    Returns:
        The median share that they select, None without masks, and the problems.
    """
    with_mask = [ref for ref in refs if dataset.outline(ref).mask is not None]
    results = pool.map(partial(_check_mask, dataset), with_mask)
    checks = {ref.id: result for ref, result in zip(with_mask, results, strict=True)}
    problems = [Problem("mask", "data", f"{item}: {one.error}") for item, one in checks.items() if one.error]
    for share, kind in ((0.0, "without a white pixel"), (1.0, "all white")):
        # If masks are not files, the reader of the data reports their oddities.
        odd = [i for i, one in checks.items() if one.share == share and not dataset.has_masks]
        problems += _make_note("mask", "data", odd, f"mask is {kind}", f"masks are {kind}")
    sizes = [f"{item}: {one.size_change}" for item, one in checks.items() if one.size_change]
    what = "another size than the image, to which it is resized"
    problems += _make_note("mask", "data", sizes, f"mask has {what}", f"masks have {what}")
    shares = [one.share for one in checks.values() if one.share is not None]
    median_share = median(shares) if shares else None
    if median_share is not None and median_share > MAX_USUAL_SHARE:
        what = (
            f"by most masks most of the image may change (median {100 * median_share:.0f} %): if "
            'white shows what is to be kept, they are inverted (items.jsonl: "mask_shows": "kept")'
        )
        problems.append(Problem("mask", "data", what, note=True))
    return median_share, problems


class _MaskResult(NamedTuple):
    """The result of checking an item's mask.

    Attributes:
        error: Why the mask cannot be used; "" if it can.
        share: The share of the image that the mask selects, 0..1.
        size_change: The sizes of mask and image if they differ; otherwise "".
    """

    error: str = ""
    share: float | None = None
    size_change: str = ""


def _check_mask(dataset: Dataset, ref: ItemRef) -> _MaskResult:
    item = dataset.load(ref)
    if "mask" in item.flaws:
        paths = _list_image_paths(dataset, ref)
        unreadable = any(_check("data", *each).size is None for each in paths)
        return _MaskResult("" if unreadable else item.flaws["mask"].reason)  # reported already
    mask, over = item.mask, item.source or item.target
    if mask is None:
        return _MaskResult()
    (width, height), (w, h) = mask.size, over.size if over else mask.size
    fits = (width, height) == (w, h) or mask.stretches_to_frame
    size_change = "" if fits else f"{width}x{height} for {w}x{h}"
    return _MaskResult(share=float(mask.region.mean()), size_change=size_change)
