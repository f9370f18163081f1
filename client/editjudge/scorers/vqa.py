"""Visual question answering: scores from the answers that a judge chooses."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from ..answers.questions import QuestionAnswers, Questions
from ..answers.texts import Option, Verbatim
from ..base.item import Edit, Item
from ..base.verdict import Score, Verdicts
from ..panel import Panel
from ..panel.choices import ChoiceDistribution
from ..panel.coalesce import gather_all
from ..panel.judge import Answer, merge_calls
from ..prompts import Template
from .judge_scorer import JudgeScorer, Question, get_contract, list_shown_fields


@dataclass(frozen=True)
class FiveLevel(JudgeScorer):
    """The expected level over {excellent, good, fair, poor, bad} (I2I-Bench, eq. 1).

    Field `score` = sum of w_i P(c_i) with w = 1, 0.75, 0.5, 0.25, 0, or the template's own
    weights; in [0, 1], higher is better.
    """

    name: ClassVar[str] = "five_level"

    def questions(self, item: Item) -> tuple[Question, ...]:
        """Return one question, with the template of the item's task."""
        template = self.template_for(item)
        return (Question(template, template.choices),)

    async def score(self, edit: Edit, panel: Panel, fields: frozenset[str]) -> Verdicts:
        """Ask the judge once and take the expectation over its choices."""
        judge = panel.judge(self.service)
        (question,) = self.questions(edit.item)
        answer: Answer[ChoiceDistribution] = await question.ask(edit, judge, repeat=self.repeat)
        value = self.make_value(answer.value, question.template.weights)
        return {"score": _make_score(value, answer.evidence, answer.calls)}

    def make_value(self, spread: ChoiceDistribution, weights: Mapping[str, float]) -> float:
        """Return the mean weight of the choices, which the softmax of eq. 1 normalises."""
        return spread.expectation(weights)


@dataclass(frozen=True)
class YesNo(FiveLevel):
    """The probability of Yes over that of Yes or No: eq. 4 of I2I-Bench, but normalised.

    Field `score`, in [0, 1], higher is better. What fell outside of both does not count; up to
    `max_outside` of the judge's settings may.
    """

    name: ClassVar[str] = "yes_no"


@dataclass(frozen=True)
class UnnormalisedYesNo(YesNo):
    """The probability of Yes, as eq. 4 of I2I-Bench has it: what fell outside counts as No.

    Field `score`, in [0, 1], higher is better; never above that of `YesNo`. A sampled reply that
    is neither leaves no score, so there the share of Yes is of all replies, and the same.
    """

    name: ClassVar[str] = "unnormalised_yes_no"

    def make_value(self, spread: ChoiceDistribution, weights: Mapping[str, float]) -> float:
        """Return the weight of the choices, of all that the judge could answer."""
        return super().make_value(spread, weights) * (1 - (spread.outside or 0.0))


@dataclass(frozen=True)
class QuestionList(JudgeScorer):
    """The share of generated questions whose answer is Yes (I2I-Bench, eq. 3).

    Field `score`, in [0, 1], higher is better. The questions depend on sources and
    instruction only, so every model under test gets the same ones. An answer is Yes where
    it is the likelier of the two.

    Attributes:
        prompt: Generates the questions; its contract is `questions`.
        question_prompt: Asks one of them about the edited image.
    """

    name: ClassVar[str] = "question_list"
    template_parameters: ClassVar[tuple[str, ...]] = ("prompt", "question_prompt")
    question_prompt: str

    def questions(self, item: Item) -> tuple[Question, ...]:
        """Return the prompt that generates the questions, then the one that asks each of them."""
        writing = self.template_for(item)
        contract = get_contract(writing, Questions)
        check = self.template_of(self.question_prompt)
        return Question(writing, contract), Question(check, check.choices, contract.high)

    async def score(self, edit: Edit, panel: Panel, fields: frozenset[str]) -> Verdicts:
        """Generate the questions, then ask them concurrently."""
        judge = panel.judge(self.service)
        writing, check = self.questions(edit.item)
        generated_answers = await writing.ask(edit, judge, repeat=self.repeat)
        questions: Sequence[str] = generated_answers.value
        answers: list[Answer[ChoiceDistribution]] = await gather_all(
            *(check.ask(edit, judge, repeat=self.repeat, question=text) for text in questions)
        )
        shares = [first_share(answer) for answer in answers]
        evidence = {
            "questions": [
                {"question": question, "yes": share, "outside": answer.value.outside}
                for question, share, answer in zip(questions, shares, answers, strict=True)
            ],
            "method": answers[0].value.method,
        }
        share = sum(share > 0.5 for share in shares) / len(shares)
        return {"score": _make_score(share, evidence, merge_calls([generated_answers, *answers]))}


@dataclass(frozen=True)
class MultipleChoice(JudgeScorer):
    """Whether the judge picks the right option (GIE-Bench, section 3.5).

    Field `correct`: the share of the item's questions whose reply is the item's answer, 0..1;
    with one question 0 or 1. Higher is better. The options keep the item's order.

    A question cannot be won if its right answer is not among the options. It is not asked, counts
    as wrong and is marked in the evidence. The score is then marked as imputed.

    Attributes:
        comparing: Template for questions whose `compares` is true, because they compare the edit
            with the source; empty for the template of the others.
        exact: Whether to score as the official code does: every question is asked, and a reply is
            right only if it equals `expected` exactly. Otherwise case, quotes and a final full stop
            do not matter, and a reply that is none of the options is unparsable.
        in_line: Whether the options stand in one line, separated by commas, as in the official
            code. Some options hold commas, so by default each has its own line.
    """

    name: ClassVar[str] = "multiple_choice"
    template_parameters: ClassVar[tuple[str, ...]] = ("prompt", "comparing")
    exact: bool = False
    comparing: str = ""
    in_line: bool = False

    def questions(self, item: Item) -> tuple[Question, ...]:
        """Return the item's questions that are put to the judge, in their order."""
        return tuple(self._question(item, one) for one in item.questions if self._is_asked(one))

    def reads(self, item: Item) -> frozenset[str]:
        """Return the fields that the templates show; only comparing questions show the source."""
        templates = (self._template(item, question) for question in item.questions)
        return list_shown_fields(templates) | {"questions"}

    def spec(self) -> Mapping[str, object]:
        """Return the parameters, and the contract that parses a reply."""
        contract = Verbatim if self.exact else Option
        return {**super().spec(), "reads": f"{contract.name}.{contract.parser}"}

    @property
    def asks_for_choices(self) -> bool:
        """Whether the options are choices; the official code compares any reply."""
        return not self.exact

    @staticmethod
    def can_be_won(question: Mapping[str, Any], *, exact: bool) -> bool:
        """Whether the right answer is among the options.

        Args:
            question: It has `options` and `answer`, and `expected` if the official answer is
                written in another way.
            exact: Whether the reply must equal `expected` exactly.
        """
        return MultipleChoice._due(question, exact=exact) in question["options"]

    @staticmethod
    def _due(question: Mapping[str, Any], *, exact: bool) -> str:
        due: str = question.get("expected", question["answer"]) if exact else question["answer"]
        return due

    async def score(self, edit: Edit, panel: Panel, fields: frozenset[str]) -> Verdicts:
        """Ask each of the item's questions concurrently."""
        judge, item = panel.judge(self.service), edit.item

        async def ask(question: Mapping[str, Any]) -> tuple[dict[str, Any], list[Answer[str]]]:
            due = self._due(question, exact=self.exact)
            evidence = {
                "question": question["question"],
                "due": due,
                "can_be_won": self.can_be_won(question, exact=self.exact),
            }
            if not self._is_asked(question):
                return {**evidence, "right": False}, []
            asks, texts = self._question(item, question), self._texts(question)
            reply: Answer[str] = await asks.ask(edit, judge, repeat=self.repeat, **texts)
            return {**evidence, "answer": reply.value, "right": reply.value == due}, [reply]

        results = await gather_all(*map(ask, item.questions))
        answers = [evidence for evidence, _ in results]
        share = sum(answer["right"] for answer in answers) / len(answers)
        calls = merge_calls(reply for _, replies in results for reply in replies)
        verdict = _make_score(share, {"answers": answers}, calls)
        is_imputed = not all(replies for _, replies in results)
        return {"correct": verdict.model_copy(update={"imputed": is_imputed})}

    def _is_asked(self, question: Mapping[str, Any]) -> bool:
        return self.exact or self.can_be_won(question, exact=False)

    def _question(self, item: Item, question: Mapping[str, Any]) -> Question:
        form = Verbatim() if self.exact else Option(tuple(question["options"]))
        return Question(self._template(item, question), form)

    def _template(self, item: Item, question: Mapping[str, Any]) -> Template:
        compares = self.comparing and question.get("compares", False)
        return self.template_of(self.comparing) if compares else self.template_for(item)

    def _texts(self, question: Mapping[str, Any]) -> dict[str, str]:
        if self.in_line:  # as released, a blank one among them
            options = ", ".join(question.get("in_line", question["options"]))
        else:
            options = "\n".join(question["options"])
        return {"question": question["question"], "options": options}


@dataclass(frozen=True)
class FactCheck(JudgeScorer):
    """Whether every fact that the instruction implies holds (Omni IIE Bench, section 5.1).

    Field `correct`: 1 if the judge chooses True for every question-answer pair, 0 if it chooses
    False for at least one; higher is better. The pairs are the item's own. If it has none, the
    judge generates them from the instruction alone.

    Attributes:
        prompt: Asks whether one pair is right for the edited image.
        pairs_prompt: Generates pairs; its contract is `question_answers`.
    """

    name: ClassVar[str] = "fact_check"
    template_parameters: ClassVar[tuple[str, ...]] = ("prompt", "pairs_prompt")
    pairs_prompt: str

    def questions(self, item: Item) -> tuple[Question, ...]:
        """Return the check of all pairs, after the prompt that generates missing pairs."""
        check = self.template_for(item)
        if item.questions:
            return (Question(check, check.choices, len(item.questions)),)
        writing = self.template_of(self.pairs_prompt)
        contract = get_contract(writing, QuestionAnswers)
        return Question(writing, contract), Question(check, check.choices, contract.count_high)

    def reads(self, item: Item) -> frozenset[str]:
        """Return `questions`, and the fields that the templates show.

        The template that generates pairs counts only if the item has none.
        """
        prompt_names = (self.prompt,) if item.questions else (self.prompt, self.pairs_prompt)
        return list_shown_fields(map(self.template_of, prompt_names)) | {"questions"}

    async def score(self, edit: Edit, panel: Panel, fields: frozenset[str]) -> Verdicts:
        """Generate pairs if the item has none, then check all of them concurrently."""
        judge = panel.judge(self.service)
        *writing, check = self.questions(edit.item)
        pair_answers = [await question.ask(edit, judge, repeat=self.repeat) for question in writing]
        pairs: list[Mapping[str, str]] = [
            {"question": pair["question"], "answer": pair["answer"]} for pair in edit.item.questions
        ]
        pairs += [pair._asdict() for answer in pair_answers for pair in answer.value]
        answers = await gather_all(*(check.ask(edit, judge, repeat=self.repeat, **pair) for pair in pairs))
        shares = [*map(first_share, answers)]
        facts = [{**pair, "true": share} for pair, share in zip(pairs, shares, strict=True)]
        evidence = {"facts": facts, "generated": bool(pair_answers)}
        holds = all(share > 0.5 for share in shares)
        return {"correct": _make_score(float(holds), evidence, merge_calls([*pair_answers, *answers]))}


def first_share(answer: Answer[ChoiceDistribution]) -> float:
    """Return the probability of the first choice (the edit is right), 0..1."""
    return next(iter(answer.value.probabilities.values()))


def _make_score(value: float, evidence: Mapping[str, Any], calls: tuple[str, ...]) -> Score:
    return Score(value=value, evidence=dict(evidence), calls=calls)
