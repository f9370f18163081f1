"""Every protocol, and every switch by itself: what its dimensions and columns are, as texts.

A change of a declaration moves a line of `tests/golden/rules` that says what it was. Stored
verdicts and columns are found by their signatures: a dimension that is signed otherwise is judged
again. A signature's parts stand there one by one, but for the digests of other dimensions' own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial

import pytest

from editjudge.base.signature import describe_parameter
from editjudge.benchmarks import column as columns
from editjudge.benchmarks.benchmark import Benchmark, Rules
from editjudge.benchmarks.dimension import Dimension, Formula
from editjudge.benchmarks.registry import load_benchmarks
from editjudge.engine.judge import Signatures, roles_of

from ...golden.run_lines import run_verb
from ...golden.text import NOTHING, Section, brief, check, unpack

BENCHMARKS = load_benchmarks()
of_every = pytest.mark.parametrize("benchmark", BENCHMARKS.values(), ids=BENCHMARKS)


pytestmark = pytest.mark.usefixtures("official_texts")


def every_rule(benchmark: Benchmark) -> Iterator[Rules]:
    """Each protocol, and each with one switch turned."""
    for name, usual in benchmark.protocols.items():
        protocol = name or None
        yield benchmark.rules(protocol)
        for switch in benchmark.switches.list_switches():
            changed = [switch.name]
            on = switch.name in usual.on
            yield benchmark.rules(protocol, () if on else changed, changed if on else ())


def describe_benchmark(benchmark: Benchmark) -> Section:
    """The benchmark and its switches."""
    lines = {
        name: brief(getattr(benchmark, name))
        for name in ("title", "table", "version", "decimals", "no_official_reason",
                     "has_official_paths")
    }  # fmt: skip
    for name, usual in benchmark.protocols.items():
        lines[f"protocol {name}"] = ", ".join(sorted(usual.on))
    for switch in benchmark.switches.list_switches():
        lines[f"switch {switch.name}"] = f"{switch.what} ({switch.source})"
    return lines


def describe_rules(rules: Rules) -> Section:
    """What dimensions ask and compute, and what columns are made of."""
    known = {one.id: one for one in rules.dimensions}
    signed = Signatures(known).of(known.values(), {})
    lines = {"single image": brief(rules.single_image)}
    for dimension in rules.dimensions:
        asked = _describe_dimension(dimension) | {"services": ", ".join(sorted(roles_of(dimension, known)))}
        for name, text in signed[dimension.id].fields:
            if name == "dimension" or text == "unknown":
                continue
            # The one library of which a version can be in a signature.
            text = re.sub(r"(opencv-python-headless) \w+", r"\1", text)
            asked |= unpack(name, re.sub(r"=[0-9a-f]{12}\b", "", text) if name == "parts" else text)
        lines |= {f"{dimension.id} {name}": text for name, text in asked.items() if text}
    for group in dict.fromkeys(column.group for column in rules.columns):
        ids = (column.id for column in rules.columns if column.group == group)
        lines[f"columns {group}".strip()] = ", ".join(ids)
    for column in rules.columns:
        better = "higher" if column.higher_is_better else "lower"
        decimals = "" if column.decimals is None else f"{column.decimals} decimals"
        facts = (column.title, column.source, f"{better} is better", decimals)
        lines[f"column {column.id}"] = "; ".join(filter(None, facts))
        lines |= {f"column {column.id} {name}": text for name, text in _describe_column(column).items()}
    return lines


def _describe_dimension(dimension: Dimension) -> dict[str, str]:
    names = ("asks", "source", "range", "unit", "tolerance", "of_data", "worst_of")
    facts = {name: brief(getattr(dimension, name)) for name in names}
    facts |= {"needs": ", ".join(sorted(dimension.needs)), "prompts": dimension.prompt_origins or ""}
    facts["better"] = "higher" if dimension.higher_is_better else "lower"
    facts["when"] = getattr(dimension.when, "__qualname__", "")
    return {n: text for n, text in facts.items() if text not in ("false", "null", "no_condition", "0.0")}


def _describe_column(column: columns.Column) -> dict[str, str]:
    match column.how:
        case columns.Mean() as mean:
            facts = {
                "mean of": mean.of if mean.of != column.id else "",
                "weighted by": mean.weighted_by,
                "missing as": "" if mean.missing_output is None else brief(mean.missing_output),
                "scale": "" if mean.affine == (1, 0) else "{:g}*x{:+g}".format(*mean.affine),
                "needs services": "yes" * mean.needs_services,
            }
        case columns.PairedDifference() as paired:
            facts = {"difference of": paired.of}
        case columns.PooledMean() as pooled:
            fit = pooled.fit
            more = fit.keywords if isinstance(fit, partial) else {}
            name = describe_parameter(fit.func if isinstance(fit, partial) else fit)
            facts = {"pooled mean of": pooled.of, "fit": f"{name} {brief(more)}"}
        case columns.WeightedMean() as weighted:
            facts = {"mean of": ", ".join(weighted.of), "weighted by": ", ".join(weighted.by), "count": weighted.count}
        case columns.Composite() as composite:
            facts = unpack("function", describe_parameter(composite.fn))
            facts |= {"of": ", ".join(f"{n}={of}" for n, of in composite.of.items())}
    return {name: text for name, text in facts.items() if text}


def find_changes(old: Section, new: Section) -> Section:
    """The lines that are not the same; one for each dimension and column that is there no more."""
    names = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    subjects = {_subject(name) for name in new}
    gone = {_subject(name) for name in names} - subjects
    lines = {name: new.get(name, NOTHING) for name in names if _subject(name) in subjects}
    return lines | dict.fromkeys(sorted(gone), NOTHING)


def _subject(name: str) -> str:
    words = name.split(" ")
    return " ".join(words[: 1 + (words[0] == "column")])


@of_every
def test_every_rule_is_as_it_was(benchmark: Benchmark) -> None:
    usual, *others = every_rule(benchmark)
    texts = {"": describe_rules(usual)}
    document = {"benchmark": describe_benchmark(benchmark), usual.protocol: texts[""]}
    for rules in others:
        # A protocol is told by how it is not the usual one, and a switch by what it moves in its
        # protocol.
        name, _, _ = re.split("([+-])", rules.protocol + "+")[:3]
        old = texts.get(name, texts[""])
        own = texts[rules.protocol] = describe_rules(rules)
        document[rules.protocol] = find_changes(old, own)
    check(f"rules/{benchmark.name}", document)


def test_prompts_and_services_are_as_they_were() -> None:
    _, prompts = run_verb("list", "prompts", "--json")
    _, services = run_verb("list", "services", "--json")
    document = {
        "prompts": {one["name"]: one["digest"][:19] for one in prompts["own"]},
        "services": {one.pop("service"): brief(one) for one in services},
    }
    check("lists", document)


@of_every
def test_what_derives_is_a_value(benchmark: Benchmark) -> None:
    """The same switches derive in the same way however often they are read."""
    for rules in every_rule(benchmark):
        again = benchmark.make_dimensions(rules.switches)
        hows = [d.how for d in rules.dimensions if isinstance(d.how, Formula)]
        assert hows == [d.how for d in again if isinstance(d.how, Formula)]
