"""The question that a judge answers about an edit, and the base class of scorers with questions."""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from itertools import chain
from typing import Any, ClassVar, Self, TypeAlias, TypeVar

from ..answers.contract import OutputContract
from ..answers.words import WORDS
from ..base.config import JudgeEndpoint
from ..base.identity import JUDGE
from ..base.images import Image
from ..base.item import Edit, Item
from ..base.text import group_by_key
from ..panel.choices import LABELS
from ..panel.judge import Answer, Judge
from ..panel.prompt import Picture, Prompt
from ..panel.words import digest_form
from ..prompts import ORIGINAL, ReplyForm, Template, Value, get_template
from ..prompts.official_prompts import OfficialPrompt
from .scorer import ServiceScorer

C = TypeVar("C", bound=OutputContract[Any])
_LabelledPictures: TypeAlias = "tuple[tuple[str, Picture], ...]"
_ITEM_FIELDS = {"sources": "source", "frames": "source"}


@dataclass(frozen=True, slots=True)
class Question:
    """A question to a judge about one edit.

    Attributes:
        template: The prompt template.
        form: Form of the reply: one of several choices, or a text that a contract parses.
        count: The most times that the question is asked about one edit. It is above 1 if each
            time has other texts.
    """

    template: Template
    form: ReplyForm
    count: int = 1

    def max_samples(self, endpoint: JudgeEndpoint) -> int:
        """The most replies that are averaged each time the question is asked.

        For choices, replies are sampled only if the judge reports no probabilities, which the first
        call finds out. Scores are averaged only if the temperature is above 0, because a greedy
        judge repeats itself.

        Args:
            endpoint: The judge's settings.
        """
        if isinstance(self.form, OutputContract):
            is_averaged = self.form.is_averaged and not endpoint.is_greedy
            return endpoint.samples if is_averaged else 1
        return endpoint.samples

    def max_calls(self, endpoint: JudgeEndpoint | None) -> int:
        """The most calls that the question takes about one edit.

        Args:
            endpoint: The judge's settings; None counts one reply each time.
        """
        return self.count * (1 if endpoint is None else self.max_samples(endpoint))

    async def ask(self, edit: Edit, judge: Judge, *, repeat: int = 0, **texts: str) -> Answer[Any]:
        """Ask the judge the question about an edit.

        Args:
            edit: The edit.
            judge: The judge.
            repeat: Index of the repetition. Calls with different indexes are not shared.
            texts: Values of template fields that do not come from the edit.

        Returns:
            An answer with a `ChoiceDistribution` for choices, else with the contract's value.

        Raises:
            Abstained: See `Judge.choose` and `Judge.answer`.
            ServiceError: See `editjudge.base.errors`.
            ValueError: See `make_prompt`.
        """
        prompt = make_prompt(self.template, edit, judge.prepare_picture, **texts)
        if isinstance(self.form, OutputContract):
            limit = self.template.max_tokens
            return await judge.answer(prompt, self.form, repeat=repeat, max_tokens=limit)
        return await judge.choose(prompt, self.form, repeat=repeat)


@dataclass(frozen=True)
class JudgeScorer(ServiceScorer):
    """Base class of scorers that ask a judge questions.

    A subclass implements `questions`, whose result estimates count, and `score`, which asks them.

    Attributes:
        template_parameters: Names of the fields that hold a template's name.
        service: Name of the judge's service.
        prompt: Name of the template.
        by_task: Tasks with a template of their own, as (task, template).
        repeat: Index of the repetition, from 0, if the judge scores an edit several times.
        official: The official prompts among the scorer's templates.
        custom: Custom templates that replace some of the scorer's.
    """

    template_parameters: ClassVar[tuple[str, ...]] = ("prompt",)

    service: str
    prompt: str
    by_task: tuple[tuple[str, str], ...] = field(default=(), kw_only=True)
    repeat: int = field(default=0, kw_only=True)
    official: tuple[OfficialPrompt, ...] = field(default=(), kw_only=True)
    custom: tuple[Template, ...] = field(default=(), kw_only=True)

    @property
    def reads_pixels(self) -> bool:
        """False, because the scorer sends the images undecoded."""
        return False

    @abstractmethod
    def questions(self, item: Item) -> tuple[Question, ...]:
        """Return the questions about one edit of an item.

        Args:
            item: The item; its images may be placeholders.

        Raises:
            ConfigError: A template is an official prompt that was not imported.
            TypeError: A template has another form of reply than this scorer reads.
            ValueError: The item's own questions are not valid.
        """

    @property
    def template(self) -> Template:
        """The template of tasks without one of their own."""
        return self.template_of(self.prompt)

    @property
    def templates(self) -> tuple[Template, ...]:
        """Every template that the scorer may use."""
        return tuple(map(self.template_of, self._names))

    @property
    def _names(self) -> tuple[str, ...]:
        """Names of all templates that the scorer may use."""
        names = (getattr(self, parameter) for parameter in self.template_parameters)
        return tuple(name for name in (*names, *(name for _, name in self.by_task)) if name)

    def template_of(self, name: str) -> Template:
        """Return a template by name: a custom one, else an official one, else a built-in one.

        Raises:
            ConfigError: The template is an official prompt that was not imported.
            KeyError: No template has this name.
        """
        for own in self.custom:
            if own.name == name:
                return own
        for prompt in self.official:
            if prompt.name == name:
                return prompt.template
        return get_template(name)

    def template_for(self, item: Item) -> Template:
        """Return the template of an item's task."""
        return self.template_of(dict(self.by_task).get(item.task, self.prompt))

    def reads(self, item: Item) -> frozenset[str]:
        """Return the item's fields that the templates show."""
        names = (getattr(self, name) for name in self.template_parameters if name != "prompt")
        templates = (self.template_for(item), *(self.template_of(name) for name in names if name))
        return list_shown_fields(templates)

    def with_judge(self, service: str, repeat: int) -> Self:
        """Return the scorer with another judge; a scorer with a judge of its own keeps it."""
        return replace(self, service=service, repeat=repeat) if self.service == JUDGE else self

    def with_templates(self, custom: Iterable[Template]) -> Self:
        """Return the scorer with those custom templates that replace one of its own."""
        return replace(self, custom=tuple(one for one in custom if one.name in self._names))

    def calls(self, item: Item, fields: frozenset[str]) -> Mapping[str, int]:
        """Return the number of calls to the judge, one for each time that a question is asked."""
        return {self.service: sum(question.count for question in self.questions(item))}

    @property
    def prompt_origins(self) -> frozenset[str]:
        """The origins of the templates."""
        return frozenset(template.origin for template in self.templates)

    def spec(self) -> Mapping[str, object]:
        """Return the parameters, with the origin and digest of each template.

        `labels` is the version of the labels that stand for choices, if a template has any, `again`
        the form in which choices are asked for once more; `words` is the version in which words
        beside an answer are read.
        """
        parameters: dict[str, object] = {
            f.name: getattr(self, f.name) for f in fields(self) if f.name not in {"by_task", "official", "custom"}
        }
        for parameter in self.template_parameters:
            if parameters[parameter]:
                parameters[parameter] = self._describe_template(str(parameters[parameter]))
        if self.by_task:
            pairs = ((task, self._describe_template(name)) for task, name in self.by_task)
            parameters["by_task"] = group_tasks(pairs)
        if any(template.choices for template in self.templates):
            parameters["labels"] = LABELS
        if self.asks_for_choices:
            parameters["again"] = digest_form()
        if self.reads_words:
            parameters["words"] = WORDS
        return parameters

    @property
    def asks_for_choices(self) -> bool:
        """Whether a template has choices."""
        return any(template.choices for template in self.templates)

    @property
    def reads_words(self) -> bool:
        """Whether a reply's words beside its answer decide whether it is one."""
        return any(t.choices or (t.contract and t.contract.reads_words) for t in self.templates)

    def _describe_template(self, name: str) -> str:
        """Return a template as it stands in `spec`: its name, origin and digest."""
        template = self.template_of(name)
        return f"{template.name}({template.origin},{template.digest[:15]})"


def list_shown_fields(templates: Iterable[Template]) -> frozenset[str]:
    """Return the names of the item's fields that the templates show.

    `sources` and `frames` both count as `source`, the name that an item's flaws use.
    """
    fields_ = {name for template in templates for name in template.fields}
    return frozenset(_ITEM_FIELDS.get(name, name) for name in fields_)


def get_contract(template: Template, kind: type[C]) -> C:
    """Return a template's contract.

    Raises:
        TypeError: The template has choices, or a contract of another kind.
    """
    if not isinstance(template.contract, kind):
        raise TypeError(f"prompt {template.name} does not ask for {kind.name}")
    return template.contract


def group_tasks(pairs: Iterable[tuple[str, str]]) -> str:
    """Return tasks and the text used for each as one string, grouped by the text."""
    tasks_of = group_by_key((text, task) for task, text in pairs)
    return ";".join(f"{'+'.join(tasks)}:{text}" for text, tasks in tasks_of.items())


def make_prompt(template: Template, edit: Edit, picture: Callable[[Image], Picture], **texts: str) -> Prompt:
    """Fill a template with the texts and images of an edit.

    In official prompts a text that the item lacks is empty.

    Args:
        template: The template.
        edit: The edit.
        picture: A function that prepares an image for the judge.
        texts: Values of template fields that do not come from the edit.

    Raises:
        ValueError: The template needs a text or image that the item lacks. The dimension's `needs`
            prevents this.
    """
    item = edit.item

    def label_images(kind: str, images: Iterable[tuple[int, Image | None]]) -> _LabelledPictures:
        label = template.label(kind, len(item.sources))
        return tuple((label.format(n=n), picture(image)) for n, image in images if image)

    def frames() -> _LabelledPictures:
        # `position`, from 1, is where the edited image stands among the others.
        each: list[tuple[str, Image | None]] = [("given", image) for image in item.sources]
        each.insert(int(item.extra.get("position", len(each) + 1)) - 1, ("made", edit.image))
        labels = (label_images(kind, [(n, image)]) for n, (kind, image) in enumerate(each, 1))
        return tuple(chain.from_iterable(labels))

    providers: dict[str, Any] = {
        "sources": lambda: label_images("source", enumerate(item.sources, 1)),
        "frames": frames,
        "edited": lambda: label_images("edited", [(1, edit.image)]),
        "target": lambda: label_images("target", [(1, item.target)]),
        "instruction": lambda: item.instruction,
        "hint": lambda: item.hint,
        "target_text": lambda: item.target_text,
    }
    values: dict[str, Value] = {}
    absent = dict(template.absent)
    for name in template.fields:
        value = texts[name] if name in texts else providers[name]()
        if not value and name in absent:
            continue
        if value is None and template.origin == ORIGINAL:
            value = ""
        if value is None or (value == () and template.origin != ORIGINAL):
            raise ValueError(f"prompt {template.name} needs {name}, which {item.id} lacks")
        values[name] = value
    return template.make_prompt(values)
