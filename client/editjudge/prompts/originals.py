"""The authors' own prompts: found in their released files by digest, kept by the user.

They are not ours to ship. Whoever has the authors' release imports them from it; a text that
differs in one byte is another prompt, and not taken. An `OriginalPrompt` says how one of them
is asked: nothing of ours is added to it.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import string
import tomllib
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from platformdirs import user_data_path

from ..answers import OutputContract
from ..digest import content_digest
from ..errors import ConfigError
from ..panel.prompt import Part, Prompt, Text
from . import Template, Value, _add

_SUFFIXES = frozenset({".py", ".json", ".jsonl", ".txt", ".md", ".toml", ".yaml", ".yml", ""})
_LARGEST = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Originals:
    """The prompts of one release.

    Attributes:
        name: What `prompts import` calls them.
        source: Where the authors published them, and under what licence.
        texts: sha256 by file name.
    """

    name: str
    source: str
    texts: Mapping[str, str]

    @property
    def folder(self) -> Path:
        """Where they are kept once imported."""
        return prompts_dir() / self.name

    @property
    def imported(self) -> bool:
        """Whether all of them are there, byte for byte."""
        return all(
            (path := self.folder / name).is_file() and _digest(path.read_bytes()) == digest
            for name, digest in self.texts.items()
        )

    def text(self, name: str) -> str:
        """One of them.

        Args:
            name: Of its file.

        Raises:
            ConfigError: it was not imported, or is not as it was published.
        """
        found = _kept(self.folder / name, self.texts[name])
        if found is None:
            raise ConfigError(
                f"the authors' prompts of {self.name} are not imported",
                f"editjudge prompts import {self.name} --from PATH, with a copy of {self.source}",
            )
        return found


@dataclass(frozen=True, slots=True)
class Labels:
    """What stands before each image, as the authors wrote it.

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


@dataclass(frozen=True)
class OriginalTemplate(Template):
    """One of the authors' prompts, which says itself how the answer must look.

    Attributes:
        labels: Of its images.
    """

    labels: Labels = Labels()

    @property
    def answer(self) -> str:
        """Nothing is added to the authors' words."""
        return ""

    @property
    def digest(self) -> str:
        """As of any template; labels shape the question too."""
        return content_digest(f"{super().digest} {self.labels}".encode())

    def prompt(self, values: Mapping[str, Value]) -> Prompt:
        """The prompt for one edit: their text, and each image after its label."""
        parts: list[Part] = []
        for literal, name, _, _ in string.Formatter().parse(self.user):
            _add(parts, literal)
            value = values[name] if name else ()
            if isinstance(value, str):
                parts.append(Text(value, data=True))
                continue
            for one in value:
                _add(parts, one.label)
                parts.append(one.picture)
        return Prompt(self.system, tuple(parts))


@dataclass(frozen=True, slots=True)
class OriginalPrompt:
    """How one of the authors' texts is asked.

    Attributes:
        name: As templates are called, `<release>/<name>`.
        release: Which authors' prompts it is of.
        file: The name that its text is kept under.
        asks: The question in one line.
        source: Paper and figure.
        images: Our fields for the images after the text, in order.
        labels: Of these images.
        contract: The form that the text asks for; what reads a reply strictly.
        fields: Ours by the names of its own fields in braces; None where the released code
            sends the text as it stands, with doubled braces.
        system: The name that the text of the system turn is kept under; empty for none.
        images_first: The images stand before the text.
    """

    name: str
    release: str
    file: str
    asks: str
    source: str
    images: tuple[str, ...]
    labels: Labels
    contract: OutputContract[Any]
    fields: tuple[tuple[str, str], ...] | None = ()
    system: str = ""
    images_first: bool = False

    @property
    def template(self) -> OriginalTemplate:
        """As a template.

        Raises:
            ConfigError: a text was not imported.
        """
        texts = originals()[self.release]
        system = texts.text(self.system) if self.system else ""
        return _template(self, texts.text(self.file), system)

    def with_our_fields(self, text: str) -> str:
        """The text in the form of our templates, without its images."""
        if self.fields is None:
            return _escaped(text)
        ours = dict(self.fields)
        return "".join(
            _escaped(literal) + ("" if name is None else f"{{{ours[name]}}}")
            for literal, name, _, _ in string.Formatter().parse(text)
        )


def prompts_dir() -> Path:
    """Where imported prompts lie: `EDITJUDGE_PROMPTS_DIR`, or the user's data folder."""
    given = os.environ.get("EDITJUDGE_PROMPTS_DIR")
    return Path(given) if given else user_data_path("editjudge") / "prompts"


@cache
def originals() -> Mapping[str, Originals]:
    """All releases whose prompts can be imported, by name."""
    declared = tomllib.loads((files(__package__ or "") / "originals.toml").read_text("utf-8"))
    return {name: Originals(name, one["source"], one["texts"]) for name, one in declared.items()}


def import_originals(name: str, source: Path) -> dict[str, Path]:
    """Find the prompts of a release in a file or folder, and keep them.

    Args:
        source: The authors' repository, or any file or folder that holds the texts.

    Returns:
        Where each was found. All are kept, or none.

    Raises:
        ConfigError: the name is not known, there is nothing at `source`, or a text is not in it.
    """
    if name not in originals():
        raise ConfigError(f"no prompts are called {name!r}", f"known: {', '.join(originals())}")
    if not source.exists():
        raise ConfigError(f"{source}: no such file or folder", "check the path")
    wanted = originals()[name]
    found: dict[str, tuple[Path, bytes]] = {}
    for path, text in _texts(source):
        for file, digest in wanted.texts.items():
            if file not in found and _digest(text) == digest:
                found[file] = (path, text)
    if missing := [file for file in wanted.texts if file not in found]:
        raise ConfigError(
            f"{source} does not hold {', '.join(missing)} as the authors published them",
            f"give their release: {wanted.source}",
        )
    try:
        wanted.folder.mkdir(parents=True, exist_ok=True)
        for file, (_, text) in found.items():
            (wanted.folder / file).write_bytes(text)
    except OSError as error:
        raise ConfigError(
            f"{wanted.folder} cannot be written: {error.strerror}", "set EDITJUDGE_PROMPTS_DIR"
        ) from error
    return {file: path for file, (path, _) in found.items()}


@lru_cache(256)
def _template(one: OriginalPrompt, text: str, system: str) -> OriginalTemplate:
    turn = [one.with_our_fields(text), *(f"{{{images}}}" for images in one.images)]
    if one.images_first:
        turn = [*turn[1:], turn[0]]
    return OriginalTemplate(
        name=one.name,
        asks=one.asks,
        source=one.source,
        system=system,
        user="".join(turn),
        contract=one.contract,
        origin="original",
        labels=one.labels,
    )


def _escaped(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


def _kept(path: Path, digest: str) -> str | None:
    """An imported text; None where it is not there, or not as it was published."""
    if not path.is_file():
        return None
    data = path.read_bytes()
    return data.decode("utf-8") if _digest(data) == digest else None


def _texts(source: Path) -> Iterator[tuple[Path, bytes]]:
    """Every text that may be a prompt, in the order of the files' names."""
    paths = sorted(source.rglob("*")) if source.is_dir() else [source]
    for path in paths:
        if not path.is_file() or path.suffix.lower() not in _SUFFIXES:
            continue
        if path.stat().st_size > _LARGEST:
            continue
        data = path.read_bytes()
        yield path, data
        yield path, data.rstrip(b"\r\n")
        for text in _strings(path.suffix.lower(), data):
            yield path, text.encode("utf-8", "surrogatepass")


def _strings(suffix: str, data: bytes) -> Iterator[str]:
    """The strings in a Python or JSON file, f-strings as templates; nothing is run."""
    try:
        if suffix == ".py":
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of the file's own escapes
                tree = ast.parse(data)
            for node in ast.walk(tree):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield node.value
                elif isinstance(node, ast.JoinedStr):
                    yield _as_template(node)
        elif suffix == ".json":
            yield from _json_strings(json.loads(data))
    except (SyntaxError, ValueError, RecursionError):
        return


def _as_template(node: ast.JoinedStr) -> str:
    """An f-string in the form of `str.format`, its expressions in the braces of fields."""
    return "".join(
        f"{{{ast.unparse(part.value)}}}"
        if isinstance(part, ast.FormattedValue)
        else _escaped(ast.literal_eval(part))
        for part in node.values
    )


def _json_strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from _json_strings(one)
    elif isinstance(value, list):
        for one in value:
            yield from _json_strings(one)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
