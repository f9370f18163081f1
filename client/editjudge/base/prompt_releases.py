"""Official prompts: texts that a benchmark's authors released and the user imports.

Their licences do not allow us to ship them. A user imports them from a copy of the release. We
recognise each text by its SHA-256, so a text that differs in one byte is not accepted.
"""

import ast
import hashlib
import json
import os
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from platformdirs import user_data_path

from .errors import ConfigError
from .parse import describe_failure, package_tables

_SUFFIXES = frozenset({".py", ".json", ".jsonl", ".txt", ".md", ".toml", ".yaml", ".yml", ""})
_LARGEST = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class PromptRelease:
    """The prompts of one release.

    Attributes:
        name: Name of the release in `editjudge prompts import`.
        source: Where the authors published it, and under which licence.
        texts: SHA-256 of each text, by the name of the file that it is stored in.
    """

    name: str
    source: str
    texts: Mapping[str, str]

    @property
    def folder(self) -> Path:
        """The folder of the imported texts."""
        return prompts_dir() / self.name

    @property
    def is_imported(self) -> bool:
        """Whether all texts are imported, byte for byte."""
        return all(_read_imported(self.folder / name, digest) is not None for name, digest in self.texts.items())

    def text(self, name: str) -> str:
        """Read an imported text.

        Args:
            name: Name of its file.

        Raises:
            ConfigError: The text was not imported, or was changed since.
        """
        text = _read_imported(self.folder / name, self.texts[name])
        if text is None:
            raise ConfigError(
                f"the official prompts of {self.name} are not imported",
                f"editjudge prompts import {self.name} PATH, where PATH is a copy of {self.source}",
            )
        return text


def prompts_dir() -> Path:
    """The folder of imported prompts: `EDITJUDGE_PROMPTS_DIR`, or the user's data folder."""
    folder = os.environ.get("EDITJUDGE_PROMPTS_DIR")
    return Path(folder) if folder else user_data_path("editjudge") / "prompts"


@cache
def prompt_releases() -> Mapping[str, PromptRelease]:
    """All releases whose prompts can be imported, by name."""
    tables = package_tables(__package__, "prompt_releases.toml")
    return {name: PromptRelease(name, one["source"], one["texts"]) for name, one in tables.items()}


def import_official_prompts(name: str, source: Path) -> dict[str, Path]:
    """Find the prompts of a release in a file or folder, and store them.

    Args:
        name: The name of a release.
        source: A copy of the release, or any file or folder that holds the texts.

    Returns:
        The file in which each text was found, by the text's name. All texts are stored, or none.

    Raises:
        ConfigError: The name is unknown, `source` does not exist, it lacks a text, or the folder of
            imported prompts cannot be written.
    """
    releases = prompt_releases()
    if name not in releases:
        raise ConfigError(f"no release is called {name!r}", f"give {', '.join(releases)}")
    if not source.exists():
        raise ConfigError(f"{source}: no such file or folder", "check the path")
    release = releases[name]
    texts: dict[str, tuple[Path, bytes]] = {}
    for path, text in _texts(source):
        for file, digest in release.texts.items():
            if file not in texts and _digest(text) == digest:
                texts[file] = (path, text)
    if missing := [file for file in release.texts if file not in texts]:
        raise ConfigError(
            f"{source} does not hold {', '.join(missing)} as the authors published them",
            f"give their release: {release.source}",
        )
    try:
        release.folder.mkdir(parents=True, exist_ok=True)
        for file, (_, text) in texts.items():
            (release.folder / file).write_bytes(text)
    except OSError as error:
        raise ConfigError(
            f"{release.folder} cannot be written: {error.strerror}", "set EDITJUDGE_PROMPTS_DIR"
        ) from error
    return {file: path for file, (path, _) in texts.items()}


def escape_braces(text: str) -> str:
    """Double the braces of a text, so that `str.format` finds no field in it."""
    return text.replace("{", "{{").replace("}", "}}")


def _read_imported(path: Path, digest: str) -> str | None:
    """Read an imported text; None if it is missing or was changed."""
    return _text(path, path.stat().st_mtime_ns, digest) if path.is_file() else None


@lru_cache(256)
def _text(path: Path, change_time: int, digest: str) -> str | None:
    """Read a text and check its digest.

    Scorers ask for a text at every edit, so an unchanged file is read only once.

    Args:
        path: The file.
        change_time: When the file was last changed, in nanoseconds; it is part of the cache key.
        digest: SHA-256 of the text.
    """
    data = path.read_bytes()
    return data.decode("utf-8") if _digest(data) == digest else None


def _texts(source: Path) -> Iterator[tuple[Path, bytes]]:
    """List every text that may be a prompt, with its file, in the order of the file names."""
    paths = sorted(source.rglob("*")) if source.is_dir() else [source]
    for path in paths:
        if not path.is_file() or path.suffix.lower() not in _SUFFIXES:
            continue
        try:
            if path.stat().st_size > _LARGEST:
                continue
            data = path.read_bytes()
        except OSError as error:
            reason = f"{path} cannot be read: {describe_failure(error)}"
            raise ConfigError(reason, "make it readable, or take it out") from error
        yield path, data
        yield path, data.rstrip(b"\r\n")
        for text in _strings(path.suffix.lower(), data):
            yield path, text.encode("utf-8", "surrogatepass")


def _strings(suffix: str, data: bytes) -> Iterator[str]:
    """List the strings in a Python or JSON file, f-strings as templates; no code is run."""
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
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # the last: nested too deeply
        return


def _as_template(node: ast.JoinedStr) -> str:
    """Convert an f-string to a template of `str.format`, with its expressions as fields."""
    return "".join(
        f"{{{ast.unparse(part.value)}}}"
        if isinstance(part, ast.FormattedValue)
        else escape_braces(ast.literal_eval(part))
        for part in node.values
    )


def _json_strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list):
        for element in value.values() if isinstance(value, Mapping) else value:
            yield from _json_strings(element)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
