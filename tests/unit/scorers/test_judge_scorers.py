"""What the ways of asking a judge make of its answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from editjudge.answers.questions import QuestionAnswers, Questions
from editjudge.answers.scores import ScoreField, Scores
from editjudge.base.errors import Abstention
from editjudge.base.item import Edit
from editjudge.base.verdict import Score
from editjudge.benchmarks.registry import load_benchmark, load_dimensions
from editjudge.engine.judge import judge as judge_edit
from editjudge.panel.context import CallContext, CallLog
from editjudge.panel.prompt import Prompt
from editjudge.prompts import Template
from editjudge.prompts.custom_templates import load_custom_templates
from editjudge.scorers import judge_scorer as module
from editjudge.scorers import vqa
from editjudge.scorers.judge_scorer import JudgeScorer
from editjudge.scorers.rubric import Rubric

from ...fakes.transport import OneJudge as Panel
from ...fakes.transport import read_prompt
from ...verdicts import abstains, why_not

JUDGE = "generalist.judge"
YES_NO, EQUATION_4 = vqa.YesNo(JUDGE, "t/yes"), vqa.UnnormalisedYesNo(JUDGE, "t/yes")
QUESTIONS = [f"Is part {i} right?" for i in range(5)]


def template(name: str, user: str, *choices: str, contract: Any = None) -> Template:
    return Template(f"t/{name}", "?", "s", "", user, choices, contract)


RATED = (ScoreField("consistency", 1, 5), ScoreField("quality", 1, 5))
TEMPLATES = {
    one.name: one
    for one in (
        template("rubric", "{edited}Rate.", contract=Scores(RATED)),
        template("option", "{edited}{question} {options}", "a", "b"),
        template("fact", "{edited}{question} {answer}", "True", "False"),
        template("list", "{edited}", contract=Questions(1, 2)),
        template("two", "{edited}", contract=QuestionAnswers(count_high=2)),
        template("pairs", "{instruction}", contract=QuestionAnswers()),
        template("other", "{edited}Other?", "Yes", "No"),
        template("yes", "{sources}{edited}{instruction}?", "Yes", "No"),
    )
}


@pytest.fixture(autouse=True)
def _templates(monkeypatch: pytest.MonkeyPatch) -> None:
    real = module.get_template
    monkeypatch.setattr(module, "get_template", lambda name: TEMPLATES.get(name) or real(name))


@pytest.fixture
def edit(photo: np.ndarray) -> Edit:
    return Edit.load(source=photo, edited=255 - photo, instruction="make it red")


def with_questions(edit: Edit, *questions: Mapping[str, Any]) -> Edit:
    return replace(edit, item=replace(edit.item, questions=questions))


async def score(scorer: Any, edit: Edit, panel: Panel, field: str = "score") -> Mapping[str, Any]:
    return await scorer.score(edit, panel, frozenset({field}))


async def number(scorer: Any, edit: Edit, panel: Panel, field: str = "score") -> Any:
    """The verdict that a scorer gives for one field."""
    return (await score(scorer, edit, panel, field))[field]


async def test_five_levels_weigh_their_probabilities(edit: Edit) -> None:
    spread = {"excellent": 0.4, "good": 0.3, "fair": 0.2, "poor": 0.05, "bad": 0.05}
    panel = Panel(spread)
    got = await number(vqa.FiveLevel(JUDGE, "core/instruction_following"), edit, panel)
    assert got.value == pytest.approx(0.4 + 0.75 * 0.3 + 0.5 * 0.2 + 0.25 * 0.05)
    assert len(got.calls) == 1
    text = read_prompt(panel.transport.asked[0])
    assert text.index("Source image") < text.index("Edited image") < text.index("make it red")


async def test_a_task_may_have_a_prompt_of_its_own(edit: Edit) -> None:
    scorer = vqa.YesNo(JUDGE, "t/yes", by_task=(("count", "t/other"), ("size", "t/other")))
    for task, expected in (("count", "Other?"), ("size", "Other?"), ("", "make it red?")):
        panel = Panel({"Yes": 1.0})
        asked = replace(edit, item=replace(edit.item, task=task))
        await score(scorer, asked, panel)
        assert expected in read_prompt(panel.transport.asked[0])
        (question,) = scorer.questions(asked.item)
        assert question.template.name == ("t/yes" if not task else "t/other")
    spec = scorer.spec()
    assert str(spec["by_task"]).startswith("count+size:t/other(own,sha256:")
    assert "by_task" not in vqa.YesNo(JUDGE, "t/yes").spec()


async def test_yes_no_is_the_share_of_yes(edit: Edit) -> None:
    got = await number(YES_NO, edit, Panel({"Yes": 0.6, "No": 0.2}))
    assert got.value == pytest.approx(0.75)


@pytest.mark.parametrize("yes", [0.0, 0.1, 0.45, 0.5])
@pytest.mark.parametrize("no", [0.01, 0.15, 0.5])
async def test_equation_4_is_the_probability_of_yes_itself(edit: Edit, yes: float, no: float) -> None:
    """What fell outside lowers P(Yes); over Yes and No alone it does not count."""
    spread = {"Yes": yes, "No": no}
    raw = await number(EQUATION_4, edit, Panel(spread, max_outside=1.0))
    normalised = await number(YES_NO, edit, Panel(spread, max_outside=1.0))
    assert raw.value == pytest.approx(yes)
    assert normalised.value == pytest.approx(yes / (yes + no))
    assert raw.value <= normalised.value + 1e-12
    assert raw.calls == normalised.calls, "the same reply, read in two ways"
    assert vqa.UnnormalisedYesNo.name != vqa.YesNo.name, "two signatures"


async def test_too_much_outside_leaves_no_score_unnormalised_either(edit: Edit) -> None:
    with pytest.raises(Abstention, match="60% of the probability"):
        await score(EQUATION_4, edit, Panel({"Yes": 0.3, "No": 0.1}))


async def test_a_sampled_share_is_of_all_replies(edit: Edit) -> None:
    """A reply that is neither leaves no score, so nothing is outside of what has one."""
    settings = {"logprobs": "never", "samples": 4, "temperature": 1.0}
    for scorer in (YES_NO, EQUATION_4):
        panel = Panel("Yes", "No", "No", "Yes", **settings)
        assert (await number(scorer, edit, panel)).value == 0.5
        with pytest.raises(Abstention):
            await score(scorer, edit, Panel("Yes", "Perhaps", **settings))


def write_questions(questions: list[str]) -> str:
    return json.dumps({"questions": questions})


def by_question(answers: Mapping[str, float], generated: str) -> Any:
    """Answers a generation with `generated`, and each question with its P(Yes)."""

    def reply(prompt: Prompt) -> Any:
        text = read_prompt(prompt)
        for question, yes in answers.items():
            if question in text:
                return {"Yes": yes, "No": 1 - yes}
        return generated

    return reply


QUESTION_LIST = vqa.QuestionList(JUDGE, "core/physical_plausibility_questions", "core/question")


async def test_the_share_of_questions_answered_yes(edit: Edit) -> None:
    answers = dict(zip(QUESTIONS, (0.9, 0.51, 0.5, 0.2, 0.99), strict=True))
    panel = Panel(by_question(answers, write_questions(QUESTIONS)))
    got = await number(QUESTION_LIST, edit, panel)
    assert got.value == pytest.approx(3 / 5)
    assert [one["question"] for one in got.evidence["questions"]] == QUESTIONS
    assert len(got.calls) == 6


async def test_generated_questions_are_shared_by_all_models(edit: Edit, photo: Any) -> None:
    panel = Panel(by_question(dict.fromkeys(QUESTIONS, 1.0), write_questions(QUESTIONS)))
    other = Edit.load(source=photo, edited=photo, instruction="make it red", model="other")
    await asyncio.gather(score(QUESTION_LIST, edit, panel), score(QUESTION_LIST, other, panel))
    generations = [p for p in panel.transport.asked if "You have not seen the result" in read_prompt(p)]
    assert len(generations) == 1
    assert "Edited image" not in read_prompt(generations[0])
    assert len(panel.transport.asked) == 1 + 2 * len(QUESTIONS)


async def test_too_few_questions_are_no_score(edit: Edit) -> None:
    panel = Panel(by_question({}, write_questions(QUESTIONS[:4])))
    with abstains("unparsable"):
        await score(QUESTION_LIST, edit, panel)
    assert len(panel.transport.asked) == 2, "one retry"


async def test_a_rubric_gives_several_scores_from_one_call(edit: Edit) -> None:
    panel = Panel(json.dumps({"reasoning": "why", "consistency": 4, "quality": 2}))
    got = await score(Rubric(JUDGE, "t/rubric"), edit, panel)
    assert {name: one.value for name, one in got.items()} == {"consistency": 4, "quality": 2}
    assert got["quality"].calls == got["consistency"].calls != ()
    assert len(panel.transport.asked) == 1


async def test_a_sampled_rubric_is_averaged(edit: Edit) -> None:
    replies = [{"reasoning": "", "consistency": c, "quality": 2} for c in (3, 4, 4)]
    panel = Panel(*map(json.dumps, replies), temperature=0.7, samples=3)
    got = await score(Rubric(JUDGE, "t/rubric"), edit, panel)
    assert got["consistency"].value == pytest.approx(11 / 3)
    assert sorted(got["consistency"].evidence["values"]) == [3, 4, 4]
    greedy = Panel(json.dumps(replies[0]), samples=3)
    await score(Rubric(JUDGE, "t/rubric"), edit, greedy)
    assert len(greedy.transport.asked) == 1, "a greedy judge says the same each time"


COLOUR = {"question": "What colour?", "options": ["Red", "Blue"], "answer": "Red"}


@pytest.mark.parametrize(
    ("reply", "exact", "value"), [("Red", False, 1), ("red.", False, 1), ('"Blue"', False, 0), ("Red", True, 1)]
)
async def test_multiple_choice(edit: Edit, reply: str, exact: bool, value: float) -> None:
    scorer = vqa.MultipleChoice(JUDGE, "t/option", exact)
    got = await number(scorer, with_questions(edit, COLOUR), Panel(reply), "correct")
    assert (got.value, got.evidence["answers"][0]["due"]) == (value, "Red")


async def test_a_reply_that_is_no_option(edit: Edit) -> None:
    with abstains("unparsable"):
        scorer = vqa.MultipleChoice(JUDGE, "t/option")
        await score(scorer, with_questions(edit, COLOUR), Panel("Green"))


FACT_CHECK = vqa.FactCheck(JUDGE, "t/fact", "t/pairs")
FACTS = [{"question": f"Fact {i}?", "answer": "yes"} for i in range(3)]


@pytest.mark.parametrize(("true", "value"), [((0.9, 0.8, 0.7), 1.0), ((0.9, 0.4, 0.9), 0.0)])
async def test_one_strike(edit: Edit, true: tuple[float, ...], value: float) -> None:
    def reply(prompt: Prompt) -> Any:
        index = next(i for i in range(3) if f"Fact {i}?" in read_prompt(prompt))
        return {"True": true[index], "False": 1 - true[index]}

    got = await number(FACT_CHECK, with_questions(edit, *FACTS), Panel(reply), "correct")
    assert (got.value, got.evidence["generated"]) == (value, False)


async def test_facts_are_generated_where_the_item_has_none(edit: Edit) -> None:
    pairs = json.dumps({"pairs": [{"question": "Is it red?", "answer": "yes"}]})

    def reply(prompt: Prompt) -> Any:
        return {"True": 0.9, "False": 0.1} if "Is it red?" in read_prompt(prompt) else pairs

    got = await number(FACT_CHECK, edit, Panel(reply), "correct")
    assert (got.value, got.evidence["generated"]) == (1, True)


def sampling(prompt: Prompt) -> Any:
    """A judge that writes every word itself."""
    text = read_prompt(prompt)
    if "have not seen the result" in text:
        return write_questions(QUESTIONS)
    if "Is part" in text:
        return "Yes"
    if text.startswith("make it red\n"):
        return json.dumps({"pairs": [{"question": "Is it red?", "answer": "yes"}]})
    if "Is it red?" in text:
        return "True"
    if "Rate." in text:
        return json.dumps({"reasoning": "", "consistency": 4, "quality": 2})
    return "good" if "excellent" in text else "No"


@pytest.mark.parametrize("settings", [{}, {"samples": 2}, {"samples": 2, "temperature": 0.7}])
@pytest.mark.parametrize(
    ("scorer", "value", "calls"),
    [
        (vqa.FiveLevel(JUDGE, "core/instruction_following"), 0.75, {1: 1, 2: 2}),
        (YES_NO, 0.0, {1: 1, 2: 2}),
        (QUESTION_LIST, 1.0, {1: 6, 2: 11}),
        (FACT_CHECK, 1.0, {1: 2, 2: 3}),
        (Rubric(JUDGE, "t/rubric"), 4.0, {1: 1, 2: 2}),
    ],
)
async def test_a_judge_without_probabilities(
    edit: Edit, scorer: Any, value: float, calls: dict[int, int], settings: dict[str, Any]
) -> None:
    """What it says is paid for whatever `samples` is, so it is told, and foreseen."""
    panel = Panel(sampling, logprobs="never", **settings)
    notes = CallLog()
    panel.context = CallContext(logs=(notes,))
    got = await score(scorer, edit, panel)
    verdict = got.get("score") or got.get("correct") or got["consistency"]
    assert verdict.value == value
    made = len(panel.transport.asked)
    greedy = isinstance(scorer, Rubric) and "temperature" not in settings
    assert made == calls[1 if greedy else settings.get("samples", 1)]
    assert (notes.usage["calls"], notes.usage["prompt_tokens"]) == (made, 100 * made)
    assert len(set(verdict.calls)) == len(verdict.calls) == made
    # Seven questions or three pairs at most, where five and one were written.
    unwritten = {vqa.QuestionList: 2, vqa.FactCheck: 2}.get(type(scorer), 0) * settings.get("samples", 1)
    endpoint = panel.scripted.endpoint
    foreseen = sum(question.max_calls(endpoint) for question in scorer.questions(edit.item))
    assert foreseen == made + unwritten


def test_counts_of_questions_come_from_the_contract(edit: Edit) -> None:
    for scorer in (vqa.QuestionList(JUDGE, "t/list", "t/yes"), vqa.FactCheck(JUDGE, "t/fact", "t/two")):
        assert [question.count for question in scorer.questions(edit.item)] == [1, 2]
        assert [question.max_calls(None) for question in scorer.questions(edit.item)] == [1, 2]
        assert scorer.calls(edit.item, frozenset()) == {JUDGE: 3}


@pytest.mark.parametrize(
    ("scorer", "kind"),
    [
        (vqa.QuestionList(JUDGE, "t/pairs", "t/yes"), "t/pairs does not ask for questions"),
        (vqa.FactCheck(JUDGE, "t/fact", "t/rubric"), "t/rubric does not ask for question_answers"),
        (Rubric(JUDGE, "t/yes"), "t/yes does not ask for scores"),
    ],
)
async def test_a_template_that_asks_for_something_else(edit: Edit, scorer: Any, kind: str) -> None:
    with pytest.raises(TypeError, match=kind):
        await score(scorer, edit, Panel("x"))


@pytest.mark.parametrize("name", ["core", "co_edit", "gie", "i2i", "kris", "omni_iie"])
def test_whose_words_covers_every_question(edit: Edit, name: str) -> None:
    questions = ({"question": "?", "options": ["a", "b"], "answer": "a", "compares": True},)
    scorers = {r.scorer for d in load_benchmark(name).dimensions for r in d.readings}
    asking = [scorer for scorer in scorers if isinstance(scorer, JudgeScorer)]
    assert asking
    for scorer in asking:
        for task in ("", *dict(scorer.by_task)):
            for item in (edit.item, replace(edit.item, questions=questions)):
                for question in scorer.questions(replace(item, task=task)):
                    assert question.template in scorer.templates


def test_a_prompt_that_needs_what_the_item_lacks(edit: Edit) -> None:
    prepare = Panel("x").scripted.prepare_picture
    with pytest.raises(ValueError, match="needs hint"):
        module.make_prompt(template("b", "{hint}"), edit, prepare)


def test_specs_name_the_prompts_with_their_digests(edit: Edit) -> None:
    spec = QUESTION_LIST.spec()
    assert str(spec["prompt"]).startswith("core/physical_plausibility_questions(own,sha256:")
    assert str(spec["question_prompt"]).startswith("core/question(own,sha256:")
    assert QUESTION_LIST.reads(edit.item) >= {"instruction", "question"}


async def test_generic_dimensions_of_one_edit(edit: Edit) -> None:
    """Every generic dimension from a judge alone, and the calls that it takes."""
    levels = {"excellent": 0.5, "good": 0.5, "Yes": 1.0}

    def reply(prompt: Prompt) -> Any:
        text = read_prompt(prompt)
        if "have not seen the result" in text:
            return write_questions(QUESTIONS)
        return {"Yes": 1.0} if "Is part" in text else {k: levels[k] for k in ("excellent", "good")}

    panel = Panel(reply)
    known = load_dimensions()
    asked = [d for d in load_benchmark("core").dimensions if d.roles == (JUDGE,) and not d.needs]
    assert len(asked) == 6
    judged = await judge_edit(edit, asked, known, panel)
    values = {name: one.value for name, one in judged.outcomes.items() if isinstance(one, Score)}
    assert len(values) == 6, judged.outcomes
    assert values["core.physical_plausibility"] == 1
    assert values["core.editing_artifacts"] == pytest.approx(0.875)
    # Both lists hold the same questions here, so they are asked once.
    assert len(panel.transport.asked) == 4 + 2 + len(QUESTIONS)
    for name in values:
        assert "choices=logprobs" in str(judged.signatures[name])


CHOICE = {"question": "Which colour?", "options": ["Red", "Blue"], "answer": "Red"}
FACT = {"question": "Is it red?", "answer": "yes"}


@pytest.mark.parametrize(
    ("questions", "values"),
    [
        ((CHOICE, {**CHOICE, "answer": "Blue"}), {"core.multiple_choice": 0.5}),
        ((FACT, {**FACT, "question": "Is it blue?"}), {"core.fact_check": 0.0}),
        ((FACT,), {"core.fact_check": 1.0}),
        ((CHOICE, FACT), {}),
        (({"question": "Is it red?"},), {}),
        ((), {}),
    ],
)
async def test_questions_that_come_with_an_item(
    edit: Edit, questions: tuple[dict[str, Any], ...], values: dict[str, float]
) -> None:
    def reply(prompt: Prompt) -> Any:
        text = read_prompt(prompt)
        if "Which colour?" in text:
            return "Red"
        return {"True": 0.9, "False": 0.1} if "Is it red?" in text else {"True": 0.2, "False": 0.8}

    asked = [d for d in load_benchmark("core").dimensions if "questions" in d.needs]
    one = replace(edit, item=replace(edit.item, questions=questions))
    judged = await judge_edit(one, asked, load_dimensions(), Panel(reply))
    scored = {name: v.value for name, v in judged.outcomes.items() if isinstance(v, Score)}
    assert scored == values
    others = {v.reason for v in judged.outcomes.values() if not isinstance(v, Score)}
    assert all(reason.startswith("needs questions") for reason in others)


async def test_an_unreadable_judge_costs_only_what_reads_it(edit: Edit) -> None:
    def reply(prompt: Prompt) -> Any:
        return "no idea" if "have not seen" in read_prompt(prompt) else {"excellent": 1.0}

    panel = Panel(reply)
    known = load_dimensions()
    asked = [known["core.physical_plausibility"], known["core.editing_artifacts"]]
    judged = await judge_edit(edit, asked, known, panel)
    lost = judged.outcomes["core.physical_plausibility"]
    why_not(lost, "unparsable")
    assert len(lost.calls) == 2
    assert judged.usage["calls"] == 3
    assert isinstance(judged.outcomes["core.editing_artifacts"], Score)


def own_words(name: str, text: str) -> tuple[Template, ...]:
    return load_custom_templates({f"{name}.toml": text})


async def test_ones_own_words_are_asked_and_read_on_their_own_scale(edit: Edit) -> None:
    custom = own_words(
        "kris/quality",
        'user = "{edited}How good, of ten?"\n[answer]\ncontract = "scores"\nreasoning = false\n'
        'fields = [{ name = "quality_score", low = 0, high = 10 }]\n',
    )
    usual = Rubric(JUDGE, "kris/quality")
    scorer = usual.with_templates(custom)
    panel = Panel('{"quality_score": 5}')
    got = await number(scorer, edit, panel, "quality_score")
    assert got.value == 3  # the middle of 0 to 10 is the middle of 1 to 5
    assert got.evidence["on_the_prompts_scale"] == 5
    assert "How good, of ten?" in read_prompt(panel.transport.asked[0])
    assert scorer.prompt_origins == {"custom"}
    assert str(scorer.spec()["prompt"]).startswith("kris/quality(custom,sha256:")
    assert scorer.spec() != usual.spec()
    # What does not ask them is what it was, and still one scorer with its equals.
    other = Rubric(JUDGE, "kris/consistency")
    assert other.with_templates(custom) == other
    assert usual.with_templates(custom) == scorer
    assert hash(usual.with_templates(custom)) == hash(scorer)


async def test_choices_of_ones_own_count_as_they_say(edit: Edit) -> None:
    text = 'user = "{sources}{edited}{instruction}"\n[answer]\nchoices = ["A", "B", "C"]\n'
    panel = Panel({"A": 0.5, "B": 0.5})
    for worth, value in (("", 0.75), ("worth = [1, 0.2, 0]", 0.6)):
        custom = own_words("core/instruction_following", text + worth)
        scorer = vqa.FiveLevel(JUDGE, "core/instruction_following").with_templates(custom)
        assert (await number(scorer, edit, panel)).value == pytest.approx(value)


async def test_the_first_of_two_choices_speaks_for_the_edit(edit: Edit) -> None:
    custom = own_words(
        "core/question", 'user = "{sources}{edited}{instruction}{question}"\n[answer]\nchoices = ["Right", "Wrong"]\n'
    )

    def reply(prompt: Prompt) -> Any:
        if "have not seen the result" in read_prompt(prompt):
            return json.dumps({"questions": QUESTIONS})
        return {"Right": 0.2, "Wrong": 0.8} if "part 0" in read_prompt(prompt) else {"Right": 1.0}

    scorer = QUESTION_LIST.with_templates(custom)
    assert (await number(scorer, edit, Panel(reply))).value == pytest.approx(0.8)
    assert scorer.prompt_origins == {"own", "custom"}
