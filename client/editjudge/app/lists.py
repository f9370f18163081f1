"""What there is to choose from, as JSON: `list`, `prompts import` and `prompts check`."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Self

from ..base.item import Need
from ..base.strict import Strict
from ..benchmarks import dimension
from ..benchmarks.registry import dimensions
from ..engine.judge import roles_of


class ListedDimension(Strict):
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
            services=tuple(sorted(roles_of(dimension, dimensions([dimension.id])))),
            variant=dimension.variant,
            tolerance=dimension.tolerance,
            source=dimension.source,
            prompts=dimension.words,
        )


class Benchmark(Strict):
    """An entry of `list benchmarks --json`."""

    benchmark: str
    title: str
    protocols: str
    not_official_because: str | None
    dimensions: int


class Switch(Strict):
    """An entry of `list switches --json`.

    Attributes:
        on_in: Protocols that have it on.
    """

    benchmark: str
    switch: str
    what: str
    source: str
    on_in: str


class Service(Strict):
    """An entry of `list services --json`; tensors as `NAME TYPE[shape]`."""

    service: str
    model: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


class Template(Strict):
    """A prompt of ours, or one's own."""

    name: str
    origin: str
    digest: str
    asks: str
    source: str
    system: str
    user: str
    answer: str


class Original(Strict):
    """Prompts of a benchmark's authors.

    Attributes:
        texts: Their digests, by name.
    """

    prompts: str
    origin: Literal["original"] = "original"
    imported: bool
    source: str
    texts: dict[str, str]


class Prompts(Strict):
    """`list prompts --json`."""

    own: tuple[Template, ...]
    originals: tuple[Original, ...]


class Imported(Strict):
    """`prompts import --json`.

    Attributes:
        found: Where each text was found.
    """

    prompts: str
    folder: Path
    found: dict[str, Path]


class Checked(Strict):
    """`prompts check --json`.

    Attributes:
        templates: Those that can be used.
        problems: Why others cannot, with the file and the mend.
    """

    templates: tuple[Template, ...]
    problems: tuple[str, ...]
