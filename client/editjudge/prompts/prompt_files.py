"""Find and read files of prompts, with an error for each that is not valid."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, TypeVar

from pydantic import StringConstraints, ValidationError

from ..base.errors import ConfigError
from ..base.parse import describe_failure, first_problem, parse_toml
from ..base.strict import Strict

SYSTEM = "system.txt"
_LARGEST = 1024 * 1024
MAX_CHARACTERS = 64 * 1024
"""The most characters in a file of prompts."""
M = TypeVar("M", bound=Strict)
Words = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


def parse_file(kind: type[M], text: str, place: str) -> M:
    """Parse a file of prompts.

    Args:
        kind: The class of its content.
        text: Its TOML text.
        place: Its path, for error messages.

    Raises:
        ConfigError: The content is not valid. The message names the file, the key and, if known,
            the line.
    """
    check_length(text, place)
    try:
        return kind.model_validate(parse_toml(text))
    except ValidationError as invalid:
        problem = first_problem(invalid, kind)
        line = _line_of(problem.where.split("."), text)
        raise ConfigError(f"{place}{line}: {problem}") from invalid
    except ValueError as error:
        raise ConfigError(f"{place}: {error}", "fix its TOML") from error


def check_length(text: str, place: str) -> None:
    """Refuse a file of prompts with more than `MAX_CHARACTERS`.

    Args:
        place: Its path, for the error message.

    Raises:
        ConfigError: The file is too long.
    """
    if len(text) > MAX_CHARACTERS:
        fix = f"shorten it to {MAX_CHARACTERS:,} at most"
        raise ConfigError(f"{place} has {len(text):,} characters", fix)


def _line_of(keys: Iterable[str], text: str) -> str:
    """Return the line of the innermost of some nested keys, as `:3`; empty if none is found."""
    lines = text.splitlines()
    for key in reversed(list(keys)):
        begins = re.compile(rf"""\s*\[?\s*["']?{re.escape(key)}["']?\s*[=\].]""")
        for number, line in enumerate(lines, 1):
            if begins.match(line):
                return f":{number}"
    return ""


def read_text(path: Path) -> str:
    """Read the text of a file of prompts.

    Raises:
        ConfigError: The file cannot be read, or is not a file of prompts.
    """
    if path.name != SYSTEM and path.suffix != ".toml":
        fix = f"templates and rubrics are <name>.toml, templates with a {SYSTEM} beside them"
        raise ConfigError(f"{path} is no template and no rubric", fix)
    try:
        if path.stat().st_size > _LARGEST:
            raise ConfigError(f"{path} is larger than 1 MiB", "it is no prompt")
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {describe_failure(error)}", "save it as UTF-8") from error


def list_files(folder: Path) -> tuple[dict[str, str], tuple[ConfigError, ...]]:
    """List the files in a folder of templates.

    Files whose names begin with a full stop or with README are skipped.

    Returns:
        The texts by path, and an error for each other file.

    Raises:
        ConfigError: The folder does not exist or holds no template.
    """
    if not folder.is_dir():
        raise ConfigError(f"{folder}: no such folder of prompts", "check the path")
    texts: dict[str, str] = {}
    strays: list[ConfigError] = []
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        if path.name.startswith((".", "README")):
            continue
        try:
            texts[path.relative_to(folder).as_posix()] = read_text(path)
        except ConfigError as error:
            strays.append(error)
    if not strays and not any(name.endswith(".toml") for name in texts):
        raise ConfigError(f"{folder} holds no template", "name one as in editjudge list prompts")
    return texts, tuple(strays)


def load_prompt_files(folder: Path) -> dict[str, str]:
    """Load the files in a folder of templates.

    Returns:
        The texts by path, in the form that a run stores.

    Raises:
        ConfigError: The folder does not exist, holds no template, or holds another file.
    """
    texts, strays = list_files(folder)
    if strays:
        raise strays[0]
    return texts
