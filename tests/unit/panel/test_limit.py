"""The arithmetic of the limit alone, with times as they come."""

from __future__ import annotations

import pytest

from editjudge.base.config import Concurrency
from editjudge.panel.limit import AdaptiveLimit, Trouble, start_of


def fill(limit: AdaptiveLimit, calls: int, now: float, *, full: bool = False) -> None:
    """Calls that begin together and end a second later, answered or overloaded."""
    for _ in range(calls):
        limit.begin(now)
    for _ in range(calls):
        if full:
            limit.overloaded(now, now + 1)
        else:
            limit.answered(now)
        limit.end(now + 1)


def test_it_starts_low_and_stops_at_its_bounds() -> None:
    limit = AdaptiveLimit(most=6, start=4)
    assert AdaptiveLimit(most=2, start=4).size == 2
    fill(limit, 4, 0)
    assert limit.size == 6
    for now in range(2, 20, 2):
        fill(limit, limit.size, now, full=True)
    assert limit.size == 1


def test_it_grows_by_doubling_and_after_an_overload_by_one() -> None:
    limit = AdaptiveLimit(most=100, start=4)
    fill(limit, 4, 0)
    assert limit.size == 8
    fill(limit, 8, 2, full=True)
    assert limit.size == 4, "one cut for all of them"
    fill(limit, 4, 4)
    assert limit.size == 5
    fill(limit, 5, 6)
    assert limit.size == 6


def test_it_does_not_grow_while_places_stay_empty() -> None:
    limit = AdaptiveLimit(most=100, start=4)
    for now in range(0, 20, 2):
        fill(limit, 3, now)
    assert limit.size == 4


def test_as_many_places_are_taken_as_there_was_no_room_for() -> None:
    limit = AdaptiveLimit(most=64, start=64)
    for _ in range(64):
        limit.begin(0)
    for _ in range(24):
        limit.overloaded(0, 0.1)
    assert limit.size == 40
    for _ in range(40):
        limit.overloaded(0, 0.2)
    assert limit.size == 32, "at most half of them per episode"
    limit.overloaded(0.3, 0.4)
    assert limit.size == 31, "that one began later"


def test_rare_overload_costs_little() -> None:
    """Two in a hundred calls are refused, whatever the load."""
    limit = AdaptiveLimit(most=32, start=4)
    sizes = []
    for number in range(2000):
        now = float(number)
        while limit.free:
            limit.begin(now)
        if number % 50 == 7:
            limit.overloaded(now - limit.size, now)
        else:
            limit.answered(now - limit.size)
        limit.end(now)
        sizes.append(limit.size)
    assert min(sizes[50:]) >= 29
    assert sizes[35] >= 30, "it doubles all the same"


def test_it_has_a_floor() -> None:
    limit = AdaptiveLimit(most=64, start=2, least=8)
    assert limit.size == 8
    for now in range(0, 20, 2):
        fill(limit, limit.size, now, full=True)
    assert limit.size == 8
    assert AdaptiveLimit(most=4, start=2, least=8).size == 4


def test_it_adds_up_the_time_of_all_calls() -> None:
    limit = AdaptiveLimit(most=100, start=4)
    limit.begin(10)
    limit.begin(11)
    limit.end(13)
    assert limit.busy_seconds(15) == 1 + 2 * 2 + 2


def test_two_overloads_in_a_row_are_no_reason_to_grow_more_slowly() -> None:
    limit = AdaptiveLimit(most=64, start=8)
    fill(limit, 2, 0, full=True)
    fill(limit, 6, 2)
    assert not limit.met
    fill(limit, limit.size, 4)
    assert limit.size >= 16


def test_a_long_outage_is_soon_forgotten() -> None:
    trouble = Trouble()
    for _ in range(10_000):
        trouble.met(32)
    assert not trouble.is_rare(32)
    for _ in range(32):
        trouble.answered()
    assert trouble.is_rare(32)


def test_it_tells_what_it_learned() -> None:
    assert AdaptiveLimit(most=8, start=8).learned == "", "nobody has called yet"
    limit = AdaptiveLimit(most=8, start=4)
    fill(limit, 3, 0)
    assert limit.learned == ""
    fill(limit, 4, 2)
    assert (limit.learned, limit.met) == ("8 of 8", False)
    fill(limit, 8, 4, full=True)
    assert (limit.learned, limit.met) == ("4 of 8", True)


@pytest.mark.parametrize(
    ("configured", "learned", "start"),
    [
        ("..32", None, 4),
        ("..32", "20 of 32", 20),
        ("..32", "64 of 64", 64),
        ("32", None, 32),
        ("32", "16 of 16", 32),
        ("32", "12 of 64", 12),
        ("32", "48 of 64", 32),
        ("8..32", None, 8),
        ("8..32", "20 of 64", 20),
        ("8..32", "2 of 64", 8),
        ("..32", "no number", 4),
    ],
)
def test_it_begins_where_the_last_session_ended(
    configured: str, learned: str | None, start: int
) -> None:
    assert start_of(Concurrency.parsed(configured), 4, learned) == start
