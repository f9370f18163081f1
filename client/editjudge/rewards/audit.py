"""What a reward follows beside its purpose, and what became of rewards that were kept."""

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from statistics import fmean
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..app.agreement import Agreement, AgreementRow, AgreementTable
from ..app.human_agreement import Key, Side
from ..app.judge_values import cluster_items
from ..app.view import Pictures, RunView
from ..base.errors import ConfigError, InputError
from ..base.item import Edit
from ..base.strict import Strict
from ..benchmarks.column import Row
from ..stats.agreement import CORRELATIONS, Statistic, estimate, spearman
from ..stats.clusters import Floats
from .config import RewardConfig
from .mix import mix

_EQUAL = 1e-6
_MOST_SHOWN = 5
_NO_TEXT = "painted text was not looked for: the run has no dimension of text"
Numbers: TypeAlias = Sequence[float | None]
Facts: TypeAlias = Sequence[Mapping[str, float]]


class Movement(Strict):
    """How rewards differ from those that were kept.

    Attributes:
        edits: How many have a number now and had one.
        other_numbers: How many of these have another number.
        new_numbers: How many have a number and had none.
        lost_numbers: How many have no number and had one.
        mean_change: The mean of now minus then; None without edits.
        agreement: Rank correlation, -1 to 1; None where it is not defined.
        furthest: The ids of those that moved most, with their change.
    """

    edits: int
    other_numbers: int
    new_numbers: int
    lost_numbers: int
    mean_change: float | None
    agreement: float | None
    furthest: dict[str, float]


def measure_edit(edit: Edit) -> dict[str, float]:
    """Measure what a trained editor may change to please a judge.

    Returns:
        `length of instruction` in characters; of the output `sharpness`, the mean step between
        neighbours, 0 to 510, `saturation`, 0 to 1, and `brightness`, 0 to 255; and `change`, the
        mean distance from the source, 0 to 255, if there is one source of equal size.
    """
    facts = {"length of instruction": float(len(edit.item.instruction))}
    pixels = edit.output.rgb.astype(np.float32)
    grey, highest = pixels.mean(axis=2), pixels.max(axis=2)
    facts["sharpness"] = sum(float(np.abs(np.diff(grey, axis=axis)).mean()) for axis in (0, 1) if grey.shape[axis] > 1)
    facts["saturation"] = float((1 - pixels.min(axis=2) / np.maximum(highest, 1)).mean())
    facts["brightness"] = float(grey.mean())
    source = edit.item.source
    if source is not None and source.size == edit.output.size:
        facts["change"] = float(np.abs(pixels - source.rgb).mean())
    return facts


def correlate_siblings(first: Floats, second: Floats, sources: NDArray[np.int64]) -> float:
    """Correlate by rank how far edits lie from the mean of their source, -1 to 1; see `estimate`."""
    counts = np.bincount(sources)
    sides = [side - (np.bincount(sources, side) / np.maximum(counts, 1))[sources] for side in (first, second)]
    return spearman(*(side[counts[sources] > 1] for side in sides))


_SPEARMAN, _SIBLINGS = CORRELATIONS["spearman"], Statistic(correlate_siblings, "correlation", counts_sources=True)


def compare_facts(
    name: str, keys: Sequence[Key], facts: Facts, rewards: Numbers, sources: Sequence[Hashable]
) -> AgreementTable:
    """Compare a reward with facts of its edits by rank correlation, -1 to 1, the strongest first.

    `siblings` counts edits of one source by their distance from its mean. A fact that is the same
    for all edits with a reward is absent.

    Args:
        name: The name of the reward.
        keys: Of each edit its item and its model.
        sources: Of each edit its source picture, which intervals count.
    """
    numbers = {place: number for place, number in enumerate(rewards) if number is not None}
    models = dict.fromkeys(model for _, model in keys)
    rows, sides = [], []
    for fact in dict.fromkeys(key for each in facts for key in each):
        at = [place for place in numbers if fact in facts[place]]
        side = np.array([(facts[place][fact], numbers[place]) for place in at]).reshape(-1, 2).T
        figures = {}
        for column in ("all", "siblings", *(models if len(models) > 1 else ())):
            own = [n for n, place in enumerate(at) if column not in models or keys[place][1] == column]
            statistic = _SIBLINGS if column == "siblings" else _SPEARMAN
            figures[column] = estimate(statistic, [*side[:, own]], [sources[at[n]] for n in own])
        if figures["all"].value is not None:
            rows.append(AgreementRow(who=fact, records=len(at), figures=figures))
            sides.append(Side(fact, "judge", [keys[place] for place in at], *side))
    order = sorted(range(len(rows)), key=lambda n: -abs(rows[n].figures["all"].value or 0.0))
    return AgreementTable(
        dimension=name,
        unit="edit",
        records=len(numbers),
        sources=len({sources[place] for place in numbers}),
        main="",
        rows=tuple(rows[n] for n in order),
        sides=[sides[n] for n in order],
    )


def audit_run(view: RunView, config: RewardConfig) -> Agreement:
    """Compare the rewards of the edits of a run with what an editor may please a judge with.

    That is what `measure_edit` measures, the length of the judges' replies, and every dimension
    of the run that is no part of a reward. Pins are not checked.

    Raises:
        ConfigError: the edits of the run lack a dimension of a reward.
    """
    parts = config.list_ids()
    if lacking := [name for name in parts if name not in view.header.dimensions]:
        raise ConfigError(f"{view.folder}: its edits have no {lacking[0]}", f"judge them with -d {lacking[0]}")
    find, cluster_of = view.make_picture_finder().find, cluster_items([view])
    problems: list[str] = []
    lengths = Counter[Key]()
    facts: dict[Key, dict[str, float]] = {}
    rewards: dict[Key, dict[str, float | None]] = {}

    for verdict in view.verdicts():
        if verdict.dimension in parts:
            lengths[verdict.item, verdict.model] += sum(map(len, verdict.texts))
    for row in view.rows():
        key = row.item.id, row.model
        try:
            edit = _load_edit(row, find(row.item.id))
        except InputError as error:
            problems.append(f"{', '.join(key)}: {error}")
            continue
        rewards[key] = {name: mix(config, name, edit, row.outcomes).reward for name in config.rewards}
        others = {n: o.value for n, o in row.outcomes.items() if o.value is not None and n not in parts}
        facts[key] = {**measure_edit(edit), "length of replies": float(lengths[key]), **others}
    keys, sources = [*facts], [cluster_of(item) for item, _ in facts]
    tables = [
        compare_facts(n, keys, [*facts.values()], [r[n] for r in rewards.values()], sources) for n in config.rewards
    ]
    notes = () if any("text" in name for name in view.header.dimensions) else (_NO_TEXT,)
    return Agreement(tables=tuple(tables), problems=tuple(problems), notes=notes)


def _load_edit(row: Row, pictures: Pictures) -> Edit:
    if (output := pictures.outputs.get(row.model)) is None:
        raise InputError("edited", "there is no picture")
    return Edit.load(source=pictures.sources, edited=output, instruction=row.item.instruction)


def compare_rewards(ids: Sequence[str], before: Numbers, now: Numbers) -> Movement:
    """Compare rewards with those that were kept, edit by edit."""
    pairs = [(i, a, b) for i, a, b in zip(ids, before, now, strict=True) if a is not None and b is not None]
    changes = {i: b - a for i, a, b in pairs if abs(b - a) > _EQUAL}
    sides = np.array([(a, b) for _, a, b in pairs]).reshape(-1, 2).T
    furthest = sorted(changes, key=lambda i: -abs(changes[i]))[:_MOST_SHOWN]
    gaps = [(a is None, b is None) for a, b in zip(before, now, strict=True)]
    return Movement(
        edits=len(pairs),
        other_numbers=len(changes),
        new_numbers=gaps.count((True, False)),
        lost_numbers=gaps.count((False, True)),
        mean_change=fmean(b - a for _, a, b in pairs) if pairs else None,
        agreement=estimate(_SPEARMAN, [*sides], [i for i, _, _ in pairs]).value,
        furthest={i: changes[i] for i in furthest},
    )
