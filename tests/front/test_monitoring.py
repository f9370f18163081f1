"""A real Prometheus asks the real Envoy, Triton and Judge service what the chart has it ask."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from editjudge.base.probes import probe_inputs
from editjudge.panel import Panel
from editjudge_services.runtime.process import fetch
from editjudge_services.runtime.triton_server import TritonServer

from ..fakes.rate_limits import RateLimits
from ..judge_service import ASKED, make_request, png, serve_with_judge
from ..k8s.chart import TOOLS, render_parts
from ..k8s.prometheus import Target, find_absence, has_answer, prometheus
from ..k8s.queries import fill_query, find_tiers, list_absent, queries
from ..k8s.rules import select_kinds
from ..patience import patience
from .door import OK, Door, gateway_values, open_door, score

pytestmark = pytest.mark.triton
_NO_PROMETHEUS = find_absence() or ("" if (TOOLS / "bin" / "helm").is_file() else "no helm")


class Platform:
    """A front door with all that stands behind it, and its callers."""

    def __init__(self, door: Door, triton: TritonServer, web: str) -> None:
        self.door = door
        self._edits = iter(range(1_000_000))
        self.targets = (
            Target("front-metrics", door.server.metrics_url),
            Target("triton-small", triton.metrics_url),
            Target("judge", f"{web}/metrics"),
        )

    async def score(self) -> grpc.StatusCode:
        """Have an edit judged that is another than all before."""
        request = make_request(ASKED, edited=png(next(self._edits)))
        async with self.door.channel() as channel:
            return await score(channel, self.door.metadata("vision"), request)

    async def traffic(self) -> None:
        """Something of everything: judged, answered, refused and over the limits."""
        await asyncio.gather(*(self.score() for _ in range(4)))  # there is room for two
        await self.door.alive(None)
        busy = self.door.token("busy")
        await asyncio.gather(*(self.door.alive(busy) for _ in range(10)))
        async with Panel(self.door.settings(self.door.token("vision"))) as panel:
            await panel.call("quality.piqe", probe_inputs("quality"))


@contextlib.asynccontextmanager
async def platform(triton: TritonServer, folder: Path) -> AsyncIterator[Platform]:
    async with contextlib.AsyncExitStack() as stack:
        limits = contextlib.AsyncExitStack()
        rate_limits = await limits.enter_async_context(RateLimits().serving())
        stack.push_async_callback(limits.aclose)
        _, served = await stack.enter_async_context(serve_with_judge(edits=2))
        more = {"gateway": gateway_values(served), "token_limits": {"service": rate_limits}}
        teams = ("vision", "busy")
        door = await stack.enter_async_context(open_door(folder, triton, teams=teams, **more))
        there = Platform(door, triton, served.web)
        # What counts tokens fails once, for the counter of that.
        assert await there.score() == OK
        await limits.aclose()
        await there.score()
        await stack.enter_async_context(RateLimits().serving(rate_limits))
        yield there


async def test_the_front_door_has_what_it_is_asked(triton: TritonServer, tmp_path: Path) -> None:
    async with platform(triton, tmp_path) as there:
        await there.traffic()
        scraped = await asyncio.to_thread(fetch, there.door.server.metrics_url)
    assert scraped is not None
    assert not list_absent("front", scraped.decode())


def rules() -> Any:
    """Of the chart, for a release with the servers that are here."""
    (rule,) = select_kinds(render_parts("monitored"), "PrometheusRule")
    return rule["spec"]


@pytest.mark.skipif(bool(_NO_PROMETHEUS), reason=_NO_PROMETHEUS)
async def test_every_query_is_answered_where_there_was_traffic(triton: TritonServer, tmp_path: Path) -> None:
    here = {"front", "judge", "triton"}
    jobs = {"judge": "judge", "triton": "triton-small"}
    left = {
        fill_query(query.text, job=jobs.get(" ".join(find_tiers(query.text)), "")): query.where
        for query in queries()
        if not query.condition and find_tiers(query.text) <= here
    }
    assert len(left) > 30
    async with platform(triton, tmp_path / "door") as there:
        with prometheus(tmp_path, there.targets, rules()) as server:
            end = asyncio.get_running_loop().time() + patience(60)
            while left and asyncio.get_running_loop().time() < end:
                await there.traffic()
                await asyncio.sleep(0.5)  # the team that is to be let in has a limit too
                for query in list(left):
                    if await asyncio.to_thread(has_answer, server, query):
                        del left[query]
            groups = (await asyncio.to_thread(server.get, "rules"))["groups"]
    assert not left
    each = [rule for group in groups for rule in group["rules"]]
    assert len(each) > 20
    assert {rule["name"]: rule.get("lastError") for rule in each if rule["health"] != "ok"} == {}
