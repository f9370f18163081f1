"""Many comparisons at once."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.multitest import multipletests

from editjudge.stats.paired_comparison import holm, rank_ranges


@settings(max_examples=25)
@given(ps=st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_holm_is_that_of_statsmodels(ps: list[float]) -> None:
    assert holm(ps) == pytest.approx(list(multipletests(ps, method="holm")[1]), abs=1e-12)


def test_no_tests_need_no_adjusting() -> None:
    assert holm([]) == []


def test_places() -> None:
    better = {"a": frozenset[str](), "b": frozenset[str](), "c": frozenset({"a"})}
    assert rank_ranges(better) == {"a": (1, 2), "b": (1, 3), "c": (2, 3)}
