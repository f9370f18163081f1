"""Protocols and switches: which rules a benchmark is judged by, and what they are called."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from editjudge.base.errors import ConfigError
from editjudge.benchmarks.benchmark import Benchmark
from editjudge.benchmarks.column import Column, Mean
from editjudge.benchmarks.core import BENCHMARK as CORE
from editjudge.benchmarks.dimension import Dimension, Reading, make_formula
from editjudge.benchmarks.registry import load_benchmarks
from editjudge.benchmarks.switches import Switch, Switches, switch

from ...fakes.scorers import ScriptedScorer


class SmallSwitches(Switches, use_attribute_docstrings=True):
    first_digit: bool = switch("-")
    """?"""
    no_gate: bool = switch("-")
    """?"""
    uniform_weights: bool = switch("where it is from")
    """what
    it does"""


NAMES = ("first_digit", "no_gate", "uniform_weights")
ALL = frozenset(NAMES)
OFFICIAL = frozenset({"first_digit", "no_gate"})


def dimensions_by(switches: SmallSwitches) -> tuple[Dimension, ...]:
    """A reading that one switch changes, and what derives from it, which another changes."""
    reading = Reading(ScriptedScorer(key="digit" if switches.first_digit else "json"), "value")
    return (
        Dimension("b.read", "?", "-", reading, (0, 1)),
        Dimension("b.made", "?", "-", make_formula(min if switches.no_gate else max, "b.read"), (0, 1)),
    )


def columns_by(switches: SmallSwitches) -> tuple[Column, ...]:
    return (Column("b.column", "B", Mean("b.made"), True),)


def make_benchmark(**changed: Any) -> Benchmark:
    fields: Mapping[str, Any] = {
        "switches": SmallSwitches,
        "protocols": {"paper": SmallSwitches(), "official": SmallSwitches.turn_on(OFFICIAL)},
        **changed,
    }
    return Benchmark("b", "B", lambda path: None, dimensions_by, columns_by, version=2, **fields)  # type: ignore[arg-type,return-value]


BENCHMARK = make_benchmark()


@pytest.mark.parametrize(
    ("protocol", "with_", "without", "name", "on"),
    [
        (None, (), (), "b.paper.2", set()),
        ("paper", ("no_gate",), (), "b.paper.2+no_gate", {"no_gate"}),
        ("official", (), (), "b.official.2", OFFICIAL),
        ("official", (), ("first_digit",), "b.official.2-first_digit", {"no_gate"}),
        (
            "official",
            ("uniform_weights",),
            ("no_gate",),
            "b.official.2+uniform_weights-no_gate",
            {"first_digit", "uniform_weights"},
        ),
        # What changes nothing is not in the name.
        ("official", ("no_gate",), (), "b.official.2", OFFICIAL),
        ("paper", (), ("no_gate",), "b.paper.2", set()),
        ("paper", ("no_gate", "first_digit"), (), "b.paper.2+first_digit+no_gate", OFFICIAL),
    ],
)
def test_a_protocol_is_named_by_what_differs(
    protocol: str | None, with_: tuple[str, ...], without: tuple[str, ...], name: str, on: set[str]
) -> None:
    rules = BENCHMARK.rules(protocol, with_, without)
    assert (rules.protocol, rules.switches.on) == (name, on)


@given(st.sampled_from([None, "paper", "official"]), st.frozensets(st.sampled_from(NAMES)))
def test_a_name_gives_its_rules_back(protocol: str | None, on: frozenset[str]) -> None:
    rules = BENCHMARK.rules(protocol, on, ALL - on)
    assert rules.switches.on == on
    assert BENCHMARK.rules_from_name(rules.protocol) == rules


@given(
    st.frozensets(st.sampled_from(NAMES)), st.frozensets(st.sampled_from(NAMES)), st.frozensets(st.sampled_from(NAMES))
)
def test_changes_to_a_named_protocol_come_last(
    on: frozenset[str], with_: frozenset[str], without: frozenset[str]
) -> None:
    run = BENCHMARK.rules("official", on, ALL - on).protocol
    changed = BENCHMARK.rules_from_name(run, with_, without - with_)
    assert changed.switches.on == (on | with_) - (without - with_)
    assert changed.protocol.startswith("b.official.2")


def test_dimensions_are_told_apart_by_how_they_are_made() -> None:
    paper, official = BENCHMARK.rules(), BENCHMARK.rules("official")
    other = BENCHMARK.rules("paper", ["uniform_weights"])
    for rules in (paper, official, other):
        assert [d.protocol for d in rules.dimensions] == ["b.2", "b.2"]
    assert paper.columns[0].protocol == "b.paper.2"
    signatures = {str(rules.dimensions[0].signature({})) for rules in (paper, official)}
    assert len(signatures) == 2, "the switch is in the scorer's parameters"
    same = other.dimensions[0].signature({})
    assert same == paper.dimensions[0].signature({}), "read alike, so not read again"


def test_known_are_its_own_by_these_rules_and_all_others() -> None:
    stale, other = (
        Dimension(name, "?", "-", Reading(ScriptedScorer(), "value"), (0, 1)) for name in ("b.gone", "bb.other")
    )
    known = BENCHMARK.rules().dimensions_by_id({d.id: d for d in (stale, other)})
    assert list(known) == ["b.read", "b.made", "bb.other"]
    assert BENCHMARK.dimensions == BENCHMARK.rules("paper").dimensions


@pytest.mark.parametrize(
    ("benchmark", "asked", "said"),
    [
        (BENCHMARK, {"protocol": "papper"}, "b has no protocol 'papper'; there is paper, official"),
        (BENCHMARK, {"protocol": ""}, "b has no protocol ''; there is paper, official"),
        (BENCHMARK, {"with_": ["gate"]}, "b has no switch 'gate'; it has first_digit, no_gate, uniform_weights"),
        (BENCHMARK, {"without": ["gate"]}, "b has no switch 'gate'"),
        (BENCHMARK, {"with_": ["no_gate"], "without": ["no_gate"]}, "both turned on and off"),
        (
            make_benchmark(protocols={"paper": SmallSwitches()}, no_official_reason="its authors released no code"),
            {"protocol": "official"},
            "b has no protocol official: its authors released no code; use paper",
        ),
        (CORE, {"protocol": "paper"}, "core has one protocol only; leave --protocol out"),
        (CORE, {"with_": ["x"]}, "core has no switch 'x'; it has none"),
    ],
)
def test_what_is_not_there_is_refused(benchmark: Benchmark, asked: Any, said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        benchmark.rules(**asked)
    assert said in str(refused.value)


def test_a_name_of_elsewhere_is_refused() -> None:
    with pytest.raises(ConfigError, match="no protocol 'theirs'"):
        BENCHMARK.rules_from_name("b.theirs.2")
    with pytest.raises(ConfigError, match="no switch 'gone'"):
        BENCHMARK.rules_from_name("b.paper.2+gone")
    with pytest.raises(ConfigError, match="'b' is no protocol of b"):
        BENCHMARK.rules_from_name("b")
    with pytest.raises(ConfigError, match="by version 1 of b's protocols, and 2 is installed"):
        BENCHMARK.rules_from_name("b.paper.1")


def test_a_benchmark_with_one_protocol_has_no_short_name() -> None:
    dimension = Dimension("c.x", "?", "-", Reading(ScriptedScorer(), "value"), (0, 1))
    only = Benchmark("c", "C", lambda path: None, lambda _: (dimension,))  # type: ignore[arg-type,return-value]
    rules = only.rules()
    assert rules.protocol == "c.1"
    assert rules.switches.on == frozenset()
    assert only.rules_from_name("c.1") == rules
    assert rules.columns == ()


def test_one_protocol_may_have_switches_too() -> None:
    only = make_benchmark(protocols={"": SmallSwitches()})
    rules = only.rules(with_=["no_gate"])
    assert rules.protocol == "b.2+no_gate"
    assert only.rules_from_name(rules.protocol) == rules
    assert only.rules_from_name("b.2+no_gate", without=["no_gate"]) == only.rules()


def test_a_switch_that_is_not_declared_is_refused() -> None:
    with pytest.raises(ValidationError, match="no_gates"):
        SmallSwitches.turn_on(["no_gates"])
    with pytest.raises(ValidationError, match="no_gates"):
        SmallSwitches(no_gates=True)  # type: ignore[call-arg]
    with pytest.raises(AttributeError, match="no_gates"):
        _ = SmallSwitches().no_gates  # type: ignore[attr-defined]


def test_switches_are_values() -> None:
    assert SmallSwitches.turn_on(["no_gate"]) == SmallSwitches(no_gate=True)
    assert hash(SmallSwitches()) == hash(SmallSwitches.turn_on(()))
    assert SmallSwitches.list_switches()[2] == Switch("uniform_weights", "what it does", "where it is from")
    assert CORE.switches.list_switches() == ()


@pytest.mark.parametrize("benchmark", load_benchmarks().values(), ids=lambda one: one.name)
def test_every_benchmark_declares_its_switches_alike(benchmark: Benchmark) -> None:
    declared = benchmark.switches.list_switches()
    assert all(one.what and one.source for one in declared)
    assert bool(declared) == (benchmark.switches.__module__.endswith(f".{benchmark.name}.switches"))
    assert {type(usual) for usual in benchmark.protocols.values()} == {benchmark.switches}
