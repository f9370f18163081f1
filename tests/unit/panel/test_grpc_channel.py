from __future__ import annotations

import asyncio
from typing import Any

import grpc.aio
import pytest

from editjudge.base.config import Endpoint
from editjudge.panel.retry import RetryPolicy
from editjudge.panel.triton import TritonEndpoint

from ...fakes.virtual_time import VirtualLoop, now

LOOP = VirtualLoop


class FakeChannel:
    """A channel that cancels its calls when its grace is over."""

    def __init__(self) -> None:
        self.graces: list[float] = []

    async def close(self, grace: float = 0.0) -> None:
        self.graces.append(grace)
        await asyncio.sleep(grace)

    def unary_unary(self, *_: Any, **__: Any) -> None:
        """Makes no calls."""

    stream_stream = unary_unary


async def test_an_old_channel_outlives_the_deadline_of_its_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would cancel a call whose time is just up, as if its caller had."""
    channels = [FakeChannel(), FakeChannel()]
    waiting = iter(channels)
    monkeypatch.setattr(grpc.aio, "insecure_channel", lambda *_, **__: next(waiting))
    triton = TritonEndpoint(Endpoint(url="grpc://triton:1"), RetryPolicy(deadline=60.0))
    assert triton.stub is triton.stub
    triton.connections.renew_after_failure(now())
    await asyncio.sleep(0)
    assert not [*waiting]
    assert channels[0].graces[0] > 60.0
    await triton.close()
