"""Batches of rewards while judges die or change, callers go away or are greedy, and pictures are hostile."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from editjudge.app.canary import CanaryResult
from editjudge.base.config import Settings
from editjudge.base.errors import ConfigError
from editjudge.rewards import Reward, RewardConfig
from editjudge.rewards import reward as reward_module

from ..attack.picture_seeds import BOMBS
from ..fakes.fault_proxy import FaultProxy
from ..judge_service import priced_settings, scripted_judge, serve
from ..patience import until
from .test_rewards import BODIES, JUDGE, PIXELS, encode, file, make_batch

WAITS = [0.02, None] * 500
"""What a judge answers that is not done at once."""


def pin_reward(signature: str) -> str:
    return f'{JUDGE}[rewards.quality]\npin = "{signature}"\n'


async def test_a_client_that_hangs_up_stops_its_calls(tmp_path: Path) -> None:
    judge = scripted_judge(60.0)
    async with judge.serving() as url:
        async with serve(priced_settings(url), reward=file(tmp_path, JUDGE)) as served:
            await served.service.client.panel.probe_judges()
            asking = asyncio.create_task(served.post(make_batch(1, 2), "/v1/rewards"))
            before = len(judge.requests)
            await until(lambda: len(judge.requests) > before)
            asking.cancel()
            await until(lambda: judge.cancelled and not served.service.edits.in_use)


async def test_another_judge_under_the_same_name_ends_scoring(tmp_path: Path) -> None:
    judge = scripted_judge(owner="vllm")
    async with judge.serving() as url:
        settings = priced_settings(url)
        async with serve(settings, reward=file(tmp_path, JUDGE)) as served:
            await served.service.client.panel.probe_judges()
            _, answer = await served.post(make_batch(1), "/v1/rewards")
            signature = answer["results"][0]["rewards"]["quality"]["signature"]
        async with serve(settings, reward=file(tmp_path, pin_reward(signature))) as served:
            for path, body in BODIES.items():
                assert (await served.post(body(2), path))[0] == 200
            judge.root = "Org/Another"
            for path, body in BODIES.items():
                status, answer = await served.post(body(3), path)
                assert status == 400, path
                assert f"the pin is {signature}" in answer["error"]["message"]


@pytest.mark.parametrize("is_pinned", [True, False])
@pytest.mark.parametrize("has_ledger", [True, False])
async def test_a_judge_that_is_exchanged_during_a_batch_leaves_nothing(
    tmp_path: Path, is_pinned: bool, has_ledger: bool
) -> None:
    """The batch ends, and what the other model said of it is not taken for the first one's later."""
    judge, good = scripted_judge(*WAITS, owner="vllm"), {"good": 0.9, "poor": 0.1}
    batch, folder = make_batch(*range(2, 34)), tmp_path / "cache" if has_ledger else None
    async with judge.serving() as url:
        settings = priced_settings(url)
        async with serve(settings, reward=file(tmp_path, JUDGE)) as served:
            _, answer = await served.post(make_batch(1), "/v1/rewards")
        first = answer["results"][0]["rewards"]["quality"]
        text = pin_reward(first["signature"]) if is_pinned else JUDGE
        async with serve(settings, reward=file(tmp_path, text), cache=folder) as served:
            before = len(judge.requests)
            asking = asyncio.create_task(served.post(batch, "/v1/rewards"))
            await until(lambda: len(judge.requests) > before)
            judge.root, judge.probabilities = "Org/Another", {"good": 0.1, "poor": 0.9}
            status, answer = await asking
            assert status == 400
            assert "Org/Another" in answer["error"]["message"]
            judge.root, judge.probabilities = "Org/Judge", good
            status, answer = await served.post(batch, "/v1/rewards")
            assert status == 200
            assert [each["rewards"]["quality"] for each in answer["results"]] == [first] * 32


async def test_a_judge_that_rates_the_canaries_otherwise_ends_scoring(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that says the same of every picture orders none; where nobody asks, nothing is rated."""
    monkeypatch.setenv("EDITJUDGE_STATE_DIR", str(tmp_path / "state"))
    judge = scripted_judge()
    async with judge.serving() as url:
        async with serve(priced_settings(url), reward=file(tmp_path, JUDGE)) as served:
            status, answer = await served.post(make_batch(1), "/v1/rewards")
            few = len(judge.requests)
            assert (status, few < 9) == (200, True)
            assert "editjudge_reward_check_age_seconds +Inf" in await served.metrics()
        async with serve(priced_settings(url), reward=file(tmp_path, "check_every = 3600\n" + JUDGE)) as served:
            for _ in range(2):
                status, answer = await served.post(make_batch(1), "/v1/rewards")
                assert status == 400
                assert "generalist.judge: " in answer["error"]["message"]
                assert "--new-baseline" in answer["error"]["fix"]
                rated = len(judge.requests)
            assert rated > few + 9
            assert "editjudge_reward_check_age_seconds +Inf" not in await served.metrics()


@pytest.mark.parametrize(("state", "checks"), [("steady", 1), ("unchecked", 2), ("shifted", 1)])
async def test_the_canaries_are_rated_when_it_is_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: Any, checks: int
) -> None:
    asked: list[tuple[str, ...]] = []

    def check(_: Settings, judges: tuple[str, ...]) -> tuple[CanaryResult, ...]:
        asked.append(judges)
        return (CanaryResult(service="generalist.judge", state=state, why="of 10"),)

    monkeypatch.setattr(reward_module, "check_canaries", check)
    config = RewardConfig.load(file(tmp_path, "check_every = 3600\n" + PIXELS))
    with Reward(config, Settings()) as reward:
        for _ in range(2):
            if state == "shifted":
                with pytest.raises(ConfigError, match="generalist.judge: of 10"):
                    reward.score([])
            else:
                reward.score([])
    assert asked == [("judge",)] * checks


async def test_a_replica_of_the_judge_that_dies_costs_no_reward(tmp_path: Path) -> None:
    first, second = scripted_judge(*WAITS), scripted_judge(*WAITS)
    async with first.serving() as url, second.serving() as other:
        proxy = FaultProxy(url)
        async with proxy.serving() as behind:
            judge = {"url": behind, "replicas": [other], "logprobs": "never", "samples": 1}
            settings = Settings.model_validate({"judges": {"judge": judge}, "concurrency": 4})
            async with serve(settings, reward=file(tmp_path, JUDGE)) as served:
                _, answer = await served.post(make_batch(1), "/v1/rewards")
                reward = answer["results"][0]["rewards"]["quality"]
                before = len(first.requests)
                asking = asyncio.create_task(served.post(make_batch(*range(2, 42)), "/v1/rewards"))
                await until(lambda: len(first.requests) > before)
                await proxy.switch("refuse")
                status, answer = await asking
    assert status == 200
    assert [each["rewards"]["quality"] for each in answer["results"]] == [reward] * 40


async def test_a_greedy_trainer_keeps_no_other_waiting(tmp_path: Path) -> None:
    judge = scripted_judge(*WAITS)
    async with judge.serving() as url:
        async with serve(priced_settings(url), reward=file(tmp_path, JUDGE), edits=4) as served:
            team = {"content-type": "application/json", "x-team": "greedy"}
            greedy = asyncio.create_task(served.post(make_batch(*range(1, 200)), "/v1/rewards", team))
            await until(lambda: len(judge.requests) > 4)
            status, answer = await served.post(make_batch(300, 301, 302), "/v1/rewards")
            assert not greedy.done()
            assert (status, answer["summary"]["quality"]["unscored"]) == (200, {})
            status, answer = await greedy
            assert (status, answer["summary"]["quality"]["unscored"]) == (200, {})


@pytest.mark.parametrize("name", ["png.beyond", "png.3.1"])
async def test_a_bomb_in_a_batch_has_a_reason_and_the_others_rewards(tmp_path: Path, name: str) -> None:
    batch = make_batch(1, 2, 3, 4)
    batch["edits"][1]["edited"] = batch["edits"][2]["source"] = {"data": encode(BOMBS[name]())}
    async with serve(reward=file(tmp_path, PIXELS)) as served:
        status, answer = await served.post(batch, "/v1/rewards")
    assert status == 200
    first, second, third, fourth = (each["rewards"]["quality"] for each in answer["results"])
    assert first["reward"] is not None
    assert fourth["reward"] is not None
    assert [each["unscored"]["kind"] for each in (second, third)] == ["input"] * 2
