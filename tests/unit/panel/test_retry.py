from __future__ import annotations

import asyncio
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from editjudge.base import errors
from editjudge.panel.retry import RetryPolicy, call_with_retries

from ...fakes.virtual_time import ManualClock


class Script:
    """A call whose attempts take a second, or what time is left, and end as the script says."""

    def __init__(self, *ends: Any) -> None:
        self.ends = list(ends)
        self.clock = ManualClock()
        self.left: list[float] = []

    async def attempt(self, left: float) -> Any:
        self.left.append(left)
        self.clock.forward(min(1.0, left))
        end = self.ends.pop(0)
        if isinstance(end, errors.ServiceError):
            raise end
        return end

    def run(self, **numbers: Any) -> Any:
        policy = RetryPolicy(**numbers)
        with patch("asyncio.get_running_loop", self.clock), patch("asyncio.sleep", self.clock.sleep):
            return asyncio.run(call_with_retries(self.attempt, policy))


def make_unreachable(detail: str = "gone", **facts: Any) -> errors.Unreachable:
    return errors.Unreachable(detail, service="s", endpoint="grpc://x:1", model="m", **facts)


def test_an_answer_is_not_waited_for() -> None:
    script = Script("done")
    assert script.run() == "done"
    assert (script.left, script.clock.slept) == ([60.0], [])


def test_waits_double_up_to_the_longest() -> None:
    script = Script(*(make_unreachable() for _ in range(5)), "done")
    assert script.run(attempts=6, first_wait=1.0, longest_wait=4.0) == "done"
    for wait, least in zip(script.clock.slept, [1, 2, 4, 4, 4], strict=True):
        assert least <= wait <= least + 1.0


def test_a_server_that_asks_for_more_time_gets_it() -> None:
    script = Script(errors.Overload("full", service="s", retry_after=7.0), "done")
    assert script.run() == "done"
    assert script.clock.slept == [7.0]


def test_the_last_error_tells_of_all_attempts() -> None:
    with pytest.raises(errors.Unreachable, match="^s at .*x:1: third after 3 attempts$") as caught:
        Script(make_unreachable("first"), make_unreachable("second"), make_unreachable("third")).run(attempts=3)
    assert (caught.value.attempts, caught.value.since, caught.value.model) == (3, 1.0, "m")


def test_attempts_that_reached_nobody_use_up_none_of_the_others() -> None:
    nobody = errors.NoConnection("refused", service="s")
    script = Script(*[nobody] * 3, make_unreachable(), nobody, make_unreachable(), make_unreachable(), "done")
    assert script.run(attempts=5, first_wait=0.0) == "done"
    with pytest.raises(errors.NoConnection, match="refused after 5 attempts"):
        Script(make_unreachable(), *[nobody] * 9).run(attempts=4)


def test_what_no_retry_can_fix_ends_it() -> None:
    with pytest.raises(errors.BadReply, match="s: no tensor after 2 attempts"):
        Script(make_unreachable(), errors.BadReply("no tensor", service="s")).run()
    script = Script(errors.BadReply("no tensor", service="s"))
    with pytest.raises(errors.BadReply, match="^s: no tensor$"):
        script.run()
    assert not script.clock.slept


def test_what_the_server_says_of_another_try_is_kept() -> None:
    last = make_unreachable()
    last.retryable = False  # type: ignore[misc]
    with pytest.raises(errors.Unreachable) as caught:
        Script(make_unreachable(), last).run(attempts=9)
    assert (caught.value.attempts, caught.value.retryable) == (2, False)


@given(chance=st.lists(st.floats(0, 1), min_size=9, max_size=9))
def test_one_deadline_for_all_attempts(chance: list[float]) -> None:
    script = Script(*(make_unreachable() for _ in range(99)))
    numbers = iter(chance)
    with (
        patch("editjudge.panel.retry.random.uniform", lambda least, most: most * next(numbers)),
        pytest.raises(errors.Unreachable),
    ):
        script.run(attempts=99, deadline=10.0, first_wait=1.0, longest_wait=1.0)
    # An attempt gets a millisecond at least: transports take 0 for no limit.
    assert script.clock.now <= 10.0 + 0.001 + 1e-9
    waited = [0.0, *script.clock.slept]
    spent = [number + sum(waited[: number + 1]) for number in range(len(script.left))]
    assert script.left == pytest.approx([max(10.0 - each, 0.001) for each in spent])


def test_every_attempt_that_is_made_again_is_noted() -> None:
    seen: list[tuple[str, float]] = []
    script = Script(make_unreachable("first"), make_unreachable("second"), "done")
    script.clock.forward(5.0)
    script.run(note_retry=lambda error, began: seen.append((error.detail, began)))
    assert seen == [("first", 5.0), ("second", 5.0)]


@given(attempt=st.integers(1, 10**6))
def test_waits_stay_finite(attempt: int) -> None:
    policy = RetryPolicy(first_wait=0.1, longest_wait=5.0)
    assert 0.1 <= policy.get_wait(attempt, make_unreachable()) <= 5.1
