"""Every protocol, and every switch by itself: what its dimensions and columns are called by."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from editjudge.base.prompt_releases import PromptRelease
from editjudge.benchmarks.benchmark import Benchmark, Rules
from editjudge.benchmarks.dimension import Formula
from editjudge.benchmarks.registry import load_benchmarks
from editjudge.engine.judge import Signatures

from .gie.stand_ins import TEXTS as GIE
from .kris.stand_ins import TEXTS as KRIS

MOVED = (
    "not signed as in tests/golden/rules.json. If a dimension or a switch was added, or numbers are"
    " meant to move: make golden, and say in the commit which lines moved and why"
)
TABLE = Path(__file__).parents[2] / "golden" / "rules.json"


@pytest.fixture
def prompts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stand-ins for the official prompts."""
    texts = {"gie": GIE, "kris": KRIS}
    monkeypatch.setattr(PromptRelease, "text", lambda self, name: texts[self.name][name])


def every_rule(benchmark: Benchmark) -> Iterator[Rules]:
    """Each protocol, and each with one switch turned."""
    for name, usual in benchmark.protocols.items():
        protocol = name or None
        yield benchmark.rules(protocol)
        for switch in benchmark.switches.list_switches():
            changed = [switch.name]
            on = switch.name in usual.on
            yield benchmark.rules(protocol, () if on else changed, changed if on else ())


def digest(rules: Rules) -> str:
    known = {one.id: one for one in rules.dimensions}
    signed = Signatures(known).of(known.values(), {})
    columns = (f"{column.id} {column.protocol} {column.title}" for column in rules.columns)
    lines = [*map(str, signed.values()), *columns, str(rules.single_image)]
    # The one library of which a version can be in a signature.
    text = re.sub(r"(opencv-python-headless) \w+", r"\1", "\n".join(lines))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def test_every_rule_is_signed_as_before(prompts: None) -> None:
    """Stored verdicts and columns are found by these names.

    A dimension that is signed otherwise is judged again; one more moves the line of its protocol
    too, and makes nothing be judged again.
    """
    every = {
        rules.protocol: digest(rules)
        for benchmark in load_benchmarks().values()
        for rules in every_rule(benchmark)
    }
    if os.environ.get("EDITJUDGE_GOLDEN") == "write":
        lines = ",\n".join(f" {json.dumps(k)}: {json.dumps(v)}" for k, v in every.items())
        TABLE.write_text(f"{{\n{lines}\n}}\n")
    kept = json.loads(TABLE.read_text())
    moved = sorted(name for name in every.keys() | kept if every.get(name) != kept.get(name))
    # Not by `assert`: its own account of two tables would hide ours.
    if moved:
        pytest.fail(f"{', '.join(moved)}: {MOVED}", pytrace=False)


@pytest.mark.parametrize("benchmark", list(load_benchmarks().values()), ids=lambda one: one.name)
def test_what_derives_is_a_value(benchmark: Benchmark) -> None:
    """The same switches derive in the same way however often they are read."""
    for rules in every_rule(benchmark):
        again = benchmark.make_dimensions(rules.switches)
        hows = [d.how for d in rules.dimensions if isinstance(d.how, Formula)]
        assert hows == [d.how for d in again if isinstance(d.how, Formula)]
