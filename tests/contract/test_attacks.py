"""Attacks by servers, in small: modes of evil judges and Tritons; and what hangs or crashes."""

from __future__ import annotations

import pytest

from ..attack import ATTACKS
from ..attack.__main__ import found_in
from ..attack.evil_http import MODES
from ..attack.farm import in_process
from ..attack.judges import JUDGES, modes
from ..attack.trials import SEED
from ..attack.tritons import TRITONS

# One of each family; `make attack` tries all.
JUDGED = (
    *("status 503 Service Unavailable", "body deep", "raw chunk size", "moved 307 Moved"),
    *("answers ahead", "reset", "usage 2", "logprobs 0", "model 6"),
)


@pytest.mark.parametrize("name", JUDGED)
def test_an_evil_judge_costs_what_it_was_asked(name: str) -> None:
    number = modes().index((name, False))
    report = in_process(JUDGES, SEED, [number])
    assert not report.findings, found_in(report, SEED)


def test_there_are_as_many_ways_as_were_found() -> None:
    assert len(MODES) > 150
    assert TRITONS.full > 100
    assert all(attack.small for attack in ATTACKS.values())


def test_an_evil_triton_costs_what_it_was_asked() -> None:
    numbers = range(0, TRITONS.full, TRITONS.full // TRITONS.small)
    report = in_process(TRITONS, SEED, numbers)
    assert not report.findings, found_in(report, SEED)
