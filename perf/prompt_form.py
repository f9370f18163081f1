"""What the form of a question costs a real vLLM: where its rubric stands, and a schema of one word.

Edits are asked about with one question each, a rubric of KRIS-Bench: with the pictures before the
rubric, as editjudge asks, and with the rubric, which is the same for all, before the pictures. Each
source has one edit, or four. Both begin with an empty prefix cache, pictures are new in each, and
rounds are interleaved. Then short questions whose reply is one token, alone and with a schema that
allows these words alone, in turns.

The server has the tiny Qwen3-VL of `prefix_cache.py`: a picture of 256x256 is 64 tokens, one of
1024x1024 is 1,024, and texts take about twice the tokens that they take elsewhere.
"""

from __future__ import annotations

import asyncio
import itertools
import statistics
import tempfile
import time
from pathlib import Path

import click
import httpx2
from affinity import make_siblings
from prefix_cache import CONCURRENCY, Run, python_option, serving, tiny_model
from rich.console import Console
from rich.table import Table

from editjudge.base.config import JudgeEndpoint
from editjudge.base.item import Edit
from editjudge.panel.budget import Budget
from editjudge.panel.context import CallContext
from editjudge.panel.judge import Judge
from editjudge.panel.openai import OpenAiTransport
from editjudge.panel.pool import EndpointPool
from editjudge.panel.prompt import Prompt
from editjudge.panel.replica import Replica
from editjudge.panel.retry import RetryPolicy
from editjudge.panel.transport import Transport
from editjudge.prompts import get_template
from editjudge.scorers.judge_scorer import JUDGE, make_prompt
from editjudge.storage.ledger import Ledger

WAYS = ("pictures first", "rubric first")
WORDS = ("Yes", "No")


def put_rubric_first(prompt: Prompt) -> Prompt:
    """The same question with its last text, which is the same for all edits, at its beginning."""
    return Prompt(prompt.system, (prompt.parts[-1], *prompt.parts[:-1]))


async def run(way: str, edits: list[Edit], url: str) -> Run:
    """Ask one question about each edit."""
    endpoint = JudgeEndpoint(url=url, max_outside=1.0)
    template = get_template("kris/consistency")
    async with OpenAiTransport(endpoint, RetryPolicy(deadline=600)) as transport:
        with Ledger() as ledger:
            replica = Replica[Transport](url, lambda _: transport, CONCURRENCY)
            judge = Judge(JUDGE, endpoint, EndpointPool([replica]), ledger)
            await judge.open(30)
            prompts = [make_prompt(template, edit, judge.prepare_picture) for edit in edits]
            if way == "rubric first":
                prompts = list(map(put_rubric_first, prompts))
            await judge.choose(Prompt("", prompts[0].parts[-1:]), WORDS)
            async with httpx2.AsyncClient(trust_env=False) as client:
                reply = await client.post(f"{url.removesuffix('/v1')}/reset_prefix_cache")
                reply.raise_for_status()
            budget = Budget()
            paid_judge = judge.with_context(CallContext(budget))
            start = time.perf_counter()
            await asyncio.gather(*(paid_judge.choose(prompt, WORDS) for prompt in prompts))
            return Run(budget.calls, budget.usage, time.perf_counter() - start)


async def time_forms(url: str, count: int) -> dict[str, list[float]]:
    """Milliseconds of questions that one token answers, alone and with a schema, in turns."""
    forms = {"alone": {}, "with a schema": {"structured_outputs": {"choice": WORDS}}}
    times: dict[str, list[float]] = {name: [] for name in forms}
    async with httpx2.AsyncClient(trust_env=False, timeout=60) as client:
        (model,) = (await client.get(f"{url}/models")).json()["data"]
        for number in range(count + 3):
            for name, fields in forms.items():
                text = f"{number} {name}: is the cup red? Yes or No."
                body = {"messages": [{"role": "user", "content": text}], "max_tokens": 1}
                body |= {"model": model["id"], "temperature": 0, "logprobs": True, **fields}
                start = time.perf_counter()
                (await client.post(f"{url}/chat/completions", json=body)).raise_for_status()
                if number >= 3:
                    times[name].append(1e3 * (time.perf_counter() - start))
    return times


async def compare(url: str, count: int, side: int, rounds: int) -> Table:
    """Shares and seconds of each way, and milliseconds of each form."""
    table = Table("edits", "way", "prompt tokens", "share cached", "seconds, median", "best")
    shifts = itertools.count(1, count + 1)
    await run(WAYS[0], make_siblings(4, 1, side, 0), url)
    for siblings in (1, 4):
        runs: dict[str, list[Run]] = {way: [] for way in WAYS}
        for number in range(rounds):
            for way in WAYS if number % 2 else reversed(WAYS):
                edits = make_siblings(count, siblings, side, next(shifts))
                runs[way].append(await run(way, edits, url))
        for way, each in runs.items():
            seconds = [one.seconds for one in each]
            share = statistics.median(one.share for one in each)
            table.add_row(
                f"{count}, {siblings} of a source",
                way,
                f"{each[0].usage.prompt_tokens}",
                f"{share:.3f}",
                f"{statistics.median(seconds):.2f}",
                f"{min(seconds):.2f}",
            )
    for name, times in (await time_forms(url, 60)).items():
        figures = f"{statistics.median(times):.1f} ms", f"{min(times):.1f} ms"
        table.add_row("one token", name, "", "", *figures)
    return table


@click.command()
@click.option("--edits", "count", default=16, show_default=True)
@click.option("--side", default=256, show_default=True, help="Of the images, in pixels.")
@click.option("--rounds", default=3, show_default=True)
@python_option
def main(count: int, side: int, rounds: int, python: Path) -> None:
    """Print the share of prompt tokens found in the cache and seconds, of each way."""
    with tempfile.TemporaryDirectory() as folder:
        model = tiny_model(Path(folder), side)
        with serving(python.absolute(), model, Path(folder) / "vllm.log", 32) as url:
            Console(width=120).print(asyncio.run(compare(url, count, side, rounds)))


if __name__ == "__main__":
    main()
