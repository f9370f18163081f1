"""Panels before scripted servers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from editjudge.answers.scores import ScoreField, Scores
from editjudge.base.config import Endpoint, JudgeEndpoint, Settings
from editjudge.panel import Panel, PoolPolicy
from editjudge.panel.judge import Judge
from editjudge.panel.replica import DEFAULT_POLICY
from editjudge.storage.ledger import Ledger

from ..fakes.fault_proxy import FaultProxy
from ..fakes.openai import ScriptedOpenAi
from ..fakes.triton import ScriptedTriton

YES_NO = ("Yes", "No")
SAID = '{"reasoning": "x", "s": 4}'
CONTRACT = Scores(fields=(ScoreField("s", 1, 5),))
"""What `SAID` answers."""


@asynccontextmanager
async def panel_of(
    *tritons: ScriptedTriton,
    judges: Sequence[Any] = (),
    judge: Mapping[str, Any] = {},
    services: tuple[str, ...] = (),
    headers: Mapping[str, Any] = {},
    proxies: list[FaultProxy] | None = None,
    ledger: Ledger | None = None,
    policy: PoolPolicy = DEFAULT_POLICY,
    **settings: Any,
) -> AsyncIterator[Panel]:
    """A panel whose servers run.

    Args:
        judges: The servers of one judge.
        judge: More of its endpoint.
        services: Those that Tritons are asked for; empty for all.
        headers: Of the Tritons' endpoints.
        proxies: Gets a proxy before each server.
    """
    async with AsyncExitStack() as stack:

        async def serve(server: Any) -> str:
            url: str = await stack.enter_async_context(server.serving())
            if proxies is None:
                return url
            proxies.append(FaultProxy(url))
            return await stack.enter_async_context(proxies[-1].serving())

        more = {"services": services, "headers": dict(headers)}
        urls = [await serve(server) for server in tritons]
        configured = {str(n): Endpoint(url=url, **more) for n, url in enumerate(urls)}
        endpoints = {"endpoints": configured, "judges": {}}
        if judges:
            first, *others = [await serve(server) for server in judges]
            told = JudgeEndpoint(**{"url": first, "replicas": others, "model": "judge", **judge})
            endpoints["judges"] = {"judge": told}
        given = Settings(**{"retry_wait": 0.001, **endpoints, **settings})
        yield await stack.enter_async_context(Panel(given, ledger=ledger, policy=policy))


@asynccontextmanager
async def judge_of(server: ScriptedOpenAi, ledger: Ledger | None = None, **told: Any) -> AsyncIterator[Judge]:
    """A panel's judge, at one server."""
    async with panel_of(judges=[server], judge=told, ledger=ledger) as panel:
        yield panel.judge("generalist.judge")


async def ask(panel: Panel, image: bytes | int = b"image", service: str = "quality.piqe") -> float:
    """The score of an image by a specialist."""
    payload = b"image %d" % image if isinstance(image, int) else image
    return float((await panel.call(service, {"IMAGE": payload}))["SCORE"][0])
