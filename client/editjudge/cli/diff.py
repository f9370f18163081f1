"""`editjudge diff`: what two runs differ in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import click

from ..app.diff import RunDifference, diff
from ..app.wire.base import text_of
from ..app.wire.diff import RunDifference as Printed
from ..base.screen import say, say_json
from ..base.words import counted, few
from .options import PATH, takes

_DIFFER = 4


@click.command("diff")
@click.argument("first", type=PATH, metavar="RUN1")
@click.argument("second", type=PATH, metavar="RUN2")
@takes("json")
def command(first: Path, second: Path, *, json: bool) -> int:
    """Say what two runs differ in, and which of their numbers can be compared.

    Names what was asked, what only one has, which items and outputs are others, in which keys
    signatures differ, and numbers that differ although their signatures do not. Only reads the two
    runs.

    Exit code 4 when they differ.
    """
    told = diff(first, second)
    if json:
        say_json(text_of(Printed.of(told)))
    else:
        for line in lines(told):
            say(line)
    return 0 if told.is_none else _DIFFER


def lines(told: RunDifference) -> Iterator[str]:
    """The differences for people."""
    for name, (mine, others) in told.asked.items():
        yield f"{name}: {mine or 'none'} → {others or 'none'}"
    for difference in told.services:
        yield f"service {difference}"
    for kind, only in told.only.items():
        for which, (count, name) in zip(("first", "second"), only, strict=True):
            if count:
                yield f"only the {which} run has {counted(count, kind[:-1])} (first: {name})"
    yield from _others(told)
    for signed in told.signed:
        causes = "; ".join(map(str, signed.differences))
        of = counted(signed.verdicts.total(), "verdict")
        yield f"signatures of {of}: {causes} ({_named(signed.verdicts)})"
    for name, valued in told.valued.items():
        model, item = valued.where
        differ = counted(
            valued.verdicts,
            "verdict by the same signature differs",
            "verdicts by the same signature differ",
        )
        yield f"{name}: {differ}, by up to {valued.largest:.6g} ({model}, {item})"
    for difference in told.versions:
        yield f"by the same signature, but with {difference}"
    yield counted(told.same, "verdict is the same", "verdicts are the same")


def _others(told: RunDifference) -> Iterator[str]:
    """Items and outputs that are not the same."""
    count, item = told.items
    if count:
        others = counted(count, "item is another", "items are others")
        yield f"{others}: what the data says, or a picture (first: {item})"
    for model, (count, item) in told.outputs.items():
        others = counted(count, f"output of {model} is another", f"outputs of {model} are others")
        yield f"{others} (first: {item})"


def _named(verdicts: Mapping[str, int]) -> str:
    """Dimensions, the first three by name."""
    names = list(verdicts)
    return f"{len(names)} dimensions: " * (len(names) > 1) + few(names)
