"""The page of the Judge service, as it is served, and the examples on it as they stand."""

from __future__ import annotations

import aiohttp

from editjudge.base.config import Settings
from editjudge.engine.score_report import ScoreReport
from editjudge_services.gateway.http import serve_http
from editjudge_services.gateway.openapi import EXAMPLES
from editjudge_services.gateway.schemas import BatchReply
from editjudge_services.gateway.service import JudgeService


async def test_the_page_is_served_with_its_policy() -> None:
    async with JudgeService(Settings()) as service, serve_http(service, "127.0.0.1", 0, 5) as base:
        async with aiohttp.ClientSession() as session:
            async with session.get(f"{base}/v1/docs") as reply:
                page = await reply.text()
                assert (reply.status, reply.content_type) == (200, "text/html")
                policy = reply.headers["content-security-policy"]
                assert reply.headers["x-content-type-options"] == "nosniff"
            async with session.get(f"{base}/v1/openapi.json") as reply:
                document = await reply.json()
    assert "default-src 'none'" in policy
    assert f"editjudge {document['info']['version']}" in page


async def test_its_examples_are_judged_as_they_stand() -> None:
    async with JudgeService(Settings()) as service, serve_http(service, "127.0.0.1", 0, 5) as base:
        async with aiohttp.ClientSession() as session:
            async with session.post(base + "/v1/score", json=EXAMPLES["/v1/score"]) as reply:
                score = ScoreReport.model_validate(await reply.json())
            asked = session.post(base + "/v1/score:batch", json=EXAMPLES["/v1/score:batch"])
            async with asked as reply:
                batch = BatchReply.model_validate(await reply.json())
    assert any(verdict.value is not None for verdict in score.verdicts)
    assert [result.error for result in batch.results] == [None]
