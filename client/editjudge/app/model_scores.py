"""Reads the scores of models from stored runs."""

from __future__ import annotations

import math
from array import array
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from ..base.errors import ConfigError
from ..base.strict import Strict
from ..base.verdict import NotApplicable, Pending, Score
from ..benchmarks.column import Row
from ..benchmarks.rounds import JudgeRound, JudgeRounds
from .view import RunView


class Noise(Strict):
    """How far scores of one item lie apart by chance: standard deviations in the dimension's unit.

    Attributes:
        editor: From output to output, without the judge's where that is known; None with one output.
        judge: From round to round of a judge on one output; None with one round.
    """

    editor: float | None = None
    judge: float | None = None


@dataclass
class ModelScores:
    """The scores of one model on some dimensions, twelve bytes for each item.

    Attributes:
        items: Ids of the requested items, in the order of the data.
        numbers: By dimension, the score of each item; NaN where it has none.
        marks: By dimension, of each score twice the number of its signature, plus 1 where a rule
            imputed it.
        pending: For each item, 1 if a dimension is not judged yet.
        noise: By dimension.
    """

    items: list[str]
    numbers: dict[str, array[float]]
    marks: dict[str, array[int]]
    pending: bytearray = field(default_factory=bytearray)
    noise: dict[str, Noise] = field(default_factory=dict)

    @property
    def is_pending(self) -> NDArray[np.bool_]:
        """For each item, whether a dimension is not judged yet."""
        return np.frombuffer(self.pending, dtype=np.bool_)

    def values(self, dimension: str) -> NDArray[np.float64]:
        """The score of each item; NaN where it has none."""
        return np.frombuffer(self.numbers[dimension])


def _average(outputs: Sequence[ModelScores]) -> ModelScores:
    """Average several outputs of each item; an item has a score only where each of them has one."""
    if len(outputs) == 1:
        return outputs[0]
    numbers, marks = {}, {}
    for name in outputs[0].numbers:
        values = np.stack([of.values(name) for of in outputs])
        numbers[name] = array("d", values.mean(axis=0).tobytes())
        # All scores have one signature; it is imputed where any is.
        mark = np.stack([np.asarray(of.marks[name]) for of in outputs]).max(axis=0)
        marks[name] = array("I", np.asarray(mark, dtype=np.uintc).tobytes())
    pending = np.logical_or.reduce([of.is_pending for of in outputs])
    return ModelScores(outputs[0].items, numbers, marks, bytearray(pending.tobytes()))


def _find_variance(repeats: Sequence[NDArray[np.float64]]) -> float | None:
    """The mean variance of the repeats of an item (float64, N each); None where no item has two."""
    if len(repeats) < 2:
        return None
    variances = np.var(np.stack(repeats), axis=0, ddof=1)
    is_known = ~np.isnan(variances)
    return float(variances[is_known].mean()) if is_known.any() else None


class ScoreReader:
    """Reads the scores of models, of one run or of two.

    Args:
        dimensions: Ids of the dimensions.
        rounds: The rounds to read too, for the noise of judges.

    Attributes:
        applying: Ids of the dimensions that apply to any item.
        signatures: What scores depend on, with a number each.
    """

    def __init__(self, dimensions: Iterable[str], rounds: JudgeRounds = JudgeRounds()) -> None:  # noqa: B008 - frozen
        self._own_ids, self._rounds = tuple(dimensions), rounds
        ids = (each.dimension_id(name) for name in self._own_ids for each in rounds.each_round)
        self._dimensions = (*self._own_ids, *ids)
        self.applying: set[str] = set()
        self.signatures: dict[str, int] = {}

    def read(self, view: RunView, models: Collection[str]) -> list[ModelScores]:
        """Read the scores of some models of a run in one pass.

        Raises:
            ConfigError: a model is not in the run.
        """
        groups = [view.header.find_outputs(model) for model in models]
        for model, names in zip(models, groups, strict=True):
            if not names:
                models_here = ", ".join(view.header.outputs)
                raise ConfigError(f"{view.folder}: no model {model}", f"its models: {models_here}")
        items: list[str] = []
        by_name = {
            name: ModelScores(
                items, {name: array("d") for name in self._dimensions}, {name: array("I") for name in self._dimensions}
            )
            for names in groups
            for name in names
        }
        for row in view.rows():
            if row.item_index == len(items):
                items.append(row.item.id)
            if row.model in by_name:
                self._add(by_name[row.model], row)
        read = [[by_name[name] for name in names] for names in groups]
        return [replace(_average(each), noise={d: self._find_noise(each, d) for d in self._own_ids}) for each in read]

    def _find_noise(self, outputs: Sequence[ModelScores], dimension: str) -> Noise:
        rounds = range(1, 1 + self._rounds.rounds)
        of_judges = [
            _find_variance([of.values(JudgeRound(judge, n).dimension_id(dimension)) for n in rounds])
            for of in outputs
            for judge in self._rounds.judges
            if len(rounds) > 1
        ]
        variances = [variance for variance in of_judges if variance is not None]
        judge = math.fsum(variances) / len(variances) if variances else None
        editor = _find_variance([of.values(dimension) for of in outputs])
        if editor is not None:
            # A score is the mean of the rounds of all judges.
            editor = max(0.0, editor - (judge or 0.0) / max(1, len(self._rounds.each_round)))
        return Noise(editor=editor and math.sqrt(editor), judge=judge and math.sqrt(judge))

    def _add(self, scores: ModelScores, row: Row) -> None:
        is_pending = False
        for name in self._dimensions:
            outcome, value, mark = row.outcomes.get(name), math.nan, 0
            if outcome is not None and not isinstance(outcome, NotApplicable):
                self.applying.add(name)
            if isinstance(outcome, Score):
                signature = str(row.signatures.get(name, ""))
                number = self.signatures.setdefault(signature, len(self.signatures))
                value, mark = outcome.value, 2 * number + outcome.imputed
            is_pending = is_pending or isinstance(outcome, Pending)
            scores.numbers[name].append(value)
            scores.marks[name].append(mark)
        scores.pending.append(is_pending)
