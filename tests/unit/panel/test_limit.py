"""The arithmetic of the limit alone, with times as they come."""

from __future__ import annotations

from editjudge.panel.limit import AdaptiveLimit


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


def test_it_does_not_grow_by_calls_from_before_the_cut() -> None:
    limit = AdaptiveLimit(most=100, start=4)
    for _ in range(4):
        limit.begin(0)
    limit.overloaded(0, 1)
    limit.end(1)
    assert limit.size == 2
    for _ in range(3):
        limit.answered(0)
        limit.end(2)
    assert limit.size == 2


def test_it_adds_up_the_time_of_all_calls() -> None:
    limit = AdaptiveLimit(most=100, start=4)
    limit.begin(10)
    limit.begin(11)
    limit.end(13)
    assert limit.busy_seconds(15) == 1 + 2 * 2 + 2
