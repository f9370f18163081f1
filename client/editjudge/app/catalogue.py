"""What there is to choose from, as JSON: the dimensions and prompts of `list`."""

from __future__ import annotations

from typing import Self

from ..base.item import Need
from ..base.strict import Strict
from ..benchmarks import dimension
from ..benchmarks.registry import load_dimensions
from ..engine.judge import roles_of
from ..prompts import Template


class DimensionEntry(Strict):
    """An entry of `list dimensions --json`.

    Attributes:
        range: Lowest and highest value.
        needs: What an item must have.
        services: That are called.
        tolerance: Within which values of one signature agree.
        prompts: Whose words its own questions are in; null without a prompt.
    """

    id: str
    asks: str
    range: tuple[float, float]
    unit: str
    higher_is_better: bool
    needs: tuple[Need, ...]
    services: tuple[str, ...]
    variant: str
    tolerance: float
    source: str
    prompts: str | None

    @classmethod
    def of(cls, dimension: dimension.Dimension) -> Self:
        """As JSON."""
        return cls(
            id=dimension.id,
            asks=dimension.asks,
            range=dimension.range,
            unit=dimension.unit,
            higher_is_better=dimension.higher_is_better,
            needs=tuple(sorted(dimension.needs)),
            services=tuple(sorted(roles_of(dimension, load_dimensions([dimension.id])))),
            variant=dimension.variant,
            tolerance=dimension.tolerance,
            source=dimension.source,
            prompts=dimension.prompt_origins,
        )


class TemplateEntry(Strict):
    """A prompt of ours, or one's own."""

    name: str
    origin: str
    digest: str
    asks: str
    source: str
    system: str
    user: str
    answer: str

    @classmethod
    def of(cls, template: Template) -> Self:
        """As JSON."""
        return cls.model_validate(template, from_attributes=True)
