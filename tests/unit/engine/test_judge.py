"""From scorers to outcomes: sharing, skipping, failing, deriving."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from editjudge.base.errors import Abstention, ConfigError, ImageError, Unreachable
from editjudge.base.identity import ModelIdentity, ServiceName
from editjudge.base.item import Edit, Missing
from editjudge.base.verdict import Failure, MissingOutput, NoScore, NotApplicable, NotServed, Score
from editjudge.benchmarks.dimension import Dimension, Formula, Reading, make_formula
from editjudge.benchmarks.fusion import product
from editjudge.engine import judge as engine_judge
from editjudge.engine.judge import Judgement, judge
from editjudge.engine.outcomes import sort_by_dependency

from ...fakes.scorers import FakePanel, ScriptedScorer, edit

A, B = ScriptedScorer(key="a"), ScriptedScorer(key="b")
READER, NETWORK = ScriptedScorer(key="r", needs=("ocr.ppocr",)), ScriptedScorer(key="n", needs=("lpips.vgg",))


def dimension(name: str, how: ScriptedScorer | Reading | Formula, **more: Any) -> Dimension:
    declared: dict[str, Any] = {"range": (0, 10), "higher_is_better": True, "source": "here"}
    read = Reading(how, "f") if isinstance(how, ScriptedScorer) else how
    return Dimension(id=name, asks="?", how=read, **{**declared, **more})


async def judge_edit(of: Edit, *dimensions: Dimension, panel: Any = None, asked: Iterable[Dimension] = ()) -> Judgement:
    known = {d.id: d for d in dimensions}
    return await judge(of, list(asked) or dimensions, known, panel or FakePanel())


class Models(FakePanel):
    """Has a reader and a network; whenever it is asked, the reader is the next of these."""

    def __init__(self, *readers: ModelIdentity, network: ModelIdentity) -> None:
        super().__init__("lpips.vgg", "ocr.ppocr")
        self.readers, self.network = list(readers), network

    def identities(self) -> dict[ServiceName, ModelIdentity]:
        reader = self.readers.pop(0) if len(self.readers) > 1 else self.readers[0]
        return {ServiceName("ocr", "ppocr"): reader, ServiceName("lpips", "vgg"): self.network}


OF_MODELS = (
    dimension("reader", READER),
    dimension("network", NETWORK),
    dimension("whole", make_formula(product, "reader", "network")),
)
NET = ModelIdentity("lpips_vgg/1")


async def test_equal_scorers_are_called_once_with_all_fields() -> None:
    scorer = ScriptedScorer(key="x")
    twin = replace(scorer)
    dimensions = [dimension("one", Reading(scorer, "f")), dimension("two", Reading(twin, "g"))]
    result = await judge_edit(edit(f=1, g=2), *dimensions)
    assert scorer.calls + (twin.calls if twin.calls is not scorer.calls else []) == [{"f", "g"}]
    assert [o.value for o in result.outcomes.values()] == [1, 2]


@pytest.mark.parametrize(
    ("trips", "failure"),
    [
        (
            Unreachable("connection lost", service="ocr.ppocr", endpoint="grpc://x:1", attempts=4),
            Failure(error="ocr.ppocr at grpc://x:1: connection lost after 4 attempts", retryable=True),
        ),
        (KeyError("answer"), Failure(error="scripted: KeyError: 'answer'")),
        (ImageError("m.png", "of another shape"), Failure(error="m.png: of another shape")),
    ],
)
async def test_what_fails_costs_only_its_own_dimensions(trips: Exception, failure: Failure) -> None:
    both = edit(replies={"a.f": trips, "b.f": 3})
    result = await judge_edit(both, dimension("broken", A), dimension("fine", B))
    assert list(result.outcomes.values()) == [failure, Score(value=3)]
    assert result.has_failures


async def test_what_is_the_callers_to_fix_is_told() -> None:
    told = edit(replies={"a.f": ConfigError("no prompts", "import them")})
    with pytest.raises(ConfigError, match="import them"):
        await judge_edit(told, dimension("one", A))


async def test_scorers_of_one_edit_are_asked_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    counts, call = [0], engine_judge._call

    async def count(*given: Any) -> Any:
        counts.append(counts[-1] + 1)
        await asyncio.sleep(0)
        counts.append(counts[-1] - 1)
        return await call(*given)

    monkeypatch.setattr(engine_judge, "_AT_ONCE", 3)
    monkeypatch.setattr(engine_judge, "_call", count)
    dimensions = [dimension(f"d{i}", ScriptedScorer(key=str(i))) for i in range(10)]
    assert len((await judge_edit(edit(f=1), *dimensions)).outcomes) == 10
    assert max(counts) == 3


async def test_an_abstention_is_unscored_for_every_field() -> None:
    result = await judge_edit(
        edit(f=Abstention("degenerate", "flat image"), g=1), dimension("one", A), dimension("two", Reading(A, "g"))
    )
    unscored = NoScore(kind="degenerate", reason="flat image")
    assert list(result.outcomes.values()) == [unscored, unscored]
    assert not result.has_failures


async def test_what_cannot_be_judged_says_why_and_is_not_called() -> None:
    scorer, reader = ScriptedScorer(key="never"), ScriptedScorer(key="r", needs=("ocr.ppocr",))
    dimensions = (
        dimension("no target", scorer, needs=frozenset({"target"})),
        dimension("other task", scorer, when=lambda item: "only for birds"),
        dimension("not served", reader),
    )
    outcomes = [
        NotApplicable(reason="needs a target"),
        NotApplicable(reason="only for birds"),
        NotServed(reason="ocr.ppocr: no ocr.ppocr here"),
    ]
    result = await judge_edit(edit(f=1), *dimensions)
    assert list(result.outcomes.values()) == outcomes
    missing = replace(edit(f=1), image=None, missing=Missing("absent", "no file 7.png"))
    result = await judge_edit(missing, dimension("one", scorer), dimensions[0])
    assert list(result.outcomes.values()) == [MissingOutput(reason="no file 7.png"), outcomes[0]]
    assert scorer.calls == reader.calls == []


async def test_a_value_outside_the_range_is_a_defect_not_a_score() -> None:
    result = await judge_edit(edit(f=11), dimension("one", A))
    assert result.outcomes["one"] == Failure(error="one: 11.0 is outside 0..10")


async def test_what_a_dimension_derives_from_is_judged_but_not_reported() -> None:
    part, whole = dimension("part", A), dimension("whole", make_formula(product, "part"))
    result = await judge_edit(edit(f=4), part, whole, asked=[whole])
    assert result.outcomes == {"whole": Score(value=4, evidence={"parts": {"part": 4.0}})}


def test_circles_are_refused() -> None:
    one = dimension("one", make_formula(product, "two"))
    two = dimension("two", make_formula(product, "one"))
    with pytest.raises(ValueError, match="one -> two -> one"):
        sort_by_dependency([one], {"one": one, "two": two})


async def test_untrained_weights_mark_what_rests_on_them() -> None:
    panel = Models(ModelIdentity("ocr_ppocr/1"), network=ModelIdentity("lpips_vgg/1", {"untrained": "yes"}))
    reader, _, whole = OF_MODELS
    result = await judge_edit(edit(f=1), *OF_MODELS, panel=panel, asked=[reader, whole])
    assert result.untrained_ids == {"whole"}


async def test_a_derived_signature_follows_its_parts() -> None:
    async def sign_whole(variant: str) -> str:
        part = dimension("part", A, variant=variant)
        whole = dimension("whole", make_formula(product, "part"))
        return str((await judge_edit(edit(f=1), part, whole)).signatures["whole"])

    assert await sign_whole("v.1") == await sign_whole("v.1") != await sign_whole("v.2")


async def test_the_signature_names_everything_the_number_depends_on() -> None:
    one = dimension("one", READER, variant="v.1", protocol="test.1")
    result = await judge_edit(edit(f=1), one, panel=FakePanel("ocr.ppocr"))
    text = str(result.signatures["one"])
    for part in (
        *("dimension:one", "protocol:test.1", "variant:v.1", "reads:scripted.f(key=r)"),
        *("ocr.ppocr:ocr.ppocr/1", "by:scripted.1"),
    ):
        assert part in text


async def test_no_number_is_signed_by_a_model_that_came_while_it_was_made() -> None:
    panel = Models(ModelIdentity("old/1"), ModelIdentity("new/1"), network=NET)
    outcomes = (await judge_edit(edit(f=1), *OF_MODELS, panel=panel)).outcomes
    for name in ("reader", "whole"):
        assert "ocr.ppocr: the model changed or disappeared" in outcomes[name].error  # type: ignore[union-attr]
        assert outcomes[name].retryable  # type: ignore[union-attr]
    assert outcomes["network"] == Score(value=1)


async def test_what_is_learned_of_a_model_while_it_judges_makes_it_no_other() -> None:
    learned = ModelIdentity("m", {"choices": "top_logprobs"})
    panel = Models(ModelIdentity("m", {}), learned, network=NET)
    result = await judge_edit(edit(f=1), OF_MODELS[0], panel=panel)
    assert result.outcomes["reader"] == Score(value=1)
    assert "choices=top_logprobs" in str(result.signatures["reader"])
