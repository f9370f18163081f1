"""Rubrics: scores that a judge writes down after its reasoning."""

import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Any, ClassVar

from PIL import Image as Pil

from ..answers.first_digit import FirstDigit
from ..answers.scores import Scores, ScoresAnswer
from ..base.errors import Abstention
from ..base.images import Image, load_image
from ..base.item import Edit, Item
from ..base.threads import in_thread
from ..base.verdict import NoScore, Score, Verdict, Verdicts
from ..panel import Panel
from ..panel.coalesce import gather_all
from ..panel.judge import Answer, merge_calls
from ..prompts import Template
from .judge_scorer import JudgeScorer, Question, get_contract, group_tasks

JPEG_QUALITY = 85
_Answers = Sequence[Answer[ScoresAnswer]]


@dataclass(frozen=True)
class Rubric(JudgeScorer):
    """Scores that the judge writes down after its reasoning, one or several in one call.

    Fields and their scale are the contract's: 1..5 in KRIS-Bench (section 4) and in I2I-Bench's
    text style, 0..10 in Co-EditEval. Where replies are sampled at a temperature, the mean of
    `samples` replies.
    """

    name: ClassVar[str] = "rubric"

    def questions(self, item: Item) -> tuple[Question, ...]:
        """Return one question: the template of the item's task, whose contract is `scores`."""
        template = self.template_for(item)
        return (Question(template, get_contract(template, Scores)),)

    def prepare_edit(self, edit: Edit) -> Edit:
        """Return the edit as the judge sees it."""
        return edit

    async def score(self, edit: Edit, panel: Panel, fields: frozenset[str]) -> Verdicts:
        """Ask the judge once, or `samples` times and take the mean."""
        judge = panel.judge(self.service)
        (question,) = self.questions(edit.item)
        if self.reads_pixels:
            edit = await in_thread(self.prepare_edit, edit)
        else:
            edit = self.prepare_edit(edit)
        samples = question.max_samples(judge.endpoint)
        each = range(self.repeat * samples, (self.repeat + 1) * samples)
        answers: _Answers = await gather_all(*(question.ask(edit, judge, repeat=i) for i in each))
        values = [answer.value for answer in answers]
        names = dict.fromkeys(name for value in values for name in (*value.scores, *value.without))
        return {name: _verdict(answers, name, question.template) for name in names}


@dataclass(frozen=True)
class OfficialRubric(Rubric):
    """A rubric that follows official code, each departure from the paper by itself.

    Fields and scale are those of `Rubric`. A reply may give some of its scores and lack others.

    Attributes:
        readers: What reads replies instead of the prompt's own contract, as (task, reader); the
            task `""` stands for all that are not named. Empty for the contract.
        untold: The judge gets an empty text for instruction and explanation.
        jpeg: Tasks whose images are encoded again, as JPEG of quality 85.
    """

    name: ClassVar[str] = "released_rubric"
    readers: tuple[tuple[str, FirstDigit], ...] = field(default=(), kw_only=True)
    untold: bool = field(default=False, kw_only=True)
    jpeg: tuple[str, ...] = field(default=(), kw_only=True)

    def questions(self, item: Item) -> tuple[Question, ...]:
        """The template of the item's task, read by the reader of the task where there is one."""
        readers = dict(self.readers)
        reader = readers.get(item.task, readers.get(""))
        return (Question(self.template_for(item), reader),) if reader else super().questions(item)

    @property
    def reads_pixels(self) -> bool:
        """True if images of some task are encoded again as JPEG."""
        return bool(self.jpeg)

    @property
    def reads_words(self) -> bool:
        """False if the official readers read all replies."""
        return not self.readers and super().reads_words

    def spec(self) -> Mapping[str, object]:
        """The parameters, with the digests of templates and readers."""
        readers = ((task or "others", f"{r.name}({r.digest[:15]})") for task, r in self.readers)
        return {**super().spec(), "readers": group_tasks(readers)}

    def prepare_edit(self, edit: Edit) -> Edit:
        """Return the edit without texts if `untold`, with JPEG images if its task is in `jpeg`."""
        item = edit.item
        if self.untold:
            item = replace(item, instruction="", hint="")
        if item.task not in self.jpeg:
            return replace(edit, item=item)
        sources = tuple(map(_as_jpeg, item.sources))
        return replace(edit, item=replace(item, sources=sources), image=_as_jpeg(edit.output))


def _as_jpeg(image: Image) -> Image:
    buffer = io.BytesIO()
    try:
        Pil.fromarray(image.rgb).save(buffer, "JPEG", quality=JPEG_QUALITY)
    except OSError as error:  # more than 65,535 pixels on a side
        what = f"{PurePath(image.name).name} cannot be a JPEG: {error}"
        raise Abstention("degenerate", what) from error
    return load_image(buffer.getvalue(), image.name)


def _verdict(answers: _Answers, name: str, template: Template) -> Verdict:
    """Return the mean score of the replies; one reply without the score leaves no score."""
    evidence, calls = _evidence(answers, name), merge_calls(answers)
    values = [answer.value for answer in answers]
    for value in values:
        if name in value.without:
            why = value.without[name]
            return NoScore(kind="unparsable", reason=why, evidence=evidence, calls=calls)
    mean = math.fsum(value.scores[name] for value in values) / len(values)
    final_score = template.rescale(name, mean)
    if final_score != mean:
        evidence["on_the_prompts_scale"] = mean
    return Score(value=final_score, evidence=evidence, calls=calls)


def _evidence(answers: _Answers, name: str) -> dict[str, Any]:
    """Return the evidence; `read_as` names the parser's step that found the score."""
    values = [answer.value for answer in answers]
    steps = [value.steps.get(name) for value in values if value.steps or value.without]
    read = {"read_as": steps[0] if len(steps) == 1 else steps} if steps else {}
    if len(answers) == 1:
        return {**answers[0].evidence, **read}
    return {"values": [value.scores.get(name) for value in values], **read}
