"""`editjudge serve --reward` is killed in a batch, and a trainer sends the batch again."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from ..contract.test_rewards import JUDGE, file, make_batch
from ..judge_service import scripted_judge
from ..patience import patience
from .conftest import serving
from .test_serve import NOBODY, settings


async def find_rewards(session: aiohttp.ClientSession, web: str, batch: Any) -> list[Any]:
    async with session.post(f"{web}/v1/rewards", json=batch) as reply:
        assert reply.status == 200
        return [each["rewards"] for each in (await reply.json())["results"]]


async def count_edits(session: aiohttp.ClientSession, web: str) -> float:
    async with session.get(f"{web}/metrics") as reply:
        lines = (await reply.text()).splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith("editjudge_edits_total{"))


async def test_a_batch_that_is_sent_again_pays_only_what_was_in_flight(tmp_path: Path) -> None:
    batch, lost = make_batch(*range(1, 9)), 60.0
    judge = scripted_judge(*[None] * 5, lost, None)
    async with judge.serving() as url, aiohttp.ClientSession() as session:
        config = ("--config", settings(tmp_path, url), "--endpoint", NOBODY, "--reward", file(tmp_path, JUDGE))
        given = (*config, "--cache", tmp_path / "cache")
        async with serving(*given) as (process, _, web):
            asking = asyncio.create_task(find_rewards(session, web, batch))
            async with asyncio.timeout(patience(30)):
                while await count_edits(session, web) < 7:
                    await asyncio.sleep(0.02)
            process.kill()
            with pytest.raises(aiohttp.ClientError):
                await asking
        assert len(judge.requests) == 8
        async with serving(*given) as (_, _, web):
            again = await find_rewards(session, web, batch)
            assert len(judge.requests) == 9
            assert await find_rewards(session, web, batch) == again
            assert len(judge.requests) == 9
        async with serving(*config) as (_, _, web):
            assert await find_rewards(session, web, batch) == again
