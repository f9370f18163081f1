"""Prompt templates: one TOML file each, with the form of the reply.

A template's `user` text holds fields in braces. These fields come from the edit: `sources`,
`edited`, `target` (images, each with its label), `frames` (sources and edited in the order of
time), `instruction`, `hint`, `target_text`. A scorer may supply more, such as `question`. Values
are marked as data, so that they are never taken for control tokens. `[absent]` gives the text that
replaces a field which an item lacks.

`[answer]` names the choices, or a contract of `editjudge.answers` with its fields. The instruction
for the reply is made from it and added at the end, so it always fits what the parser reads.
`[answer]` also has `max_tokens`, for replies that take more tokens than the default.

A custom template replaces the built-in one of the same name (`prompts.custom_templates`). Official
prompts are made of the texts that a benchmark's authors released (`prompts.official_prompts`).

A folder's `system.txt` is the system text of its templates that have none of their own. Images
come first in `user`. Calls about one edit then begin alike, so servers compute that part once.
"""

import json
import string
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import TYPE_CHECKING, Any, TypeAlias

from pydantic import Field

from ..answers.contract import OutputContract
from ..answers.questions import MultipleChoiceQuestion, QuestionAnswers, Questions
from ..answers.scores import ScoreField, Scores
from ..answers.segmentation import Commands, Targets
from ..answers.texts import OneText, Verbatim
from ..base.digest import content_digest
from ..base.errors import TextError
from ..base.strict import Strict
from ..panel.choices import check_choices
from ..panel.prompt import Part, Prompt, Text
from ..panel.transport import MAX_TOKENS
from .prompt_files import Words, parse_file

if TYPE_CHECKING:
    from ..panel.prompt import Picture

MAX_PROMPT_CHARACTERS = 256 * 1024
"""The most characters in the texts of a prompt, with those that come from an item."""
ORIGINAL = "original"
"""The origin of official prompts."""
Value: TypeAlias = "str | tuple[tuple[str, Picture], ...]"
"""Value of a field in a template: a text, or images with a label before each."""
ReplyForm: TypeAlias = tuple[str, ...] | OutputContract[Any]
"""Form of a reply: one of several choices, or a text that a contract parses."""


def _scores(fields: list[dict[str, Any]], reasoning: Any = True, **more: Any) -> Scores:
    each = tuple(ScoreField(**field) for field in fields)
    texts = tuple(reasoning) if isinstance(reasoning, list) else reasoning
    return Scores(each, texts, **more)


_READERS = (Commands, Questions, QuestionAnswers, MultipleChoiceQuestion, OneText, Targets, Verbatim)
_CONTRACTS: Mapping[str, Callable[..., OutputContract[Any]]] = {
    "scores": _scores,
    **{reader.name: reader for reader in _READERS},
}


@dataclass(frozen=True, slots=True)
class Labels:
    """Texts that stand before each image in a prompt.

    Attributes:
        source: Before a source; `{n}` is its number, from 1.
        edited: Before the edited image.
        target: Before the ground truth.
        given: Before a frame that the editor received; `{n}` is its place in time, from 1.
        made: Before the frame that the editor made.
    """

    source: str = ""
    edited: str = ""
    target: str = ""
    given: str = ""
    made: str = ""


OUR_LABELS = Labels("Source image", "Edited image", "Target image", "Frame {n} (given)", "Frame {n} (edited)")


class TemplateFile(Strict):
    """Content of a template's TOML file, built-in or custom."""

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
        choices: The replies among which the judge chooses; empty if there is a contract.
        contract: Parser of the reply; None if there are choices.
        origin: Whose words the template has: `own` (editjudge), `original` (an official prompt) or
            `custom` (the user).
        absent: Texts that replace fields which an item lacks, as (field, text).
        labels: Exact texts before its images. None for the built-in labels, each on its own line.
        says_form: Whether the template's own text says how the reply must look. Nothing is added
            then.
        worth: Value of each choice, in [0, 1]. Empty for even steps from 1 down to 0, for choices
            from best to worst.
        onto: Scales of the dimension, by score name. Scores are mapped linearly onto them; without
            any, they stay as they are.
        max_tokens: Token limit of a reply, for a judge whose settings have none.
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

    @cached_property
    def fields(self) -> tuple[str, ...]:
        """Names of the fields in `user`, each once, in order."""
        return tuple(dict.fromkeys(name for _, name in self._pieces if name))

    @cached_property
    def _pieces(self) -> tuple[tuple[str, str | None], ...]:
        return tuple((literal, name) for literal, name, _, _ in string.Formatter().parse(self.user))

    @property
    def form(self) -> ReplyForm:
        """The choices, or the contract."""
        return self.choices if self.contract is None else self.contract

    @cached_property
    def answer(self) -> str:
        """The instruction for the reply; empty if the template's own text has one."""
        if self.says_form:
            return ""
        if self.contract is not None:
            return self.contract.instruction
        return f"Answer with one of these words and nothing else: {', '.join(self.choices)}."

    @property
    def digest(self) -> str:
        """`sha256:` and 64 hex digits of all that shapes the prompt and how its reply is read."""
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
        """Value of each choice, in [0, 1]."""
        last = max(1, len(self.choices) - 1)
        worth = self.worth or tuple(1 - i / last for i in range(len(self.choices)))
        return dict(zip(self.choices, worth, strict=True))

    def rescale(self, name: str, score: float) -> float:
        """Map a score linearly from the template's scale onto the dimension's scale.

        Args:
            name: Name of the score.
            score: The score on the template's scale.
        """
        scales = {field.name: field for field in self.onto}
        if name not in scales or not isinstance(self.contract, Scores):
            return score
        (from_scale,) = (field for field in self.contract.fields if field.name == name)
        to_scale = scales[name]
        share = (score - from_scale.low) / (from_scale.high - from_scale.low)
        return to_scale.low + share * (to_scale.high - to_scale.low)

    def label(self, kind: str, sources: int) -> str:
        """Return the label of an image, in which `{n}` stands for its number.

        Args:
            kind: A field of `Labels`.
            sources: Number of source images.
        """
        if self.labels is None and kind == "source" and sources > 1:
            return f"Source image {{n}} of {sources}"
        return str(getattr(self.labels or OUR_LABELS, kind))

    def make_prompt(self, values: Mapping[str, Value]) -> Prompt:
        """Make the prompt for one edit.

        Args:
            values: Value of each field that has no text in `absent`. Texts are marked as data.

        Raises:
            KeyError: A field has no value.
            TextError: The prompt would be too long; the error names the longest field.
        """
        parts: list[Part] = []
        absent = dict(self.absent)
        self._check_length({**absent, **values})
        for literal, name in self._pieces:
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

    def _check_length(self, values: Mapping[str, Value]) -> None:
        """Compute the length of the prompt from those of its texts, before it is built."""
        lengths = Counter({"system": len(self.system), "answer": len(self.answer)})
        for literal, name in self._pieces:
            lengths["user"] += len(literal)
            value = values[name] if name else ""
            texts = (value,) if isinstance(value, str) else (label for label, _ in value)
            lengths[name or "user"] += sum(map(len, texts))
        if (length := lengths.total()) > MAX_PROMPT_CHARACTERS:
            longest = lengths.most_common(1)[0][0]
            reason = f"the prompt {self.name} would have {length:,} characters"
            fix = f"{MAX_PROMPT_CHARACTERS:,} are the most"
            raise TextError(longest, reason, fix)


def get_template(name: str, custom: Iterable[Template] = ()) -> Template:
    """Return a template by name, for example `core/instruction_following`.

    Args:
        name: `<folder>/<file>`.
        custom: Custom templates, which replace the built-in ones of the same name.

    Raises:
        KeyError: No template has this name.
    """
    by_name = {own_template.name: own_template for own_template in custom}
    return by_name.get(name) or _load_folder(name.partition("/")[0])[name]


@cache
def load_templates() -> Mapping[str, Template]:
    """All built-in templates by name."""
    folders = sorted(one.name for one in files(__name__).iterdir() if one.is_dir())
    return {name: template for folder in folders for name, template in _load_folder(folder).items()}


@cache
def _load_folder(name: str) -> Mapping[str, Template]:
    """The built-in templates of a folder by name: who asks for those of `core` reads no others."""
    folder = files(__name__) / name
    system = folder / "system.txt"
    shared_system = system.read_text("utf-8").strip() if system.is_file() else ""
    there = sorted(folder.iterdir(), key=lambda file: file.name) if folder.is_dir() else ()
    names = {f"{name}/{file.name.removesuffix('.toml')}": file for file in there if file.name.endswith(".toml")}
    return {each: read_template(each, file, shared_system) for each, file in names.items()}


def read_template(name: str, file: Traversable, shared_system: str) -> Template:
    """Read the TOML file of a template.

    Args:
        shared_system: System text of a template that has none of its own.
    """
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
        labels=file_content.labels,
        max_tokens=max_tokens,
    )


def parse_form(answer: dict[str, Any]) -> tuple[tuple[str, ...], OutputContract[Any] | None]:
    """Parse the table `[answer]`.

    Args:
        answer: `choices`, or `contract` with its fields. The keys are removed from it.

    Returns:
        The choices and None, or no choices and the contract.

    Raises:
        KeyError: No contract has this name.
        TypeError: The contract has no such field.
        ValueError: A value is not valid.
    """
    if "choices" in answer:
        return check_choices(tuple(answer.pop("choices"))), None
    return (), _CONTRACTS[answer.pop("contract")](**answer)


def _append_text(parts: list[Part], text: str) -> None:
    """Append template text, merged with template text that ends the list."""
    if not text:
        return
    if parts and isinstance(parts[-1], Text) and not parts[-1].is_data:
        text = parts.pop().text + text  # type: ignore[union-attr]
    parts.append(Text(text))
