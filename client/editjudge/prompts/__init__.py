"""Prompt templates: one TOML file each, with the form of its answer.

A template's `user` text holds fields in braces. What an edit's fields may be: `sources`,
`edited`, `target` (images, each with its label), `frames` (sources and edited in the order of
time), `instruction`, `hint`, `target_text`; a scorer may give more (`question`). Values are
marked as data, so that they are never taken for control tokens. `[absent]` says what stands in
the place of a text that an item may lack. `[answer]` names the choices, or a contract of
`editjudge.answers` with its fields; how the answer must look is then added at the end, and
cannot drift from what is read. It also has `max_tokens` where a reply takes more than the usual.

A custom template replaces the built-in one of the same name (`prompts.custom_templates`). Official
prompts are made of the texts that a benchmark's authors released (`prompts.official_prompts`).

A folder's `system.txt` is the system text of its templates that have none of their own, and
images come first in `user`: calls about one edit then begin alike, which servers compute once.
"""

from __future__ import annotations

import json
import string
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import TYPE_CHECKING, Any, TypeAlias

from pydantic import Field

from ..answers import (
    Commands,
    MultipleChoiceQuestion,
    OneText,
    OutputContract,
    QuestionAnswers,
    Questions,
    ScoreField,
    Scores,
    ShortAnswer,
    Targets,
    Verbatim,
)
from ..base.digest import content_digest
from ..panel.choices import check_choices
from ..panel.prompt import Part, Prompt, Text
from ..panel.transport import MAX_TOKENS
from .prompt_files import PromptFile, Words, parse_file

if TYPE_CHECKING:
    from ..panel.prompt import Picture

ORIGINAL = "original"
"""The origin of official prompts."""
Value: TypeAlias = "str | tuple[tuple[str, Picture], ...]"
"""What a field of a template holds: a text, or images, each after its label."""
ReplyForm: TypeAlias = tuple[str, ...] | OutputContract[Any]
"""What a reply may be: one of several choices, or a text that a contract reads."""


def _scores(fields: list[dict[str, Any]], reasoning: Any = True, **more: Any) -> Scores:
    each = tuple(ScoreField(**field) for field in fields)
    texts = tuple(reasoning) if isinstance(reasoning, list) else reasoning
    return Scores(each, texts, **more)


_READERS = (
    Commands,
    Questions,
    QuestionAnswers,
    ShortAnswer,
    MultipleChoiceQuestion,
    OneText,
    Targets,
    Verbatim,
)
_CONTRACTS: Mapping[str, Callable[..., OutputContract[Any]]] = {
    "scores": _scores,
    **{reader.name: reader for reader in _READERS},
}


@dataclass(frozen=True, slots=True)
class Labels:
    """What stands before each image.

    Attributes:
        source: Of a source; `{n}` is its number.
        edited: Of the edited image.
        target: Of the ground truth.
        given: Of a frame that the editor was given; `{n}` is its place in time.
        made: Of the frame that it made.
    """

    source: str = ""
    edited: str = ""
    target: str = ""
    given: str = ""
    made: str = ""

    @property
    def texts(self) -> Mapping[str, str]:
        """Them by what they stand before."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


OUR_LABELS = Labels(
    "Source image", "Edited image", "Target image", "Frame {n} (given)", "Frame {n} (edited)"
)


class TemplateFile(PromptFile):
    """A template as it is written, ours or one's own."""

    user: Words
    system: str | None = None
    asks: str = ""
    source: str = ""
    answer: dict[str, Any] = Field(default_factory=dict)
    absent: dict[str, str] = Field(default_factory=dict)
    labels: Labels | None = None
    leaves_out: tuple[str, ...] = ()


@dataclass(frozen=True)
class Template:
    """One prompt template.

    Attributes:
        name: `<folder>/<file>` without the suffix.
        asks: The question in one line, for lists.
        source: The paper and section it follows.
        system: The system turn.
        user: The user turn, with fields in braces.
        choices: What the judge may answer; empty where there is a contract.
        contract: What reads the answer; None where there are choices.
        origin: `own` words of editjudge, those of an official prompt (`original`), or of whoever
            runs it (`custom`).
        absent: What stands for a field that an item lacks, as (field, text).
        labels: Of its images, to the letter; None for ours, each on a line of its own.
        says_form: Its own text says how the answer must look, so nothing is added.
        worth: What each choice counts, in [0, 1]; empty for even steps from 1 down to 0, as the
            choices stand from best to worst.
        onto: Scores by name are brought linearly onto the scales of these fields; none without.
        max_tokens: What a reply may take, for a judge whose settings have no limit of their own.
    """

    name: str
    asks: str
    source: str
    system: str
    user: str
    choices: tuple[str, ...] = ()
    contract: OutputContract[Any] | None = None
    origin: str = "own"
    absent: tuple[tuple[str, str], ...] = ()
    labels: Labels | None = None
    says_form: bool = False
    worth: tuple[float, ...] = ()
    onto: tuple[ScoreField, ...] = ()
    max_tokens: int = MAX_TOKENS

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of the fields that `user` holds."""
        names = (name for _, name, _, _ in string.Formatter().parse(self.user) if name)
        return tuple(dict.fromkeys(names))

    @property
    def form(self) -> ReplyForm:
        """What a reply may be."""
        return self.choices if self.contract is None else self.contract

    @property
    def answer(self) -> str:
        """How the answer must look, in words; empty where the template's own text says it."""
        if self.says_form:
            return ""
        if self.contract is not None:
            return self.contract.instruction
        return f"Answer with one of these words and nothing else: {', '.join(self.choices)}."

    @property
    def digest(self) -> str:
        """`sha256:` and 64 hex digits of all that shapes the question and its answer."""
        form = self.contract.spec() if self.contract else list(self.choices)
        shapes: list[object] = [self.system, self.user, self.answer, form]
        if self.absent:
            shapes.append(self.absent)
        if self.worth:
            shapes.append(self.worth)
        if self.max_tokens != MAX_TOKENS:
            shapes.append(self.max_tokens)
        text = json.dumps(shapes, sort_keys=True, ensure_ascii=False, default=str)
        digest = content_digest(text.encode())
        return digest if self.labels is None else content_digest(f"{digest} {self.labels}".encode())

    @property
    def weights(self) -> Mapping[str, float]:
        """What each choice counts."""
        last = max(1, len(self.choices) - 1)
        worth = self.worth or tuple(1 - i / last for i in range(len(self.choices)))
        return dict(zip(self.choices, worth, strict=True))

    def rescale(self, name: str, score: float) -> float:
        """A score as its dimension takes it: linearly from the template's scale onto its own."""
        scales = {field.name: field for field in self.onto}
        if name not in scales or not isinstance(self.contract, Scores):
            return score
        (from_scale,) = (field for field in self.contract.fields if field.name == name)
        to_scale = scales[name]
        share = (score - from_scale.low) / (from_scale.high - from_scale.low)
        return to_scale.low + share * (to_scale.high - to_scale.low)

    def label(self, kind: str, sources: int) -> str:
        """What stands before an image; `{n}` is its number.

        Args:
            kind: A field of `Labels`.
            sources: How many source images there are.
        """
        if self.labels is None and kind == "source" and sources > 1:
            return f"Source image {{n}} of {sources}"
        return str(getattr(self.labels or OUR_LABELS, kind))

    def make_prompt(self, values: Mapping[str, Value]) -> Prompt:
        """The prompt for one edit.

        Args:
            values: Of every field that is not `absent`; texts are data.

        Raises:
            KeyError: a field has no value.
        """
        parts: list[Part] = []
        absent = dict(self.absent)
        for literal, name, _, _ in string.Formatter().parse(self.user):
            _append_text(parts, literal)
            if name is None:
                continue
            if name not in values and name in absent:
                _append_text(parts, absent[name])
                continue
            value = values[name]
            if isinstance(value, str):
                parts.append(Text(value, is_data=True))
                continue
            for label, picture in value:
                _append_text(parts, label if self.labels else f"{label}:\n")
                parts.append(picture)
                _append_text(parts, "" if self.labels else "\n")
        _append_text(parts, f"\n{self.answer}" if self.answer else "")
        return Prompt(self.system, tuple(parts))


def get_template(name: str, custom: Iterable[Template] = ()) -> Template:
    """A template by name, for example `core/instruction_following`.

    Args:
        custom: Templates of one's own, which stand for ours.

    Raises:
        KeyError: there is none of this name.
    """
    by_name = {own_template.name: own_template for own_template in custom}
    return by_name.get(name) or load_templates()[name]


@cache
def load_templates() -> Mapping[str, Template]:
    """All templates by name."""
    by_name = {}
    for folder in sorted(_folders(), key=lambda folder: folder.name):
        system = folder / "system.txt"
        shared_system = system.read_text("utf-8").strip() if system.is_file() else ""
        for file in sorted(folder.iterdir(), key=lambda file: file.name):
            if file.name.endswith(".toml"):
                name = f"{folder.name}/{file.name.removesuffix('.toml')}"
                by_name[name] = _read_template(name, file, shared_system)
    return by_name


def _folders() -> list[Traversable]:
    return [one for one in files(__name__).iterdir() if one.is_dir() and one.name != "__pycache__"]


def _read_template(name: str, file: Traversable, shared_system: str) -> Template:
    file_content = parse_file(TemplateFile, file.read_text("utf-8"), f"prompt {name}")
    answer = dict(file_content.answer)
    max_tokens = answer.pop("max_tokens", MAX_TOKENS)
    choices, contract = parse_form(answer)
    return Template(
        name=name,
        asks=file_content.asks,
        source=file_content.source,
        system=(shared_system if file_content.system is None else file_content.system).strip(),
        user=file_content.user,
        choices=choices,
        contract=contract,
        absent=tuple(sorted(file_content.absent.items())),
        max_tokens=max_tokens,
    )


def parse_form(answer: dict[str, Any]) -> tuple[tuple[str, ...], OutputContract[Any] | None]:
    """The form that `[answer]` declares: choices, or a contract.

    Args:
        answer: `choices`, or `contract` with its fields.

    Raises:
        KeyError: there is no contract of this name.
        TypeError: the contract has no such field.
        ValueError: a field cannot be used.
    """
    if "choices" in answer:
        return check_choices(answer.pop("choices")), None
    return (), _CONTRACTS[answer.pop("contract")](**answer)


def _append_text(parts: list[Part], text: str) -> None:
    """Add template text, joined to template text before it."""
    if not text:
        return
    if parts and isinstance(parts[-1], Text) and not parts[-1].is_data:
        text = parts.pop().text + text  # type: ignore[union-attr]
    parts.append(Text(text))
