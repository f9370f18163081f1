"""How much of its prompts a real vLLM finds in its prefix cache, by the order of calls.

Each edit is asked about with the five generic dimensions of a multimodal LLM, all edits at once
and up to 32 calls in flight, in three ways: images first and the first call about an edit ahead of
the others, as editjudge asks providers and replicas; the same prompts all at once, as it asks a
single vLLM; and all at once with the images after the question, as one might write them. Before
each run the server's prefix cache is emptied by its own `/reset_prefix_cache`, and each run has
the photographs shifted by another number of pixels, so that no other cache has seen them either.
Runs are interleaved, in an order
that changes from round to round.

Without `--model` the server has a tiny Qwen3-VL with random weights. That writes no lists of
questions that could be read, so the two dimensions that generate theirs get five fixed ones
each: 13 calls an edit. Its tokenizer knows few words, so texts take about twice the tokens that
they take elsewhere, while an image of 256x256 is 64 tokens as in any Qwen3-VL: larger images and
a larger vocabulary give larger shares.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import click
import httpx2
import numpy as np
import skimage.data
from PIL import Image as Pil
from PIL import ImageEnhance, ImageFilter, ImageOps
from rich.console import Console
from rich.table import Table

from editjudge.base.config import JudgeEndpoint, StackSettings
from editjudge.base.images import load_image
from editjudge.base.item import Edit, Item
from editjudge.benchmarks.core.dimensions import DIMENSIONS
from editjudge.benchmarks.dimension import Reading
from editjudge.panel.budget import Budget
from editjudge.panel.calls import Usage
from editjudge.panel.context import CallContext
from editjudge.panel.judge import Judge
from editjudge.panel.openai import OpenAiTransport
from editjudge.panel.pool import EndpointPool
from editjudge.panel.prompt import Picture, Prompt, Text
from editjudge.panel.replica import Replica
from editjudge.panel.retry import RetryPolicy
from editjudge.panel.transport import Transport
from editjudge.prompts import get_template
from editjudge.scorers.judge_scorer import JUDGE, make_prompt
from editjudge.scorers.vqa import FiveLevel, QuestionList
from editjudge.storage.ledger import Ledger
from editjudge_services.runtime.vllm_server import VllmServer

CONCURRENCY = 32
ROOT = Path(__file__).parents[1]
PHOTOGRAPHS = (
    "astronaut",
    "cat",
    "coffee",
    "rocket",
    "hubble_deep_field",
    "retina",
    "immunohistochemistry",
    "colorwheel",
)
EDITS: dict[str, Callable[[Pil.Image], Pil.Image]] = {
    "turn the picture into its negative": ImageOps.invert,
    "mirror the picture": ImageOps.mirror,
    "make the picture brighter": lambda one: ImageEnhance.Brightness(one).enhance(1.4),
    "take the colours out": lambda one: ImageOps.grayscale(one).convert("RGB"),
    "blur the picture": lambda one: one.filter(ImageFilter.GaussianBlur(3)),
    "raise the contrast": lambda one: ImageEnhance.Contrast(one).enhance(1.6),
}
QUESTIONS = {
    "core/physical_plausibility_questions": (
        "Does the light in the edited image come from one direction?",
        "Do the shadows fit the things that throw them?",
        "Does everything rest on something that can carry it?",
        "Are near things larger than far things of the same kind?",
        "Do mirrors and water show what stands before them?",
    ),
    "core/composition_and_interaction_questions": (
        "Do new things stand where there is room for them?",
        "Is the size of new things right beside the old ones?",
        "Do things that touch each other touch without gaps?",
        "Is what stands in front drawn before what stands behind?",
        "Is the main subject still easy to find?",
    ),
}
FIRST_AHEAD, AT_ONCE, IMAGES_LAST = "first ahead", "all at once", "all at once, images last"
Question = tuple[Prompt, tuple[str, ...]]


@dataclass(frozen=True)
class Run:
    """What one run took."""

    calls: int
    usage: Usage
    seconds: float

    @property
    def share(self) -> float:
        """Of the prompt tokens, those found in the cache."""
        return self.usage.cached_tokens / self.usage.prompt_tokens


def make_edits(count: int, side: int, shift: int) -> list[Edit]:
    """Photographs of scikit-image, each with an edit; another shift makes other images of them."""
    edits = []
    for i in range(count):
        name = PHOTOGRAPHS[i % len(PHOTOGRAPHS)]
        photograph = Pil.fromarray(getattr(skimage.data, name)()).convert("RGB")
        pixels = np.asarray(photograph.resize((side, side)))
        source = Pil.fromarray(np.roll(pixels, shift + i, axis=1))
        instruction, change = list(EDITS.items())[i % len(EDITS)]
        item = Item(f"{name}-{i}", instruction, (load_image(source),))
        edits.append(Edit(item, "perf", load_image(change(source))))
    return edits


def questions(edit: Edit, judge: Judge) -> list[Question]:
    """All that the generic dimensions ask about an edit, once questions are there."""
    scorers = [d.how.scorer for d in DIMENSIONS if isinstance(d.how, Reading) and not d.needs]
    all_questions: list[Question] = []
    for scorer in scorers:
        if isinstance(scorer, FiveLevel):
            levels = scorer.template
            all_questions.append((make_prompt(levels, edit, judge.prepare_picture), tuple(levels.weights)))
        elif isinstance(scorer, QuestionList):
            one = get_template(scorer.question_prompt)
            all_questions += [
                (make_prompt(one, edit, judge.prepare_picture, question=question), ("Yes", "No"))
                for question in QUESTIONS[scorer.prompt]
            ]
    return all_questions


def images_last(prompt: Prompt) -> Prompt:
    """The same question with its images at the end."""
    end = max(i for i, part in enumerate(prompt.parts) if isinstance(part, Picture)) + 1
    return Prompt(prompt.system, (*prompt.parts[end:], Text("\n"), *prompt.parts[:end]))


async def run(way: str, edits: list[Edit], url: str) -> Run:
    """Ask everything about all edits in one of the ways."""
    # Random weights give much of the probability to no answer.
    endpoint = JudgeEndpoint(url=url, max_outside=1.0)
    async with OpenAiTransport(endpoint, RetryPolicy(deadline=600)) as transport:
        with Ledger() as ledger:
            replica = Replica[Transport](url, lambda _: transport, CONCURRENCY)
            pool = EndpointPool([replica])
            judge = Judge(JUDGE, endpoint, pool, ledger, prefix_first=way == FIRST_AHEAD)
            await judge.open(30)
            all_questions = [one for edit in edits for one in questions(edit, judge)]
            if way == IMAGES_LAST:
                all_questions = [(images_last(prompt), choices) for prompt, choices in all_questions]
            # What is asked of a server once, and before any image, is not measured.
            for choices in {choices for _, choices in all_questions}:
                await judge.choose(Prompt("", (Text("Which?"),)), choices)
            async with httpx2.AsyncClient(trust_env=False) as client:
                reply = await client.post(f"{url.removesuffix('/v1')}/reset_prefix_cache")
                reply.raise_for_status()
            budget = Budget()
            start = time.perf_counter()
            paid_judge = judge.with_context(CallContext(budget))
            await asyncio.gather(*(paid_judge.choose(*one) for one in all_questions))
            return Run(budget.calls, budget.usage, time.perf_counter() - start)


async def compare(url: str, count: int, side: int, rounds: int) -> dict[str, list[Run]]:
    """Interleaved runs of each way."""
    ways = [FIRST_AHEAD, AT_ONCE, IMAGES_LAST]
    results: dict[str, list[Run]] = {way: [] for way in ways}
    shift = 0
    await run(AT_ONCE, make_edits(2, side, shift), url)
    order = list(ways)
    for _ in range(rounds):
        random.shuffle(order)
        for way in order:
            shift += count + 1
            results[way].append(await run(way, make_edits(count, side, shift), url))
    return results


def tiny_model(folder: Path, side: int) -> Path:
    """A Qwen3-VL with random weights that takes images of this size as they are."""
    sys.path.append(str(ROOT))
    from tests.vllm.checkpoints import make_qwen3

    model = make_qwen3(folder)
    file = model / "preprocessor_config.json"
    settings = json.loads(file.read_text())
    settings["size"]["longest_edge"] = max(settings["size"]["longest_edge"], side * side)
    file.write_text(json.dumps(settings))
    return model


@contextlib.contextmanager
def serving(python: Path, model: Path, log: Path, block_size: int) -> Iterator[str]:
    """A vLLM with a prefix cache that can be emptied; gives its address."""
    os.environ["VLLM_SERVER_DEV_MODE"] = "1"
    os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
    arguments = ("--block-size", str(block_size))
    server = VllmServer(log, python, StackSettings(judge=model, judge_args=arguments))
    try:
        server.start()
        yield server.url
    finally:
        server.stop()


python_option = click.option(
    "--python",
    type=click.Path(path_type=Path),
    default=ROOT / ".venv-vllm/bin/python",
    envvar="EDITJUDGE_VLLM_PYTHON",
    help="Of the environment that has vLLM (make test-vllm).",
)


@click.command()
@click.option("--model", type=click.Path(path_type=Path), help="Folder; a tiny one by default.")
@click.option("--edits", "count", default=6, show_default=True)
@click.option("--side", default=256, show_default=True, help="Of the images, in pixels.")
@click.option("--rounds", default=3, show_default=True)
@click.option("--block-size", default=32, show_default=True, help="Tokens; on a CPU n times 32.")
@python_option
def main(model: Path | None, count: int, side: int, rounds: int, block_size: int, python: Path) -> None:
    """Print calls, prompt tokens, those found in the cache, and seconds of each way."""
    with tempfile.TemporaryDirectory() as folder:
        model = model or tiny_model(Path(folder), side)
        with serving(python.absolute(), model, Path(folder) / "vllm.log", block_size) as url:
            results = asyncio.run(compare(url, count, side, rounds))
    table = Table(title=f"{count} edits of {side}x{side}, medians of {rounds} rounds")
    for heading in ("way", "calls", "prompt tokens", "cached", "share", "seconds", "best"):
        table.add_column(heading, justify="right")
    middle = {}
    for way, runs in results.items():
        cached_count = statistics.median(one.usage.cached_tokens for one in runs)
        share = statistics.median(one.share for one in runs)
        seconds = statistics.median(one.seconds for one in runs)
        middle[way] = share, seconds
        table.add_row(
            way,
            f"{runs[0].calls}",
            f"{runs[0].usage.prompt_tokens}",
            f"{cached_count:.0f}",
            f"{share:.3f}",
            f"{seconds:.2f}",
            f"{min(one.seconds for one in runs):.2f}",
        )
    Console(width=120).print(table)
    for way in (AT_ONCE, IMAGES_LAST):
        for what, mine, other in zip(("share", "seconds"), middle[FIRST_AHEAD], middle[way], strict=True):
            click.echo(f"{what} over {way!r}: {mine / other if other else float('inf'):.2f}")
    shares = {way: [round(one.share, 3) for one in runs] for way, runs in results.items()}
    click.echo(f"shares by round: {json.dumps(shares)}")


if __name__ == "__main__":
    main()
