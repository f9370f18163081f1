"""A sample of a run's edits for people to rate, drawn at random, and how much it would tell."""

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import stdev

import numpy as np

from ..base.errors import ConfigError
from ..base.output_files import wrap_disk_errors, write_atomically
from ..base.strict import Strict
from ..base.text import group_by_key
from ..base.verdict import LeftOut, MissingOutput, NotApplicable, Score
from ..benchmarks.dimension import Dimension
from ..stats.anchor import draw_items
from ..stats.clusters import CONFIDENCE, t_quantile
from .export import write_csv
from .judge_values import Edit, cluster_items
from .label_studio import picture_paths
from .view import RunView

_NO_EDIT = (NotApplicable, MissingOutput, LeftOut)
_CORRELATIONS = (0.0, 0.5, 0.8)
_FACTS = ("stratum", "probability", "sample_size", "seed")
_PICTURES = ("source", "edited")


class Stratum(Strict):
    """A part of the items that is drawn from by itself; `editjudge ratings draw --json` has a list of them.

    Attributes:
        name: What its items share; empty where there is one stratum only.
        items: Number of items that may be drawn.
        sample: The items that are drawn.
    """

    name: str
    items: int
    sample: tuple[str, ...]


def read_scores(view: RunView, dimensions: Iterable[str]) -> tuple[dict[str, dict[Edit, float]], dict[str, str]]:
    """Read the scores of each dimension by edit, and the task of each item.

    Missing outputs, and edits that a dimension does not apply to, have no entry. An edit that no
    judge scored has NaN, and so has one whose number comes from a rule.
    """
    scores: dict[str, dict[Edit, float]] = {name: {} for name in dimensions}
    tasks: dict[str, str] = {}
    for row in view.rows():
        tasks[row.item.id] = row.item.task
        for name, values in scores.items():
            outcome = row.outcomes.get(name)
            if outcome is not None and not isinstance(outcome, _NO_EDIT):
                own = outcome.value if isinstance(outcome, Score) and not outcome.imputed else math.nan
                values[row.item.id, row.model] = own
    return scores, tasks


def choose_dimensions(view: RunView, patterns: Iterable[str]) -> dict[str, Dimension]:
    """Choose the dimensions that people rate; by default all that describe an edit.

    Raises:
        ConfigError: a pattern names none.
    """
    names = view.match_ids(patterns) if (patterns := tuple(patterns)) else view.header.dimensions
    by_id = view.resolved_spec.dimensions_by_id
    there = {name: by_id[name] for name in view.header.dimensions if name in names and name in by_id}
    return {name: one for name, one in there.items() if not (one.round_of or one.of_data)}


def count_needed(view: RunView, dimensions: Iterable[str], half_width: float) -> dict[str, dict[str, int | None]]:
    """Count the items to rate for a 95 % interval of this half width, of a model's mean.

    People are taken to rate on the scale of the judge, and to rate edits of a model as unequally.
    Where sources have several items, or raters differ among themselves, more are needed.

    Returns:
        For each dimension the number of items by the correlation of judge and people; 0 stands for
        people alone. None where all items of the run are too few.
    """
    needs: dict[str, dict[str, int | None]] = {}
    for name, values in read_scores(view, dimensions)[0].items():
        by_model = group_by_key((model, value) for (_, model), value in values.items() if not math.isnan(value))
        if samples := [each for each in by_model.values() if len(each) > 1]:
            deviation, most = max(map(stdev, samples)), max(map(len, samples))
            error = half_width / t_quantile((1 + CONFIDENCE) / 2, most)
            for r in _CORRELATIONS:
                left = max(error**2 - (r * deviation) ** 2 / most, 1e-300)
                count = max(1.0, deviation**2 * (1 - r**2) / left)
                needs.setdefault(name, {})[f"{r:g}"] = math.ceil(count) if count <= most else None
    return needs


def draw_sample(
    view: RunView, dimensions: Iterable[str], per: int, seed: int, *, by_task: bool = False
) -> list[Stratum]:
    """Draw items at random, spread over source pictures: as many of each stratum.

    Args:
        dimensions: An item may be drawn if one of these applies to an edit of it.
        per: How many items are drawn of each stratum; all of a stratum that has fewer.
        seed: The same seed draws the same items of the same run.
        by_task: Whether each task is a stratum; otherwise there is one.

    Raises:
        ConfigError: there is nothing to draw.
    """
    scores, tasks = read_scores(view, dimensions)
    ids = {item for of in scores.values() for item, _ in of}
    if not ids:
        raise ConfigError(f"{view.folder} has no edit to rate", "judge edits first, or choose other dimensions (-d)")
    cluster_of = cluster_items([view])
    groups = group_by_key((task if by_task else "", item) for item, task in tasks.items() if item in ids)
    strata = []
    for number, (name, items) in enumerate(sorted(groups.items())):
        rng = np.random.default_rng((seed, number))
        places = draw_items([cluster_of(item) for item in items], min(per, len(items)), rng)
        strata.append(Stratum(name=name, items=len(items), sample=tuple(items[place] for place in places.tolist())))
    return strata


def write_sample(file: Path, view: RunView, dimensions: Iterable[str], strata: Sequence[Stratum], seed: int) -> int:
    """Write the edits of a sample as CSV that people fill in, in random order.

    There is a line for each edit and dimension, in which `value` and `rater` are empty. It keeps the
    probability and the seed, and does not say what a judge said.

    Returns:
        The number of edits.

    Raises:
        ConfigError: the file exists, or does not end in `.csv`.
        InputError: the data of the run no longer exists.
    """
    if file.exists():
        raise ConfigError(f"{file} exists, and may hold ratings", "give another --out")
    if file.suffix.lower() != ".csv":
        raise ConfigError(f"{file} is no name of a table", "give --out a name that ends in .csv")
    facts: dict[str, dict[str, object]] = {}
    for one in strata:
        size = len(one.sample)
        how = (one.name, size / one.items, size, seed)
        facts |= {item: dict(zip(_FACTS, how, strict=True)) for item in one.sample}
    scores, _ = read_scores(view, dimensions)
    edits = sorted({edit for of in scores.values() for edit in of if edit[0] in facts})
    np.random.default_rng(seed).shuffle(edits)
    paths_of = picture_paths(view, {})
    instructions = {row.item.id: row.item.instruction for row in view.rows(items=facts)}
    rows = (
        {"item": item, "dimension": name, "model": model, "instruction": instructions[item], **facts[item]}
        | {picture: paths.get(picture, "") for picture in _PICTURES}
        for item, model in edits
        for paths in [paths_of(item, model)]
        for name, of in scores.items()
        if (item, model) in of
    )
    fields = ("item", "dimension", "model", "rater", "value", *_FACTS, "instruction", *_PICTURES)
    with wrap_disk_errors(file), write_atomically(file) as partial:
        write_csv(partial, rows, fields)
    return len(edits)
