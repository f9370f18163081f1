"""Every query of the chart's rules, dashboards and scaling, and what of it a scrape must have.

One list, read from the chart's own data: no name of a metric is written a second time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import promql_parser as promql
import yaml

from .chart import CHART, NAMESPACE, RELEASE

FILES = CHART / "files" / "monitoring"
EXPORTERS: Mapping[str, tuple[str, ...]] = {
    "triton": ("nv_", "editjudge_specialist_"),
    "vllm": ("vllm:",),
    "front": ("envoy_",),
    "judge": ("editjudge_",),
}
"""Whose metrics begin how; the first that fits."""
OURS = {"namespace": NAMESPACE, "editjudge": RELEASE}
ATTACHED = frozenset({*OURS, "job", "pod"})
"""Labels that Prometheus gives to what it scrapes, by our ServiceMonitors."""
_IS, _IS_LIKE = promql.MatchOp.Equal, promql.MatchOp.Re


class Query(NamedTuple):
    """A query, where it stands, and the labels by which its answers are told apart there.

    A condition is answered where something is wrong.
    """

    where: str
    text: str
    told: frozenset[str] = frozenset()
    condition: bool = False


class Selector(NamedTuple):
    """A metric in a query, its matchers, and labels that what stands around it asks for."""

    name: str
    matchers: Sequence[Any]
    asked: frozenset[str]


@cache
def data(name: str) -> Any:
    """What a file of queries holds."""
    return yaml.safe_load((FILES / f"{name}.yaml").read_text())


@cache
def queries() -> tuple[Query, ...]:
    """All there are."""
    rules, boards = data("rules"), data("dashboards")
    found = [Query(f"load of {tier}", text) for tier, text in rules["load"].items()]
    for group in rules["groups"].values():
        found += [Query(rule["record"], rule["expr"]) for rule in group.get("recorded", ())]
        for rule in group["alerts"]:
            told = frozenset(re.findall(r"\$labels\.(\w+)", rule["summary"]))
            found.append(Query(rule["alert"], rule["expr"], told, condition=True))
    for name, board in boards.items():
        if "variable" in board:
            told = frozenset({board["variable"]["name"]})
            found.append(Query(f"{name}: variable", board["variable"]["expr"], told))
        for panel in (panel for row in board["rows"] for panel in row["panels"]):
            for query in panel["queries"]:
                told = frozenset(re.findall(r"\{\{(\w+)\}\}", query["legend"]))
                found.append(Query(f"{name}: {panel['title']}", query["expr"], told))
    return tuple(found)


@cache
def _limits() -> Mapping[str, float]:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    limits: Mapping[str, float] = values["monitoring"]["rules"]["limits"]
    return limits


def fill_query(text: str, team: str = "vision", job: str = "") -> str:
    """A query as Prometheus reads it, with the limits of values.yaml."""
    ours = ",".join(f'{name}="{value}"' for name, value in OURS.items())
    words = {"OURS": ours, "JOB": job, "$__rate_interval": "1m", "$team": team}
    for name, much in _limits().items():
        words[re.sub("([A-Z])", r"_\1", name).upper()] = str(much)
    line = " ".join(text.split())
    return re.sub("|".join(map(re.escape, words)), lambda word: words[word.group()], line)


def selectors(text: str) -> list[Selector]:
    """The metrics of a query."""
    return list(_below(promql.parse(fill_query(text, job="JOB")), frozenset()))


def _below(node: Any, asked: frozenset[str]) -> Iterator[Selector]:
    if isinstance(node, promql.MatrixSelector):
        node = node.vector_selector
    if isinstance(node, promql.VectorSelector):
        yield Selector(str(node.name), node.matchers.matchers, asked)
    elif isinstance(node, promql.AggregateExpr):
        # What is beneath an aggregation has the labels that it keeps.
        yield from _below(node.expr, frozenset(node.modifier.labels if node.modifier else ()))
    elif isinstance(node, promql.BinaryExpr):
        matching = node.modifier.matching if node.modifier else None
        both = frozenset(matching.labels if matching else ())
        # Where labels to match by are named, further ones come from the left.
        yield from _below(node.lhs, asked | both)
        yield from _below(node.rhs, both if matching else asked)
    elif isinstance(node, promql.Call):
        for each in node.args:
            yield from _below(each, asked)
    elif isinstance(node, promql.ParenExpr | promql.SubqueryExpr | promql.UnaryExpr):
        yield from _below(node.expr, asked)


@cache
def list_records() -> Mapping[str, frozenset[str]]:
    """What rules record, with the labels that it has."""
    expected = {"editjudge:pods:expected", "editjudge:models:expected", "editjudge:load"}
    found = dict.fromkeys(expected, frozenset({"job"}))
    for group in data("rules")["groups"].values():
        for rule in group.get("recorded", ()):
            each = selectors(rule["expr"])
            found[rule["record"]] = frozenset().union(*(one.asked for one in each)) - {"le"}
    return found


def exporter(name: str) -> str | None:
    """Whose metric it is; None for what Prometheus itself has."""
    if name in list_records() or name == "up":
        return None
    return next(tier for tier, starts in EXPORTERS.items() if name.startswith(starts))


def find_tiers(text: str) -> set[str]:
    """Whose metrics a query rests on, by way of what is recorded too."""
    found = set()
    for one in selectors(text):
        if (tier := exporter(one.name)) is not None:
            found.add(tier)
        for group in data("rules")["groups"].values():
            for rule in group.get("recorded", ()):
                if rule["record"] == one.name:
                    found |= find_tiers(rule["expr"])
    return found


Samples = Mapping[str, Sequence[Mapping[str, str]]]


def samples(scraped: str) -> Samples:
    """The labels of what was scraped, by its name."""
    found: dict[str, list[Mapping[str, str]]] = {}
    # By its lines: prometheus-client's reader gives counters another name.
    for name, labels in re.findall(r"^([A-Za-z_:][\w:]*)(\{.*\})? \S+$", scraped, re.MULTILINE):
        found.setdefault(name, []).append(dict(re.findall(r'(\w+)="((?:\\.|[^"\\])*)"', labels)))
    return found


def list_absent(tier: str, scraped: str) -> list[str]:
    """What queries ask of a kind of server, and a scrape of it does not have."""
    there = samples(scraped)
    wrong = []
    for query in queries():
        each = selectors(query.text)
        for one in each:
            if exporter(one.name) == tier:
                wrong += [f"{query.where}: {told}" for told in _lacks(one, there.get(one.name))]
        if {exporter(one.name) for one in each} == {tier}:
            known = {label for one in each for own in there.get(one.name, ()) for label in own}
            wrong += [f"{query.where}: no label {one}" for one in query.told - known - ATTACHED]
    return sorted(set(wrong))


def _lacks(one: Selector, there: Sequence[Mapping[str, str]] | None) -> Iterator[str]:
    if there is None:
        yield f"{one.name} is not there"
        return
    own = [matcher for matcher in one.matchers if matcher.name not in ATTACHED]
    for label in ({matcher.name for matcher in own} | one.asked) - ATTACHED:
        if not any(label in labels for labels in there):
            yield f"{one.name} has no label {label}"
    # Whatever is not to be may well not be.
    sought = [matcher for matcher in own if matcher.op in (_IS, _IS_LIKE)]
    if not any(all(_fits(matcher, labels) for matcher in sought) for labels in there):
        yield f"{one.name}: nothing fits {', '.join(map(str, sought))}"


def _fits(matcher: Any, labels: Mapping[str, str]) -> bool:
    value = labels.get(matcher.name, "")
    if matcher.op == _IS_LIKE:
        return re.fullmatch(matcher.value, value) is not None
    return bool(value == matcher.value)
