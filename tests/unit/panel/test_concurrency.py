"""The arithmetic of the limit alone, with times as they come."""

from __future__ import annotations

from editjudge.panel.concurrency import AdaptiveLimit


def fill(limit: AdaptiveLimit, calls: int, now: float, *, full: bool = False) -> None:
    """Calls that begin together and end a second later, answered or overloaded."""
    for _ in range(calls):
        limit.begin(now)
    for _ in range(calls):
        if full:
            limit.on_overload(now, now + 1)
        else:
            limit.on_answer(now)
        limit.end(now + 1)


def test_it_starts_at_its_upper_bound_and_stops_at_one() -> None:
    limit = AdaptiveLimit(6)
    assert limit.size == 6
    for now in range(0, 20, 2):
        fill(limit, limit.size, now, full=True)
    assert limit.size == 1


def test_it_grows_by_rounds() -> None:
    limit = AdaptiveLimit(100)
    fill(limit, 100, 0, full=True)
    assert limit.size == 50, "at most half of them"
    fill(limit, 50, 2)
    assert limit.size == 51
    fill(limit, 51, 4)
    assert limit.size == 53, "a round is 32 answers"


def test_it_does_not_grow_while_places_stay_empty() -> None:
    limit = AdaptiveLimit(8)
    fill(limit, 4, 0, full=True)
    for now in range(2, 20, 2):
        fill(limit, 3, now)
    assert limit.size == 4


def test_as_many_places_are_taken_as_there_was_no_room_for() -> None:
    limit = AdaptiveLimit(64)
    for _ in range(64):
        limit.begin(0)
    for _ in range(24):
        limit.on_overload(0, 0.1)
    assert limit.size == 40
    for _ in range(40):
        limit.on_overload(0, 0.2)
    assert limit.size == 32, "at most half of them per episode"
    limit.on_overload(0.3, 0.4)
    assert limit.size == 31, "that one began later"


def test_rare_overload_costs_little() -> None:
    """Two in a hundred calls are refused, whatever the load."""
    limit = AdaptiveLimit(32)
    sizes = []
    for number in range(2000):
        now = float(number)
        while limit.has_room:
            limit.begin(now)
        if number % 50 == 7:
            limit.on_overload(now - limit.size, now)
        else:
            limit.on_answer(now - limit.size)
        limit.end(now)
        sizes.append(limit.size)
    assert min(sizes) >= 29
