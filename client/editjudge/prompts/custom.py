"""Templates of one's own: a folder of TOML files that replace ours by name.

`DIR/kris/consistency.toml` replaces `kris/consistency`. Only `user` is needed; each image and field
that the question gives stands in it in braces. The system turn is the file's `system`, else the
text of `system.txt` beside it, else empty: nothing of ours is mixed in unseen. What lies in the
folder `rubric` replaces nothing; see `prompts.rubrics`.
"""

from __future__ import annotations

import string
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields as fields_of
from functools import lru_cache
from pathlib import Path
from typing import Any

from ..answers import OutputContract, Scores
from ..base.errors import ConfigError
from ..base.parse import parse_toml
from . import Labels, Template, form_of, templates
from .rubrics import FOLDER as RUBRICS
from .rubrics import rubric

ORIGIN = "custom"
SYSTEM = "system.txt"
_KEYS = ("user", "system", "asks", "source", "answer", "absent", "labels", "leaves_out")
_ALWAYS = frozenset({"sources", "instruction"})
"""Fields that every question may show: each item has them."""
_LARGEST = 1024 * 1024


def prompt_files(folder: Path) -> dict[str, str]:
    """The files of a folder of templates: their texts by path, as a run keeps them.

    Raises:
        ConfigError: there is no such folder, nothing in it, or a file that is no template.
    """
    texts, strays = files_in(folder)
    if strays:
        raise strays[0]
    return texts


def files_in(folder: Path) -> tuple[dict[str, str], tuple[ConfigError, ...]]:
    """What a folder of templates holds: texts by path, and why other files cannot be used.

    Files whose names begin with a full stop or with README are left aside.

    Raises:
        ConfigError: there is no such folder, or no template in it.
    """
    if not folder.is_dir():
        raise ConfigError(f"{folder}: no such folder of prompts", "check the path")
    texts: dict[str, str] = {}
    strays: list[ConfigError] = []
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        if path.name.startswith((".", "README")):
            continue
        try:
            texts[path.relative_to(folder).as_posix()] = _text_of(path)
        except ConfigError as error:
            strays.append(error)
    if not strays and not any(name.endswith(".toml") for name in texts):
        raise ConfigError(f"{folder} holds no template", "name one as in editjudge list prompts")
    return texts, tuple(strays)


def _text_of(path: Path) -> str:
    if path.name != SYSTEM and path.suffix != ".toml":
        mend = f"templates are <folder>/<name>.toml, with a {SYSTEM} beside them"
        raise ConfigError(f"{path} is no template", mend)
    try:
        if path.stat().st_size > _LARGEST:
            raise ConfigError(f"{path} is larger than 1 MiB", "it is no prompt")
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}", "save it as UTF-8") from error


def custom_templates(files: Mapping[str, str], where: str = "") -> tuple[Template, ...]:
    """The templates of one's own.

    Args:
        files: See `prompt_files`.
        where: The folder they are from, for errors.

    Raises:
        ConfigError: a file cannot be used; names it, what is wrong and the mend.
    """
    return _templates(tuple(sorted(files.items())), where)


def custom_in(folder: Path) -> tuple[Template, ...]:
    """The templates of one's own in a folder; raises as `prompt_files` and `custom_templates`."""
    return custom_templates(prompt_files(folder), str(folder))


def checked(files: Mapping[str, str], where: str = "") -> Iterator[Template | ConfigError]:
    """Each template, or why its file cannot be used; see `custom_templates`."""
    for file, text in sorted(files.items()):
        place = f"{where}/{file}" if where else file
        folder = file.rpartition("/")[0]
        try:
            if file.endswith(f"/{SYSTEM}"):
                _known_folder(folder, place)
                continue
            if folder == RUBRICS:
                yield rubric(file.removesuffix(".toml"), text, place)
                continue
            own = _replaced(file.removesuffix(".toml"), place)
            yield _template(own, text, files.get(f"{folder}/{SYSTEM}", ""), place)
        except ConfigError as error:
            yield error


@lru_cache(64)
def _templates(files: tuple[tuple[str, str], ...], where: str) -> tuple[Template, ...]:
    read: list[Template] = []
    for template in checked(dict(files), where):
        if isinstance(template, ConfigError):
            raise template
        read.append(template)
    return tuple(read)


def _known_folder(folder: str, place: str) -> None:
    folders = dict.fromkeys(name.rpartition("/")[0] for name in templates())
    if folder not in folders:
        raise ConfigError(f"{place}: no folder of prompts is called {folder}", _there(folders))


def _replaced(name: str, place: str) -> Template:
    """The template of ours that one of this name replaces."""
    if name not in templates():
        beside = [one for one in templates() if one.partition("/")[0] == name.partition("/")[0]]
        mend = _there(beside) if beside else "see: editjudge list prompts"
        raise ConfigError(f"{place}: no prompt is called {name}", mend)
    return templates()[name]


def _there(names: Any) -> str:
    return f"there is {', '.join(names)}"


def _template(own: Template, text: str, system: str, place: str) -> Template:
    declared = _declared(text, place)
    user = declared["user"].strip()
    absent = _texts(declared, "absent", place)
    _check_fields(own, user, absent, declared.get("leaves_out", []), place)
    answer = dict(declared.get("answer", {}))
    says_form = answer.pop("in_text", False)
    worth = answer.pop("worth", [])
    max_tokens = _max_tokens(answer, own, place)
    choices, contract = _form(own, answer, place)
    return Template(
        name=own.name,
        asks=declared.get("asks", own.asks),
        source=declared.get("source", "words of one's own"),
        system=declared.get("system", system).strip(),
        user=user,
        choices=choices,
        contract=contract,
        origin=ORIGIN,
        absent=tuple(sorted(absent.items())),
        labels=_labels(declared, place),
        says_form=bool(says_form),
        worth=_worth(worth, choices, place),
        onto=own.contract.fields if isinstance(own.contract, Scores) else (),
        max_tokens=max_tokens,
    )


def _max_tokens(answer: dict[str, Any], own: Template, place: str) -> int:
    """What a reply may take, taken out of `[answer]`; as ours where it says nothing."""
    said = answer.pop("max_tokens", own.max_tokens)
    if type(said) is not int or said < 1:
        raise ConfigError(f"{place}: max_tokens is {said!r}", "give a whole number of tokens")
    return said


def _declared(text: str, place: str) -> dict[str, Any]:
    try:
        declared = parse_toml(text)
    except ValueError as error:
        raise ConfigError(f"{place}: {error}", "mend its TOML") from error
    if unknown := sorted(declared.keys() - set(_KEYS)):
        raise ConfigError(f"{place}: there is no key {unknown[0]}", _there(_KEYS))
    for key, kind in {"user": str, "system": str, "asks": str, "source": str}.items():
        if not isinstance(declared.get(key, "x"), kind):
            raise ConfigError(f"{place}: {key} is no text", f'write {key} = """…"""')
    if not declared.get("user", "").strip():
        raise ConfigError(f"{place} lacks user", 'write the prompt as user = """…"""')
    return declared


def _texts(declared: Mapping[str, Any], key: str, place: str) -> dict[str, str]:
    table = declared.get(key, {})
    if not isinstance(table, dict) or not all(isinstance(text, str) for text in table.values()):
        raise ConfigError(f"{place}: [{key}] is no table of texts", f"write [{key}] and texts")
    return table


def _check_fields(
    own: Template, user: str, absent: Mapping[str, str], left_out: Any, place: str
) -> None:
    """Refuse a text that has not just what the question gives."""
    names = _names(user, place)
    due = own.fields
    shown = {"edited"} if {"edited", "frames"} & set(due) else set()
    may = {*due, *_ALWAYS, *shown, *({"hint"} & absent.keys())}
    if unknown := [name for name in names if name not in may]:
        mend = f"it may hold {', '.join(sorted(may))}; braces of the text itself are doubled"
        raise ConfigError(f"{place}: {own.name} is given no {{{unknown[0]}}}", mend)
    if not isinstance(left_out, list) or any(name not in due or name in names for name in left_out):
        raise ConfigError(
            f"{place}: leaves_out is no list of fields that {own.name} gives and the text lacks",
            f"{own.name} gives {', '.join(due)}",
        )
    if lacking := [name for name in due if name not in names and name not in left_out]:
        raise ConfigError(
            f"{place} lacks {{{lacking[0]}}}, which {own.name} gives",
            f'put it into user, or say leaves_out = ["{lacking[0]}"]',
        )
    if idle := [name for name in absent if name not in names]:
        raise ConfigError(f"{place}: [absent] {idle[0]} is not in the text", "leave it out")


def _names(user: str, place: str) -> list[str]:
    """The fields of a text, each as a plain name in braces."""
    mend = "write a field as {name}, and double the braces of the text itself: {{ and }}"
    names = []
    try:
        for _, name, form, conversion in string.Formatter().parse(user):
            if name is None:
                continue
            if form or conversion or not name.isidentifier():
                raise ConfigError(f"{place}: {{{name}… is no field", mend)
            names.append(name)
    except ValueError as error:
        raise ConfigError(f"{place}: {error}", mend) from error
    return names


def _form(
    own: Template, answer: dict[str, Any], place: str
) -> tuple[tuple[str, ...], OutputContract[Any] | None]:
    """The form of the reply: ours where none is declared, else one of the same kind."""
    if not answer:
        return own.choices, own.contract
    kind = own.contract.name if own.contract else "choices"
    try:
        choices, contract = form_of(dict(answer))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        told = f"there is no {error}" if isinstance(error, KeyError) else str(error)
        mend = f"{own.name} is answered by {kind}; see docs/prompts.md"
        raise ConfigError(f"{place}: [answer] cannot be read: {told}", mend) from error
    if (contract.name if contract else "choices") != kind:
        raise ConfigError(f"{place}: [answer] is not of the kind {kind}", f"{own.name} reads that")
    if len(own.choices) == 2 and len(choices) != 2:
        raise ConfigError(f"{place}: {own.name} reads two choices", "give the right answer first")
    _check_scores(own, contract, place)
    if getattr(own.contract, "indexed", None) != getattr(contract, "indexed", None):
        needs = "true" if getattr(own.contract, "indexed", False) else "false"
        raise ConfigError(
            f"{place}: [answer] has another indexed than {own.name}", f"write indexed = {needs}"
        )
    return choices, contract


def _check_scores(own: Template, contract: OutputContract[Any] | None, place: str) -> None:
    if not (isinstance(own.contract, Scores) and isinstance(contract, Scores)):
        return
    names = {field.name for field in contract.fields}
    if lacking := [field.name for field in own.contract.fields if field.name not in names]:
        due = ", ".join(field.name for field in own.contract.fields)
        raise ConfigError(f"{place}: [answer] lacks the score {lacking[0]}", f"it has {due}")


def _worth(worth: Sequence[Any], choices: tuple[str, ...], place: str) -> tuple[float, ...]:
    """What each choice counts; only a scale of more than two choices may say it."""
    if not worth:
        return ()
    numbers = [w for w in worth if isinstance(w, int | float) and not isinstance(w, bool)]
    if len(choices) < 3 or len(numbers) != len(choices) or not all(0 <= w <= 1 for w in numbers):
        raise ConfigError(
            f"{place}: worth is not one number from 0 to 1 for each of three choices or more",
            "leave it out for even steps from 1, the first, down to 0",
        )
    return tuple(map(float, numbers))


def _labels(declared: Mapping[str, Any], place: str) -> Labels | None:
    if "labels" not in declared:
        return None
    labels = _texts(declared, "labels", place)
    known = [field.name for field in fields_of(Labels)]
    if unknown := [name for name in labels if name not in known]:
        raise ConfigError(f"{place}: no image is labelled as {unknown[0]}", _there(known))
    for label in labels.values():
        if set(_names(label, place)) - {"n"}:
            raise ConfigError(f"{place}: a label holds more than {{n}}", "double its braces")
    return Labels(**labels)
