"""The dimensions that custom rubrics become."""

from collections.abc import Iterable, Mapping
from typing import get_args

from ..base.identity import JUDGE
from ..base.item import Need
from ..prompts import Template
from ..prompts.rubrics import SCORE, select_rubrics
from ..scorers.rubric import Rubric
from .dimension import Dimension, Reading

_NEEDS: Mapping[str, Need] = {need: need for need in get_args(Need)}


def make_rubric_dimensions(custom: Iterable[Template]) -> tuple[Dimension, ...]:
    """The dimension of each rubric among templates of one's own."""
    return tuple(
        Dimension(
            id=rubric.dimension,
            asks=rubric.asks,
            range=(rubric.low, rubric.high),
            higher_is_better=rubric.higher_is_better,
            source=rubric.source,
            how=Reading(Rubric(JUDGE, rubric.name, custom=(rubric,)), SCORE),
            protocol="rubric.1",
            # What it shows, and an item may lack.
            needs=frozenset(_NEEDS[name] for name in rubric.fields if name in _NEEDS),
            variant="rubric",
        )
        for rubric in select_rubrics(custom)
    )
