"""Teams take turns: who waits how long, and what part of the places each team gets."""

from __future__ import annotations

import heapq
import random
from collections import defaultdict

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from editjudge.base.fair_queue import FairQueue, Turn


class Server:
    """So many places under a clock of its own, and teams that always have work waiting.

    Args:
        seconds: What a turn of each team takes, from and to.
    """

    def __init__(self, places: int, seconds: dict[str, tuple[float, float]], seed: int = 0) -> None:
        self.now = 0.0
        self.queue: FairQueue[int] = FairQueue(lambda: self.now)
        self.used: dict[str, float] = defaultdict(float)
        self.begun: list[tuple[str, int, float]] = []
        self._free = places
        self._seconds = seconds
        self._dice = random.Random(seed)
        self._running: list[tuple[float, int, Turn]] = []
        self._number = 0
        for team in seconds:
            self.queue.push(team, self.count())

    def count(self) -> int:
        self._number += 1
        return self._number

    def set_seconds(self, team: str, seconds: float) -> None:
        """Let further turns of a team take so long."""
        self._seconds[team] = seconds, seconds

    def work(self, until: float, *backlogged: str) -> None:
        """Let time go by; these teams have more to do whenever their work begins."""
        while True:
            while self._free and (first := self.queue.pop()) is not None:
                team, item = first
                self.begun.append((team, item, self.now))
                end = self.now + self._dice.uniform(*self._seconds[team])
                heapq.heappush(self._running, (end, self.count(), self.queue.begin(team)))
                self._free -= 1
                if team in backlogged:
                    self.queue.push(team, self.count())
            if not self._running or self._running[0][0] > until:
                self.now = until
                return
            self.now, _, turn = heapq.heappop(self._running)
            self.used[turn.team] += self.now - turn.began
            self.queue.end(turn)
            self._free += 1


@settings(max_examples=60)
@given(st.integers(1, 12), st.integers(2, 6), st.floats(0.1, 8), st.integers(0, 2**16))
def test_teams_that_always_wait_get_equal_parts_of_the_time(places: int, teams: int, longest: float, seed: int) -> None:
    """Those with long turns and with short ones, to within what the places hold at a time."""
    names = [f"team {n}" for n in range(teams)]
    dice = random.Random(seed)
    spans = {name: (0.1, dice.uniform(0.1, longest)) for name in names}
    server = Server(places, spans, seed)
    server.work(200.0, *names)
    assert max(server.used.values()) - min(server.used.values()) <= places * longest


@settings(max_examples=40)
@example(9, 2, 51.15625, 261)
@given(st.integers(1, 12), st.integers(1, 8), st.floats(40, 60), st.integers(0, 2**16))
def test_a_single_call_waits_for_a_turn_of_each_other_team(places: int, greedy: int, pause: float, seed: int) -> None:
    """However much waits in their rows. A turn that ends sooner than it was charged gives its team a second one."""
    names = [f"greedy {n}" for n in range(greedy)]
    server = Server(places, dict.fromkeys([*names, "small"], (0.5, 2.0)), seed)
    for name in names * 100:
        server.queue.push(name, server.count())
    for _ in range(3):
        server.work(server.now + pause, *names)
        arrival, before = server.now, len(server.begun)
        server.queue.push("small", call := server.count())
        server.work(server.now + 20.0, *names)
        teams = [team for team, _, _ in server.begun[before:]]
        ahead = teams[: teams.index("small")]
        _, _, begin = next(turn for turn in server.begun[before:] if turn[1] == call)
        assert max(map(ahead.count, ahead), default=0) <= 2, "nobody has many turns meanwhile"
        assert begin - arrival <= 2.0 * (1 + len(ahead))


@pytest.mark.parametrize("idle", [0.0, 5.0, 500.0])
def test_time_without_work_is_no_credit_and_leaving_pays_no_debt(idle: float) -> None:
    server = Server(4, {"steady": (1.0, 1.0), "moody": (1.0, 1.0)})
    server.work(20.0, "steady", "moody")
    server.work(20.0 + idle, "steady")
    server.used.clear()
    server.queue.push("moody", server.count())
    start = server.now
    server.work(start + 40.0, "steady", "moody")
    assert abs(server.used["moody"] - server.used["steady"]) <= 4 * 1.0


def test_a_team_alone_has_its_turns_in_the_order_of_arrival() -> None:
    server = Server(2, {"": (0.1, 3.0)})
    items = [server.count() for _ in range(50)]
    for item in items:
        server.queue.push("", item)
    server.queue.remove("", items.pop(17))
    server.queue.remove("another", items[0])
    server.work(200.0)
    assert [item for _, item, _ in server.begun][1:] == items
    assert len(server.queue) == 0


def test_turns_that_end_sooner_than_they_were_charged_hold_up_nobody_else() -> None:
    """After a server was slow for a while, turns are short again: who comes then has no debt from what was expected."""
    server = Server(16, {"greedy": (1.0, 1.0), "small": (0.05, 0.05)})
    server.work(20.0, "greedy")
    server.set_seconds("greedy", 0.05)
    server.work(21.0, "greedy")
    for _ in range(20):
        arrival = server.now
        server.queue.push("small", call := server.count())
        server.work(arrival + 0.25, "greedy")
        assert min(began for _, item, began in server.begun if item == call) - arrival <= 0.05
