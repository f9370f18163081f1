"""What changes a computation changes its signature, and nothing else does."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import pytest

from editjudge.base.errors import ConfigError
from editjudge.benchmarks.benchmark import Benchmark, Rules
from editjudge.benchmarks.registry import load_benchmark
from editjudge.engine.judge import Signatures

from ...golden.cases import CASES
from .toggling import Computation, edits

CASE = {case.benchmark: case for case in reversed(CASES)}


def toggle_switches(of: Benchmark) -> Iterator[Rules]:
    """Every protocol, with every switch turned alone and in pairs."""
    names = [switch.name for switch in of.switches.list_switches()]
    for protocol, usual in of.protocols.items():
        for count in range(3):
            for turned in combinations(names, count):
                on = [name for name in turned if name not in usual.on]
                off = [name for name in turned if name in usual.on]
                try:
                    yield of.rules(protocol or None, on, off)
                except ConfigError:
                    continue  # the two leave nothing to judge


@pytest.mark.usefixtures("official_texts")
@pytest.mark.parametrize("name", CASE)
async def test_what_changes_the_computation_changes_the_signature_and_nothing_else_does(
    name: str, tmp_path: Path
) -> None:
    """Signatures stand beside what is really computed, which knows nothing of them.

    A switch acts where dimensions and scorers are made, and a signature is a text made of their
    parameters. To compare that text with the same parameters would prove nothing, since both leave
    out what one forgets. So each dimension, by every protocol with every switch turned alone and
    in pairs, judges fixed edits: all that it sends to judges and specialists, and the number that
    becomes of their answers, is its computation. Over all these rules one signature must stand for
    one computation, and one computation have one signature.

    A signature is a dimension's and not an item's: what its readings give on any item and what its
    parts compute is part of its computation, also on items that it does not apply to itself.

    The edits are chosen so that every switch shows on one of them. Where a new one fails as "two
    signatures of one computation", the edits lack what it is about: give them that (`toggling`,
    or the benchmark's `make` in `tests/golden/cases.py`).
    """
    every = [*toggle_switches(load_benchmark(name))]
    computed = Computation(edits(CASE[name], tmp_path), every)
    signed: defaultdict[tuple[str, object], dict[str, str]] = defaultdict(dict)
    computing: defaultdict[str, dict[object, str]] = defaultdict(dict)
    for rules in every:
        known = {d.id: d for d in rules.dimensions}
        by_dimension = await computed.by_dimension(rules)
        for dimension, signature in Signatures(known).of(known.values(), {}).items():
            made = by_dimension[dimension]
            signed[dimension, made].setdefault(str(signature), rules.protocol)
            computing[str(signature)].setdefault(made, rules.protocol)
    troubles = [
        f"{text.split('|')[0]}: one signature of two computations, by {' and '.join(by.values())}"
        for text, by in computing.items()
        if len(by) > 1
    ] + [
        f"{dimension}: two signatures of one computation, by {' and '.join(by.values())}"
        for (dimension, _), by in signed.items()
        if len(by) > 1
    ]
    assert not troubles, "\n".join(troubles)
