"""The demo's results as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Self

from ...benchmarks import cell
from ...engine.judge import Judgement
from .base import Wire
from .verdict import Score


class Demo(Wire):
    """`results.json` of the demo.

    Attributes:
        editors: What each of them does.
        summary: By editor and column.
        edits: Each as `score --json` tells it.
    """

    editors: dict[str, str]
    summary: dict[str, dict[str, cell.Cell]]
    edits: tuple[Score, ...]

    @classmethod
    def of(
        cls,
        editors: Mapping[str, str],
        cells: Mapping[str, Mapping[str, cell.Cell]],
        judgements: Iterable[Judgement],
    ) -> Self:
        """As JSON."""
        edits = tuple(map(Score.of, judgements))
        return cls(
            editors=dict(editors),
            summary={model: dict(row) for model, row in cells.items()},
            edits=edits,
        )
