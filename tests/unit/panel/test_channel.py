from __future__ import annotations

import asyncio

from editjudge.panel.grpc_channel import Channel

from ...fakes.virtual_time import run


class Opened:
    """A channel that cancels its calls when its grace is over."""

    def __init__(self) -> None:
        self.graces: list[float] = []

    async def close(self, grace: float = 0.0) -> None:
        self.graces.append(grace)
        await asyncio.sleep(grace)


def test_an_old_channel_outlives_the_deadline_of_its_calls() -> None:
    """It would cancel a call whose time is just up, as if its caller had."""

    async def main() -> None:
        opened: list[Opened] = []

        def make() -> Opened:
            opened.append(Opened())
            return opened[-1]

        channel = Channel(make, lambda _: None, 60.0)
        channel.late(asyncio.get_running_loop().time())
        await asyncio.sleep(0)
        assert len(opened) == 2
        assert opened[0].graces[0] > 60.0
        await channel.close()

    run(main)
