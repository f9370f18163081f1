"""From scorers to outcomes: sharing, skipping, failing, deriving."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from editjudge.base.errors import Abstention, ConfigError, ImageError, Unreachable
from editjudge.base.identity import ModelIdentity, ServiceName
from editjudge.base.item import Edit, Missing
from editjudge.base.verdict import Failure, MissingOutput, NoScore, NotApplicable, NotServed, Score
from editjudge.benchmarks.dimension import Dimension, Formula, Reading, make_formula
from editjudge.benchmarks.fusion import product
from editjudge.engine.judge import Judgement, judge
from editjudge.engine.outcomes import sort_by_dependency

from ...fakes.scorers import FakePanel, Scripted, edit


def dimension(name: str, how: Reading | Formula, **more: Any) -> Dimension:
    declared: dict[str, Any] = {"range": (0, 10), "higher_is_better": True, "source": "here"}
    return Dimension(id=name, asks="?", how=how, **{**declared, **more})


async def judged(of: Edit, *dimensions: Dimension, services: tuple[str, ...] = ()) -> Judgement:
    known = {d.id: d for d in dimensions}
    return await judge(of, dimensions, known, FakePanel(*services))  # type: ignore[arg-type]


A = Scripted(key="a")
B = Scripted(key="b")


async def test_equal_scorers_are_called_once_with_all_fields() -> None:
    scorer = Scripted(key="x")
    twin = replace(scorer)
    dimensions = [dimension("one", Reading(scorer, "f")), dimension("two", Reading(twin, "g"))]
    result = await judged(edit(f=1, g=2), *dimensions)
    assert scorer.calls + (twin.calls if twin.calls is not scorer.calls else []) == [{"f", "g"}]
    assert [o.value for o in result.outcomes.values()] == [1, 2]  # type: ignore[union-attr]


async def test_a_failing_service_costs_only_its_own_dimensions() -> None:
    lost = Unreachable("connection lost", service="ocr.ppocr", endpoint="grpc://x:1", attempts=4)
    result = await judged(
        edit(replies={"a.f": lost, "b.f": 3}),
        dimension("broken", Reading(A, "f")),
        dimension("fine", Reading(B, "f")),
    )
    broken, fine = result.outcomes.values()
    assert broken == Failure(
        error="ocr.ppocr at grpc://x:1: connection lost after 4 attempts", retryable=True
    )
    assert fine == Score(value=3)
    assert result.has_failures


@pytest.mark.parametrize(
    ("trips", "said"),
    [
        (KeyError("answer"), "scripted: KeyError: 'answer'"),
        (ImageError("m.png", "of another shape"), "m.png: of another shape"),
    ],
)
async def test_a_scorer_that_trips_costs_only_its_own_dimensions(
    trips: Exception, said: str
) -> None:
    result = await judged(
        edit(replies={"a.f": trips, "b.f": 3}),
        dimension("broken", Reading(A, "f")),
        dimension("fine", Reading(B, "f")),
    )
    assert list(result.outcomes.values()) == [Failure(error=said), Score(value=3)]


async def test_what_is_the_callers_to_fix_is_told() -> None:
    told = edit(replies={"a.f": ConfigError("no prompts", "import them")})
    with pytest.raises(ConfigError, match="import them"):
        await judged(told, dimension("one", Reading(A, "f")))


async def test_a_composite_keeps_what_its_own_readings_rest_on() -> None:
    read = Score(value=2, evidence={"read": "OPEN"}, calls=("k", "l"))
    result = await judged(
        edit(f=read, g=3),
        dimension("part", Reading(A, "g")),
        dimension("whole", make_formula(product, "part", of={"text": Reading(B, "f")})),
    )
    assert result.outcomes["whole"] == Score(
        value=6,
        evidence={
            "parts": {"part": 3.0, "text": 2.0},
            "readings": {"text": {"read": "OPEN"}},
        },
        calls=("k", "l"),
    )


async def test_an_abstention_is_unscored_for_every_field() -> None:
    result = await judged(
        edit(f=Abstention("degenerate", "flat image"), g=1),
        dimension("one", Reading(A, "f")),
        dimension("two", Reading(A, "g")),
    )
    unscored = NoScore(kind="degenerate", reason="flat image")
    assert list(result.outcomes.values()) == [unscored, unscored]
    assert not result.has_failures


async def test_what_cannot_be_judged_says_why() -> None:
    served, scorer = Scripted(key="s", needs=("ocr.ppocr",)), Scripted(key="never")
    result = await judged(
        edit(f=1),
        dimension("no target", Reading(scorer, "f"), needs=frozenset({"target"})),
        dimension("other task", Reading(scorer, "f"), when=lambda item: "only for birds"),
        dimension("not served", Reading(served, "f")),
    )
    assert list(result.outcomes.values()) == [
        NotApplicable(reason="needs a target"),
        NotApplicable(reason="only for birds"),
        NotServed(reason="ocr.ppocr: no ocr.ppocr here"),
    ]
    assert scorer.calls == []


async def test_a_missing_output_is_counted_and_nothing_is_called() -> None:
    missing = replace(edit(f=1), image=None, missing=Missing("absent", "no file 7.png"))
    scorer = Scripted(key="never")
    result = await judged(
        missing,
        dimension("one", Reading(scorer, "f")),
        dimension("two", Reading(scorer, "f"), needs=frozenset({"hint"})),
    )
    one, two = result.outcomes.values()
    assert one == MissingOutput(reason="no file 7.png")
    assert isinstance(two, NotApplicable)
    assert scorer.calls == []


@pytest.mark.parametrize(
    ("part", "kind"),
    [
        (NoScore(kind="unparsable", reason="no JSON"), NoScore),
        (Failure(error="lost"), Failure),
    ],
)
async def test_a_part_without_a_number_leaves_the_whole_without(part: Any, kind: type) -> None:
    whole = dimension("whole", make_formula(product, "one", "two"))
    result = await judged(
        edit(replies={"a.f": part, "b.f": 3}),
        dimension("one", Reading(A, "f")),
        dimension("two", Reading(B, "f")),
        whole,
    )
    assert isinstance(result.outcomes["whole"], kind)
    assert result.outcomes["whole"].reason.startswith("one: ")  # type: ignore[union-attr]


@pytest.mark.parametrize("complete", [True, False])
async def test_parts_that_do_not_apply(complete: bool) -> None:
    result = await judged(
        edit(f=4),
        dimension("one", Reading(A, "f")),
        dimension("two", Reading(B, "f"), needs=frozenset({"hint"})),
        dimension("whole", make_formula(product, "one", "two", complete=complete)),
    )
    whole = result.outcomes["whole"]
    if complete:
        assert whole == NotApplicable(reason="two not applicable")
    else:
        assert whole == Score(value=4, evidence={"parts": {"one": 4.0}})


async def test_imputed_parts_mark_the_whole() -> None:
    result = await judged(
        edit(f=Score(value=0, imputed=True)),
        dimension("one", Reading(A, "f")),
        dimension("whole", make_formula(product, "one")),
    )
    assert result.outcomes["whole"].imputed  # type: ignore[union-attr]


async def test_a_value_outside_the_range_is_a_defect_not_a_score() -> None:
    result = await judged(edit(f=11), dimension("one", Reading(A, "f")))
    assert result.outcomes["one"] == Failure(error="one: 11.0 is outside 0..10")


async def test_what_a_dimension_derives_from_is_judged_but_not_reported() -> None:
    part = dimension("part", Reading(A, "f"))
    whole = dimension("whole", make_formula(product, "part"))
    known = {"part": part, "whole": whole}
    result = await judge(edit(f=4), [whole], known, FakePanel())  # type: ignore[arg-type]
    assert list(result.outcomes) == ["whole"]
    assert result.outcomes["whole"] == Score(value=4, evidence={"parts": {"part": 4.0}})


def test_circles_are_refused() -> None:
    one = dimension("one", make_formula(product, "two"))
    two = dimension("two", make_formula(product, "one"))
    with pytest.raises(ValueError, match="one -> two -> one"):
        sort_by_dependency([one], {"one": one, "two": two})


async def test_untrained_weights_mark_what_rests_on_them() -> None:
    class Random(FakePanel):
        def identities(self) -> dict[ServiceName, ModelIdentity]:
            return {
                ServiceName("lpips", "vgg"): ModelIdentity("lpips_vgg/1", {"untrained": "yes"}),
                ServiceName("ocr", "ppocr"): ModelIdentity("ocr_ppocr/1"),
            }

    network = dimension("network", Reading(Scripted(key="n", needs=("lpips.vgg",)), "f"))
    reader = dimension("reader", Reading(Scripted(key="r", needs=("ocr.ppocr",)), "f"))
    both = dimension("both", make_formula(product, "network", "reader"))
    asked = [reader, both]
    known = {d.id: d for d in (network, reader, both)}
    panel = Random("lpips.vgg", "ocr.ppocr")
    result = await judge(edit(f=1), asked, known, panel)  # type: ignore[arg-type]
    assert result.untrained_ids == {"both"}


async def test_a_derived_signature_follows_its_parts() -> None:
    async def signed(variant: str) -> str:
        part = dimension("part", Reading(A, "f"), variant=variant)
        whole = dimension("whole", make_formula(product, "part"))
        return str((await judged(edit(f=1), part, whole)).signatures["whole"])

    assert await signed("v.1") == await signed("v.1") != await signed("v.2")


async def test_the_signature_names_everything_the_number_depends_on() -> None:
    served = Scripted(key="s", needs=("ocr.ppocr",))
    result = await judged(
        edit(f=1),
        dimension("one", Reading(served, "f"), variant="v.1", protocol="test.1"),
        services=("ocr.ppocr",),
    )
    text = str(result.signatures["one"])
    for part in ("dimension:one", "protocol:test.1", "variant:v.1", "reads:scripted.f(key=s)"):
        assert part in text
    assert "ocr.ppocr:ocr.ppocr/1" in text
    assert "by:scripted.1" in text


async def test_no_number_is_signed_by_a_model_that_came_while_it_was_made() -> None:
    class Rebound(FakePanel):
        asked = 0

        def identities(self) -> dict[ServiceName, ModelIdentity]:
            self.asked += 1
            model = "old" if self.asked == 1 else "new"
            return {
                ServiceName("ocr", "ppocr"): ModelIdentity(f"{model}/1"),
                ServiceName("lpips", "vgg"): ModelIdentity("lpips_vgg/1"),
            }

    reader = dimension("reader", Reading(Scripted(key="r", needs=("ocr.ppocr",)), "f"))
    other = dimension("other", Reading(Scripted(key="o", needs=("lpips.vgg",)), "f"))
    whole = dimension("whole", make_formula(product, "reader", "other"))
    known = {d.id: d for d in (reader, other, whole)}
    panel = Rebound("lpips.vgg", "ocr.ppocr")
    result = await judge(edit(f=1), known.values(), known, panel)  # type: ignore[arg-type]
    for name in ("reader", "whole"):
        outcome = result.outcomes[name]
        assert isinstance(outcome, Failure)
        assert outcome.retryable
        assert "ocr.ppocr: became another model" in outcome.reason
    assert result.outcomes["other"] == Score(value=1)


async def test_what_is_learned_of_a_model_while_it_judges_makes_it_no_other() -> None:
    class Learning(FakePanel):
        asked = 0

        def identities(self) -> dict[ServiceName, ModelIdentity]:
            self.asked += 1
            facts = {"choices": "top_logprobs"} if self.asked > 1 else {}
            return {ServiceName("ocr", "ppocr"): ModelIdentity("m", facts)}

    reader = dimension("reader", Reading(Scripted(key="r", needs=("ocr.ppocr",)), "f"))
    panel = Learning("ocr.ppocr")
    result = await judge(edit(f=1), [reader], {"reader": reader}, panel)  # type: ignore[arg-type]
    assert result.outcomes["reader"] == Score(value=1)
    assert "choices=top_logprobs" in str(result.signatures["reader"])
