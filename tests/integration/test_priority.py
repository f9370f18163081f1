"""Urgent calls on the real Triton: they go first, and their numbers are the same."""

from __future__ import annotations

import asyncio
import re
import urllib.request
from pathlib import Path

import pytest

from editjudge.base.config import Endpoint
from editjudge.base.identity import ServiceName
from editjudge.base.probes import probe_inputs
from editjudge.panel import model_name
from editjudge.panel.context import CallTerms
from editjudge.panel.retry import RetryPolicy
from editjudge.panel.triton import TritonEndpoint
from editjudge_services.runtime.triton_server import TritonServer

from ..patience import until
from .test_server import serving

pytestmark = pytest.mark.triton
SERVICE = ServiceName("quality", "piqe")
URGENT = CallTerms(urgent=True)


def count_waiting(server: TritonServer) -> int:
    """Requests that Triton has and no model works on."""
    with urllib.request.urlopen(server.metrics_url, timeout=5) as reply:  # noqa: S310
        told = re.search(r"^nv_inference_pending_request_count\{.*\} (\d+)", reply.read().decode(), re.MULTILINE)
    return int(told[1]) if told else 0


async def order(server: TritonServer) -> list[str]:
    """How 16 calls end of which the two that come last are urgent."""
    ended: list[str] = []
    async with TritonEndpoint(Endpoint(url=server.url), RetryPolicy(attempts=1)) as triton:
        await triton.identity(model_name(SERVICE), 10)

        async def call(name: str, terms: CallTerms) -> None:
            await triton.infer(SERVICE, probe_inputs("quality"), {}, terms)
            ended.append(name)

        calls = [asyncio.create_task(call("other", CallTerms())) for _ in range(14)]
        await until(lambda: count_waiting(server) >= 12)
        calls += [asyncio.create_task(call("urgent", URGENT)) for _ in range(2)]
        await asyncio.gather(*calls)
    return ended


async def test_urgent_calls_pass_those_that_wait(tmp_path: Path) -> None:
    with serving(tmp_path, seconds=0.3, max_batch=1) as server:
        ended = await order(server)
    assert sorted(ended) == ["other"] * 14 + ["urgent"] * 2
    # Those that were in the model, or on their way into it, go on.
    assert "urgent" not in ended[-6:]


async def test_a_model_without_priorities_serves_in_turn(tmp_path: Path) -> None:
    with serving(tmp_path, seconds=0.05, max_batch=1) as server:
        config = tmp_path / "repo" / "quality_piqe" / "config.pbtxt"
        config.write_text(re.sub(r".*priority_level.*\n", "", config.read_text()))
        server.stop()
        server.start()
        ended = await order(server)
    assert ended == ["other"] * 14 + ["urgent"] * 2
