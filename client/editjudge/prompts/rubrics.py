"""Rubrics of one's own: a criterion and a scale in a TOML file, which becomes a prompt.

Among templates of one's own they lie in the folder `rubric`: `rubric/light.toml` replaces nothing,
it is a dimension more, `rubric.light`. So a run keeps, sends and compares them as it does those.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from ..answers import ScoreField, Scores
from ..base.errors import ConfigError
from ..base.parse import parse_toml
from . import Template, templates

FOLDER = "rubric"
SCORE = "score"
_LARGEST = 64 * 1024
_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
_KEYS: Mapping[str, type] = {
    "asks": str,
    "criterion": str,
    "shows": list,
    "higher_is_better": bool,
    "scale": dict,
}
_TYPES = {str: "a text", list: "a list of texts", bool: "true or false", dict: "a table"}
_SHOWN: Mapping[str, str] = {
    "sources": "{sources}",
    "edited": "{edited}",
    "target": "{target}",
    "instruction": "What the editor was told:\n-----\n{instruction}\n-----\n",
    "target_text": "The text that it was to write:\n-----\n{target_text}\n-----\n",
    "hint": "What is known about it:\n-----\n{hint}\n-----\n",
}
"""How each thing that a rubric may show stands in the prompt, in this order: images first."""
_USUAL = ["sources", "edited", "instruction"]
_HIGHEST = 1000
_SYSTEM_OF = "core/instruction_following"


@dataclass(frozen=True)
class RubricTemplate(Template):
    """The prompt of a rubric, whose dimension is made of it.

    Attributes:
        low: The lowest number of the scale, itself allowed.
        high: The highest, itself allowed.
        higher_is_better: Direction of the scale.
    """

    low: int = 0
    high: int = 1
    higher_is_better: bool = True

    @property
    def dimension(self) -> str:
        """Id of its dimension: `rubric.light` of `rubric/light`."""
        return self.name.replace("/", ".")


def rubrics_among(custom: Iterable[Template]) -> tuple[RubricTemplate, ...]:
    """The rubrics among templates of one's own."""
    return tuple(template for template in custom if isinstance(template, RubricTemplate))


def rubric_files(paths: Iterable[Path]) -> dict[str, str]:
    """The texts of rubrics, as they lie among templates of one's own.

    Raises:
        ConfigError: a file cannot be read or used, or two have the same name.
    """
    files: dict[str, str] = {}
    for path in paths:
        name = f"{FOLDER}/{path.stem}.toml"
        if name in files:
            raise ConfigError(f"two rubrics are called {path.stem}", "rename one of the files")
        files[name] = _text(path)
        rubric(name.removesuffix(".toml"), files[name], str(path))
    return files


def _text(path: Path) -> str:
    if path.suffix != ".toml":
        raise ConfigError(f"{path} is no rubric", "a rubric is a file <name>.toml")
    try:
        with path.open("rb") as file:
            content = file.read(_LARGEST + 1)
        if len(content) > _LARGEST:
            raise ConfigError(f"{path} is larger than 64 KiB", "it is no rubric")
        return content.decode("utf-8")
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}", "check the path") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} cannot be read: {error}", "save it as UTF-8") from error


def rubric(name: str, text: str, place: str) -> RubricTemplate:
    """The prompt that a rubric becomes.

    Args:
        name: `rubric/<file>`, without the suffix.
        text: Its TOML.
        place: The file, for errors.

    Raises:
        ConfigError: it cannot be used; names file, line and mend.
    """
    _check_name(name.partition("/")[2], place)
    try:
        declared = parse_toml(text)
    except ValueError as error:
        raise ConfigError(f"{place}: {error}", "mend its TOML") from error
    read = _Read(declared, text, place)
    read.check_keys()
    labels = read.scale()
    steps = "\n".join(f"- {number}: {labels[number]}" for number in sorted(labels, reverse=True))
    shown = "".join(text for key, text in _SHOWN.items() if key in read.shows())
    words = "\n\n".join((declared["asks"].strip(), declared["criterion"].strip(), steps))
    low, high = min(labels), max(labels)
    return RubricTemplate(
        name=name,
        asks=declared["asks"].strip(),
        source="a rubric of one's own",
        system=templates()[_SYSTEM_OF].system,
        user=shown + words.replace("{", "{{").replace("}", "}}"),
        contract=Scores((ScoreField(SCORE, low, high),)),
        origin="custom",
        low=low,
        high=high,
        higher_is_better=declared.get("higher_is_better", True),
    )


def _check_name(name: str, place: str) -> None:
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"{place}: {name!r} can be no part of a dimension's name",
            "call the file by small letters, digits and _, at most 40, a letter first",
        )


@dataclass(frozen=True)
class _Read:
    """A rubric while it is looked at; errors name the line of a key."""

    declared: Mapping[str, Any]
    text: str
    place: str

    def refuse(self, key: str, what: str, mend: str) -> NoReturn:
        lines = self.text.splitlines()
        begins = re.compile(rf"""\s*\[?\s*["']?{re.escape(key)}["']?\s*[=\].]""")
        at = next((f":{n}" for n, line in enumerate(lines, 1) if begins.match(line)), "")
        raise ConfigError(f"{self.place}{at}: {what}", mend)

    def check_keys(self) -> None:
        for key, value in self.declared.items():
            if key not in _KEYS:
                self.refuse(key, f"there is no key {key}", f"there is {', '.join(_KEYS)}")
            if not isinstance(value, _KEYS[key]):
                kind = _TYPES[_KEYS[key]]
                self.refuse(key, f"{key} is not {kind}", f"write it as {kind}")
        for key in ("asks", "criterion", "scale"):
            if key not in self.declared:
                raise ConfigError(f"{self.place} lacks {key}", "see docs/own.md")
        for key in ("asks", "criterion"):
            if not self.declared[key].strip():
                self.refuse(key, f"{key} is empty", "write what is to be judged")
        if len(self.declared["asks"].strip().splitlines()) > 1:
            self.refuse("asks", "asks has several lines", "write one question; the rest: criterion")

    def shows(self) -> list[str]:
        shows: list[Any] = self.declared.get("shows", _USUAL)
        for name in shows:
            if not isinstance(name, str) or name not in _SHOWN:
                what = f"nothing that can be shown is called {name!r}"
                self.refuse("shows", what, f"there is {', '.join(_SHOWN)}")
        if "edited" not in shows:
            self.refuse("shows", "the edited image is not shown", 'add "edited"')
        return shows

    def scale(self) -> dict[int, str]:
        """What each labelled number means."""
        labels: dict[int, str] = {}
        for key, label in self.declared["scale"].items():
            if not re.fullmatch(r"-?(0|[1-9]\d{0,3})", key) or abs(int(key)) > _HIGHEST:
                mend = f"write whole numbers up to {_HIGHEST:,}, each with what it means"
                self.refuse(key, f"{key} is no number of a scale", mend)
            if not isinstance(label, str) or not label.strip():
                self.refuse(key, f"{key} of the scale has no words", f'write {key} = "…"')
            labels[int(key)] = " ".join(label.split())
        if len(labels) < 2:
            mend = "say at least what the lowest and the highest number mean"
            self.refuse("scale", "the scale has no two ends", mend)
        return labels
