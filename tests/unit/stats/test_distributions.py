"""Student's distribution: as scipy has it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as scipy

from editjudge.stats.distributions import interpolate_t, t_quantile


@settings(max_examples=200)
@given(share=st.floats(1e-5, 1 - 1e-5), freedom=st.integers(1, 3000))
def test_quantiles_are_scipys(share: float, freedom: int) -> None:
    assert t_quantile(share, freedom) == pytest.approx(
        scipy.t.ppf(share, freedom), rel=1e-9, abs=1e-9
    )


@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 99, 100, 12_345, 50_000, 999_999])
def test_quantile_of_an_interval_of_95_percent(freedom: int) -> None:
    assert t_quantile(0.975, freedom) == pytest.approx(scipy.t.ppf(0.975, freedom), rel=1e-9)


@given(share=st.floats(0.8, 0.999), freedom=st.floats(1, 3000))
def test_quantiles_between_whole_freedoms_are_nearly_scipys(share: float, freedom: float) -> None:
    wanted = scipy.t.ppf(share, freedom)
    assert interpolate_t(share, freedom) == pytest.approx(wanted, rel=0.04 if freedom < 2 else 0.01)


@pytest.mark.parametrize(("share", "freedom"), [(0.0, 3), (1.0, 3), (0.5, 0)])
def test_quantiles_that_are_none_are_refused(share: float, freedom: int) -> None:
    with pytest.raises(ValueError, match="inside 0..1"):
        t_quantile(share, freedom)
