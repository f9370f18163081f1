"""How many of the calls that are left a ledger answers already."""

from __future__ import annotations

from itertools import pairwise

import pytest

from editjudge.app.ledger_hits import sample_edits


@pytest.mark.parametrize("count", [0, 1, 199, 200, 201, 399, 400, 1000, 12_345])
def test_no_more_edits_are_decoded_than_is_said(count: int) -> None:
    chosen = list(sample_edits(range(count), count))
    assert len(chosen) == min(200, count)
    gaps = [after - before for before, after in pairwise(chosen)]
    assert not gaps or max(gaps) - min(gaps) <= 1
