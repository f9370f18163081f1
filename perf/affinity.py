"""What source affinity gives: two real vLLMs, calls spread by source beside calls spread by load.

Edits of one source are siblings: they share their first picture. Each is asked about once, so all
that a cache can hold of another's prompt is the system's text and the source. Four sets of edits
are asked about: every source with one edit, with 4, with 16, and a greedy source that has three
quarters of all edits. The sources take turns, so that a cache has to hold all of them to serve the
second sibling of one: `--blocks` bounds what it holds. Both ways of spreading are tried through the
real Envoy, with the configuration of `editjudge front` and the same with least requests, and
through the client's own pool, with and without a preference. Runs are interleaved, pictures are new
in each, and both caches are emptied.

With `--lost` a set is asked about three times with both caches left as they are: by both servers,
after one of them has ended, and after it is back with an empty cache.

Ratios are affinity over load, from one run; above 1 is better for shares and requests a second,
below 1 for p50. Two servers, the door and the client share the cores of this machine, so that
a server that is idle gives its time to the other one: requests a second tell what work was saved,
and the busiest server's part of the calls tells how even it was.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import click
import httpx2
from prefix_cache import make_edits, python_option, questions, tiny_model
from rich.console import Console
from rich.table import Table

from editjudge.base.config import JudgeEndpoint, Secret, StackSettings
from editjudge.base.item import Edit
from editjudge.panel.budget import Budget
from editjudge.panel.context import DEFAULT_TERMS, AnyTerms, CallContext
from editjudge.panel.judge import Judge
from editjudge.panel.openai import OpenAiTransport
from editjudge.panel.pool import EndpointPool
from editjudge.panel.prompt import Prompt, Text
from editjudge.panel.replica import Replica
from editjudge.panel.retry import RetryPolicy
from editjudge.panel.transport import Transport
from editjudge.scorers.judge_scorer import JUDGE
from editjudge.storage.ledger import Ledger
from editjudge_services.front import render
from editjudge_services.runtime.vllm_server import VllmServer

T = TypeVar("T")
IN_FLIGHT = 16
WAYS = ("door", "pool")
SETS = {"1 sibling": 1, "4 siblings": 4, "16 siblings": 16, "a greedy source": 0, "4 siblings, few sources": 4}


class LoadPool(EndpointPool[Transport]):
    """A pool that spreads calls by load alone."""

    async def run(
        self, call: Callable[[Transport], Awaitable[T]], prefer: str = "", terms: AnyTerms = DEFAULT_TERMS
    ) -> T:
        """Make a call at the least busy replica."""
        return await super().run(call, "", terms)


def make_siblings(count: int, siblings: int, side: int, shift: int) -> list[Edit]:
    """Edits of so many sources, which take turns; for 0, four for each, three quarters of one source."""
    sources = make_edits(count * (siblings or 4), side, shift)
    edits = []
    for i, own in enumerate(sources):
        first = (0 if i % 4 else i) if not siblings else i % count
        item = replace(own.item, sources=sources[first].item.sources)
        edits.append(replace(own, item=item))
    return edits


async def measure(
    urls: list[str], direct: list[str], edits: list[Edit], *, affinity: bool, keep: bool = False, **settings: Any
) -> tuple[float, ...]:
    """Share of cached tokens, p50 in seconds, requests a second, the busiest server's part, tokens of a prompt.

    Args:
        urls: Where to ask.
        direct: The servers themselves.
        edits: What to ask about.
        affinity: Whether the client's pool spreads calls by source.
        keep: Whether the servers keep what is in their caches.
        settings: More of the endpoint.
    """
    endpoints = [JudgeEndpoint(url=url, max_outside=1.0, **settings) for url in urls]
    policy = RetryPolicy(deadline=600)
    async with contextlib.AsyncExitStack() as stack:
        transports = [await stack.enter_async_context(OpenAiTransport(e, policy)) for e in endpoints]
        replicas = [
            Replica[Transport](url, lambda _, one=one: one, 2 * IN_FLIGHT // len(urls))
            for url, one in zip(urls, transports, strict=True)
        ]
        pool = (EndpointPool if affinity else LoadPool)(replicas)
        ledger = stack.enter_context(Ledger())
        judge = Judge(JUDGE, endpoints[0], pool, ledger, prefix_first=False)
        await judge.open(30)
        first_questions = [questions(edit, judge)[0] for edit in edits]
        await judge.choose(Prompt("", (Text("Which?"),)), first_questions[0][1])
        async with httpx2.AsyncClient(trust_env=False) as client:
            before = [await count_requests(client, url) for url in direct]
            for url in () if keep else direct:
                (await client.post(f"{url}/reset_prefix_cache")).raise_for_status()
            budget, seconds = Budget(), []
            paid_judge, places = judge.with_context(CallContext(budget)), asyncio.Semaphore(IN_FLIGHT)

            async def ask(prompt: Prompt, choices: tuple[str, ...]) -> None:
                async with places:
                    start_time = time.perf_counter()
                    await paid_judge.choose(prompt, choices)
                    seconds.append(time.perf_counter() - start_time)

            start = time.perf_counter()
            await asyncio.gather(*(ask(*one) for one in first_questions))
            total = time.perf_counter() - start
            after = [await count_requests(client, url) for url in direct]
    parts = [late - early for early, late in zip(before, after, strict=True)]
    usage = budget.usage
    shares = usage.cached_tokens / usage.prompt_tokens, max(parts) / sum(parts)
    return (
        shares[0],
        statistics.median(seconds),
        len(first_questions) / total,
        shares[1],
        usage.prompt_tokens / len(first_questions),
    )


async def count_requests(client: httpx2.AsyncClient, url: str) -> float:
    """How many requests a server has ended."""
    text = (await client.get(f"{url}/metrics")).text
    lines = [one for one in text.splitlines() if one.startswith("vllm:request_success_total{")]
    return sum(float(line.rpartition(" ")[2]) for line in lines)


@contextlib.contextmanager
def serving_two(python: Path, model: Path, folder: Path, blocks: int) -> Iterator[list[VllmServer]]:
    """Two vLLMs with one thread each, and so many blocks of 32 tokens where that is not 0."""
    os.environ |= {"VLLM_SERVER_DEV_MODE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind"}
    os.environ |= {"OMP_NUM_THREADS": "1", "VLLM_CPU_KVCACHE_SPACE": "1"}
    block_options = ("--num-gpu-blocks-override", f"{blocks}") if blocks else ()
    settings = StackSettings(judge=model, judge_args=("--block-size", "32", *block_options), judge_timeout=600)
    servers = [VllmServer(folder / f"vllm-{i}.log", python, settings) for i in range(2)]
    with contextlib.ExitStack() as stack:
        for server in servers:
            stack.callback(server.stop)
            server.spawn()
        for server in servers:
            server.wait_until_ready()
        yield servers


@contextlib.contextmanager
def by_least_requests(folder: Path) -> Iterator[None]:
    """Render the door's configuration with least requests for judges."""
    find = render.find_template_folder
    text, count = re.subn("hashed=[0-9]+(?=[)] }}\n  {%- endfor %})", "hashed=none", (find() / render.FILE).read_text())
    if count != 1:
        raise click.ClickException(f"the door's template spreads calls by source in {count} places, not in one")
    folder.mkdir()
    (folder / render.FILE).write_text(text)
    render.find_template_folder = lambda: folder
    try:
        yield
    finally:
        render.find_template_folder = find


@contextlib.asynccontextmanager
async def open_ways(
    direct: list[str], work: Path
) -> AsyncIterator[Callable[[str, bool], tuple[list[str], dict[str, Any]]]]:
    """Two doors; gives what says, by way and whether calls are spread by source, where and how to ask."""
    from tests.front.door import open_door

    judges = {"judge": {"addresses": [urlsplit(url).netloc for url in direct]}}
    async with contextlib.AsyncExitStack() as stack:
        more = {"judges": judges, "rate": {"calls_per_second": 100_000, "burst": 100_000}}
        doors = {True: await stack.enter_async_context(open_door(work / "hashed", **more))}
        with by_least_requests(work / "template"):
            doors[False] = await stack.enter_async_context(open_door(work / "load", **more))
        for affinity, door in doors.items():
            (work / f"{affinity}.token").write_text(door.token("vision"))

        def find(way: str, affinity: bool) -> tuple[list[str], dict[str, Any]]:
            if way == "pool":
                return [f"{url}/v1" for url in direct], {}
            url = doors[affinity].server.url.replace("grpcs", "https")
            key = Secret(file=work / f"{affinity}.token")
            return [f"{url}/judges/judge/v1"], {"ca_file": doors[affinity].authority.certificate, "api_key": key}

        yield find


Runs = dict[tuple[str, str, bool], list[tuple[float, ...]]]


async def compare(
    servers: list[VllmServer], work: Path, sources: int, side: int, rounds: int, sets: tuple[str, ...]
) -> Runs:
    """Interleaved runs: by way, set and whether calls are spread by source."""
    direct = [server.url.removesuffix("/v1") for server in servers]
    runs: Runs = {}
    async with open_ways(direct, work) as find:
        shift = 0
        for number in range(rounds):
            for name in sets:
                for way in WAYS:
                    for affinity in (True, False) if number % 2 else (False, True):
                        shift += 1000
                        few = name.endswith("few sources")
                        edits = make_siblings(sources // 4 if few else sources, SETS[name], side, shift)
                        urls, more = find(way, affinity)
                        run = await measure(urls, direct, edits, affinity=affinity, **more)
                        runs.setdefault((way, name, affinity), []).append(run)
                        click.echo(f"{way}, {name}, {affinity}: {[round(each, 3) for each in run]}", err=True)
    return runs


async def lose(
    servers: list[VllmServer], work: Path, sources: int, side: int, rounds: int, sets: tuple[str, ...]
) -> Runs:
    """The same edits by both servers, by the second alone, and by both when the first is back, for one way and set."""
    direct, runs = [server.url.removesuffix("/v1") for server in servers], Runs()
    async with open_ways(direct, work) as find:
        for affinity in (False, True):
            edits = make_siblings(sources, SETS[sets[0]], side, 1000 * (1 + affinity))
            urls, more = find("door", affinity)

            async def ask(stage: str, there: list[str], *, keep: bool = True) -> None:
                run = await measure(urls, there, edits, affinity=affinity, keep=keep, **more)  # noqa: B023
                runs["door", stage, affinity] = [run]  # noqa: B023
                click.echo(f"{stage}, {affinity}: {[round(each, 3) for each in run]}", err=True)  # noqa: B023

            await ask("both, cold", direct, keep=False)
            await ask("both, warm", direct)
            await asyncio.to_thread(servers[0].stop)
            await ask("one lost", direct[1:])
            await asyncio.to_thread(servers[0].start)
            await asyncio.sleep(12)  # until the door knows
            await ask("it is back", direct)
            await ask("again", direct)
    return runs


@click.command()
@click.option("--sources", default=24, show_default=True)
@click.option("--side", default=512, show_default=True, help="Of the images, in pixels.")
@click.option("--rounds", default=2, show_default=True)
@click.option("--blocks", default=0, help="Of 32 tokens in each cache; 0 for more than all edits take.")
@click.option("--set", "sets", multiple=True, type=click.Choice(list(SETS)), default=list(SETS), show_default=True)
@click.option("--lost", "is_lost", is_flag=True, help="A server ends and comes back, instead; the first set alone.")
@python_option
def main(sources: int, side: int, rounds: int, blocks: int, sets: tuple[str, ...], is_lost: bool, python: Path) -> None:
    """Print shares of cached tokens, p50, requests a second and their ratios."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = tiny_model(folder, side)
        with serving_two(python.absolute(), model, folder, blocks) as servers:
            runs = asyncio.run((lose if is_lost else compare)(servers, folder, sources, side, rounds, sets))
    tokens = statistics.median(run[-1] for group in runs.values() for run in group)
    title = f"{sources} sources of {side}x{side}, {tokens:.0f} tokens a prompt, {IN_FLIGHT} in flight"
    table = Table(title=f"{title}, {blocks or 'unbounded'} blocks, medians of {rounds} rounds; affinity / load")
    for heading in ("by", "set", "cached", "p50 ms", "requests/s", "busiest", "p50", "requests/s"):
        table.add_column(heading, justify="right")
    for way, kind in dict.fromkeys(key[:2] for key in runs):
        mine, other = (
            [statistics.median(each) for each in zip(*runs[way, kind, affinity], strict=True)]
            for affinity in (True, False)
        )
        table.add_row(
            way,
            kind,
            f"{mine[0]:.3f} / {other[0]:.3f}",
            f"{1000 * mine[1]:.0f} / {1000 * other[1]:.0f}",
            f"{mine[2]:.1f} / {other[2]:.1f}",
            f"{mine[3]:.2f} / {other[3]:.2f}",
            f"{mine[1] / other[1]:.2f}",
            f"{mine[2] / other[2]:.2f}",
        )
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
