"""What a run is asked for, as the engine takes it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from ..base.identity import Identities, ServiceName
from ..benchmarks.dataset import Dataset
from ..benchmarks.dimension import Dimension
from ..benchmarks.rounds import JudgeRounds
from .judge import Signatures, computes_pixels, roles_of
from .outcomes import sort_by_dependency


@dataclass(frozen=True)
class RunInputs:
    """What a run is asked for; by a `RunSpec` it is `app.spec.ResolvedSpec`.

    Attributes:
        outputs: Folder of outputs by model under test.
        dimensions: Those asked for.
        known: All dimensions by id, for what the asked ones derive from.
        limit: How many items, from the first; None for all.
        tasks: Globs of the tasks whose items are asked for; all without.
        judge_rounds: Which judges, and in how many rounds each judges.
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
        """The folders of outputs, as a run names them: a link keeps its own name."""
        return {model: os.path.abspath(path) for model, path in self.outputs.items()}  # noqa: PTH100

    @cached_property
    def signature_cache(self) -> Signatures:
        """Signatures of these dimensions."""
        return Signatures(self.dimensions_by_id)

    @cached_property
    def reads_pixels(self) -> bool:
        """Whether any of these dimensions works on pixels itself; see `Scorer.computes`."""
        return any(
            computes_pixels(dimension, self.dimensions_by_id) for dimension in self.dimensions
        )

    def why_unavailable(self, name: str) -> str:
        """Why a dimension, or a part of it, cannot be computed here; empty where it can."""
        parts = sort_by_dependency([self.dimensions_by_id[name]], self.dimensions_by_id)
        return next(filter(None, (part.unavailable_reason for part in parts)), "")

    def signatures(self, identities: Identities) -> dict[str, str]:
        """Of a value of today, by dimension."""
        signatures = self.signature_cache.of(self.dimensions, identities)
        return {name: str(signature) for name, signature in signatures.items()}

    @cached_property
    def dependents(self) -> Mapping[str, frozenset[str]]:
        """By id, the dimensions asked for that derive from a dimension, through others too."""
        dependents: dict[str, set[str]] = {}
        for dimension in self.dimensions:
            for part in sort_by_dependency([dimension], self.dimensions_by_id):
                dependents.setdefault(part.id, set()).add(dimension.id)
        return {name: frozenset(ids - {name}) for name, ids in dependents.items()}

    def roles(self, dimensions: Iterable[str]) -> frozenset[ServiceName]:
        """The services that these dimensions call."""
        chosen_dimensions = (self.dimensions_by_id[name] for name in dimensions)
        return frozenset().union(
            *(roles_of(dimension, self.dimensions_by_id) for dimension in chosen_dimensions)
        )
