"""Data and outputs, looked at whole before anything is called."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from ..benchmarks.dataset import Dataset, ItemRef, Outputs
from ..errors import ImageError, InputError
from ..images import load_image, show_path
from .estimate import Estimate, estimate
from .work import Order, Survey

Kind: TypeAlias = Literal["data", "release", "missing", "extra", "unreadable", "misnamed", "folder"]
_MISNAMED = "named ."


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong.

    Attributes:
        kind: `data` (fields, ids, files of the benchmark), `release` (what its reader
            notes of the data, see `Dataset.notes`), `missing` and `extra` outputs, `unreadable`
            and `misnamed` images, `folder` (there is none).
        where: A model under test, or `data`.
        what: In one line or several.
        note: It changes no number and is not the caller's to mend.
    """

    kind: Kind
    where: str
    what: str
    note: bool = False


@dataclass
class Validation:
    """What was found.

    Attributes:
        items: How many can be used.
        outputs: By model, how many there are.
        estimate: What a run would take; None where it could not begin.
    """

    items: int = 0
    outputs: dict[str, int] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    estimate: Estimate | None = None

    @property
    def wrong(self) -> bool:
        """Whether anything is to be mended."""
        return any(not one.note for one in self.problems)


def validated(order: Order, settings: Any, single_image: Collection[str] = ()) -> Validation:
    """Check data and outputs, and count the calls; every image is decoded.

    Args:
        settings: For the estimate.
        single_image: Models that need give no output to items with several sources.
    """
    found = Validation()
    refs = list(_checked(order.dataset, found))
    found.items = len(refs)
    found.problems += [Problem("release", "data", one, note=True) for one in order.dataset.notes()]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        pictures = dict.fromkeys(path for ref in refs for path in order.dataset.pictures(ref))
        for problem in filter(None, pool.map(_of_data, pictures)):
            found.problems.append(problem)
        for model, folder in order.outputs.items():
            if not folder.is_dir():
                what = f"no such folder: {show_path(folder)}"
                found.problems.append(Problem("folder", model, what))
                continue
            outputs = order.dataset.outputs(folder).index()
            alone = model in single_image
            there = dict(_there(order.dataset, refs, outputs, found, model, alone=alone))
            found.outputs[model] = len(there)
            looked = pool.map(lambda path: _picture(path, model), there.values())  # noqa: B023
            found.problems += filter(None, looked)
            others = outputs.others(frozenset(ref.id for ref in refs))
            found.problems += [Problem("extra", model, f"{name}: no item") for name in others]
    if not any(one.kind in {"data", "folder"} for one in found.problems) and all(
        found.outputs.values()
    ):
        found.estimate = estimate(Survey(order).work(None, {}), settings)
    return found


def _checked(dataset: Dataset, found: Validation) -> Iterator[ItemRef]:
    try:
        yield from dataset.checked()
    except InputError as error:
        found.problems.append(Problem("data", "data", f"{error.name}: {error.reason}"))


def _there(
    dataset: Dataset,
    refs: Iterable[ItemRef],
    outputs: Outputs,
    found: Validation,
    model: str,
    *,
    alone: bool,
) -> Iterator[tuple[str, Path]]:
    """The outputs there are, by item; what is missing goes to the problems."""
    for ref in refs:
        path = outputs.path(ref.id)
        if path is not None:
            yield ref.id, Path(path)
        elif not (alone and len(dataset.outline(ref).sources) > 1):
            found.problems.append(Problem("missing", model, f"{ref.id}: {outputs.why_not(ref.id)}"))


def _of_data(path: Path) -> Problem | None:
    return _picture(path, "data")


def _picture(path: Path, where: str) -> Problem | None:
    """What is wrong with an image file."""
    try:
        image = load_image(path)
    except ImageError as error:
        return Problem("unreadable", where, f"{error.name}: {error.reason}")
    for note in image.notes:
        if note.startswith(_MISNAMED):
            # Images are told by their content: in released data this is as it was published.
            return Problem("misnamed", where, f"{image.name}: {note}", note=where == "data")
    return None


def as_json(found: Validation) -> Mapping[str, Any]:
    """As plain data."""
    return {
        "items": found.items,
        "outputs": found.outputs,
        "calls": dict(found.estimate.calls) if found.estimate else None,
        "counts": dict(Counter(one.kind for one in found.problems)),
        "problems": [
            {"kind": one.kind, "where": one.where, "what": one.what, "note": one.note}
            for one in found.problems
        ],
        "wrong": found.wrong,
    }
