"""Rubrics of the user: a criterion and a scale in a TOML file, from which a prompt is made.

They stand in the folder `rubric` among the custom templates, so a run stores, sends and compares
them like those. `rubric/light.toml` replaces no template but adds the dimension `rubric.light`.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

from pydantic import AfterValidator, StrictBool

from ..answers.scores import ScoreField, Scores
from ..base.errors import ConfigError
from ..base.parse import package_tables
from ..base.prompt_releases import escape_braces
from ..base.strict import Strict
from . import Template, load_templates
from .prompt_files import Words, parse_file, read_text

FOLDER = "rubric"
SCORE = "score"
_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
ShownField: TypeAlias = Literal["sources", "edited", "target", "instruction", "target_text", "hint"]
_FIELD_TEXTS: Mapping[str, str] = package_tables(__package__, "rubric_fields.toml")
"""Text of each field that a rubric may show, in the order of the prompt: images first."""
_HIGHEST = 1000
_SYSTEM_OF = "core/instruction_following"


def _check_question(asks: str) -> str:
    if len(asks.splitlines()) > 1:
        raise ValueError("asks has several lines; write one question, the rest as criterion")
    return asks


def _check_shown(shows: tuple[ShownField, ...]) -> tuple[ShownField, ...]:
    if "edited" not in shows:
        raise ValueError('the edited image is not shown; add "edited"')
    return shows


def _check_scale(scale: dict[str, str]) -> dict[str, str]:
    for key in scale:
        if not re.fullmatch(r"-?(0|[1-9]\d{0,3})", key) or abs(int(key)) > _HIGHEST:
            raise ValueError(f"{key} is no number of a scale; write whole numbers up to {_HIGHEST:,}")
    if len(set(map(int, scale))) < 2:
        raise ValueError("the scale has no two ends; say what its lowest and highest mean")
    return scale


class RubricFile(Strict):
    """Content of a rubric's TOML file."""

    asks: Annotated[Words, AfterValidator(_check_question)]
    criterion: Words
    shows: Annotated[tuple[ShownField, ...], AfterValidator(_check_shown)] = ("sources", "edited", "instruction")
    higher_is_better: StrictBool = True
    rubric_first: StrictBool = False
    scale: Annotated[dict[str, Words], AfterValidator(_check_scale)]


@dataclass(frozen=True)
class RubricTemplate(Template):
    """The prompt made from a rubric; a dimension is made from it.

    Attributes:
        low: The lowest number of the scale.
        high: The highest number of the scale.
        higher_is_better: Direction of the scale.
    """

    low: int = 0
    high: int = 1
    higher_is_better: bool = True

    @property
    def dimension(self) -> str:
        """Id of the dimension: `rubric.light` for `rubric/light`."""
        return self.name.replace("/", ".")


def list_rubric_ids(files: Iterable[str]) -> tuple[str, ...]:
    """List the ids of the dimensions that the rubrics among some files add."""
    rubrics = (name for name in files if name.startswith(f"{FOLDER}/"))
    return tuple(name.removesuffix(".toml").replace("/", ".") for name in rubrics)


def select_rubrics(custom: Iterable[Template]) -> tuple[RubricTemplate, ...]:
    """Return the rubrics among custom templates."""
    return tuple(template for template in custom if isinstance(template, RubricTemplate))


def load_rubric_files(paths: Iterable[Path]) -> dict[str, str]:
    """Load the texts of rubrics, by their paths among custom templates (`rubric/<name>.toml`).

    Raises:
        ConfigError: A file cannot be read or is not valid, or two have the same name.
    """
    files: dict[str, str] = {}
    for path in paths:
        name = f"{FOLDER}/{path.stem}.toml"
        if name in files:
            raise ConfigError(f"two rubrics are called {path.stem}", "rename one of the files")
        files[name] = read_text(path)
        make_rubric(name.removesuffix(".toml"), files[name], str(path))
    return files


def make_rubric(name: str, text: str, place: str) -> RubricTemplate:
    """Make the prompt of a rubric.

    Args:
        name: `rubric/<file>`, without the suffix.
        text: The TOML text of the file.
        place: Path of the file, for error messages.

    Raises:
        ConfigError: The rubric is not valid. The message names the file, the line and the fix.
    """
    file = name.partition("/")[2]
    if not _NAME.fullmatch(file):
        raise ConfigError(
            f"{place}: {file!r} can be no part of a dimension's name",
            "call the file by small letters, digits and _, at most 40, a letter first",
        )
    read = parse_file(RubricFile, text, place)
    labels = {int(key): " ".join(label.split()) for key, label in read.scale.items()}
    steps = "\n".join(f"- {number}: {labels[number]}" for number in sorted(labels, reverse=True))
    shown_fields = "".join(text for key, text in _FIELD_TEXTS.items() if key in read.shows)
    words = escape_braces("\n\n".join((read.asks, read.criterion, steps)))
    # A server computes words that are the same for all edits once, if nothing else is before them.
    user = f"{words}\n\n{shown_fields}" if read.rubric_first else shown_fields + words
    low, high = min(labels), max(labels)
    return RubricTemplate(
        name=name,
        asks=read.asks,
        source="a rubric of one's own",
        system=load_templates()[_SYSTEM_OF].system,
        user=user,
        contract=Scores((ScoreField(SCORE, low, high),)),
        origin="custom",
        low=low,
        high=high,
        higher_is_better=read.higher_is_better,
    )
