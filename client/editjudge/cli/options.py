"""The options of all verbs as one table, and what they become.

`--help` on a verb loads this, so what options become is imported where they become it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import click

from ..base.errors import ConfigError, InputError
from ..base.screen import tell

if TYPE_CHECKING:
    from ..app.spec import RunSpec
    from ..base.config import Settings
    from ..base.identity import ServiceName
    from ..benchmarks.benchmark import Rules

F = TypeVar("F", bound=Callable[..., Any])
Attributes: TypeAlias = Mapping[str, Any]
Options: TypeAlias = Mapping[str, Any]
"""The values of a verb's options, by their names in the table."""

PATH = click.Path(path_type=Path)
FOLDER = click.Path(path_type=Path, file_okay=False)
_EACH = "May be given several times."


def flag(about: str) -> Attributes:
    """An option without a value."""
    return {"is_flag": True, "help": about}


def text(metavar: str, about: str, **more: Any) -> Attributes:
    """An option with a value."""
    return {"metavar": metavar, "help": about, **more}


def texts(metavar: str, about: str, **more: Any) -> Attributes:
    """An option that may be given several times."""
    return {"multiple": True, "metavar": metavar, "help": f"{about} {_EACH}", **more}


def path(metavar: str, about: str, **more: Any) -> Attributes:
    """An option that names a file or folder."""
    return {"type": PATH, "metavar": metavar, "help": about, **more}


def choice(values: Iterable[str], about: str, **more: Any) -> Attributes:
    """An option with one of a few values."""
    return {"type": click.Choice([*values]), "help": about, **more}


def number(kind: click.ParamType[Any], about: str, default: float | None = None) -> Attributes:
    """An option with a number."""
    return {"type": kind, "help": about, "default": default, "show_default": default is not None}


OPTIONS: Mapping[str, Attributes] = {
    # What is judged.
    "data": path(
        "PATH",
        "The benchmark's data: items.jsonl of core (docs/runs.md), or a folder"
        " (docs/benchmarks.md).",
        required=True,
    ),
    "root": texts(
        "[OLD=]FOLDER",
        "A folder outside that of the data whose pictures it may name. OLD is what official data"
        " calls it.",
    ),
    "outputs": texts(
        "MODEL=DIR",
        "A model under test and its DIR/<item id>.png. With :sources in the place of DIR the"
        " sources themselves are judged, unedited.",
    ),
    "task": texts("TASK", "Only items of this task, or of all that a glob names."),
    "limit": number(click.IntRange(1), "Only the first items."),
    "shard": text(
        "I/N",
        "Only every N-th item of the data, from the I-th on, counted from 0. editjudge merge puts"
        " the N runs together.",
        default="0/1",
    ),
    "single_image": texts(
        "MODEL",
        "A model that takes one image only. It needs no output to several, and the paper's rule"
        " holds where it gave none. A run remembers it.",
    ),
    "as_named": flag(
        "Take outputs by their names, also where their sizes say that they are those of the items"
        " beside them."
    ),
    "source": texts("PATH", "The image before the edit.", type=PATH, required=True),
    "edited": path("PATH", "The image after the edit.", required=True),
    "instruction": text("TEXT", "The instruction of the edit.", required=True),
    "mask": path("PATH", "Where the edit may change the source: white may."),
    "target": path("PATH", "The ground-truth result."),
    "target_text": text("TEXT", "Text that the result must show."),
    # By which rules.
    "dimension": texts(
        "ID",
        "An id, part of one (ssim), a glob (core.psnr.*), or the title of a table's column. All by"
        " default.",
        short="-d",
    ),
    "protocol": text(
        "NAME", "paper or official. The default is paper, and of summary that of the run."
    ),
    "with_": texts(
        "SWITCH", "Turn on a switch that the protocol has off (editjudge list switches)."
    ),
    "without": texts("SWITCH", "Turn off a switch of the protocol."),
    "prompts": path(
        "DIR",
        "Templates of your own, which replace ours by name (editjudge prompts check DIR).",
    ),
    "rubric": texts(
        "FILE",
        "A criterion of your own with its scale, as a dimension rubric.<name of the file>"
        " (editjudge prompts check FILE).",
        type=PATH,
    ),
    # By whom.
    "generalist": texts(
        "[NAME=]URL",
        "A multimodal LLM: http(s)://host:port/v1, or grpc://host:port for vLLM's own. NAME is"
        " judge by default.",
    ),
    "judge_model": text(
        "NAME", "The model that the generalist `judge` asks for, where its server has several."
    ),
    "judge": texts(
        "NAME",
        "A generalist that judges, by its name. Several judge side by side. The default is judge.",
    ),
    "rounds": number(
        click.IntRange(1, 1000),
        "How often each judge judges. Every round is kept, and the summary has their mean and"
        " spread.",
        1,
    ),
    "endpoint": texts("URL", "A Triton server, grpc://host:port or grpcs://host:port."),
    "gateway": text(
        "URL",
        "Judge through this Judge service, grpc(s)://host:port, instead of reaching generalists and"
        " specialists from here (docs/sharing.md).",
    ),
    "max_cost": number(
        click.FloatRange(0, min_open=True),
        "Stop asking before this is spent, in the currency of the configured prices.",
    ),
    "ledger": path("FILE", "SQLite file of calls and replies. Calls in it are not made again."),
    # How.
    "dry_run": flag("Say what it would take, and call nothing."),
    "retry": choice(
        ["unscored"], "Ask again what has no number, instead of taking the stored replies."
    ),
    "fail_on_error": text(
        "SHARE",
        "End when more than this share of verdicts failed, for example 0.05.",
        type=click.FloatRange(0, 1),
    ),
    # What is shown.
    "model": texts("NAME", "Only this model. Several stand in this order."),
    "published": flag("Also the rows that the papers print."),
    "out": path("PATH", "Where the result goes.", required=True),
    "json": flag("Print strict JSON."),
}
"""What is declared once for several verbs, by the name of its parameter."""


def takes(*names: str, **changes: str | Attributes) -> Callable[[F], F]:
    """Add options of the table to a command.

    Args:
        changes: What an option means for this command alone: the help of one of the table, or a
            declaration of its own.
    """
    declared: dict[str, dict[str, Any]] = {name: dict(OPTIONS[name]) for name in names}
    for name, change in changes.items():
        if isinstance(change, str):
            several = f" {_EACH}" * bool(OPTIONS[name].get("multiple"))
            change = {**OPTIONS[name], "help": f"{change}{several}"}
        declared[name] = dict(change)

    def decorated(function: F) -> F:
        for name, attributes in reversed(declared.items()):
            short = [attributes.pop("short")] if "short" in attributes else []
            flag = "--" + name.rstrip("_").replace("_", "-")
            function = click.option(flag, *short, name, **attributes)(function)
        return function

    return decorated


def settings_of(asked: Options | None = None) -> Settings:
    """The settings, with what `--config`, `--set` and the options of a verb change.

    A generalist named by its address takes nothing from the configured one of the same name: a
    key must not go elsewhere. An option that says where a judge is comes before a `gateway` of the
    settings file.

    Raises:
        ConfigError: a setting, an address or a range cannot be used, an option has no generalist to
            act on, or it contradicts --gateway.
    """
    asked = asked or {}
    settings = base_settings()
    own = [name for name in ("endpoint", "generalist", "judge_model", "ledger") if asked.get(name)]
    if asked.get("gateway") and own:
        raise ConfigError(
            f"--gateway and --{own[0].replace('_', '-')} contradict each other: the Judge service"
            " has its own",
            "give one of the two",
        )
    if asked.get("endpoint"):
        settings = settings.at(*asked["endpoint"])
    changed = {name: asked[name] for name in ("max_cost", "ledger") if asked.get(name) is not None}
    changed["generalists"] = _generalists(settings, asked)
    settings = settings.model_copy(update=changed)
    if asked.get("gateway"):
        return settings.through(asked["gateway"])
    return settings.model_copy(update={"gateway": None}) if own and "gateway" in asked else settings


def base_settings() -> Settings:
    """The settings of the file and of `--set`, as every verb has them.

    Raises:
        ConfigError: a setting cannot be used.
    """
    from ..base.config import load_settings

    context = click.get_current_context(silent=True)
    options = context.find_root().params if context else {}
    return load_settings(options.get("config"), **_nested(options.get("set_", ())))


def _nested(assignments: Iterable[str]) -> dict[str, Any]:
    """The values of `--set NAME=VALUE`; NAME leads into tables by its dots."""
    import tomllib

    nested: dict[str, Any] = {}
    for name, text in pairs_of("--set", tuple(assignments), "NAME=VALUE").items():
        try:
            value = tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            value = text
        *tables, last = name.split(".")
        table = nested
        for each in tables:
            table = table.setdefault(each, {})
        table[last] = value
    return nested


def _generalists(settings: Settings, asked: Options) -> dict[str, Any]:
    from ..base.config import GeneralistEndpoint

    judges: dict[str, Any] = dict(settings.generalists)
    for text in asked.get("generalist", ()):
        name, equals, url = text.partition("=")
        if not (equals and name.isidentifier()):
            name, url = "judge", text
        judges[name] = GeneralistEndpoint.at(url, "generalist")
    if model := asked.get("judge_model"):
        if "judge" not in judges:
            raise ConfigError("--judge-model needs a generalist", "give --generalist URL too")
        judges["judge"] = judges["judge"].model_copy(update={"model": model})
    return judges


def rules_of(asked: Options, spec: RunSpec) -> Rules:
    """The rules of a stored run, changed; without --protocol they keep the run's protocol.

    Raises:
        ConfigError: the benchmark has no such protocol or switch, or two options contradict.
    """
    protocol = spec.protocol if asked["protocol"] is None else asked["protocol"]
    update = {"protocol": protocol, "on": asked["with_"], "off": asked["without"]}
    return spec.model_copy(update=update).rules()


def texts_in(folder: Path) -> dict[str, str]:
    """The texts of templates of one's own.

    Raises:
        ConfigError: one cannot be used; names the folder.
    """
    from ..prompts.custom import custom_in
    from ..prompts.folder import prompt_files

    custom_in(folder)
    return prompt_files(folder)


def with_rubrics(patterns: tuple[str, ...], rubrics: Iterable[str]) -> tuple[str, ...]:
    """The dimensions asked for: those of rubrics that are given always are."""
    ids = tuple(name.removesuffix(".toml").replace("/", ".") for name in rubrics)
    return (*patterns, *ids) if patterns else ()


SPEC = (
    *("data", "root", "outputs", "task", "limit", "single_image"),
    *("dimension", "protocol", "with_", "without", "prompts", "rubric"),
    *("judge", "rounds"),
)
"""The options that make a spec."""


def spec_of(
    benchmark: str,
    asked: Options,
    before: RunSpec | None = None,
    services: tuple[ServiceName, ...] = (),
) -> RunSpec:
    """What a run is asked for.

    Args:
        before: The spec of the run that is resumed. It keeps its roots and its prompts where
            no --root and no --prompts say otherwise.
        services: Specialists of one's own, by the settings.

    Raises:
        ConfigError: there is no such benchmark, protocol or switch, or an option is malformed.
    """
    from ..app.spec import RunSpec
    from ..benchmarks.registry import benchmark as benchmark_of
    from ..prompts.rubrics import rubric_files

    name = benchmark_of(benchmark).name
    before = before if before is not None and before.benchmark == name else None
    rubrics = rubric_files(asked["rubric"])
    judges = {"judges": asked["judge"]} if asked["judge"] else {}
    return RunSpec.model_validate(
        {
            "benchmark": name,
            "data": asked["data"],
            "outputs": models_of(asked["outputs"]),
            "protocol": asked["protocol"] or "",
            "on": asked["with_"],
            "off": asked["without"],
            "roots": _roots(asked["root"], before),
            "rounds": asked["rounds"],
            "dimensions": with_rubrics(asked["dimension"], rubrics),
            "limit": asked["limit"],
            "tasks": asked["task"],
            "prompts": _prompts(asked["prompts"], before, rubrics),
            "single_image": asked["single_image"],
            "services": (*services, *(before.services if before else ())),
            **judges,
        }
    )


def _roots(texts: tuple[str, ...], before: RunSpec | None) -> Mapping[str, Path]:
    """The roots, absolute so that they hold in any folder; by default those of the run."""
    roots = roots_of(texts)
    if before is None or roots == before.roots:
        return roots
    if not roots:
        return before.roots
    tell("--root differs from that of the run: the files there are taken to be the same")
    return roots


def _prompts(
    folder: Path | None, before: RunSpec | None, rubrics: Mapping[str, str]
) -> Mapping[str, str]:
    """The texts of prompts, by default those that the run is asked in, and rubrics."""
    if folder is not None:
        return {**texts_in(folder), **rubrics}
    kept = before.prompts if before is not None else {}
    if own := [name for name in kept if name not in rubrics]:
        tell(f"asked in the run's own prompts: {', '.join(own)}")
    return {**kept, **rubrics}


def check_judges(judges: Iterable[str], settings: Settings) -> None:
    """Refuse a --judge for which no generalist is configured.

    Raises:
        ConfigError: the message names it and the generalists there are.
    """
    if settings.gateway is not None:
        return  # it says itself which it has
    for name in judges:
        if name not in settings.generalists:
            has = ", ".join(settings.generalists) or "none"
            raise ConfigError(
                f"--judge {name}: no generalist has this name (there are: {has})",
                f"give --generalist {name}=URL",
            )


def models_of(outputs: tuple[str, ...]) -> dict[str, Path]:
    """Split --outputs into folders by model.

    Raises:
        InputError: a value is not MODEL=DIR, or two have the same model.
    """
    folders: dict[str, Path] = {}
    for text in outputs:
        model, equals, folder = text.partition("=")
        if not model or not equals or not folder or not model.isprintable():
            mend = "write the model's name before its folder, as ours=out/ours"
            raise InputError("--outputs", f"{text!r} is not MODEL=DIR", mend)
        if "=" in folder and not Path(folder).exists():
            raise InputError(
                "--outputs",
                f"{text!r} holds several =, and there is no {folder}",
                "the name of a model ends at the first =, give it another one",
            )
        if model in folders:
            raise InputError("--outputs", f"two folders for {model}")
        folders[model] = Path(folder)
    return folders


def roots_of(texts: tuple[str, ...]) -> dict[str, Path]:
    """Split --root into folders by what the data calls them, absolute; FOLDER is its own name.

    Raises:
        ConfigError: there is no such folder, or two have the same key.
    """
    folders = {text: text for text in texts if "=" not in text}
    for text in folders:
        if not Path(text).expanduser().is_dir():
            raise ConfigError(f"--root {text} is no folder", "give a folder, or OLD=NEW")
    pairs = pairs_of("--root", tuple(text for text in texts if "=" in text))
    named = {old: _absolute(new) for old, new in pairs.items()}
    return named | {str(_absolute(text)): _absolute(text) for text in folders}


def _absolute(text: str) -> Path:
    return Path(os.path.abspath(Path(text).expanduser()))  # noqa: PTH100


def pairs_of(flag: str, texts: tuple[str, ...], form: str = "OLD=NEW") -> dict[str, str]:
    """Split the values of an option that takes two texts.

    Raises:
        ConfigError: a value is not of that form, or two have the same key.
    """
    pairs: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not key or not equals or not value:
            raise ConfigError(f"{flag} {text} is not {form}")
        if key in pairs:
            raise ConfigError(f"{flag} is given twice for {key}", "give it once")
        pairs[key] = value
    return pairs


def shard_of(text: str) -> tuple[int, int]:
    """The value of --shard, I/N.

    Raises:
        ConfigError: it is none.
    """
    first, slash, step = text.partition("/")
    if not (slash and first.isdecimal() and step.isdecimal() and int(first) < int(step)):
        raise ConfigError(
            f"--shard {text}: there is no such shard", "write I/N, with I from 0 to N - 1"
        )
    return int(first), int(step)
