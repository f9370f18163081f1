"""Attacks in small: a few trials of each that needs no process, and what tells findings."""

from __future__ import annotations

import time

import numpy as np
import pytest

from editjudge.answers.scores import ScoreField

from ..attack import ATTACKS
from ..attack.__main__ import found_in, table
from ..attack.farm import AttackReport, in_process, run_trial
from ..attack.oracle import check_scores
from ..attack.pictures import data_of
from ..attack.replies import contracts
from ..attack.reply_grammar import make_hostile_reply
from ..attack.trials import SEED, Attack, Violation, dice

HERE = ("pictures", "bombs", "replies", "stores", "stale")


@pytest.mark.parametrize("name", HERE)
def test_nothing_uncaught_nothing_invented_nothing_stale(name: str) -> None:
    attack = ATTACKS[name]
    report = in_process(attack, SEED, range(attack.small))
    assert not report.findings, found_in(report, SEED)
    assert report.count == attack.small


def test_a_trial_is_made_of_its_seed_and_number_alone() -> None:
    assert data_of(3, 700) == data_of(3, 700) != data_of(4, 700)
    (contract, *_) = contracts()
    replies = [make_hostile_reply(dice("replies", 3, number), contract) for number in (5, 5, 6)]
    assert replies[0] == replies[1] != replies[2]


def _trial(_: int, number: int) -> str:
    if number == 1:
        raise KeyError("x")
    if number == 2:
        raise Violation("not as it must be")
    if number == 3:
        time.sleep(0.2)
    if number == 4:
        return str(np.ones((160, 1024, 1024), np.uint8).sum())
    return "fine"


@pytest.mark.parametrize(("number", "what"), [(1, "uncaught KeyError"), (2, "not as it must be"), (4, "MiB"), (5, "")])
def test_findings(number: int, what: str) -> None:
    attack = Attack("x", _trial, full=9, small=9, seconds=60, mib=20)
    outcome, said, _ = run_trial(attack, SEED, number)
    assert what in said
    assert bool(said) == bool(what)
    assert what or outcome == "fine"
    report = AttackReport(attack)
    if said:
        report.findings[number] = said
        assert found_in(report, 7) == [f"x --seed 7 --only {number}: {said}"]
    assert "x " in table([report])


def test_an_oracle_that_believes_nothing() -> None:
    fields = (ScoreField("s", 1, 5),)
    check_scores(fields, 'so {"s": 4}\n```', {"s": 4.0})
    for text, value in (
        ('{"s": 4}', 5.0),
        ('{"s": 5.0000000000000000001}', 5.0),
        ('{"s": 4} or rather 3', 4.0),
        ("none", 4.0),
    ):
        with pytest.raises(Violation):
            check_scores(fields, text, {"s": value})
