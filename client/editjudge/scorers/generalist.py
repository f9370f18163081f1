"""Judging by questions to a multimodal LLM."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar

from ..answers import Option, OutputContract, ScoresAnswer, Verbatim
from ..dimension import ServiceScorer
from ..item import Edit, Item
from ..panel.generalist import Answer, Generalist, merged
from ..prompts import Template, template
from ..prompts.originals import OriginalPrompt
from ..verdict import Scored, Verdict
from .asking import ask

if TYPE_CHECKING:
    from ..config import GeneralistEndpoint
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
        originals: The authors' prompts among those that are named.
    """

    service: str
    prompt: str
    by_task: tuple[tuple[str, str], ...] = field(default=(), kw_only=True)
    repeat: int = field(default=0, kw_only=True)
    originals: tuple[OriginalPrompt, ...] = field(default=(), kw_only=True)

    @property
    def template(self) -> Template:
        """The template of tasks that have none of their own."""
        return self.template_of(self.prompt)

    def template_of(self, name: str) -> Template:
        """A template by name, the authors' or ours.

        Raises:
            ConfigError: it is the authors' and was not imported.
            KeyError: there is none of this name.
        """
        theirs = {one.name: one for one in self.originals}
        return theirs[name].template if name in theirs else template(name)

    def prompt_of(self, item: Item) -> str:
        """The name of the template for an item: that of its task."""
        return dict(self.by_task).get(item.task, self.prompt)

    @property
    def templates(self) -> Mapping[str, Template]:
        """All its templates, by parameter; those of tasks as `task.<task>`."""
        own = {
            f.name: self.template_of(getattr(self, f.name))
            for f in fields(self)
            if f.name == "prompt" or f.name.endswith("_prompt")
        }
        return own | {f"task.{task}": self.template_of(name) for task, name in self.by_task}

    def asked(self, service: str, repeat: int) -> Asking:
        """Of the judge, another one's."""
        return replace(self, service=service, repeat=repeat) if self.service == JUDGE else self

    def asks(self, item: Item) -> Mapping[str, int]:
        """How often it asks each template about one edit, at most; for estimates."""
        return {self.prompt_of(item): 1}

    def choices(self, item: Item) -> frozenset[str]:
        """Those templates of `asks` that are answered by a choice (`Generalist.choose`)."""
        return frozenset()

    def replies(self, item: Item, endpoint: GeneralistEndpoint) -> Mapping[str, int]:
        """As `asks`, where a judge's settings have several replies averaged; for estimates.

        A choice is sampled `repeats` times by a judge that tells no probabilities, which is only
        found out by asking.
        """
        choices = self.choices(item)
        return {
            name: times * (endpoint.repeats if name in choices else 1)
            for name, times in self.asks(item).items()
        }

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
            f.name: getattr(self, f.name)
            for f in fields(self)
            if f.name not in {"by_task", "originals"}
        }
        for name, one in self.templates.items():
            if not name.startswith("task."):
                given[name] = _words_of(one)
        if self.by_task:
            pairs = ((task, _words_of(self.template_of(name))) for task, name in self.by_task)
            given["by_task"] = grouped(pairs)
        return given


@dataclass(frozen=True)
class Weighted(Asking):
    """The mean weight of the choices under their probabilities, as the field `score`.

    Attributes:
        weights: By choice, in the order in which they are offered.
    """

    weights: ClassVar[Mapping[str, float]]

    def choices(self, item: Item) -> frozenset[str]:
        """The one that it asks."""
        return frozenset(self.asks(item))

    async def score(
        self, edit: Edit, panel: Panel, wanted: frozenset[str]
    ) -> Mapping[str, Verdict]:
        """Ask once."""
        judge = panel.generalist(self.service)
        prompt = ask(self.template_of(self.prompt_of(edit.item)), edit, judge)
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

    def choices(self, item: Item) -> frozenset[str]:
        """The questions are generated once; each is answered by a choice."""
        return frozenset({self.question_prompt})

    async def score(
        self, edit: Edit, panel: Panel, wanted: frozenset[str]
    ) -> Mapping[str, Verdict]:
        """Generate the questions, then ask them side by side."""
        judge = panel.generalist(self.service)
        asking = self.template_of(self.prompt_of(edit.item))
        generated = await judge.answer(
            ask(asking, edit, judge), _contract(asking), repeat=self.repeat
        )
        questions: Sequence[str] = generated.value
        said = await asyncio.gather(
            *(
                judge.choose(
                    ask(self.template_of(self.question_prompt), edit, judge, question=one),
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

    @staticmethod
    def averaged(endpoint: GeneralistEndpoint) -> int:
        """How many replies a score is the mean of; a greedy judge says the same each time."""
        return endpoint.repeats if endpoint.temperature else 1

    def replies(self, item: Item, endpoint: GeneralistEndpoint) -> Mapping[str, int]:
        """Each as often as scores are averaged."""
        each = self.averaged(endpoint)
        return {name: times * each for name, times in self.asks(item).items()}

    async def score(
        self, edit: Edit, panel: Panel, wanted: frozenset[str]
    ) -> Mapping[str, Verdict]:
        """Ask once, or `repeats` times."""
        judge = panel.generalist(self.service)
        asking = self.template_of(self.prompt_of(edit.item))
        contract = _contract(asking)
        prompt = ask(asking, edit, judge)
        repeats = self.averaged(judge.endpoint)
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
    """Whether the judge picks the right option (GIE-Bench, section 3.5).

    Field `correct`, the share of the item's questions that are answered as the item says: 0
    or 1 for one question, higher is better. The options stand in the item's order.

    A question whose right answer is no option cannot be won. It counts as wrong, is not asked,
    and its evidence says so; the number is marked as imputed.

    Attributes:
        comparing: Template for questions that compare with the source, which say so
            (`compares`); none for the same as the others.
        exact: As the released code has it: every question is asked, the reply is taken to the
            letter and is right where it equals the answer that is `expected`; any other is wrong.
            Otherwise case, quotes and a final full stop do not matter, and a reply that is no
            option is unparsable.
        in_line: The options stand in one line, commas between them, as in the released code;
            some hold commas themselves, so otherwise each has a line of its own.
    """

    name: ClassVar[str] = "multiple_choice"
    exact: bool = False
    comparing: str = ""
    in_line: bool = False

    @property
    def templates(self) -> Mapping[str, Template]:
        """With the one for questions that compare."""
        more = {"comparing": self.template_of(self.comparing)} if self.comparing else {}
        return {**super().templates, **more}

    def asks(self, item: Item) -> Mapping[str, int]:
        """Each of the item's questions that is asked."""
        return Counter(self._template(item, one) for one in item.questions if self._is_asked(one))

    def spec(self) -> Mapping[str, object]:
        """The parameters, and how a reply is read."""
        contract = Verbatim if self.exact else Option
        return {**super().spec(), "reads": f"{contract.name}.{contract.parser}"}

    @staticmethod
    def can_be_won(question: Mapping[str, Any], *, exact: bool) -> bool:
        """Whether a judge that replies with an option can be right.

        Args:
            question: Has `options` and `answer`, and `expected` where that was written otherwise.
            exact: The reply must equal what is expected, to the letter.
        """
        due = question.get("expected", question["answer"]) if exact else question["answer"]
        return due in question["options"]

    async def score(
        self, edit: Edit, panel: Panel, wanted: frozenset[str]
    ) -> Mapping[str, Verdict]:
        """Ask each of the item's questions."""
        judge = panel.generalist(self.service)
        questions = edit.item.questions
        asked = [one for one in questions if self._is_asked(one)]
        said = await asyncio.gather(*(self._ask(edit, judge, one) for one in asked))
        replies = iter(said)
        answers = [
            self._answered(one, next(replies) if self._is_asked(one) else None) for one in questions
        ]
        evidence = {
            "answers": answers,
            **({"judge": said[0].evidence["judge"]} if said else {}),
            **merged(said),
        }
        share = sum(one["right"] for one in answers) / len(answers)
        imputed = len(asked) < len(questions)
        verdict = _scored(share, evidence)
        return {"correct": verdict.model_copy(update={"imputed": imputed})}

    def _is_asked(self, question: Mapping[str, Any]) -> bool:
        return self.exact or self.can_be_won(question, exact=False)

    def _template(self, item: Item, question: Mapping[str, Any]) -> str:
        compares = self.comparing and question.get("compares", False)
        return self.comparing if compares else self.prompt_of(item)

    async def _ask(self, edit: Edit, judge: Generalist, question: Mapping[str, Any]) -> Answer[str]:
        options = tuple(question["options"])
        asking = self.template_of(self._template(edit.item, question))
        listed = (", " if self.in_line else "\n").join(options)
        prompt = ask(asking, edit, judge, question=question["question"], options=listed)
        reads = Verbatim() if self.exact else Option(options)
        return await judge.answer(prompt, reads, repeat=self.repeat)

    def _answered(self, question: Mapping[str, Any], said: Answer[str] | None) -> dict[str, Any]:
        due = question["answer"]
        if self.exact:
            due = question.get("expected", due)
        found = {
            "question": question["question"],
            "due": due,
            "can_be_won": self.can_be_won(question, exact=self.exact),
        }
        if said is None:
            return {**found, "right": False}
        return {**found, "answer": said.value, "right": said.value == due}


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

    def choices(self, item: Item) -> frozenset[str]:
        """Pairs are generated once; each is checked by a choice."""
        return frozenset({self.prompt_of(item)})

    async def score(
        self, edit: Edit, panel: Panel, wanted: frozenset[str]
    ) -> Mapping[str, Verdict]:
        """Generate pairs where the item has none, then check each."""
        judge = panel.generalist(self.service)
        pairs, generated = await self._pairs(edit, judge)
        asking = self.template_of(self.prompt_of(edit.item))
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
        pairs = self.template_of(self.pairs_prompt)
        generated = await judge.answer(
            ask(pairs, edit, judge), _contract(pairs), repeat=self.repeat
        )
        return generated.value, [generated]


def grouped(pairs: Iterable[tuple[str, str]]) -> str:
    """Tasks with what is used for each, those that share it together, for specs."""
    found: dict[str, list[str]] = {}
    for task, text in pairs:
        found.setdefault(text, []).append(task)
    return ";".join(f"{'+'.join(tasks)}:{text}" for text, tasks in found.items())


def _words_of(one: Template) -> str:
    return f"{one.name}({one.origin},{one.digest[:15]})"


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
