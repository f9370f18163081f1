from __future__ import annotations

import asyncio

import pytest

from editjudge.panel.coalesce import Coalescer, PrefixLeaders

from ...fakes.virtual_time import VirtualLoop

LOOP = VirtualLoop


async def test_identical_calls_are_made_once() -> None:
    made = 0

    async def make(_: object) -> int:
        nonlocal made
        made += 1
        await asyncio.sleep(1)
        return made

    calls: Coalescer[int] = Coalescer()
    await asyncio.gather(*(calls("a", make) for _ in range(5)), calls("b", make))
    assert made == 2
    assert await calls("a", make) == 3


async def test_a_failure_reaches_everybody_and_is_not_kept() -> None:
    async def fail(_: object) -> int:
        await asyncio.sleep(0)
        raise ValueError("no")

    calls: Coalescer[int] = Coalescer()
    results = await asyncio.gather(calls("a", fail), calls("a", fail), return_exceptions=True)
    assert [str(one) for one in results] == ["no", "no"]
    assert await calls("a", lambda _: asyncio.sleep(0, 7)) == 7


async def test_the_call_lives_as_long_as_somebody_waits() -> None:
    ends: list[str] = []

    async def make(_: object) -> str:
        try:
            await asyncio.sleep(5)
        except asyncio.CancelledError:
            ends.append("cancelled")
            raise
        return "done"

    calls: Coalescer[str] = Coalescer()
    first, second = (asyncio.create_task(calls("a", make)) for _ in range(2))
    await asyncio.sleep(1)
    first.cancel()
    assert await second == "done"
    assert not ends
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(calls("a", make), 1)
    await asyncio.sleep(0)
    assert ends == ["cancelled"]


async def run(leaders: PrefixLeaders, names: str) -> list[tuple[str, str]]:
    """Take a turn for each name side by side; who began and ended, in order."""
    seen: list[tuple[str, str]] = []

    async def turn(name: str) -> None:
        async with leaders.turn(name[0]):
            seen.append(("began", name))
            await asyncio.sleep(1)
            seen.append(("ended", name))

    await asyncio.gather(*(turn(f"{name}{i}") for i, name in enumerate(names)))
    return seen


async def test_the_first_of_a_prefix_goes_ahead() -> None:
    seen = await run(PrefixLeaders(), "aaab")
    assert seen[:3] == [("began", "a0"), ("began", "b3"), ("ended", "a0")]
    assert {seen.index(("began", name)) for name in ("a1", "a2")} <= {3, 4, 5}


async def test_nobody_waits_once_it_is_through_or_when_disabled() -> None:
    leaders = PrefixLeaders()
    await run(leaders, "a")
    for free in (leaders, PrefixLeaders(is_enabled=False)):
        assert [what for what, _ in await run(free, "aaa")][:3] == ["began"] * 3


async def test_a_leader_that_fails_lets_the_others_go() -> None:
    leaders = PrefixLeaders()

    async def turn(*, fails: bool) -> str:
        async with leaders.turn("a"):
            await asyncio.sleep(1)
            if fails:
                raise ValueError("no")
            return "through"

    results = await asyncio.gather(turn(fails=True), turn(fails=False), return_exceptions=True)
    assert results[1] == "through"
