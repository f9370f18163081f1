"""How choices are asked for is signed by whoever asks for choices, and by nobody else."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from editjudge.base.identity import BINDING, JUDGE, ModelIdentity, ServiceName
from editjudge.base.prompt_releases import PromptRelease
from editjudge.benchmarks.registry import load_benchmark
from editjudge.engine.judge import Signatures
from editjudge.panel import words

from ..benchmarks.gie.stand_ins import TEXTS as GIE
from ..benchmarks.kris.stand_ins import TEXTS as KRIS

FREE = ModelIdentity("judge", {"choices": "sampled"})
HELD = ModelIdentity("judge", {"choices": "sampled", BINDING: "choices"})
ASKING = {
    "core": "core.instruction_following",
    "i2i.paper": "i2i.se.instruction_following",
    "gie.paper": "gie.functional_correctness",
    "omni_iie.paper": "omni_iie.qa",
}
"""A dimension that asks for choices, by protocol."""
OTHERS = ("kris.paper", "co_edit.paper", "gie.official", "kris.official", "omni_iie.official")


@pytest.fixture(autouse=True)
def prompts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stand-ins for the official prompts."""
    texts: Mapping[str, Mapping[str, str]] = {"gie": GIE, "kris": KRIS}
    monkeypatch.setattr(PromptRelease, "text", lambda self, name: texts[self.name][name])


def signatures(protocol: str, identity: ModelIdentity = FREE) -> dict[str, str]:
    """Of all dimensions of a protocol, with this judge."""
    benchmark, _, name = protocol.partition(".")
    dimensions = {d.id: d for d in load_benchmark(benchmark).rules(name or None).dimensions}
    signed = Signatures(dimensions).of(dimensions.values(), {ServiceName.parse(JUDGE): identity})
    return {name: str(signature) for name, signature in signed.items()}


def find_changes(before: Mapping[str, str], after: Mapping[str, str]) -> set[str]:
    assert before.keys() == after.keys()
    return {name for name in before if before[name] != after[name]}


@pytest.mark.parametrize("protocol", [*ASKING, *OTHERS])
def test_another_firmer_form_is_another_signature(protocol: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = signatures(protocol)
    monkeypatch.setattr(words, "FIRMER", words.FIRMER + "Please.\n")
    moved = find_changes(before, signatures(protocol))
    assert ASKING[protocol] in moved if protocol in ASKING else not moved


@pytest.mark.parametrize("protocol", [*ASKING, *OTHERS])
def test_a_judge_that_is_held_to_choices_is_another_where_it_is_asked_for_them(protocol: str) -> None:
    moved = find_changes(signatures(protocol), signatures(protocol, HELD))
    assert ASKING[protocol] in moved if protocol in ASKING else not moved
