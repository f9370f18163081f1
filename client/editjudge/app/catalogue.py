"""The JSON of `list`: dimensions and prompt templates that can be chosen."""

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
        id: Id of the dimension.
        asks: Its question.
        unit: Unit of the value; empty for a pure number.
        variant: The exact variant of the metric, for example `ssim.rgb.win7`; may be empty.
        source: The paper and section that it follows.
        range: Lowest and highest value.
        needs: Fields that an item must have.
        services: Services that are called.
        tolerance: The largest difference between values of the same signature.
        prompts: Origin of the prompts of its questions; null if it has none.
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
        """Make the entry of a dimension."""
        fields = {name: getattr(dimension, name, None) for name in cls.model_fields}
        fields |= {"needs": sorted(dimension.needs), "prompts": dimension.prompt_origins}
        fields["services"] = sorted(roles_of(dimension, load_dimensions([dimension.id])))
        return cls.model_validate(fields)


class TemplateEntry(Strict):
    """An entry of `list prompts --json`: a built-in template or a custom one.

    Attributes:
        name: Name of the template.
        origin: Whose words it has: `own` (editjudge), `original` (an official prompt) or `custom`
            (the user).
        digest: Digest of all that shapes the prompt and how its reply is read.
        asks: The question in one line.
        source: The paper and section that it follows.
        system: The system turn.
        user: The user turn, with fields in braces.
        answer: The instruction for the reply; empty if the template's own text has one.
    """

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
        """Make the entry of a template."""
        return cls.model_validate(template, from_attributes=True)
