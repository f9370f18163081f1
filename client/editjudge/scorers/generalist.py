"""Judging by questions to a multimodal LLM."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar

from ..answers import Option, OutputContract, ScoresAnswer
from ..dimension import ServiceScorer
from ..errors import Abstained
from ..item import Edit, Item
from ..panel.generalist import Answer, Generalist
from ..prompts import Template, template
from ..verdict import Scored, Verdict
from .asking import ask

if TYPE_CHECKING:
    from ..panel import Panel

LEVELS: Mapping[str, float] = {
    "excellent": 1.0,
    "good": 0.75,
    "fair": 0.5,
    "poor": 0.25,
    "bad": 0.0,
}
"""Weights of the five levels (I2I-Bench, eq. 1)."""
JUDGE = "generalist.judge"


@dataclass(frozen=True)
class Asking(ServiceScorer):
    """What the scorers here share: a prompt template, asked of a generalist.

    Attributes:
        service: `generalist.<name>`.
        prompt: Name of the template.
        by_task: Tasks whose items are asked about with another one, as (task, template).
        repeat: From 0, among judgements that are made several times.
    """

    service: str
    prompt: str
    by_task: tuple[tuple[str, str], ...] = field(default=(), kw_only=True)
    repeat: int = field(default=0, kw_only=True)

    @property
    def template(self) -> Template:
        """The template of tasks that have none of their own."""
        return template(self.prompt)

    def prompt_of(self, item: Item) -> str:
        """The name of the template for an item: that of its task."""
        return dict(self.by_task).get(item.task, self.prompt)

    @property
    def templates(self) -> Mapping[str, Template]:
        """All its templates, by parameter; those of tasks as `task.<task>`."""
        own = {
            f.name: template(getattr(self, f.name))
            for f in fields(self)
            if f.name == "prompt" or f.name.endswith("_prompt")
        }
        return own | {f"task.{task}": template(name) for task, name in self.by_task}

    def asked(self, service: str, repeat: int) -> Asking:
        """Of the judge, another one's."""
        return replace(self, service=service, repeat=repeat) if self.service == JUDGE else self

    def asks(self, item: Item) -> Mapping[str, int]:
        """How often it asks each template about one edit, at most; for estimates."""
        return {self.prompt_of(item): 1}

    def calls(self, item: Item, wanted: frozenset[str]) -> Mapping[str, int]:
        """As many as it asks."""
        return {self.service: sum(self.asks(item).values())}

    @property
    def words(self) -> frozenset[str]:
        """Whose words its templates are in."""
        return frozenset(one.origin for one in self.templates.values())

    def spec(self) -> Mapping[str, object]:
        """The parameters, each template with its digest and whose words it is in."""
        given: dict[str, object] = {
            f.name: getattr(self, f.name) for f in fields(self) if f.name != "by_task"
        }
        for name, one in self.templates.items():
            if not name.startswith("task."):
                given[name] = _words_of(one)
        tasks: dict[str, list[str]] = {}
        for task, name in self.by_task:
            tasks.setdefault(_words_of(template(name)), []).append(task)
        if tasks:
            given["by_task"] = ";".join(f"{'+'.join(of)}:{one}" for one, of in tasks.items())
        return given


@dataclass(frozen=True)
class Weighted(Asking):
    """The mean weight of the choices under their probabilities, as the field `score`.

    Attributes:
        weights: By choice, in the order in which they are offered.
    """

    weights: ClassVar[Mapping[str, float]]

    async def score(
        self, edit: Edit, panel: Panel, wanted: frozenset[str]
    ) -> Mapping[str, Verdict]:
        """Ask once."""
        judge = panel.generalist(self.service)
        prompt = ask(template(self.prompt_of(edit.item)), edit, judge)
        said = await judge.choose(prompt, tuple(self.weights), repeat=self.repeat)
        return {"score": _scored(said.value.expectation(self.weights), said.evidence)}


@dataclass(frozen=True)
class FiveLevel(Weighted):
    """The expected level over {excellent, good, fair, poor, bad} (I2I-Bench, eq. 1).

    Field `score` = sum of w_i P(c_i) with w = 1, 0.75, 0.5, 0.25, 0; in [0, 1], higher is
    better.
    """

    name: ClassVar[str] = "five_level"
    weights: ClassVar[Mapping[str, float]] = LEVELS


@dataclass(frozen=True)
class YesNo(Weighted):
    """The probability of Yes, normalised over {Yes, No} (I2I-Bench, eq. 4).

    Field `score`, in [0, 1], higher is better.
    """

    name: ClassVar[str] = "yes_no"
    weights: ClassVar[Mapping[str, float]] = {"Yes": 1.0, "No": 0.0}


@dataclass(frozen=True)
class QuestionList(Asking):
    """The share of generated questions whose answer is Yes (I2I-Bench, eq. 3).

    Field `score`, in [0, 1], higher is better. The questions depend on sources and
    instruction only, so every model under test gets the same ones. An answer is Yes where
    it is the likelier of the two.

    Attributes:
        prompt: Generates the questions.
        question_prompt: Asks one of them about the edited image.
    """

    name: ClassVar[str] = "question_list"
    question_prompt: str

    def asks(self, item: Item) -> Mapping[str, int]:
        """For the questions, then each of them; they are 5 to 7."""
        return {self.prompt_of(item): 1, self.question_prompt: 7}

    async def score(
        self, edit: Edit, panel: Panel, wanted: frozenset[str]
    ) -> Mapping[str, Verdict]:
        """Generate the questions, then ask them side by side."""
        judge = panel.generalist(self.service)
        asking = template(self.prompt_of(edit.item))
        generated = await judge.answer(
            ask(asking, edit, judge), _contract(asking), repeat=self.repeat
        )
        questions: Sequence[str] = generated.value
        said = await asyncio.gather(
            *(
                judge.choose(
                    ask(template(self.question_prompt), edit, judge, question=one),
                    ("Yes", "No"),
                    repeat=self.repeat,
                )
                for one in questions
            )
        )
        shares = [one.value.probabilities["Yes"] for one in said]
        evidence = {
            "questions": [
                {"question": question, "yes": share, "outside": one.value.outside}
                for question, share, one in zip(questions, shares, said, strict=True)
            ],
            "judge": generated.evidence["judge"],
            "method": said[0].value.method,
            **merged([generated, *said]),
        }
        return {"score": _scored(sum(share > 0.5 for share in shares) / len(shares), evidence)}


@dataclass(frozen=True)
class Rubric(Asking):
    """Scores that the judge writes down after its reasoning, one or several in one call.

    Fields and their scale are the contract's: 1..5 in KRIS-Bench (section 4) and in I2I-Bench's
    text style, 0..10 in Co-EditEval. Where replies are sampled at a temperature, the mean of
    `repeats` replies.
    """

    name: ClassVar[str] = "rubric"

    async def score(
        self, edit: Edit, panel: Panel, wanted: frozenset[str]
    ) -> Mapping[str, Verdict]:
        """Ask once, or `repeats` times."""
        judge = panel.generalist(self.service)
        asking = template(self.prompt_of(edit.item))
        contract = _contract(asking)
        prompt = ask(asking, edit, judge)
        repeats = judge.endpoint.repeats if judge.endpoint.temperature else 1
        first = self.repeat * repeats
        said: list[Answer[ScoresAnswer]] = await asyncio.gather(
            *(judge.answer(prompt, contract, repeat=first + i) for i in range(repeats))
        )
        return {
            name: _scored(
                math.fsum(one.value.scores[name] for one in said) / len(said),
                _rubric_evidence(said, name),
            )
            for name in said[0].value.scores
        }


@dataclass(frozen=True)
class MultipleChoice(Asking):
    """Whether the judge picks the right option (GIE-Bench, section 3.4).

    Field `correct`, the share of the item's questions that are answered as the item says: 0
    or 1 for one question. The options stand in the item's order.

    Attributes:
        exact: The reply must equal the option to the letter, as in the released code;
            otherwise case, quotes and a final full stop do not matter.
    """

    name: ClassVar[str] = "multiple_choice"
    exact: bool = False

    def asks(self, item: Item) -> Mapping[str, int]:
        """Each of the item's questions."""
        return {self.prompt_of(item): len(item.questions)}

    async def score(
        self, edit: Edit, panel: Panel, wanted: frozenset[str]
    ) -> Mapping[str, Verdict]:
        """Ask each of the item's questions."""
        judge = panel.generalist(self.service)
        said = await asyncio.gather(
            *(self._ask(edit, judge, question) for question in edit.item.questions)
        )
        right = [
            one.value == question["answer"]
            for one, question in zip(said, edit.item.questions, strict=True)
        ]
        evidence = {
            "answers": [
                {"question": q["question"], "answer": one.value, "due": q["answer"]}
                for q, one in zip(edit.item.questions, said, strict=True)
            ],
            "judge": said[0].evidence["judge"],
            **merged(said),
        }
        return {"correct": _scored(sum(right) / len(right), evidence)}

    async def _ask(self, edit: Edit, judge: Generalist, question: Mapping[str, Any]) -> Answer[str]:
        options = tuple(question["options"])
        if question["answer"] not in options:
            raise Abstained("degenerate", f"the right answer is none of the options: {options}")
        asking = template(self.prompt_of(edit.item))
        listed = ", ".join(options)
        prompt = ask(asking, edit, judge, question=question["question"], options=listed)
        return await judge.answer(prompt, Option(options, exact=self.exact), repeat=self.repeat)


@dataclass(frozen=True)
class FactCheck(Asking):
    """Whether every fact that the instruction implies holds (Omni IIE Bench, section 5.1).

    Field `correct`: 1 when the judge says True of all question-answer pairs, 0 when one is
    False (one strike). The pairs are the item's own; where it has none they are generated from
    the instruction alone, 1 to 3 of them.

    Attributes:
        prompt: Asks whether one pair is right for the edited image.
        pairs_prompt: Generates pairs.
    """

    name: ClassVar[str] = "fact_check"
    pairs_prompt: str

    def asks(self, item: Item) -> Mapping[str, int]:
        """The item's pairs, or for pairs and then each of them; they are 1 to 3."""
        if item.questions:
            return {self.prompt_of(item): len(item.questions)}
        return {self.pairs_prompt: 1, self.prompt_of(item): 3}

    async def score(
        self, edit: Edit, panel: Panel, wanted: frozenset[str]
    ) -> Mapping[str, Verdict]:
        """Generate pairs where the item has none, then check each."""
        judge = panel.generalist(self.service)
        pairs, generated = await self._pairs(edit, judge)
        asking = template(self.prompt_of(edit.item))
        said = await asyncio.gather(
            *(
                judge.choose(
                    ask(asking, edit, judge, question=question, answer=answer),
                    ("True", "False"),
                    repeat=self.repeat,
                )
                for question, answer in pairs
            )
        )
        holds = [one.value.probabilities["True"] > 0.5 for one in said]
        evidence = {
            "facts": [
                {"question": q, "answer": a, "true": one.value.probabilities["True"]}
                for (q, a), one in zip(pairs, said, strict=True)
            ],
            "generated": bool(generated),
            "judge": said[0].evidence["judge"],
            **merged([*generated, *said]),
        }
        return {"correct": _scored(float(all(holds)), evidence)}

    async def _pairs(
        self, edit: Edit, judge: Generalist
    ) -> tuple[Sequence[tuple[str, str]], list[Answer[Any]]]:
        if edit.item.questions:
            return [(q["question"], q["answer"]) for q in edit.item.questions], []
        pairs = template(self.pairs_prompt)
        generated = await judge.answer(
            ask(pairs, edit, judge), _contract(pairs), repeat=self.repeat
        )
        return generated.value, [generated]


def _words_of(one: Template) -> str:
    return f"{one.name}({one.origin},{one.digest[:15]})"


def merged(said: Sequence[Answer[Any]]) -> dict[str, Any]:
    """What several answers took together, and the calls that they rest on."""
    each = [one.evidence["usage"] for one in said]
    costs = [usage["cost"] for usage in each if usage["cost"] is not None]
    counted = ("calls", "prompt_tokens", "cached_tokens", "completion_tokens")
    usage = {name: sum(one[name] for one in each) for name in counted}
    calls = [key for one in said for key in one.evidence.get("calls", [one.evidence.get("call")])]
    return {
        "usage": usage | {"cost": math.fsum(costs) if costs else None},
        "calls": [key for key in dict.fromkeys(calls) if key],
    }


def _contract(one: Template) -> OutputContract[Any]:
    if one.contract is None:
        raise ValueError(f"prompt {one.name} has choices where a contract is due")
    return one.contract


def _rubric_evidence(said: Sequence[Answer[ScoresAnswer]], name: str) -> dict[str, Any]:
    first = said[0]
    if len(said) == 1:
        return first.evidence | {"reasoning": first.value.reasoning}
    return {
        "values": [one.value.scores[name] for one in said],
        "replies": [one.evidence.get("reply") for one in said],
        "judge": first.evidence["judge"],
        **merged(said),
    }


def _scored(value: float, evidence: Mapping[str, Any]) -> Scored:
    return Scored.model_validate({"value": value, "evidence": dict(evidence)})
