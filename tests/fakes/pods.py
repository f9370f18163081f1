"""Servers that come and go behind one name, as the pods of a Service do."""

from __future__ import annotations

import asyncio
import random
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from itertools import count
from typing import Any
from unittest.mock import patch

import grpc.aio

from ..patience import until
from .fault_proxy import FaultProxy

Ask = Callable[[int], Awaitable[Any]]
CALLERS = 24
SHARE = 0.2
"""By how much a pod's share of the calls may differ from an equal one."""
WINDOWS = 6
"""How many times shares are looked at."""
REFUSAL = "Server is stopping, scheduler for model has stopped accepting new inference requests"
UNLOADED = "Request for unknown model: 'quality_piqe' has no available versions"
"""What Triton answers from SIGTERM on, by UNAVAILABLE and by NOT_FOUND, until it is gone."""


class NameServer(asyncio.DatagramProtocol):
    """Knows the addresses of one name, which may change; clients of this process ask it.

    Attributes:
        seconds: For which an answer is good.
    """

    _look_up: Any
    _open_channel: Any

    def __init__(self, name: str) -> None:
        self.name = name
        self.seconds = 0
        self.addresses: list[str] = []
        self.port = 0
        self._transport: Any = None

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[NameServer]:
        loop = asyncio.get_running_loop()
        self._look_up, self._open_channel = socket.getaddrinfo, grpc.aio.insecure_channel
        made = await loop.create_datagram_endpoint(lambda: self, ("127.0.0.1", 0))
        self.port = made[0].get_extra_info("sockname")[1]
        try:
            with ExitStack() as stack:
                stack.enter_context(patch.object(socket, "getaddrinfo", self._find))
                stack.enter_context(patch.object(grpc.aio, "insecure_channel", self._open))
                yield self
        finally:
            made[0].close()

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def datagram_received(self, data: bytes, addr: Any) -> None:
        end = data.index(b"\0", 12) + 5
        question, is_v4 = data[12:end], data[end - 4 : end - 2] == b"\0\1"
        found = self._take_turns() if is_v4 else []
        record = struct.pack(">HHHIH", 0xC00C, 1, 1, self.seconds, 4)
        answers = [record + socket.inet_aton(each) for each in found]
        head = data[:2] + struct.pack(">HHHHH", 0x8180, 1, len(answers), 0, 0)
        self._transport.sendto(head + question + b"".join(answers), addr)

    def _take_turns(self) -> list[str]:
        """The addresses, each time another one first."""
        self.addresses[:] = self.addresses[1:] + self.addresses[:1]
        return list(self.addresses)

    def _find(self, host: Any, port: Any, *rest: Any, **more: Any) -> Any:
        """As `socket.getaddrinfo`, of this name too."""
        if host != self.name:
            return self._look_up(host, port, *rest, **more)
        if not self.addresses:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        kind = (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "")
        return [(*kind, (each, port)) for each in self._take_turns()]

    def _open(self, target: str, *rest: Any, **more: Any) -> grpc.aio.Channel:
        """As `grpc.aio.insecure_channel`, whose resolver asks this name server."""
        by = f"dns://127.0.0.1:{self.port}/" if target.startswith(f"{self.name}:") else ""
        return self._open_channel(by + target, *rest, **more)


class Balancer(FaultProxy):
    """Gives each new connection to one of the pods by chance, as kube-proxy does."""

    def __init__(self, port: int, names: NameServer) -> None:
        super().__init__(f"tcp://{names.name}:{port}")
        self._names = names
        self._chance = random.Random(3)

    def find_server(self) -> tuple[str, int]:
        return self._chance.choice(self._names.addresses or ["127.0.0.99"]), super().find_server()[1]


class Pods:
    """Scripted servers on one port, each with a loopback address of its own.

    Args:
        make: Makes the server of a pod.
        name: That of them all.
        balanced: Whether the name has one address, whose connections are spread (`Balancer`);
            otherwise it has those of the pods.

    Attributes:
        names: Says where the pods are.
        all: Every server, also those that ended.
        pause: Seconds between the steps in which a pod ends.
    """

    pause = 0.2

    def __init__(self, make: Callable[[], Any], name: str = "pods.svc", *, balanced: bool = False) -> None:
        self.names = NameServer(name)
        self.all: list[Any] = []
        self._make = make
        self._balanced = balanced
        self._port = 0
        self._url = ""
        self._running: dict[Any, tuple[str, AsyncExitStack]] = {}

    @property
    def running(self) -> list[Any]:
        """The servers of the pods that are there."""
        return list(self._running)

    def counts(self) -> list[int]:
        """How many calls each pod that is there has had since the last look."""
        counts = [len(server.requests) for server in self._running]
        for server in self._running:
            server.requests.clear()
        return counts

    @asynccontextmanager
    async def serving(self, pods: int = 1) -> AsyncIterator[str]:
        """Serve with so many pods; gives the address of them all."""
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self.scale, 0)
            await stack.enter_async_context(self.names.serving())
            await self.scale(pods)
            if self._balanced:
                balancer = Balancer(self._port, self.names)
                at = await stack.enter_async_context(balancer.serving())
                port = at.rpartition(":")[2]
                yield self._url.replace(f"127.0.0.1:{self._port}", f"127.0.0.1:{port}")
            else:
                yield self._url.replace("127.0.0.1", self.names.name)

    async def scale(self, pods: int) -> None:
        """Start pods, or end the oldest ones, until there are so many."""
        while len(self._running) < pods:
            await self._start()
        if len(self._running) > pods:
            leaving = self.running[: len(self._running) - pods]
            await asyncio.gather(*map(self.end, leaving))

    async def replace(self) -> None:
        """Roll out: for each pod a new one comes before the old one goes."""
        for server in self.running:
            await self._start()
            await self.end(server)

    async def _start(self) -> None:
        taken = {host for host, _ in self._running.values()}
        host = next(h for n in range(1, 99) if (h := f"127.0.0.{n}") not in taken)
        server, stack = self._make(), AsyncExitStack()
        url = await stack.enter_async_context(server.serving(port=self._port, host=host))
        self._url = self._url or url
        self._port = self._port or int(url.split(":")[2].split("/")[0])
        self.all.append(server)
        self._running[server] = host, stack
        self.names.addresses.append(host)

    async def end(self, server: Any) -> None:
        """End a pod as a cluster does: it is taken from the name, and told to end after a pause.

        From then on it refuses what comes on the connections that it has, and ends what it has.
        """
        host, stack = self._running.pop(server)
        self.names.addresses.remove(host)
        await asyncio.sleep(self.pause)
        await server.refuse()
        await asyncio.sleep(self.pause)
        await stack.aclose()


@asynccontextmanager
async def keep_calling(ask: Ask) -> AsyncIterator[list[Exception]]:
    """Callers that ask one after the other while the block runs; gives what was lost."""
    lost: list[Exception] = []
    numbers, ended = count(), asyncio.Event()

    async def call() -> None:
        while not ended.is_set():
            try:
                await ask(next(numbers))
            except Exception as error:  # noqa: BLE001 - counted, whatever it is
                lost.append(error)
                return

    callers = [asyncio.create_task(call()) for _ in range(CALLERS)]
    try:
        yield lost
    finally:
        ended.set()
        await asyncio.gather(*callers)


async def check_shares(pods: Pods, lost: list[Exception], age: float, share: float = SHARE) -> None:
    """Each pod has its share, and no call was lost.

    On a busy machine callers find new pods later, and a pause of one pod leaves others its calls: of a few windows one
    is enough. A pod that is not found, or that gets too little, is so in each.
    """
    counts: list[int] = []
    for _ in range(WINDOWS):
        await asyncio.sleep(1.2 * age)
        pods.counts()
        enough = 100 * len(pods.running)
        await until(lambda: lost or sum(len(pod.requests) for pod in pods.running) >= enough)  # noqa: B023
        assert not lost, lost[0]
        counts = pods.counts()
        equal = sum(counts) / len(counts)
        if all(abs(each - equal) <= share * equal for each in counts):
            return
    raise AssertionError(f"never equal shares, at last {counts}")


async def come_and_go(pods: Pods, ask: Ask, age: float, share: float = SHARE) -> None:
    """1, 3 and 1 pods, and a rollout of two."""
    async with keep_calling(ask) as lost:
        await until(lambda: lost or len(pods.all[0].requests) > CALLERS)
        for number in (3, 1, 2):
            await pods.scale(number)
            await check_shares(pods, lost, age, share)
        await pods.replace()
        await check_shares(pods, lost, age, share)
    assert not lost, lost[0]
