"""Custom templates: a folder of TOML files that replace built-in templates of the same name.

`DIR/kris/consistency.toml` replaces `kris/consistency`. Only `user` is required; it holds, in
braces, each image and field that the question supplies. The system turn is the file's `system`,
else the text of `system.txt` beside it, else empty. Built-in text is never added unseen. Files in
the folder `rubric` replace nothing; see `prompts.rubrics`.
"""

import string
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import Any

from ..answers.contract import OutputContract
from ..answers.scores import Scores
from ..base.errors import ConfigError
from . import Template, TemplateFile, load_templates, parse_form
from .prompt_files import SYSTEM, check_length, load_prompt_files, parse_file
from .rubrics import FOLDER as RUBRICS
from .rubrics import make_rubric

ORIGIN = "custom"
_MAX_SIZE = 128
"""How many choices, scores or entries of a list a reply may have."""
_MAX_REPEATS = 2
"""How often a text may use each of its fields."""
_ALWAYS = frozenset({"sources", "instruction"})
"""Fields that every template may use, because each item has them."""


def load_custom_templates(files: Mapping[str, str], where: str = "") -> tuple[Template, ...]:
    """Load the custom templates in these files.

    Args:
        files: Texts of the files by path; see `load_prompt_files`.
        where: The folder of the files, for error messages.

    Raises:
        ConfigError: A file is not valid. The message names the file, the problem and the fix.
    """
    return _templates(tuple(sorted(files.items())), where)


def load_custom_texts(folder: Path) -> dict[str, str]:
    """Load the texts of the custom templates of a folder, in the form that a run stores.

    Raises:
        ConfigError: As for `load_custom_folder`; the message names the folder.
    """
    texts = load_prompt_files(folder)
    load_custom_templates(texts, str(folder))
    return texts


def load_custom_folder(folder: Path) -> tuple[Template, ...]:
    """Load the custom templates of a folder.

    Raises:
        ConfigError: As for `load_prompt_files` and `load_custom_templates`.
    """
    return load_custom_templates(load_prompt_files(folder), str(folder))


def check_templates(files: Mapping[str, str], where: str = "") -> Iterator[Template | ConfigError]:
    """Yield each template, or the error of its file; see `load_custom_templates`."""
    for file, text in sorted(files.items()):
        place = f"{where}/{file}" if where else file
        folder = file.rpartition("/")[0]
        try:
            if file.endswith(f"/{SYSTEM}"):
                _check_folder(folder, place)
                check_length(text, place)
            elif folder == RUBRICS:
                yield make_rubric(file.removesuffix(".toml"), text, place)
            else:
                own = _find_replaced(file.removesuffix(".toml"), place)
                yield _template(own, text, files.get(f"{folder}/{SYSTEM}", ""), place)
        except ConfigError as error:
            yield error


@lru_cache(64)
def _templates(files: tuple[tuple[str, str], ...], where: str) -> tuple[Template, ...]:
    read: list[Template] = []
    for template in check_templates(dict(files), where):
        if isinstance(template, ConfigError):
            raise template
        read.append(template)
    return tuple(read)


def _check_folder(folder: str, place: str) -> None:
    folders = dict.fromkeys(name.rpartition("/")[0] for name in load_templates())
    if folder not in folders:
        raise ConfigError(f"{place}: no folder of prompts is called {folder}", _list_names(folders))


def _find_replaced(name: str, place: str) -> Template:
    """Return the built-in template that a file of this name replaces."""
    if name not in load_templates():
        folder = name.partition("/")[0]
        beside = [each for each in load_templates() if each.partition("/")[0] == folder]
        fix = _list_names(beside) if beside else "see: editjudge list prompts"
        raise ConfigError(f"{place}: no prompt is called {name}", fix)
    return load_templates()[name]


def _list_names(names: Iterable[str]) -> str:
    return f"there is {', '.join(names)}"


def _template(own: Template, text: str, system: str, place: str) -> Template:
    file = parse_file(TemplateFile, text, place)
    _check_fields(own, file, place)
    for label in (asdict(file.labels) if file.labels else {}).values():
        if set(names := _names(label, place)) - {"n"}:
            raise ConfigError(f"{place}: a label may hold only {{n}}", "double its braces")
        _check_repeats(names, place)
    answer = dict(file.answer)
    says_form = answer.pop("in_text", False)
    worth = answer.pop("worth", [])
    max_tokens = answer.pop("max_tokens", own.max_tokens)
    if type(max_tokens) is not int or max_tokens < 1:
        raise ConfigError(f"{place}: max_tokens is {max_tokens!r}", "give a whole number of tokens")
    choices, contract = _form(own, answer, place)
    return Template(
        name=own.name,
        asks=file.asks or own.asks,
        source=file.source or "words of one's own",
        system=(system if file.system is None else file.system).strip(),
        user=file.user,
        choices=choices,
        contract=contract,
        origin=ORIGIN,
        absent=tuple(sorted(file.absent.items())),
        labels=file.labels,
        says_form=bool(says_form),
        worth=_check_worth(worth, choices, place),
        onto=own.contract.fields if isinstance(own.contract, Scores) else (),
        max_tokens=max_tokens,
    )


def _check_fields(own: Template, file: TemplateFile, place: str) -> None:
    """Refuse a text that lacks a field of the built-in template or uses one it cannot have."""
    names, due = _names(file.user, place), own.fields
    image_fields = {"edited"} if {"edited", "frames"} & set(due) else set()
    may = {*due, *_ALWAYS, *image_fields, *({"hint"} & file.absent.keys())}
    if unknown := [name for name in names if name not in may]:
        fix = f"it may hold {', '.join(sorted(may))}; braces of the text itself are doubled"
        raise ConfigError(f"{place}: {own.name} has no field {{{unknown[0]}}}", fix)
    _check_repeats(names, place)
    if any(name not in due or name in names for name in file.leaves_out):
        raise ConfigError(
            f"{place}: leaves_out must list fields of {own.name} that the text does not use",
            f"{own.name} has {', '.join(due)}",
        )
    if lacking := [name for name in due if name not in (*names, *file.leaves_out)]:
        raise ConfigError(
            f"{place} lacks {{{lacking[0]}}}, a field of {own.name}",
            f'put it into user, or add leaves_out = ["{lacking[0]}"]',
        )
    if idle := [name for name in file.absent if name not in names]:
        raise ConfigError(f"{place}: [absent] has {idle[0]}, which user lacks", "remove it")


def _check_repeats(names: Sequence[str], place: str) -> None:
    """Refuse a text that repeats a field: a short request would make a prompt of any length."""
    name, count = Counter(names).most_common(1)[0] if names else ("", 0)
    if count > _MAX_REPEATS:
        fix = f"use a field {_MAX_REPEATS} times at most"
        raise ConfigError(f"{place}: {{{name}}} stands {count:,} times", fix)


def _names(user: str, place: str) -> list[str]:
    """List the fields of a text; each must be a plain name in braces."""
    fix = "write a field as {name}, and double the braces of the text itself: {{ and }}"
    names = []
    try:
        for _, name, form, conversion in string.Formatter().parse(user):
            if name is None:
                continue
            if form or conversion or not name.isidentifier():
                raise ConfigError(f"{place}: {{{name}… is not a field", fix)
            names.append(name)
    except ValueError as error:
        raise ConfigError(f"{place}: {error}", fix) from error
    return names


def _form(own: Template, answer: dict[str, Any], place: str) -> tuple[tuple[str, ...], OutputContract[Any] | None]:
    """Parse the form of the reply; without `[answer]` it is that of the built-in template.

    Raises:
        ConfigError: The form is not valid, or of another kind than the built-in template's.
    """
    if not answer:
        return own.choices, own.contract
    kind = own.contract.name if own.contract else "choices"
    sizes = {key: len(value) if isinstance(value, list) else value for key, value in answer.items()}
    if large := [key for key, size in sizes.items() if isinstance(size, int) and size > _MAX_SIZE]:
        what = f"{place}: [answer] has {sizes[large[0]]:,} as {large[0]}"
        raise ConfigError(what, f"{_MAX_SIZE} are the most")
    try:
        choices, contract = parse_form(answer)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        why = f"there is no {error}" if isinstance(error, KeyError) else str(error)
        fix = f"{own.name} needs {kind}; see docs/howto/prompts.md"
        raise ConfigError(f"{place}: [answer] cannot be read: {why}", fix) from error
    if (contract.name if contract else "choices") != kind:
        raise ConfigError(f"{place}: [answer] must be of the kind {kind}", f"{own.name} reads it")
    if len(own.choices) == 2 and len(choices) != 2:
        raise ConfigError(f"{place}: {own.name} needs two choices", "give two, the right one first")
    if isinstance(own.contract, Scores) and isinstance(contract, Scores):
        due = [field.name for field in own.contract.fields]
        has = {field.name for field in contract.fields}
        if lacking := [name for name in due if name not in has]:
            fix = f"give the scores {', '.join(due)}"
            raise ConfigError(f"{place}: [answer] lacks the score {lacking[0]}", fix)
    own_indexed = getattr(own.contract, "indexed", None)
    if own_indexed != getattr(contract, "indexed", None):
        fix = f"write indexed = {str(bool(own_indexed)).lower()}"
        raise ConfigError(f"{place}: [answer] must have the same indexed as {own.name}", fix)
    return choices, contract


def _check_worth(worth: Sequence[Any], choices: tuple[str, ...], place: str) -> tuple[float, ...]:
    """Check the value of each choice; it is allowed for three choices or more."""
    if not worth:
        return ()
    numbers = [w for w in worth if isinstance(w, int | float) and not isinstance(w, bool)]
    if len(choices) < 3 or len(numbers) != len(choices) or not all(0 <= w <= 1 for w in numbers):
        raise ConfigError(
            f"{place}: worth must give each of three or more choices a number from 0 to 1",
            "leave it out for even steps from 1, the first, down to 0",
        )
    return tuple(map(float, numbers))
