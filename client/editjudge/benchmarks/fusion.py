"""Functions that combine scores, each with its source.

Functions with parameters are frozen dataclasses: equal where their parameters are.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

Values = Mapping[str, float]


def mean(values: Values) -> float:
    """Compute the mean of the parts that apply; at least one.

    Returns:
        Between the lowest and the highest part.
    """
    value = math.fsum(values.values()) / len(values)
    # Rounding must not carry the mean outside its parts.
    return min(max(value, min(values.values())), max(values.values()))


def product(values: Values) -> float:
    """The product of all parts (I2I-Bench, subject extraction, appendix F).

    Args:
        values: Non-negative parts.
    """
    return math.prod(values.values())


@dataclass(frozen=True, slots=True)
class WeightedGeometricMean:
    """The weighted geometric mean of the parts at hand (Co-EditBench, eq. 1 and 3).

    Called with non-negative parts it gives 0 as soon as one part is 0, and otherwise a value
    between the lowest and the highest part.

    Attributes:
        weights: Positive weight of each part; those of absent parts drop out and the
            rest renormalise.
    """

    weights: Mapping[str, float]

    def spec(self) -> Mapping[str, object]:
        """Each part's share of all weights, to 12 digits: equal shares make equal values."""
        total = math.fsum(self.weights.values())
        return {"weights": {name: f"{one / total:.12g}" for name, one in self.weights.items()}}

    def __call__(self, values: Values) -> float:
        """Fuse.

        Raises:
            ValueError: a part is negative, or there is none.
            KeyError: a part has no weight.
        """
        if not values or min(values.values()) < 0:
            raise ValueError(f"a geometric mean needs non-negative parts, not {dict(values)}")
        if min(values.values()) == 0:
            return 0.0
        total = math.fsum(self.weights[name] for name in values)
        logs = math.fsum(self.weights[name] * math.log(value) for name, value in values.items())
        # Rounding must not carry the mean outside its parts.
        return min(max(math.exp(logs / total), min(values.values())), max(values.values()))


@dataclass(frozen=True, slots=True)
class Capped:
    """A fused value that may not exceed one of its parts (Co-EditBench, eq. 2).

    Attributes:
        fn: Fuses the parts other than `by`.
        by: The part that caps; where it does not apply, nothing is capped.
    """

    fn: Callable[[Values], float]
    by: str

    def __call__(self, values: Values) -> float:
        """Combine the parts."""
        value = self.fn({name: part for name, part in values.items() if name != self.by})
        return min(value, values[self.by]) if self.by in values else value


@dataclass(frozen=True, slots=True)
class Gated:
    """A part that counts only where another one is high enough (KRIS-Bench, figure 32).

    Attributes:
        part: Its value is taken where `by` is above a limit.
        by: The part that decides.
        above: The limit; at the limit itself the part does not count.
        otherwise: The value where it does not count.
    """

    part: str
    by: str
    above: float
    otherwise: float

    def __call__(self, values: Values) -> float:
        """Combine the parts."""
        return values[self.part] if values[self.by] > self.above else self.otherwise


def min_max(values: Sequence[float], *, invert: bool = False) -> Callable[[float], float]:
    """Fit min-max normalisation to a pool (GIE-Bench, section 3.5 and figure 4).

    Args:
        values: The pool; at least two different values.
        invert: The lowest value becomes 1.

    Returns:
        A function into [0, 1]; what lies beyond the pool is as its nearer end.

    Raises:
        ValueError: the pool is empty or has one value only, so no scale is defined.
    """
    if not values or min(values) == max(values):
        raise ValueError("min-max normalisation needs a pool with at least two different values")
    low, high = min(values), max(values)

    def scale(value: float) -> float:
        share = min(1.0, max(0.0, (value - low) / (high - low)))
        return 1 - share if invert else share

    return scale


_CONTENT_BANDS = ((1.0, 1.0), (0.8, 0.8), (0.6, 0.5))  # from this content on, this factor


def styled_text(values: Values) -> float:
    """The style of lettering, gated by how right its content is (I2I-Bench, eq. 5).

    `(style - 1) / 4` times 1 where the content is right to the letter, 0.8 from 0.8 on, 0.5 from
    0.6 on, and 0.1 below.

    Args:
        values: `style` in 1..5 and `content` in 0..1.

    Returns:
        0 to 1, never falling with either part.
    """
    content = values["content"]
    factor = next((factor for least, factor in _CONTENT_BANDS if content >= least), 0.1)
    return (values["style"] - 1) / 4 * factor
