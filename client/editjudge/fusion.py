"""Fusing scores: pure functions, each with its source."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

Values = Mapping[str, float]


def mean(values: Values) -> float:
    """The mean of the parts at hand; at least one.

    Returns:
        Between the lowest and the highest part.
    """
    found = math.fsum(values.values()) / len(values)
    # Rounding must not carry the mean outside its parts.
    return min(max(found, min(values.values())), max(values.values()))


def product(values: Values) -> float:
    """The product of all parts (I2I-Bench, subject extraction, appendix F).

    Args:
        values: Non-negative parts.
    """
    return math.prod(values.values())


def weighted_geometric_mean(weights: Mapping[str, float]) -> Callable[[Values], float]:
    """The weighted geometric mean of the parts at hand (Co-EditBench, eq. 1 and 3).

    Args:
        weights: Positive weight of each part; those of absent parts drop out and the
            rest renormalise.

    Returns:
        A function of non-negative parts; 0 as soon as one part is 0, and otherwise
        between the lowest and the highest part.

    Raises:
        ValueError: by the function, on a negative part or no part at all.
        KeyError: by the function, on a part without a weight.
    """

    def fuse(values: Values) -> float:
        if not values or min(values.values()) < 0:
            raise ValueError(f"a geometric mean needs non-negative parts, not {dict(values)}")
        if min(values.values()) == 0:
            return 0.0
        total = math.fsum(weights[name] for name in values)
        logs = math.fsum(weights[name] * math.log(value) for name, value in values.items())
        # Rounding must not carry the mean outside its parts.
        return min(max(math.exp(logs / total), min(values.values())), max(values.values()))

    return fuse


def capped(
    fn: Callable[[Values], float], *, by: str, names: Mapping[str, str] | None = None
) -> Callable[[Values], float]:
    """A fused value that may not exceed one of its parts (Co-EditBench, eq. 2).

    Args:
        fn: Fuses the parts other than `by`.
        by: The part that caps; where it does not apply, nothing is capped.
        names: Unused parts renamed for `fn`, from the derived dimension's names.
    """

    def fuse(values: Values) -> float:
        renamed = {(names or {}).get(k, k): v for k, v in values.items() if k != by}
        value = fn(renamed)
        return min(value, values[by]) if by in values else value

    return fuse


def gated(part: str, *, by: str, above: float, otherwise: float) -> Callable[[Values], float]:
    """A part that counts only where another one is high enough (KRIS-Bench, figure 32).

    Args:
        part: Its value is taken where `by` is above a limit.
        by: The part that decides.
        above: The limit; at the limit itself the part does not count.
        otherwise: The value where it does not count.
    """

    def fuse(values: Values) -> float:
        return values[part] if values[by] > above else otherwise

    return fuse


def min_max(values: Sequence[float], *, invert: bool = False) -> Callable[[float], float]:
    """Fit min-max normalisation to a pool (GIE-Bench, section 3.5 and figure 4).

    Args:
        values: The pool; at least two different values.
        invert: The lowest value becomes 1.

    Returns:
        A function into [0, 1] for values of the pool.

    Raises:
        ValueError: the pool is empty or has one value only, so no scale is defined.
    """
    if not values or min(values) == max(values):
        raise ValueError("min-max normalisation needs a pool with at least two different values")
    low, high = min(values), max(values)

    def scale(value: float) -> float:
        share = (value - low) / (high - low)
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
