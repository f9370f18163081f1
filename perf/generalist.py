"""What a judge's transport costs per call, against what one would write or install instead.

A server that answers at once, in a process of its own, gets the same question from each
client: a sentence and two images of 200 KB, 32 calls in flight. The others encode the images
anew for each call, as their interfaces ask for; editjudge is shown with images that it has
sent before (a judge sees each image in several questions) and with new ones. Rounds are
interleaved and the order changes from round to round, so that a noisy machine disturbs all
alike. Medians over rounds are compared, the best rounds, and the processor time that a call
takes of the client's process, which is the same however busy the machine is.
"""

from __future__ import annotations

import asyncio
import base64
import json
import multiprocessing
import os
import random
import statistics
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from importlib.util import find_spec
from multiprocessing.connection import Connection

import click
from panel import Call, rate
from rich.console import Console
from rich.table import Table

from editjudge.config import GeneralistEndpoint
from editjudge.panel.openai import OpenAiTransport
from editjudge.panel.pictures import Picture
from editjudge.panel.prompt import Prompt, Text
from editjudge.panel.retry import RetryPolicy
from editjudge.panel.transport import Sampling

IMAGE_BYTES = 200_000
CONCURRENCY = 32
QUESTION = "Was the instruction followed? Reply with one number from 1 to 10."
OURS, NEW = "editjudge", "editjudge, new images"
CARD = {"object": "list", "data": [{"id": "null", "object": "model", "owned_by": "null"}]}
ANSWER = {
    "id": "chatcmpl-0",
    "object": "chat.completion",
    "created": 0,
    "model": "null",
    "choices": [
        {"index": 0, "message": {"role": "assistant", "content": "7"}, "finish_reason": "stop"}
    ],
    "usage": {"prompt_tokens": 900, "completion_tokens": 1, "total_tokens": 901},
}


class NullChat(asyncio.BufferedProtocol):
    """Counts a request's bytes and answers, so that the clients are what is measured."""

    _buffer = memoryview(bytearray(1 << 20))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """One client's connection, kept open from request to request."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._head = b""
        self._missing = 0
        self._reply = b""

    def get_buffer(self, sizehint: int) -> memoryview:
        """One buffer for all connections: nothing in it is read again."""
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """More of a request's head or body."""
        if self._missing:
            self._missing -= nbytes
        else:
            self._head += bytes(self._buffer[:nbytes])
            head, end, body = self._head.partition(b"\r\n\r\n")
            if not end:
                return
            lines = head.lower().split(b"\r\n")
            length = next((ln[15:] for ln in lines if ln.startswith(b"content-length:")), b"0")
            self._missing = int(length) - len(body)
            payload = json.dumps(CARD if head.startswith(b"GET") else ANSWER).encode()
            self._reply = (
                b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
                % len(payload)
            ) + payload
            self._head = b""
        if self._missing == 0:
            self._transport.write(self._reply)


def serve(told: Connection) -> None:
    """Serve for ever; tells its port."""

    async def run() -> None:
        server = await asyncio.get_running_loop().create_server(NullChat, "127.0.0.1", 0)
        told.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(run())


@contextmanager
def null_chat() -> Iterator[str]:
    """The server in a process of its own; gives its address, ending in /v1."""
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    process = spawn.Process(target=serve, args=(theirs,), daemon=True)
    process.start()
    try:
        yield f"http://127.0.0.1:{ours.recv()}/v1"
    finally:
        process.terminate()
        process.join()


def plain_messages(images: list[bytes]) -> list[dict[str, object]]:
    """The question as every tutorial builds it."""
    urls = [f"data:image/png;base64,{base64.b64encode(image).decode()}" for image in images]
    shown = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
    return [{"role": "user", "content": [{"type": "text", "text": QUESTION}, *shown]}]


async def http_clients(url: str, stack: AsyncExitStack) -> dict[str, Call]:
    """Each client's way of asking the question; a client that is not installed is left out."""
    import aiohttp

    images = [os.urandom(IMAGE_BYTES) for _ in range(2)]
    fixed = {"model": "null", "temperature": 0.0, "top_p": 1.0, "max_tokens": 16, "seed": 0}
    sampling = Sampling(max_tokens=16)
    endpoint = GeneralistEndpoint(url=url, model="null")
    transport = await stack.enter_async_context(OpenAiTransport(endpoint, RetryPolicy()))
    session = await stack.enter_async_context(aiohttp.ClientSession())
    kept = Prompt(
        "", (Text(QUESTION), *(Picture(image, "image/png", (512, 512)) for image in images))
    )

    async def ours() -> object:
        return await transport.complete(kept, sampling)

    async def ours_new() -> object:
        new = (Picture(image, "image/png", (512, 512)) for image in images)
        return await transport.complete(Prompt("", (Text(QUESTION), *new)), sampling)

    async def naive() -> object:
        body = fixed | {"messages": plain_messages(images)}
        async with session.post(f"{url}/chat/completions", json=body) as response:
            return (await response.json())["choices"][0]["message"]["content"]

    clients: dict[str, Call] = {OURS: ours, NEW: ours_new, "aiohttp, json=": naive}
    if find_spec("httpx2"):
        import httpx2

        client = await stack.enter_async_context(httpx2.AsyncClient(timeout=60))

        async def through_httpx() -> object:
            body = fixed | {"messages": plain_messages(images)}
            response = await client.post(f"{url}/chat/completions", json=body)
            return response.json()["choices"][0]["message"]["content"]

        clients["httpx2, json="] = through_httpx
    if find_spec("openai"):
        import openai

        sdk = await stack.enter_async_context(openai.AsyncOpenAI(base_url=url, api_key="none"))

        async def through_sdk() -> object:
            reply = await sdk.chat.completions.create(messages=plain_messages(images), **fixed)
            return reply.choices[0].message.content

        clients["openai"] = through_sdk
    return clients


async def compare(url: str, rounds: int, calls: int) -> dict[str, list[tuple[float, ...]]]:
    """Calls per second, median ms of a call and processor ms of a call, by client and round."""
    results: dict[str, list[tuple[float, ...]]] = {}
    async with AsyncExitStack() as stack:
        clients = await http_clients(url, stack)
        for call in clients.values():
            await rate(call, CONCURRENCY, 2 * CONCURRENCY)
        order = list(clients)
        for _ in range(rounds):
            random.shuffle(order)
            for name in order:
                start = time.process_time()
                measured = await rate(clients[name], CONCURRENCY, calls)
                busy = 1e3 * (time.process_time() - start) / calls
                results.setdefault(name, []).append((*measured, busy))
    return {name: results[name] for name in clients}


@click.command()
@click.option("--rounds", default=9, show_default=True)
@click.option("--calls", default=600, show_default=True, help="Per client and round.")
@click.option("--json", "as_json", is_flag=True)
def main(rounds: int, calls: int, as_json: bool) -> None:
    """Print calls per second and latency of each client, and editjudge's ratios."""
    with null_chat() as url:
        results = asyncio.run(compare(url, rounds, calls))
    median = {
        name: tuple(map(statistics.median, zip(*runs, strict=True)))
        for name, runs in results.items()
    }
    best = {name: max(run[0] for run in runs) for name, runs in results.items()}
    summary = {}
    for name in results.keys() - {OURS, NEW}:
        other = name.partition(",")[0]
        for mine, label in ((OURS, "kept"), (NEW, "new")):
            summary[f"{label}_images_rate_over_{other}"] = median[mine][0] / median[name][0]
            summary[f"{label}_images_best_rate_over_{other}"] = best[mine] / best[name]
            summary[f"{label}_images_cpu_of_{other}"] = median[mine][2] / median[name][2]
    if as_json:
        click.echo(json.dumps({"medians": median, "best_rates": best, **summary}, indent=2))
        return
    title = f"two images of {IMAGE_BYTES // 1000} KB, {CONCURRENCY} in flight, {rounds} rounds"
    table = Table(title=title)
    for heading in ("client", "calls/s, median", "calls/s, best", "p50 ms", "CPU ms"):
        table.add_column(heading, justify="right")
    for name, (speed, milliseconds, busy) in median.items():
        row = f"{speed:.0f}", f"{best[name]:.0f}", f"{milliseconds:.2f}", f"{busy:.2f}"
        table.add_row(name, *row)
    Console(width=120).print(table)
    if "openai" not in results:
        click.echo("openai is not installed and was left out")
    for name, value in sorted(summary.items()):
        click.echo(f"{name}: {value:.2f}")


if __name__ == "__main__":
    main()
