"""What a judge's transport costs per call, against what one would write or install instead.

Servers that answer at once, in processes of their own, get the same question from each
client: a sentence and two images of 200 KB, 32 calls in flight. Over HTTP the others encode
the images anew for each call, as their interfaces ask for; editjudge is shown with images that
it has sent before (a judge sees each image in several questions) and with new ones. Over gRPC
the others are the protocol's stub: once with one request that was made beforehand, the least that
a client can do, and once with a request that it makes of new images for each call, as one would
write it. Neither writes a template, encodes text or checks anything. Rounds are interleaved and
the order changes from round to round, so that a noisy machine disturbs all alike. Medians over
rounds are compared, the best rounds, and the processor time that a call takes of the client's
process, which is the same however busy the machine is.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import random
import statistics
import time
from contextlib import AsyncExitStack
from importlib.util import find_spec
from typing import Any

import click
from null_servers import SPECIAL, serve_chat, serve_engine, serving, tokenizer
from panel import Call, rate
from rich.console import Console
from rich.table import Table

from editjudge.base.config import JudgeEndpoint
from editjudge.panel.openai import OpenAiTransport
from editjudge.panel.prompt import Picture, Prompt, Text
from editjudge.panel.retry import RetryPolicy
from editjudge.panel.transport import Sampling, Transport
from editjudge.panel.vllm import VllmTransport

IMAGE_BYTES = 200_000
CONCURRENCY = 32
QUESTION = "Was the instruction followed? Reply with one number from 1 to 10."
OURS, NEW = "editjudge", "editjudge, new images"
GRPC, GRPC_NEW, STUB = "editjudge, gRPC", "editjudge, gRPC, new images", "bare stub, gRPC"
STUB_NEW = "bare stub, gRPC, new images"


def plain_messages(images: list[bytes]) -> list[dict[str, object]]:
    """The question as every tutorial builds it."""
    urls = [f"data:image/png;base64,{base64.b64encode(image).decode()}" for image in images]
    parts = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
    return [{"role": "user", "content": [{"type": "text", "text": QUESTION}, *parts]}]


def make_prompt(images: list[bytes]) -> Prompt:
    """The question as a prompt, with images that nothing is known of yet."""
    parts = (Picture(image, "image/png", (512, 512)) for image in images)
    return Prompt("", (Text(QUESTION), *parts))


def through(transport: Transport, images: list[bytes]) -> tuple[Call, Call]:
    """A transport's way of asking it, with images that it has sent before and with new ones."""
    sampling = Sampling(max_tokens=16)
    prompt = make_prompt(images)

    async def repeat() -> object:
        return await transport.complete(prompt, sampling)

    async def new() -> object:
        return await transport.complete(make_prompt(images), sampling)

    return repeat, new


async def http_clients(url: str, stack: AsyncExitStack) -> dict[str, Call]:
    """Each client's way of asking the question; a client that is not installed is left out."""
    import aiohttp

    images = [os.urandom(IMAGE_BYTES) for _ in range(2)]
    settings = {"model": "null", "temperature": 0.0, "top_p": 1.0, "max_tokens": 16, "seed": 0}
    endpoint = JudgeEndpoint(url=url, model="null")
    transport = await stack.enter_async_context(OpenAiTransport(endpoint, RetryPolicy()))
    session = await stack.enter_async_context(aiohttp.ClientSession())
    ours, ours_new = through(transport, images)

    async def naive() -> object:
        body = settings | {"messages": plain_messages(images)}
        async with session.post(f"{url}/chat/completions", json=body) as response:
            return (await response.json())["choices"][0]["message"]["content"]

    clients: dict[str, Call] = {OURS: ours, NEW: ours_new, "aiohttp, json=": naive}
    if find_spec("httpx2"):
        import httpx2

        client = await stack.enter_async_context(httpx2.AsyncClient(timeout=60))

        async def through_httpx() -> object:
            body = settings | {"messages": plain_messages(images)}
            response = await client.post(f"{url}/chat/completions", json=body)
            return response.json()["choices"][0]["message"]["content"]

        clients["httpx2, json="] = through_httpx
    if find_spec("openai"):
        import openai

        sdk = await stack.enter_async_context(openai.AsyncOpenAI(base_url=url, api_key="none"))

        async def through_sdk() -> object:
            reply = await sdk.chat.completions.create(messages=plain_messages(images), **settings)
            return reply.choices[0].message.content

        clients["openai"] = through_sdk
    return clients


def tokens(images: int) -> tuple[list[int], int]:
    """The question as token ids, and the one that ends a reply."""
    start, end, image = SPECIAL
    user = f"{start}user\n{QUESTION}{image * images}{end}\n{start}assistant\n"
    tokenizer_json = tokenizer()
    return tokenizer_json.encode(user).ids, tokenizer_json.token_to_id(end)


def by_hand(images: list[bytes], ids: list[int], end: int) -> Any:
    """The same request as our transport's, written by hand."""
    from smg_grpc_proto import vllm_engine_pb2 as pb
    from smg_grpc_proto.generated import common_pb2

    request = pb.GenerateRequest(request_id="perf", stream=False)
    request.tokenized.input_ids.extend(ids)
    for one in images:
        url = f"data:image/png;base64,{base64.b64encode(one).decode()}"
        request.media_refs.items.add(modality=common_pb2.IMAGE, url=url)
    params = request.sampling_params
    params.temperature, params.top_p, params.repetition_penalty = 0.0, 1.0, 1.0
    params.max_tokens, params.seed, params.n = 16, 0, 1
    params.skip_special_tokens = True
    params.stop_token_ids.append(end)
    return request


async def grpc_clients(address: str, stack: AsyncExitStack) -> dict[str, Call]:
    """The same over vLLM's own protocol."""
    import grpc.aio
    from smg_grpc_proto import vllm_engine_pb2_grpc

    images = [os.urandom(IMAGE_BYTES) for _ in range(2)]
    endpoint = JudgeEndpoint(url=f"grpc://{address}", model="null")
    transport = await stack.enter_async_context(VllmTransport(endpoint, RetryPolicy()))
    repeat, new = through(transport, images)
    channel = await stack.enter_async_context(grpc.aio.insecure_channel(address))
    stub = vllm_engine_pb2_grpc.VllmEngineStub(channel)
    ids, end = tokens(len(images))
    request = by_hand(images, ids, end)

    async def bare(request_body: Any = request) -> object:
        async for response in stub.Generate(request_body):
            return response.complete.output_ids
        raise RuntimeError("no reply")

    async def bare_new() -> object:
        return await bare(by_hand(images, ids, end))

    return {GRPC: repeat, GRPC_NEW: new, STUB: bare, STUB_NEW: bare_new}


async def compare(chat: str, engine: str, rounds: int, calls: int) -> dict[str, list[tuple[float, ...]]]:
    """Calls per second, median ms of a call and processor ms of a call, by client and round."""
    results: dict[str, list[tuple[float, ...]]] = {}
    async with AsyncExitStack() as stack:
        clients = await http_clients(f"http://{chat}/v1", stack)
        clients |= await grpc_clients(engine, stack)
        for call in clients.values():
            await rate(call, CONCURRENCY, 2 * CONCURRENCY)
        order = list(clients)
        for _ in range(rounds):
            random.shuffle(order)
            for name in order:
                start = time.process_time()
                rates = await rate(clients[name], CONCURRENCY, calls)
                busy = 1e3 * (time.process_time() - start) / calls
                results.setdefault(name, []).append((*rates, busy))
    return {name: results[name] for name in clients}


@click.command()
@click.option("--rounds", default=9, show_default=True)
@click.option("--calls", default=600, show_default=True, help="Per client and round.")
@click.option("--json", "as_json", is_flag=True)
def main(rounds: int, calls: int, as_json: bool) -> None:
    """Print calls per second and latency of each client, and editjudge's ratios."""
    with serving(serve_chat) as chat, serving(serve_engine) as engine:
        results = asyncio.run(compare(chat, engine, rounds, calls))
    median = {name: tuple(map(statistics.median, zip(*runs, strict=True))) for name, runs in results.items()}
    best = {name: max(run[0] for run in runs) for name, runs in results.items()}
    summary = {}
    over_grpc = {GRPC: "grpc_kept", GRPC_NEW: "grpc_new"}
    others = {STUB: "bare_stub", STUB_NEW: "bare_stub_with_new_images"}
    for name in results.keys() - {OURS, NEW, *over_grpc}:
        other = others.get(name) or name.partition(",")[0].replace(" ", "_")
        pairs = over_grpc if name in others else {OURS: "kept", NEW: "new"}
        for mine, label in pairs.items():
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
