"""Dimensions: what a benchmark rates on one edit, declared as data."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self, TypeAlias

from ..base.identity import BINDING, UNKNOWN_MODEL, Identities, ServiceName
from ..base.item import Item, Need
from ..base.signature import Signature, describe_parameter, join_parameters, name_implementation
from ..base.verdict import Failure, NoScore
from ..scorers.scorer import Scorer

When: TypeAlias = Callable[[Item], str | None]
"""Returns why a dimension does not apply to an item, or None if it does."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One named field of a scorer's result.

    Attributes:
        scorer: What reads the edit.
        field: The name of the verdict that `Scorer.score` returns.
    """

    scorer: Scorer
    field: str

    def __str__(self) -> str:
        """The text in signatures: `pixels.mse.outside(aligned=False,…)`."""
        return f"{self.scorer.name}.{self.field}({join_parameters(self.scorer.spec())})"

    @property
    def implementations(self) -> tuple[str, ...]:
        """The implementations that the value depends on, with their numbers, scorer first."""
        own = name_implementation(type(self.scorer), self.scorer.name)
        return (own, *map(name_implementation, self.scorer.dependencies(self.field)))


Operand: TypeAlias = "str | Reading"
"""An operand of a formula: the id of another dimension, or a reading."""


@dataclass(frozen=True, slots=True)
class Formula:
    """A pure function of other dimensions or readings of the same edit.

    Operands that do not apply are left out of `values` (composites renormalise), unless
    `complete`; an operand that is unscored or failed leaves the whole without a number.

    Two are equal where they make the same value of the same operands: `fn` is a function of a
    module, or a value itself (a frozen dataclass), never made anew each time.

    Attributes:
        fn: From `{name: value}` of the operands that apply to the value.
        of: The operands by name.
        complete: Not applicable as soon as one operand is not.
    """

    fn: Callable[[Mapping[str, float]], float]
    of: Mapping[str, Operand]
    complete: bool = False


def no_condition(_: Item) -> str | None:
    """The condition of a dimension that has none; returns None for every item."""
    return None


@dataclass(frozen=True, slots=True)
class Dimension:
    """A question about one edit, and how its value is obtained.

    Attributes:
        id: `<benchmark>.<name>`.
        asks: The question that the value answers, in one line.
        source: Paper and section, or the reference that defines it.
        protocol: Benchmark and version of our reading of it, as `kris.1`: what a value depends on
            beside how it is made. Its benchmark fills it in.
        how: The reading or formula that the value comes from.
        range: Lowest and highest value, inclusive.
        higher_is_better: Direction.
        needs: Inputs without which it does not apply.
        when: A further condition on the item.
        variant: The exact variant of the metric, for example `ssim.rgb.win7`, for people; of a
            reading it is in the signature.
        unit: Of the value; empty for a pure number.
        tolerance: Largest difference between two runs of the same signature.
        of_data: The value depends on the item alone, so it needs no output.
        worst_of: What a missing output counts as where missing outputs count, if not as the worse
            end of the range: of a distance that has no largest value.
        round_of: Of the judgement by one judge in one round the id of the dimension that is
            judged; see `rounds`.
    """

    id: str
    asks: str
    source: str
    how: Reading | Formula
    range: tuple[float, float] = (0.0, 1.0)
    higher_is_better: bool = True
    protocol: str = "unversioned"
    needs: frozenset[Need] = field(default_factory=frozenset)
    when: When = no_condition
    variant: str = ""
    unit: str = ""
    tolerance: float = 0.0
    of_data: bool = False
    worst_of: float | None = None
    round_of: str = ""

    @property
    def readings(self) -> tuple[Reading, ...]:
        """The dimension's own readings, without those of the dimensions it derives from."""
        if isinstance(self.how, Reading):
            return (self.how,)
        return tuple(op for op in self.how.of.values() if isinstance(op, Reading))

    @property
    def operands(self) -> tuple[str, ...]:
        """The ids of the dimensions that it derives from."""
        if isinstance(self.how, Reading):
            return ()
        return tuple(op for op in self.how.of.values() if isinstance(op, str))

    @property
    def roles(self) -> tuple[ServiceName, ...]:
        """The services that its own readings call."""
        return tuple(dict.fromkeys(r for reading in self.readings for r in reading.scorer.roles))

    @property
    def unavailable_reason(self) -> str:
        """Why this machine cannot compute its own readings; empty if it can."""
        return next(filter(None, (one.scorer.unavailable_reason for one in self.readings)), "")

    @property
    def worst_value(self) -> float | None:
        """The value of a missing output if missing outputs count; None if it has none."""
        if self.of_data:
            return None
        low, high = self.range
        return self.worst_of if self.worst_of is not None else low if self.higher_is_better else high

    @property
    def cap(self) -> float | None:
        """The value at which an unbounded metric is cut off; None for other metrics.

        Decibels are unbounded: identical images have infinitely many.
        """
        return self.range[1] if self.unit == "dB" else None

    @property
    def prompt_origins(self) -> str | None:
        """The origins of its prompts, `own`, `original` and `custom`, joined by `+`, or None."""
        words = set().union(*(reading.scorer.prompt_origins for reading in self.readings))
        return "+".join(sorted(words)) or None

    def with_scorers(self, change: Callable[[Scorer], Scorer]) -> Self:
        """Return the dimension with the scorers of its own readings changed."""
        return replace(self, how=change_scorers(self.how, change))

    def why_not_applicable(self, item: Item) -> str | None:
        """Return why it does not apply to an item, or None; a flaw of the data is no reason."""
        for need in sorted(self.needs - item.flaws.keys()):
            if not getattr(item, need):
                if need == "source" and item.sources:
                    return "needs exactly one source image"
                words = need.replace("_", " ")
                return f"needs {words}" if need == "questions" else f"needs a {words}"
        return self.when(item)

    def find_flaw(self, item: Item) -> NoScore | Failure | None:
        """Return the flaw of the item that its own readings run into, or None."""
        if not item.flaws:
            return None
        field_sets = [reading.scorer.reads(item) for reading in self.readings]
        reads = {name for each in field_sets for name in (self.needs if each is None else each)}
        return next((item.flaws[name] for name in item.flaws if name in reads), None)

    def signature(self, services: Identities, parts: Mapping[str, Signature] | None = None) -> Signature:
        """Return the signature of a value: all that it depends on.

        Of a reading: the way of judging with its parameters, prompts among them, and the field that
        is read. Of a derived one: what the function is, the parts' signatures by digest, and its
        own readings in full, since no other verdict tells them.

        Args:
            services: Identity of each role, as the panel found it.
            parts: Signatures of its `operands`, by id; one that is not there is `unknown`.
        """
        if not any(reading.scorer.asks_for_choices for reading in self.readings):
            services = {role: identity.without(BINDING) for role, identity in services.items()}
        by = sorted({name for reading in self.readings for name in reading.implementations})
        fields: dict[str, object] = {
            "dimension": self.id,
            "protocol": self.protocol,
            **self._describe_computation(parts or {}),
            "by": "+".join(by),
            **{role: services.get(role, UNKNOWN_MODEL) for role in self.roles},
        }
        return Signature.of(fields)

    def _describe_computation(self, parts: Mapping[str, Signature]) -> dict[str, object]:
        """Return how the value is computed, as fields of the signature."""
        how = self.how
        if isinstance(how, Reading):
            return {"variant": self.variant, "reads": how}
        ids = {name: of for name, of in how.of.items() if isinstance(of, str)}
        digests = {name: parts[of].digest if of in parts else "unknown" for name, of in ids.items()}
        return {
            "formula": describe_parameter(how.fn),
            "complete": "yes" if how.complete else "",
            "parts": "+".join(f"{name}={digest}" for name, digest in digests.items()),
            **{f"part.{name}": of for name, of in how.of.items() if isinstance(of, Reading)},
        }


def change_scorers(how: Reading | Formula, change: Callable[[Scorer], Scorer]) -> Reading | Formula:
    """Return a reading or formula with the scorers of its readings changed."""
    if isinstance(how, Reading):
        return replace(how, scorer=change(how.scorer))
    of = {name: replace(op, scorer=change(op.scorer)) if isinstance(op, Reading) else op for name, op in how.of.items()}
    return how if of == how.of else replace(how, of=of)


def make_dimension(row: Mapping[str, Any], name: str, how: Reading | Formula, **more: Any) -> Dimension:
    """Make a dimension from a row of a table and what needs code.

    Args:
        row: Fields of `Dimension`, as TOML has them.
        name: The dimension's id.
        more: Further fields, which override those of the row.
    """
    fields = {"range": (0.0, 1.0), "needs": (), **row, **more}
    low, high = fields.pop("range")
    needs = frozenset(fields.pop("needs"))
    return Dimension(id=name, how=how, range=(low, high), needs=needs, **fields)


def make_formula(
    fn: Callable[[Mapping[str, float]], float],
    *operands: str,
    of: Mapping[str, Operand] | None = None,
    complete: bool = False,
) -> Formula:
    """Make a `Formula`, the value of a dimension that is derived from others.

    Args:
        fn: From `{name: value}` of the operands that apply to the value of the dimension.
        operands: Ids of dimensions; each is its own name.
        of: Further operands by name: ids of dimensions, or readings.
        complete: Whether it does not apply as soon as one operand does not.
    """
    by_name = {**{name: name for name in operands}, **(of or {})}
    return Formula(fn, by_name, complete)
