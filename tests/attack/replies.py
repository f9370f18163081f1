"""Hostile replies through all that reads them: what they say, or why there is nothing."""

from __future__ import annotations

import asyncio
import contextlib
import csv
import io
import json
import math
import os
import random
import re
from collections.abc import Mapping
from functools import cache
from typing import Any, get_args

from rich.table import Table

from editjudge.answers.contract import OutputContract
from editjudge.answers.reply import Unparsable
from editjudge.answers.scores import Scores
from editjudge.answers.texts import FirstWord, Option
from editjudge.base.config import JudgeEndpoint, Secret, Settings
from editjudge.base.console import make_console
from editjudge.base.errors import Abstention, ServiceError
from editjudge.base.terminal import allow_any_text, print_json_text, print_text
from editjudge.base.text import escape_formula, join_surrogates
from editjudge.base.verdict import NoScoreKind
from editjudge.benchmarks.kris.dimensions import readers
from editjudge.panel import Panel
from editjudge.panel.judge import Judge
from editjudge.panel.prompt import Prompt, Text
from editjudge.prompts import load_templates
from editjudge.storage.ledger import Ledger

from ..fakes.openai import Fault, ScriptedOpenAi, reply
from ..fakes.vllm_grpc import ScriptedVllmGrpc
from . import oracle
from .reply_grammar import ENCODED, SECRET, JudgeReply, make_hostile_reply
from .trials import Attack, Violation, dice

_ACTS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_KEY = "ATTACK_JUDGE_KEY"


@cache
def contracts() -> tuple[OutputContract[Any], ...]:
    """What reads the replies of all benchmarks: of every template, and the official readers."""
    ours: list[OutputContract[Any]] = []
    for template in load_templates().values():
        contract = template.contract or FirstWord(template.choices)
        if contract not in ours:
            ours.append(contract)
    ours.append(Option(("A red car.", "a blue car", "It cannot be told from the image")))
    official = (reader for metric in ("consistency", "instruction") for _, reader in readers(metric))
    for reader in official:
        if reader not in ours:
            ours.append(reader)
    return tuple(ours)


def trial(seed: int, number: int) -> str:
    """A reply to its reader; by turns through a server over HTTP or gRPC."""
    rng = dice("replies", seed, number)
    every = contracts()
    # Scores are what can be wrong without being seen.
    scored = [contract for contract in every if isinstance(contract, Scores)]
    contract = rng.choice(scored if rng.random() < 0.6 else every)
    said = make_hostile_reply(rng, contract)
    if number % 40 == 39:
        return asyncio.run(_over_grpc(rng, contract, said))
    if number % 4 == 3:
        return asyncio.run(_over_http(rng, contract, said))
    return _read(contract, said)


def _read(contract: OutputContract[Any], said: JudgeReply) -> str:
    text = join_surrogates(said.text)  # as transports give it
    try:
        value = contract.parse(text, cut=said.cut)
    except Unparsable as error:
        oracle.check_reason(error.reason)
        _check_shown(error.reason)
        if said.due and not said.cut:
            raise Violation(f"{said.text[:200]!r} is not read: {error}") from None
        return "unparsable"
    if isinstance(contract, Scores) and said.right is not None and value.scores != said.right:
        wrong = "no score is" if not said.right else f"{dict(said.right)} is"
        raise Violation(f"read as {value.scores}, where {wrong} said: {said.text[-300:]!r}")
    _check_shown(str(value))
    try:
        return oracle.check(contract, text, value)
    except Violation as error:
        raise Violation(f"{error}: {said.text[-300:]!r}") from None


def _check_shown(text: str) -> None:
    """What is printed of a text, in a line, JSON and a table, and what a spreadsheet gets."""
    for encoding in ("utf-8", "latin-1"):
        raw = io.BytesIO()
        stream = io.TextIOWrapper(raw, encoding, write_through=True)
        with contextlib.redirect_stdout(stream):
            allow_any_text()  # as the command does first
            print_text(text[:2000])
            print_json_text(json.dumps({"it": text[:2000]}, ensure_ascii=False))
            table = Table()
            table.add_column("it")
            table.add_row(text[:200])
            make_console().print(table)
        if acts := _ACTS.search(raw.getvalue().decode(encoding)):
            raise Violation(f"a terminal gets {acts[0]!r}")
    cell = io.StringIO()
    csv.writer(cell).writerow([escape_formula(text)])
    csv.field_size_limit(max(csv.field_size_limit(), len(cell.getvalue())))
    (read,) = next(csv.reader([cell.getvalue()])) or [""]
    if read.startswith(("=", "+", "-", "@", "\t", "\r")):
        raise Violation(f"a spreadsheet computes {text[:60]!r}")


# Through servers


async def _over_http(rng: random.Random, contract: OutputContract[Any], said: JudgeReply) -> str:
    body = json.dumps(_make_completion(rng, said)).encode()
    if rng.random() < 0.15:
        at = rng.randrange(len(body))
        body = body[:at] + rng.choice((b"", b"\xff", b"\x00", b"[" * 9999, b"}")) + body[at + 1 :]
    os.environ[_KEY] = SECRET
    server = ScriptedOpenAi(Fault(200, body), owner=rng.choice(("openai", "vllm")))
    async with server.serving() as url:
        endpoint = JudgeEndpoint(url=url, model="judge", api_key=Secret(env=_KEY))
        return await _ask(rng, endpoint, contract, said)


async def _over_grpc(rng: random.Random, contract: OutputContract[Any], said: JudgeReply) -> str:
    text = said.text[:5000].encode("utf-8", "replace").decode()
    os.environ[_KEY] = SECRET
    server = ScriptedVllmGrpc(_choose_change(rng), says=text, logits={"Yes": 3.0, "No": 1.0})
    async with server.serving() as url:
        endpoint = JudgeEndpoint(url=url, model="judge", api_key=Secret(env=_KEY))
        return await _ask(rng, endpoint, contract, JudgeReply(text, None))


async def _ask(rng: random.Random, endpoint: JudgeEndpoint, contract: OutputContract[Any], said: JudgeReply) -> str:
    settings = Settings(
        judges={"judge": endpoint}, attempts=1, patience=0, deadline=60.0, retry_wait=0.001, ledger=None
    )
    with Ledger() as ledger:
        async with Panel(settings, ledger=ledger) as panel:
            judge = panel.judge("generalist.judge")
            prompt = Prompt("", (Text("What is it worth?"),))
            calls: tuple[str, ...] = ()
            try:
                outcome, shown, calls = await _outcome(rng, judge, prompt, contract, said)
            except Abstention as error:
                if error.kind not in get_args(NoScoreKind):
                    raise Violation(f"unscored as {error.kind!r}") from None
                outcome, calls = error.kind, error.calls
                shown = f"{error.reason} {error.evidence}"
            except ServiceError as error:
                outcome, shown = type(error).__name__, str(error)
            shown += str([each.model_dump() for each in (await ledger.get_records(calls)).values()])
    if any(key in shown for key in (SECRET, ENCODED, SECRET.encode().hex())):
        raise Violation(f"the key is shown: {shown[:300]!r}")
    _check_shown(shown)
    return f"judge: {outcome}"


async def _outcome(
    rng: random.Random, judge: Judge, prompt: Prompt, contract: OutputContract[Any], said: JudgeReply
) -> tuple[str, str, tuple[str, ...]]:
    if isinstance(contract, FirstWord) and rng.random() < 0.7:
        chosen = await judge.choose(prompt, contract.options)
        _check_spread(chosen.value.probabilities)
        return "choices", str(chosen), chosen.calls
    answer = await judge.answer(prompt, contract)
    scores = getattr(answer.value, "scores", None)
    if isinstance(contract, Scores) and said.right is not None and scores != said.right:
        raise Violation(f"read as {scores}, where {said.right} is said: {said.text[-300:]!r}")
    return "answer", str(answer), answer.calls


def _check_spread(spread: Mapping[str, float]) -> None:
    total = math.fsum(spread.values())
    if not all(0 <= share <= 1 for share in spread.values()) or not math.isclose(total, 1):
        raise Violation(f"no distribution: {spread}")


_NUMBERS = (2**63, -(2**63), 10**400, -1, 1.5, "7", None, True, [], math.nan, math.inf, 10**4000)


def _make_completion(rng: random.Random, said: JudgeReply) -> dict[str, Any]:
    """A chat completion around a text, right or not."""
    whole = {"model": "judge"} | reply(said.text)
    choice, usage = whole["choices"][0], whole["usage"]
    message = choice["message"]
    choice["finish_reason"] = "length" if said.cut else "stop"
    top = [{"token": word, "logprob": value} for word, value in (("Yes", -0.4), ("No", -1.2))]
    choice["logprobs"] = {"content": [{**top[0], "top_logprobs": top}]}
    for _ in range(rng.choice((0, 0, 1, 1, 2))):
        number = rng.choice(_NUMBERS)
        rng.choice(
            (
                lambda n=number: usage.update(prompt_tokens=n),
                lambda n=number: usage.update(completion_tokens=n),
                lambda n=number: usage.update(prompt_tokens_details={"cached_tokens": n}),
                lambda n=number: top[0].update(logprob=n),
                lambda n=number: top[1].update(token=n),
                lambda: top.append(dict(top[0])),
                lambda: choice.update(logprobs={"content": [{"top_logprobs": "Yes"}]}),
                lambda: choice.update(logprobs=rng.choice(([], {}, {"content": []}, "x", 3))),
                lambda n=number: choice.update(finish_reason=n),
                lambda n=number: choice.update(message=n),
                lambda n=number: message.update(content=n),
                lambda: message.update(refusal=f"I may not: {SECRET} \x1b[31m"),
                lambda: message.update(content=[{"type": "text", "text": "4"}]),
                lambda: whole["choices"].append(choice),
                lambda: whole.update(choices=rng.choice(([], None, {}, "x", [None], [[]]))),
                lambda: whole.update(model=rng.choice((SECRET, "judge2", "x" * 999, 4, "[/m]", None))),
                lambda n=number: whole.update(usage=n),
                lambda: whole.update(error=rng.choice(({"message": SECRET}, "x", {"code": 500}))),
            )
        )()
    return whole


def _choose_change(rng: random.Random) -> Any:
    """What is done to a reply over gRPC; None for nothing."""
    number = rng.choice((0, 1, 2**31 - 1, 2**32 - 1))

    def change(complete: Any) -> None:
        rng.choice(
            (
                lambda: setattr(complete, "prompt_tokens", number),
                lambda: setattr(complete, "completion_tokens", number),
                lambda: setattr(complete, "cached_tokens", number),
                lambda: setattr(complete, "finish_reason", rng.choice(("", "x", "length", "\x1b[2J"))),
                lambda: complete.output_ids.append(number),
                lambda: complete.ClearField("output_ids"),
                lambda: complete.output_ids.extend([5] * 3000),
                lambda: complete.ClearField("output_logprobs"),
                lambda: complete.output_logprobs.token_logprobs.append(math.nan),
                lambda: complete.output_logprobs.top_logprobs.add(token_ids=[1, 1], values=[0.0]),
            )
        )()

    return change if rng.random() < 0.6 else None


REPLIES = Attack("replies", trial, full=20_000, small=200, seconds=10, mib=512)
