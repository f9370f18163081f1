"""Who judges a run: the services of the settings, or the Judge service that they name."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from ..base.config import Settings
from ..engine.judges import Judges, Opened, near
from ..engine.order import Order
from ..panel import PoolPolicy
from ..panel.budget import Budget
from ..panel.calls import OthersCallStore
from .spec import Resolved


def judges_of(resolved: Resolved) -> Opened:
    """Opens the judges of what is asked for."""

    @contextlib.asynccontextmanager
    async def opened(
        order: Order,
        settings: Settings,
        calls: OthersCallStore,
        policy: PoolPolicy,
        budget: Budget,
    ) -> AsyncIterator[Judges]:
        if settings.gateway is None:
            async with near(order, settings, calls, policy, budget) as judges:
                yield judges
            return
        from ..gateway.judging import far
        from ..gateway.messages import protocol_of
        from ..gateway.panel import Gateway

        spec = resolved.spec
        protocol = protocol_of(
            spec.benchmark, resolved.rules.protocol, spec.judge_rounds, spec.prompts
        )
        gateway = Gateway(settings.gateway, settings, calls, policy)
        async with far(gateway, protocol, order, calls, budget) as through:
            yield through

    return opened
