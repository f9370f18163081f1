"""Hostile replies, made from right ones, with what may be read from them."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from editjudge.answers.contract import OutputContract
from editjudge.answers.questions import MultipleChoiceQuestion, QuestionAnswers, Questions
from editjudge.answers.scores import Scores
from editjudge.answers.segmentation import Commands, Targets
from editjudge.answers.texts import OneText

SECRET = "sk-5ecretKey+/=of-a-judge"
ENCODED = base64.b64encode(f"key {SECRET}".encode()).decode()
NOTHING: Mapping[str, float] = {}
"""What may be read from a reply without a score."""
THINKING = (
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<THINK>", "</THINK>"),
    ("<reasoning>", "</reasoning>"),
    ("<thought>", "</thought>"),
    ("[THINK]", "[/THINK]"),
    ("\u25c1think\u25b7", "\u25c1/think\u25b7"),
    ("<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final<|message|>"),
    ("<seed:think>", "</seed:think>"),
)
_MARKS = (
    "\x1b[2J\x1b[31mred\x1b[0m",
    "\x9b31m\x07\x08",
    "\x1b]0;title\x07",
    "[/m] [bold]x[/bold] [link=x]",
    ":warning: {} {0} %s %(x)s",
    '=HYPERLINK("http://x","y")',
    "+1+1",
    "@SUM(A1)",
    "\u202etxet\u202c \u2066x\u2069 \u2028",
    "\ud800",
    "\udfff half",
    "\x00",
    f"key {SECRET}. {ENCODED} {SECRET.encode().hex()}",
    "<script>alert(1)</script>",
    "{a, b} and \\frac{1}{2}",
    "\u0664\uff15\u2463 5\ufe0f\u20e3",
    "x" * 20_000,
    "\r\n\t\v\f\u00a0",
    "\\ud83d\\u0000",
)
_FENCES = (("```json\n", "\n```"), ("```\n", "\n```\n\n"), ("", "\n \t\n"), ("", ""))
_PROSE = ("Sure, here it is: ", "1. It moved.\n2. Score 3/5.\n", "**Answer**\n", "4\n", "Score: 5. ")


@dataclass(frozen=True)
class JudgeReply:
    """A reply.

    Attributes:
        right: Scores that may be read from it; `NOTHING` for none. None where only the oracle
            can say.
        due: They must be read: the reply is as asked for.
        cut: It ended at the token limit.
    """

    text: str
    right: Mapping[str, float] | None = None
    due: bool = False
    cut: bool = False


def make_hostile_reply(rng: random.Random, contract: OutputContract[Any]) -> JudgeReply:
    """A reply to a contract, right but for what was done to it."""
    said = rng.choice(_SCORES)(rng, contract) if isinstance(contract, Scores) else JudgeReply(_other(rng, contract))
    if rng.random() < 0.4:
        said = JudgeReply(_blindly(rng, said.text), None)
    return said if rng.random() < 0.9 else JudgeReply(said.text, said.right, cut=True)


def scores(rng: random.Random, contract: Scores) -> dict[str, float]:
    """Right ones."""
    return {
        f.name: float(rng.randint(int(f.low), int(f.high)) if f.integer else rng.choice((f.low, f.high)))
        for f in contract.fields
    }


def write_answer(
    contract: Scores,
    right: Mapping[str, float],
    texts: str = "It moved.",
    instead: Mapping[str, str] = NOTHING,  # type: ignore[assignment]
) -> str:
    """An object as asked for; `instead` has the JSON of scores that are none."""
    numbers = {name: f"{value:g}" for name, value in right.items()} | dict(instead)
    keys = contract.texts or (("reasoning",) if contract.reasoning == "before" else ())
    members = [f"{json.dumps(key)}: {json.dumps(texts)}" for key in keys]
    if contract.as_list:
        members.append(f'"score": [{", ".join(numbers.values())}]')
    else:
        members += [f"{json.dumps(name)}: {number}" for name, number in numbers.items()]
    return "{" + ", ".join(members) + "}"


def _as_asked(rng: random.Random, contract: Scores) -> JudgeReply:
    right = scores(rng, contract)
    opened, closed = rng.choice(_FENCES)
    begun = rng.choice(("", "\ufeff", *_PROSE))
    text = begun + opened + write_answer(contract, right) + closed
    return JudgeReply(text, right, due=True)


def _mark(rng: random.Random, contract: Scores) -> JudgeReply:
    """What a terminal, a spreadsheet or a page would obey, in the words and before them."""
    right, mark = scores(rng, contract), rng.choice(_MARKS)
    text = write_answer(contract, right, mark)
    return JudgeReply(text if rng.random() < 0.7 else f"{mark}\n{text}", right)


def _off(rng: random.Random, contract: Scores) -> JudgeReply:
    """One score is none."""
    right = scores(rng, contract)
    field = rng.choice(contract.fields)
    low, high = f"{field.low:g}", f"{field.high:g}"
    none = [
        *("NaN", "Infinity", "-Infinity", "1e400", "-1e400", "true", "null", '"four"', '"4/5"'),
        *('"\uff14"', '"\u0664"', "\u0664", "0x4", "[4]", '{"value": 4}', '"NaN"', "04", "+4", "4."),
        *(f"{high}.0000000000000000001", f"{high}.00000000000000000000000000000001"),
        *(str(10**400), f"-{low}.00000000001", str(int(field.high) + 1), str(int(field.low) - 1)),
        *("4 5", "4-5", "~4", "1_0", "1e", '"4;"', '""', "'", "4/5", '"1e400"', "-0.0000000000001"),
        f"{int(field.low) - 1}.99999999999999999999" if field.low > 0 else "-1e-300",
    ]
    if field.integer:
        none += ["4.0000000000000000001", "3.99999999999999999999", "4.5", '"4.5"', "1.5e0"]
    return JudgeReply(write_answer(contract, right, instead={field.name: rng.choice(none)}), NOTHING)


def _spelt(rng: random.Random, contract: Scores) -> JudgeReply:
    """One score is written otherwise, and is the same number."""
    right = scores(rng, contract)
    field = rng.choice(contract.fields)
    value = f"{right[field.name]:g}"
    same = [f"{value}.0", f'"{value}"', f"{value}e0", f"{value}00e-2", f" \n{value}\t", f'"{value}.0"']
    same.append(f"{value}." + "0" * 400 if "." not in value else value)
    return JudgeReply(write_answer(contract, right, instead={field.name: rng.choice(same)}), right)


def _several(rng: random.Random, contract: Scores) -> JudgeReply:
    """More than one object, or one in another, or more after it."""
    right, other = scores(rng, contract), scores(rng, contract)
    a, b = write_answer(contract, right), write_answer(contract, other)
    names = [field.name for field in contract.fields]
    if not contract.as_list and rng.random() < 0.3:
        twice = a[:-1] + f', "{names[0]}": {other[names[0]]:g}}}'
        return JudgeReply(twice, NOTHING)
    text = rng.choice(
        (
            f"If the edit were perfect I would say {a}, but\n{b}",
            f"{a}\n{b}",
            f"{a}{a}",
            f"[{a}, {b}]",
            f"```json\n{a}\n```\nOn second thought:\n```json\n{b}\n```",
            f"{a}\nbut the tree is gone, so rather 1.",
            f"{a} // {b}",
            f"{a}\n```json",
            f"{a},",
            f"{a} 3",
            json.dumps(a),
            f'{{"answer": {a}}}',
            f'{a[:-1]}, "answer": {b}}}',
            f'{a[:-1]}, "final": 5}}',
        )
    )
    return JudgeReply(text, right if text.endswith("```json") else NOTHING)


def _think(rng: random.Random, contract: Scores) -> JudgeReply:
    """A draft in tags of thinking, before the answer or in its place."""
    right, draft = scores(rng, contract), write_answer(contract, scores(rng, contract))
    opened, closed = rng.choice(THINKING)
    answer = write_answer(contract, right)
    kind = rng.randrange(5)
    if kind == 0:
        return JudgeReply(f"{opened}so {draft}{closed}\n{answer}", right, due=opened == "<think>")
    if kind == 1:  # some templates open the block themselves
        return JudgeReply(f"so {draft}{closed}\n{answer}", right)
    if kind == 2:
        return JudgeReply(f"{opened}so {draft} or\n{answer}", NOTHING)
    if kind == 3:
        return JudgeReply(f"{opened}so {draft}{closed}\n", NOTHING)
    return JudgeReply(f'{opened}{{"a": [{closed}{answer}', right)


def _nest(rng: random.Random, contract: Scores) -> JudgeReply:
    right = scores(rng, contract)
    depth = rng.choice((5, 40, 1000, 100_000))
    a, b = rng.choice((("[", "]"), ('{"a":', "}"), ("[{", "}]"), ("{", ""), ("[", "")))
    inner = a * depth + "1" + b * depth
    field = rng.choice(contract.fields).name
    if rng.random() < 0.5:
        return JudgeReply(write_answer(contract, right, instead={field: inner}), NOTHING)
    return JudgeReply(f"{inner}\n{write_answer(contract, right)}")


_SCORES: tuple[Callable[[random.Random, Scores], JudgeReply], ...] = (
    *(_as_asked, _mark, _mark, _off, _off, _spelt, _several, _several, _think, _think),
    _nest,
)


def _other(rng: random.Random, contract: OutputContract[Any]) -> str:
    """A reply that holds no scores."""
    value = _value(rng, contract)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=rng.random() < 0.5)
    opened, closed = rng.choice((*_FENCES, *THINKING[:3]))
    around = rng.choice(("{0}", "{0}\n{0}", "{1}{0}{2}", "{1}{0}{2}{0}", "{3}{0}", "{0} {3}", "{3}"))
    return around.format(text, opened, closed, rng.choice((*_MARKS, *_PROSE)))


def _value(rng: random.Random, contract: OutputContract[Any]) -> Any:
    word = rng.choice(("the tree", "a red car", "", "x" * 400, *_MARKS))
    count = rng.choice((0, 1, 2, 5, 7, 200))
    if isinstance(contract, Questions):
        return {contract.key: [f"{word} {i}?" for i in range(count)]}
    if isinstance(contract, QuestionAnswers):
        return {"pairs": [{"question": f"{word} {i}?", "answer": word} for i in range(count)]}
    if isinstance(contract, Commands):
        index = rng.choice((0, 1, -1, 10**400, 0.5, True, "0", None))
        each: list[Any] = [f"{word} {i}" for i in range(count)]
        if contract.indexed:
            each = [{"source_index": index, "phrase": text} for text in each]
        return {"commands": each}
    if isinstance(contract, Targets):
        scope = rng.choice(("objects", "surroundings", "whole", "all", 3))
        return {"scope": scope, "phrases": [f"{word} {i}" for i in range(count)]}
    if isinstance(contract, MultipleChoiceQuestion):
        wrong = [f"{word} {i}" for i in range(count)]
        return {"question": f"{word}?", "answer": word, "wrong": wrong}
    if isinstance(contract, OneText):
        return {contract.key: word}
    options = getattr(contract, "options", ("Yes", "No"))
    word = rng.choice((*options, *options, word))
    decorated = ("{}", '"{}"', "**{}**", "{}.", "{}, it is", "Not {}", "{}\n{}", "{}ish", "{}\u0301")
    return rng.choice((*decorated, ' "{}" ', '{{"a": "{}"}}')).format(word, rng.choice(options))


def _blindly(rng: random.Random, text: str) -> str:
    """Characters lost, repeated and put in."""
    for _ in range(rng.choice((1, 1, 2, 4))):
        start = rng.randint(0, len(text))
        stop = min(len(text), start + rng.choice((0, 1, 1, 3, 20)))
        put = rng.choice(("", *"{}[]\"'\\,:.-0459eE \n`/", *_MARKS, *_PROSE, "\u201c", "</think>", "<think>"))
        text = text[:start] + put + text[stop if rng.random() < 0.8 else start :]
    return text if rng.random() < 0.9 else text[: rng.randint(0, len(text))]
