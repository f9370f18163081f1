"""Comparison of two signatures, part by part, in words.

The key of a signature's field (see `Signature`) decides how its value is split into parts: prompts,
parameters, implementations, models and their settings.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import NamedTuple

from pydantic.dataclasses import dataclass as result

from .parse import package_tables
from .signature import Signature
from .strict import STRICT

_PROMPT = re.compile(r"(?P<name>[\w.\-]+/[\w.\-/]+)\((?P<which>.*sha256:\w+)\)")
_PARTS = "parts"
_BY = "by"
_READS = ("reads", "part.")
NOTHING = ""


class Part(NamedTuple):
    """Something that a number depends on.

    Attributes:
        kind: One of `WORDS`.
        owner: What has it: a prompt, a service, a function, a way of judging; may be empty.
        name: Which of its parameters; empty for itself.
    """

    kind: str
    owner: str
    name: str = ""


@result(frozen=True, slots=True, config=STRICT)
class Difference:
    """A part of signatures in which two differ.

    Attributes:
        kind: What it is: `prompt`, `model`, `service`, `implementation`, `parameter`, ….
        of: What has it, for example the prompt or the service.
        name: Which of its parameters; empty for itself.
        before: Its value; empty where it was not there.
        after: The same of the other.
    """

    kind: str
    of: str
    name: str
    before: str
    after: str

    def __str__(self) -> str:
        part = WORDS[self.kind].format(of=self.of, name=self.name)
        if not (self.before or self.after):
            return part
        return f"{part} ({self.before or 'absent'} → {self.after or 'absent'})"


WORDS: Mapping[str, str] = package_tables(__package__, "differences.toml")
"""The wording of each kind of part."""


def compare_signatures(before: str, after: str) -> tuple[Difference, ...]:
    """List the parts in which two signatures differ, in the order of the later one."""
    old, new = signature_parts(before), signature_parts(after)
    names = dict.fromkeys((*new, *old))
    return tuple(
        Difference(*part, old.get(part, NOTHING), new.get(part, NOTHING))
        for part in names
        if old.get(part) != new.get(part)
    )


@cache
def signature_parts(signature: str) -> Mapping[Part, str]:
    """Split a signature into its parts and their values, without the dimension's name."""
    fields = Signature.parse(signature).fields if signature else ()
    return {part: value for key, text in fields if key != "dimension" for part, value in _split_field(key, text)}


def _split_field(key: str, text: str) -> Iterator[tuple[Part, str]]:
    if key == _BY:
        for function in text.split("+"):
            name, _, number = function.partition(".")
            yield Part("implementation", name), number
    elif key == _PARTS:
        for operand in text.split("+"):
            name, _, digest = operand.partition("=")
            yield Part("operand", name), digest
    elif key.startswith(_READS):
        yield from _split_reading(key, text)
    elif key == "formula":
        head, parameters = _split_call(text)
        yield Part("formula", ""), head
        for name, value in parameters.items():
            yield Part("formula_parameter", "", name), value
    elif "." in key:
        head, parameters = _split_call(text)
        yield Part("model", key), head
        for name, value in parameters.items():
            yield Part("service", key, name), value
    else:
        yield Part("field", key), text


def _split_reading(key: str, text: str) -> Iterator[tuple[Part, str]]:
    head, parameters = _split_call(text)
    way = head.partition(".")[0]
    yield Part("reading", way if key == "reads" else f"{key.removeprefix('part.')} ({way})"), head
    for name, value in parameters.items():
        if prompt := _PROMPT.fullmatch(value):
            yield Part("prompt", prompt["name"]), prompt["which"]
        else:
            yield Part("parameter", way, name), value


def _split_call(text: str) -> tuple[str, dict[str, str]]:
    """Split `name(a=1,b=x(y,z))` into its name and its parameters."""
    head, bracket, rest = text.partition("(")
    if not bracket or not rest.endswith(")"):
        return text, {}
    pairs = (one.partition("=") for one in _at_commas(rest[:-1]))
    return head, {name: value for name, _, value in pairs}


def _at_commas(text: str) -> Iterator[str]:
    """Split at commas outside brackets that stand before a `name=`."""
    depth, start = 0, 0
    for place, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if letter == "," and not depth and re.match(r",[\w.\-]+=", text[place:]):
            yield text[start:place]
            start = place + 1
    yield text[start:]
