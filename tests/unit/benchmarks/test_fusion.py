"""Properties every fusion keeps."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from editjudge.benchmarks.fusion import Capped, Gated, WeightedGeometricMean, min_max, product

scores = st.floats(0, 10, allow_subnormal=False)
parts = st.dictionaries(st.sampled_from("abcdef"), scores, min_size=1)
weights = st.fixed_dictionaries({name: st.floats(0.05, 5) for name in "abcdef"})


@given(parts, weights)
def test_a_geometric_mean_lies_between_its_parts(values: dict[str, float], by: dict[str, float]) -> None:
    mean = WeightedGeometricMean(by)(values)
    if min(values.values()) == 0:
        assert mean == 0
    else:
        assert min(values.values()) <= mean <= max(values.values())


@given(parts, weights, st.floats(0.1, 10))
def test_only_the_ratio_of_weights_counts(values: dict[str, float], by: dict[str, float], factor: float) -> None:
    scaled = {name: weight * factor for name, weight in by.items()}
    plain, other = WeightedGeometricMean(by)(values), WeightedGeometricMean(scaled)(values)
    assert plain == pytest.approx(other, rel=1e-9)


@given(parts, weights, st.floats(1, 3))
def test_a_better_part_never_lowers_the_mean(values: dict[str, float], by: dict[str, float], factor: float) -> None:
    fuse = WeightedGeometricMean(by)
    for name in values:
        better = {**values, name: values[name] * factor}
        assert fuse(better) >= fuse(values) * (1 - 1e-12)


@given(parts, weights)
def test_order_does_not_matter(values: dict[str, float], by: dict[str, float]) -> None:
    backwards = dict(reversed(values.items()))
    assert WeightedGeometricMean(by)(values) == pytest.approx(WeightedGeometricMean(by)(backwards), rel=1e-12)


@pytest.mark.parametrize("values", [{}, {"a": -1.0}])
def test_a_geometric_mean_refuses(values: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="non-negative"):
        WeightedGeometricMean({"a": 1})(values)


@given(scores, scores)
def test_a_cap_caps(value: float, cap: float) -> None:
    assert Capped(product, by="cap")({"v": value, "cap": cap}) == min(value, cap)
    assert Capped(product, by="cap")({"v": value}) == value


@given(st.lists(st.floats(-1e6, 1e6), min_size=2).filter(lambda v: min(v) < max(v)))
def test_min_max_spans_the_unit_interval(pool: list[float]) -> None:
    plain, inverted = min_max(pool), min_max(pool, invert=True)
    assert (plain(min(pool)), plain(max(pool))) == (0, 1)
    for value in pool:
        assert 0 <= plain(value) <= 1
        assert math.isclose(plain(value) + inverted(value), 1)


@pytest.mark.parametrize("pool", [[], [3.0], [2.0, 2.0]])
def test_min_max_needs_a_scale(pool: list[float]) -> None:
    with pytest.raises(ValueError, match="at least two different values"):
        min_max(pool)


@given(scores, scores)
def test_a_gate_opens_above_its_limit(value: float, by: float) -> None:
    fuse = Gated("v", by="by", above=2.0, otherwise=1.0)
    assert fuse({"v": value, "by": by}) == (value if by > 2 else 1.0)


def test_what_lies_beyond_the_pool_is_as_its_nearer_end() -> None:
    scale = min_max([10.0, 20.0], invert=True)
    assert [scale(value) for value in (0.0, 10.0, 15.0, 20.0, 65025.0)] == [1, 1, 0.5, 0, 0]
