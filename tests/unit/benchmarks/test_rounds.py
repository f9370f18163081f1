"""Several judges, and several rounds: which dimensions there are, and what they make."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from editjudge.base.identity import ModelIdentity, ServiceName
from editjudge.base.item import Edit
from editjudge.base.verdict import NoScore, NotServed, Score
from editjudge.benchmarks.dimension import Dimension, Formula, Reading, make_formula
from editjudge.benchmarks.registry import load_benchmark, load_benchmarks, load_dimensions
from editjudge.benchmarks.rounds import JudgeRound, JudgeRounds, count_in_rounds, make_rounds, mean, with_rounds
from editjudge.engine.judge import Judgement, judge, roles_of
from editjudge.engine.outcomes import sort_by_dependency
from editjudge.scorers.vqa import FiveLevel

from ...fakes.scorers import FakePanel, ScriptedScorer
from ...fakes.scorers import edit as made
from ...fakes.transport import PanelStandIn, ScriptedTransport, scripted_judge
from .signing import signature_of

LEVELS, PIXELS = "core.editing_artifacts", "core.psnr.source.whole"
JUDGE, SECOND = "generalist.judge", "generalist.second"
TWO = JudgeRounds(("judge", "second"), 2)
EDIT = Edit.load(source=np.zeros((8, 8, 3), np.uint8), edited=np.ones((8, 8, 3), np.uint8), instruction="x")


def select_rounds(name: str, judge_rounds: JudgeRounds) -> tuple[tuple[Dimension, ...], Mapping[str, Dimension]]:
    known = make_rounds(load_dimensions(), judge_rounds)
    return with_rounds([load_dimensions()[name]], known), known


def test_the_usual_judge_once_is_no_replica() -> None:
    assert JudgeRounds().each_round == ()
    assert make_rounds(load_dimensions(), JudgeRounds()) == load_dimensions()
    assert with_rounds([load_dimensions()[LEVELS]], load_dimensions()) == (load_dimensions()[LEVELS],)


def test_each_judge_and_repeat_stands_before_their_mean() -> None:
    chosen, known = select_rounds(LEVELS, TWO)
    ids = [f"{LEVELS}@{judge}.{n}" for judge in ("judge", "second") for n in (1, 2)]
    assert [d.id for d in chosen] == [*ids, LEVELS]
    assert [JudgeRound("second", 2).dimension_id(LEVELS)] == ids[-1:]
    assert [d.round_of for d in chosen] == [chosen[-1].id] * 4 + [""]
    assert [d.roles for d in chosen[:-1]] == [(JUDGE,), (JUDGE,), (SECOND,), (SECOND,)]
    assert list(chosen[-1].operands) == ids
    scorers = [d.readings[0].scorer for d in chosen[:-1]]
    assert len(set(scorers)) == 4, "equal scorers would share their calls"
    assert sort_by_dependency(chosen, known) == chosen


def test_what_no_judge_has_a_part_in_is_judged_once() -> None:
    chosen, known = select_rounds(PIXELS, TWO)
    assert chosen == (load_dimensions()[PIXELS],)
    assert known[PIXELS] is load_dimensions()[PIXELS]


def test_another_judge_alone_is_asked_in_the_usual_ones_place() -> None:
    chosen, known = select_rounds(LEVELS, JudgeRounds(("second",)))
    assert [d.id for d in chosen] == [f"{LEVELS}@second.1", LEVELS]
    assert roles_of(chosen[-1], known) == {SECOND}


def test_rounds_are_counted_without_making_them() -> None:
    count = count_in_rounds(load_dimensions(), TWO)
    assert count == len(make_rounds(load_dimensions(), TWO))
    judged = (count - len(load_dimensions())) // 4
    many = JudgeRounds(("judge", "second"), 10**12)  # made, they would fill any memory
    assert count_in_rounds(load_dimensions(), many) == len(load_dimensions()) + judged * 2 * 10**12


def test_signatures_tell_judges_and_repeats_apart() -> None:
    chosen, known = select_rounds(LEVELS, TWO)
    services = {JUDGE: ModelIdentity("one/1"), SECOND: ModelIdentity("two/1")}
    texts = {str(signature_of(d, known, services)) for d in (*chosen, load_dimensions()[LEVELS])}
    assert len(texts) == 6
    other = str(signature_of(chosen[-1], known, {**services, SECOND: ModelIdentity("two/2")}))
    assert other not in texts, "a mean depends on every judge"


def parts_of(how: Reading | Formula) -> dict[str, Any]:
    return {} if isinstance(how, Reading) else dict(how.of)


def test_what_derives_from_judged_dimensions_derives_within_a_replica() -> None:
    judged = ScriptedScorer(key="a", needs=(JUDGE,))
    pixels = ScriptedScorer(key="b", needs=("features.x",))

    def one(name: str, how: Reading | Formula) -> Dimension:
        return Dimension(name, "?", "-", how, (0, 9))

    known = {
        d.id: d
        for d in (
            one("x.judged", Reading(judged, "value")),
            one("x.pixels", Reading(pixels, "value")),
            one("x.both", make_formula(max, "x.judged", "x.pixels", complete=True)),
            one("x.above", make_formula(max, "x.both", of={"own": Reading(judged, "other")})),
        )
    }
    made_of = make_rounds(known, JudgeRounds(rounds=2))
    assert [name for name, one in made_of.items() if not one.round_of] == list(known)
    both = made_of["x.both@judge.2"].how
    assert isinstance(both, Formula)
    assert both.complete
    assert parts_of(both) == {"x.judged": "x.judged@judge.2", "x.pixels": "x.pixels"}
    above = parts_of(made_of["x.above@judge.1"].how)
    assert above["x.both"] == "x.both@judge.1"
    assert isinstance(above["own"], Reading)
    assert parts_of(made_of["x.above"].how) == {f"x.above@judge.{n}": f"x.above@judge.{n}" for n in (1, 2)}


async def test_a_mean_of_derived_values_not_derived_of_means() -> None:
    """A gate is passed by each judge alone: 1 and 9 make 5, and not what (3 + 1) / 2 gives."""

    def one(name: str, how: Reading | Formula) -> Dimension:
        return Dimension(name, "?", "-", how, (0, 9))

    def gate(values: Mapping[str, float]) -> float:
        return 9.0 if values["x.a"] > 2 else 1.0

    known = {"x.a": one("x.a", Reading(Own(), "value")), "x.g": one("x.g", make_formula(gate, "x.a"))}
    made_of = make_rounds(known, JudgeRounds(("judge", "second")))
    chosen = with_rounds(known.values(), made_of)
    done = await judge(
        made(judge=3.0, second=1.0),
        chosen,
        made_of,
        FakePanel(JUDGE, SECOND),  # type: ignore[arg-type]
    )
    values = {name: getattr(o, "value", None) for name, o in done.outcomes.items()}
    assert values == {
        "x.a@judge.1": 3, "x.a@second.1": 1, "x.a": 2,
        "x.g@judge.1": 9, "x.g@second.1": 1, "x.g": 5,
    }  # fmt: skip


class Own(ScriptedScorer):
    """Reads what the item has for its judge."""

    def __init__(self, service: str = JUDGE) -> None:
        super().__init__(key=service, needs=(service,))

    def with_judge(self, service: str, repeat: int) -> Own:
        return Own(service)

    async def score(self, edit: Any, panel: Any, wanted: frozenset[str]) -> Any:
        reply = edit.item.extra["replies"][self.key.partition(".")[2]]
        return {name: Score(value=reply) for name in wanted}


class Panel(PanelStandIn):
    """Has judges by name."""

    def __init__(self, **transports: ScriptedTransport) -> None:
        self.judges = {f"generalist.{name}": scripted_judge(t) for name, t in transports.items()}
        self.service_names = frozenset(self.judges)

    def judge(self, service: str) -> Any:
        return self.judges[service].with_context(self.context)

    def identities(self) -> dict[ServiceName, ModelIdentity]:
        return {ServiceName.parse(name): one.identity for name, one in self.judges.items()}

    def why_not(self, service: str) -> str:
        return f"no {service} here"


async def judge_edit(panel: Panel, name: str = LEVELS, judge_rounds: JudgeRounds = TWO) -> Judgement:
    chosen, known = select_rounds(name, judge_rounds)
    return await judge(EDIT, chosen, known, panel)  # type: ignore[arg-type]


def values(done: Judgement) -> list[float | None]:
    return [getattr(outcome, "value", None) for outcome in done.outcomes.values()]


async def test_every_repeat_is_a_call_of_its_own() -> None:
    one = ScriptedTransport({"excellent": 1.0}, {"good": 1.0}, model="one")
    two = ScriptedTransport({"fair": 1.0}, {"bad": 1.0}, model="two")
    done = await judge_edit(Panel(judge=one, second=two))
    assert values(done) == [1, 0.75, 0.5, 0, 0.5625]
    assert (len(one.asked), len(two.asked)) == (2, 2)
    outcome = done.outcomes[LEVELS]
    assert isinstance(outcome, Score)
    assert outcome.evidence["parts"] == dict(zip(list(done.outcomes)[:-1], values(done), strict=False))


async def test_a_mean_with_an_unscored_part_is_unscored() -> None:
    one = ScriptedTransport({"good": 1.0}, model="one")
    two = ScriptedTransport({"good": 0.1, "the": 0.9}, model="two")
    two.script = [{"good": 0.1}, {"good": 1.0}]
    done = await judge_edit(Panel(judge=one, second=two))
    assert values(done) == [0.75, 0.75, None, 0.75, None]
    outcome = done.outcomes[LEVELS]
    assert isinstance(outcome, NoScore)
    assert outcome.reason.startswith(f"{LEVELS}@second.1: ")


async def test_a_judge_that_is_not_there_leaves_the_mean_not_served() -> None:
    done = await judge_edit(Panel(judge=ScriptedTransport({"good": 1.0})))
    assert values(done) == [0.75, 0.75, None, None, None]
    assert isinstance(done.outcomes[LEVELS], NotServed)
    assert "generalist.second" in done.outcomes[LEVELS].reason


@pytest.mark.parametrize("name", list(load_benchmarks()))
def test_every_benchmarks_judged_dimensions_can_have_another_judge(name: str) -> None:
    """A scorer that forgot `asked` would be the usual judge's, whatever was asked for."""
    one = load_benchmark(name)
    for protocol in one.protocols:
        rules = one.rules(protocol or None)
        known = make_rounds(rules.dimensions_by_id(load_dimensions()), JudgeRounds(("second", "third"), 2))
        for dimension in rules.dimensions:
            roles = roles_of(known[dimension.id], known)
            assert JUDGE not in roles, dimension.id
            if JUDGE in roles_of(dimension, rules.dimensions_by_id(load_dimensions())):
                assert {SECOND, "generalist.third"} <= roles
                pair = [known[JudgeRound("second", n).dimension_id(dimension.id)] for n in (1, 2)]
                scorers = [{s for r in d.readings for s in [r.scorer] if SECOND in s.roles} for d in pair]
                assert scorers[0].isdisjoint(scorers[1]), f"{dimension.id}: rounds share calls"
        assert len(sort_by_dependency(known.values(), known)) == len(known)


@given(st.lists(st.floats(0, 10, allow_nan=False), min_size=1, max_size=9))
def test_a_mean_is_between_its_parts(values: list[float]) -> None:
    got = mean({str(i): value for i, value in enumerate(values)})
    assert min(values) <= got <= max(values)
    assert got == pytest.approx(float(np.mean(values)), rel=1e-9, abs=1e-300)


def test_levels_are_asked_as_they_were() -> None:
    chosen, _ = select_rounds(LEVELS, JudgeRounds(("second",), 3))
    scorer = chosen[0].readings[0].scorer
    assert isinstance(scorer, FiveLevel)
    assert (scorer.service, scorer.repeat) == (SECOND, 0)
    usual = load_dimensions()[LEVELS].readings[0].scorer
    assert isinstance(usual, FiveLevel)
    assert (scorer.prompt, scorer.by_task) == (usual.prompt, usual.by_task)
