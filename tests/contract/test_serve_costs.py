"""What a team may spend at the Judge service: it holds whatever callers do."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from aiohttp import web

from editjudge.app.accounts import used_in
from editjudge.v1 import judge_pb2 as pb

from ..fakes.openai import ScriptedOpenAi
from .test_serve import png
from .test_serve_kept import running


class SlowJudge(ScriptedOpenAi):
    """So slow that calls which may be made at once are."""

    async def _chat(self, request: web.Request) -> web.Response:
        await asyncio.sleep(0.1)
        return await super()._chat(request)


async def test_a_limit_of_a_day_holds_for_a_burst_of_first_calls(tmp_path: Path) -> None:
    scripted = SlowJudge(probabilities={"good": 0.9, "poor": 0.1})
    async with scripted.serving() as url:
        async with running(url, tmp_path, max_cost=0.35) as service:
            answers = await asyncio.gather(
                *(
                    service.score("a", sources=[pb.Picture(data=png(100 + number))])
                    for number in range(12)
                )
            )
    scored = [outcome for outcome, _ in answers if outcome.status == pb.STATUS_SCORED]
    assert len(scored) == len(scripted.requests) == 3
    (used,) = used_in(tmp_path).values()
    assert used.cost == pytest.approx(0.3)
