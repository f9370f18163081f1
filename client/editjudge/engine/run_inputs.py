"""The inputs of a run: the data, outputs, dimensions and rounds that the engine works with.

A run passes through these types: `RunSpec` (names and paths) -> `ResolvedSpec`, a `RunInputs` (the
objects they stand for) -> `RunPlan` (what is left to judge) -> `Session` (one process judging the
plan) -> `Scheduler` (the edits in flight) -> `Judgement` (the result for one edit).
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from ..base.identity import Identities, ServiceName
from ..base.objects import find_url
from ..base.text import group_by_key
from ..benchmarks.dataset import Dataset
from ..benchmarks.dimension import Dimension
from ..benchmarks.rounds import JudgeRounds
from .judge import Signatures, computes_pixels, roles_of
from .outcomes import sort_by_dependency


@dataclass(frozen=True)
class RunInputs:
    """The objects that a run works with, the second link of the chain above.

    `RunPlan` is made of it. `app.spec.ResolvedSpec` is the subclass that a `RunSpec` becomes.

    Attributes:
        dataset: The items.
        outputs: The folder of outputs by model under test.
        dimensions: The dimensions to judge.
        dimensions_by_id: All dimensions, for those that `dimensions` derive from.
        limit: How many items, from the first; None for all.
        tasks: Globs of the tasks whose items are judged; empty for all.
        judge_rounds: The judges, and in how many rounds each of them judges.
        shard: Only every n-th item, from the i-th on, as (i, n) with i from 0.
    """

    dataset: Dataset
    outputs: Mapping[str, Path]
    dimensions: tuple[Dimension, ...]
    dimensions_by_id: Mapping[str, Dimension]
    limit: int | None = None
    tasks: tuple[str, ...] = ()
    judge_rounds: JudgeRounds = field(default_factory=JudgeRounds)
    shard: tuple[int, int] = (0, 1)

    @cached_property
    def output_folders(self) -> dict[str, str]:
        """The absolute folders of outputs by model; a symbolic link is not resolved."""
        absolute = os.path.abspath
        return {model: find_url(path) or absolute(path) for model, path in self.outputs.items()}

    @cached_property
    def signature_cache(self) -> Signatures:
        """Makes the signatures of the dimensions; each is made once."""
        return Signatures(self.dimensions_by_id)

    @cached_property
    def reads_pixels(self) -> bool:
        """Whether the scorer of any dimension reads decoded pixels; see `Scorer.reads_pixels`."""
        return any(computes_pixels(each, self.dimensions_by_id) for each in self.dimensions)

    def why_unavailable(self, name: str) -> str:
        """Say why a dimension, or a part of it, cannot be computed here; empty where it can."""
        parts = sort_by_dependency([self.dimensions_by_id[name]], self.dimensions_by_id)
        return next(filter(None, (part.unavailable_reason for part in parts)), "")

    def signatures(self, identities: Identities) -> dict[str, str]:
        """Make today's signatures, by dimension."""
        signatures = self.signature_cache.of(self.dimensions, identities)
        return {name: str(signature) for name, signature in signatures.items()}

    @cached_property
    def dependents(self) -> Mapping[str, frozenset[str]]:
        """By dimension id, those of `dimensions` that derive from it, directly or indirectly."""
        parts = {each.id: sort_by_dependency([each], self.dimensions_by_id) for each in self.dimensions}
        dependents = group_by_key((part.id, name) for name, of in parts.items() for part in of)
        return {name: frozenset(ids) - {name} for name, ids in dependents.items()}

    def roles(self, dimensions: Iterable[str]) -> frozenset[ServiceName]:
        """Find the services that dimensions call.

        Args:
            dimensions: Their ids.
        """
        objects = (self.dimensions_by_id[name] for name in dimensions)
        return frozenset().union(*(roles_of(each, self.dimensions_by_id) for each in objects))
