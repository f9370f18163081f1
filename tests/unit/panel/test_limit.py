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
