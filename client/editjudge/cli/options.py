"""Turns the options of commands into settings, rules and the spec of a run."""

from __future__ import annotations

import os
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from ..base.config import JudgeEndpoint, Settings, load_settings, parse_ledger
from ..base.errors import ConfigError, EditjudgeError, InputError
from ..base.objects import find_url, to_path
from ..base.terminal import print_notice
from ..benchmarks.benchmark import Rules
from ..benchmarks.registry import load_benchmark as benchmark_of
from ..panel.specialists import list_custom_services
from ..prompts.custom_templates import load_custom_texts
from ..prompts.rubrics import list_rubric_ids, load_rubric_files

if TYPE_CHECKING:  # a verb without a run needs neither
    from ..app.ray_pool import RayOptions
    from ..app.spec import RunSpec
    from ..app.view import RunView

Options: TypeAlias = Mapping[str, Any]
"""The values of a command's options, by the names of its parameters."""
NO_LEDGER = "none"
"""In the place of a ledger: there is to be none, also where the settings have one."""


def settings_from(options: Options | None = None) -> Settings:
    """Load the settings, and apply `--config`, `--set` and the options of a command.

    A judge named by its address takes nothing from the configured one of the same name: a
    key must not go elsewhere. An option that says where a judge is comes before a `gateway` of the
    settings file.

    Raises:
        ConfigError: a setting, an address or a range cannot be used, an option has no judge to
            act on, or it contradicts --gateway.
    """
    options = options or {}
    context = click.get_current_context(silent=True)
    root_options = context.find_root().params if context else {}
    assignments = _parse_assignments(root_options.get("set_", ()))
    settings = load_settings(root_options.get("config"), **assignments)
    effective = {**options, "judge": any(parse_judges(options).values())}
    own = [name for name in ("endpoint", "judge", "judge_model", "ledger") if effective.get(name)]
    if options.get("gateway") and own:
        raise ConfigError(
            f"--gateway and --{own[0].replace('_', '-')} contradict each other: the Judge service has its own",
            "give one of the two",
        )
    if options.get("endpoint"):
        settings = settings.at(*options["endpoint"])
    names = [n for n in ("max_cost", "ledger") if options.get(n) is not None]
    changes = {name: options[name] for name in names}
    if "ledger" in changes:
        is_none = changes["ledger"] == NO_LEDGER
        changes["ledger"] = None if is_none else parse_ledger(changes["ledger"])
    changes["judges"] = _judges(settings, options)
    settings = settings.model_copy(update=changes)
    if options.get("gateway"):
        return settings.through(options["gateway"])
    return settings.model_copy(update={"gateway": None}) if own and "gateway" in options else settings


def _parse_assignments(assignments: Iterable[str]) -> dict[str, Any]:
    """Parse the values of `--set NAME=VALUE`; dots in NAME separate nested tables."""
    settings: dict[str, Any] = {}
    for name, text in parse_pairs("--set", assignments, "NAME=VALUE").items():
        try:
            value = tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            value = text
        *tables, last = name.split(".")
        table = settings
        for each in tables:
            table = table.setdefault(each, {})
        table[last] = value
    return settings


def parse_judges(options: Options) -> dict[str, str]:
    """Read --judge: the address of each judge by its name, empty for a judge of the settings."""
    judges: dict[str, str] = {}
    for text in options.get("judge", ()):
        name, _, url = text.partition("=")
        if "://" in name:
            name, url = "judge", text
        judges[name] = url or judges.get(name, "")
    return judges


def _judges(settings: Settings, options: Options) -> dict[str, JudgeEndpoint]:
    """Add the judges that --judge gives an address to those of the settings.

    Raises:
        ConfigError: an address cannot be used, or --judge-model names the model of no judge.
    """
    addresses = parse_judges(options)
    new = {name: JudgeEndpoint.at(url, "judge") for name, url in addresses.items() if url}
    judges = {**settings.judges, **new}
    if model := options.get("judge_model"):
        name = next(iter(addresses)) if len(addresses) == 1 else "judge"
        if name not in judges:
            raise ConfigError("--judge-model needs a judge", "give --judge URL too")
        judges[name] = judges[name].model_copy(update={"model": model})
    return judges


def bind_single_judge(settings: Settings, options: Options) -> Settings:
    """Bind the judge that --judge names as `judge`, for commands that ask one alone.

    Raises:
        ConfigError: several are named, or one that the settings do not have.
    """
    names = tuple(parse_judges(options))
    if len(names) > 1:
        raise ConfigError(f"--judge: one judge is asked, not {len(names)}", "give --judge once")
    if not names or names == ("judge",) or settings.gateway is not None:
        return settings
    check_judges(names, settings)
    judges = {**settings.judges, "judge": settings.judges[names[0]]}
    return settings.model_copy(update={"judges": judges})


def rules_from(options: Options, spec: RunSpec) -> Rules:
    """Make the rules of a stored run with changes; the default is the run's protocol.

    Raises:
        ConfigError: the benchmark has no such protocol or switch, or two options contradict.
    """
    protocol = spec.protocol if options["protocol"] is None else options["protocol"]
    update = {"protocol": protocol, "on": options["with_"], "off": options["without"]}
    return spec.model_copy(update=update).rules()


def add_rubrics(patterns: tuple[str, ...], rubrics: Iterable[str]) -> tuple[str, ...]:
    """Add the dimensions of rubrics to selected dimensions; an empty selection stays empty."""
    return (*patterns, *list_rubric_ids(rubrics)) if patterns else ()


def spec_from(benchmark: str, options: Options, settings: Settings, before: RunSpec | None = None) -> RunSpec:
    """Make the spec of a run from the options of its command.

    Args:
        before: The spec of the run that is resumed; its roots and prompts are the defaults of
            --root and --prompts.

    Raises:
        ConfigError: there is no such benchmark, protocol or switch, or an option is malformed.
    """
    name = benchmark_of(benchmark).name
    before = before if before is not None and before.benchmark == name else None
    rubrics = load_rubric_files(options["rubric"])
    from ..app.spec import RunSpec

    return RunSpec.model_validate(
        {
            "benchmark": name,
            "data": options["data"],
            "outputs": parse_outputs(options["outputs"]),
            "protocol": options["protocol"] or "",
            "on": options["with_"],
            "off": options["without"],
            "roots": _roots(options["root"], before),
            "rounds": options.get("rounds", 1),
            "dimensions": add_rubrics(options["dimension"], rubrics) or None,
            "limit": options["limit"],
            "tasks": options["task"],
            "prompts": _prompts(options["prompts"], before, rubrics),
            "single_image": options["single_image"],
            "services": (*list_custom_services(settings), *(before.services if before else ())),
            **({"judges": names} if (names := tuple(parse_judges(options))) else {}),
        }
    )


def _roots(texts: tuple[str, ...], before: RunSpec | None) -> Mapping[str, Path]:
    """Parse the roots as absolute paths; the default is the roots of the resumed run."""
    roots = parse_roots(texts)
    if before is None or roots == before.roots:
        return roots
    if not roots:
        return before.roots
    print_notice("--root differs from that of the run; the files there are assumed to be the same")
    return roots


def _prompts(folder: Path | None, before: RunSpec | None, rubrics: Mapping[str, str]) -> Mapping[str, str]:
    """The texts of custom prompts and rubrics; the default is the prompts of the resumed run."""
    if folder is not None:
        return {**load_custom_texts(folder), **rubrics}
    texts = before.prompts if before is not None else {}
    if own := [name for name in texts if name not in rubrics]:
        print_notice(f"using the prompts of the run: {', '.join(own)}")
    return {**texts, **rubrics}


def check_judges(judges: Iterable[str], settings: Settings) -> None:
    """Refuse a --judge for which no judge is configured.

    Raises:
        ConfigError: the message names it and the judges there are.
    """
    if settings.gateway is not None:
        return  # it says itself which it has
    for name in judges:
        if name not in settings.judges:
            has = ", ".join(settings.judges) or "none"
            raise ConfigError(
                f"--judge {name}: no judge has this name (there are: {has})",
                f"give --judge {name}=URL, with an address as http://host:port/v1",
            )


def parse_outputs(outputs: tuple[str, ...]) -> dict[str, Path]:
    """Split --outputs into folders by model; the second folder of a model is called MODEL@2.

    Raises:
        ConfigError: a value is not MODEL=DIR, or is given twice.
        InputError: it cannot be told where the name of a model ends.
    """
    fix = "write the model's name before its folder, as ours=out/ours"
    counts, texts = Counter[str](), list[str]()
    for text in outputs:
        model, equals, folder = text.partition("=")
        counts[model] += 1
        number = f"@{counts[model]}" if counts[model] > 1 else ""
        texts.append(f"{model}{number}{equals}{folder}")
    if twice := [text for text, count in Counter(outputs).items() if count > 1]:
        raise ConfigError(f"--outputs {twice[0]} is given twice", "give each folder once")
    folders = parse_pairs("--outputs", texts, "MODEL=DIR", fix)
    for model, folder in folders.items():
        if "=" in folder and not Path(folder).exists():
            raise InputError(
                "--outputs",
                f"{f'{model}={folder}'!r} holds several =, and there is no {folder}",
                "the name of a model ends at the first =, give it another one",
            )
    return {model: Path(folder) for model, folder in folders.items()}


def parse_roots(texts: tuple[str, ...]) -> dict[str, Path]:
    """Parse --root into absolute folders, by their name in the data; by default the path itself.

    Raises:
        ConfigError: a folder does not exist, or two have the same key.
    """
    folders = {text: text for text in texts if "=" not in text}
    for text in folders:
        if not find_url(text) and not Path(text).expanduser().is_dir():
            raise ConfigError(f"--root {text} is not a folder", "give a folder, or OLD=NEW")
    pairs = parse_pairs("--root", tuple(text for text in texts if "=" in text))
    folders_by_name = {old: _absolute(new) for old, new in pairs.items()}
    return folders_by_name | {str(_absolute(text)): _absolute(text) for text in folders}


def _absolute(text: str) -> Path:
    return Path(os.path.abspath(to_path(text).expanduser()))  # noqa: PTH100


def parse_pairs(flag: str, texts: Iterable[str], form: str = "OLD=NEW", fix: str = "") -> dict[str, str]:
    """Parse the values of an option of the form KEY=VALUE.

    Raises:
        ConfigError: a value has another form, or two have the same key.
    """
    pairs: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not key or not equals or not value or not key.isprintable():
            raise ConfigError(f"{flag} {text!r} is not {form}", fix)
        if key in pairs:
            raise ConfigError(f"{flag} is given twice for {key}", "give it once")
        pairs[key] = value
    return pairs


def open_run(run: Path, options: Options = MappingProxyType({})) -> RunView:
    """Open a run to read it, and say where its items come from if that is not its data.

    Args:
        options: Those that say where its pictures are now: `data` and `root`.
    """
    view = open_quietly(run, options)
    with suppress(EditjudgeError):  # the command says it, if it needs them
        if view.data_note:
            print_notice(view.data_note)
    return view


def open_quietly(run: Path, options: Options) -> RunView:
    """Open a run like `open_run`; the page says where items come from."""
    from ..app.view import RunView

    return RunView(run, data=options.get("data"), roots=parse_roots(options.get("root", ())))


def parse_part(what: str, text: str, first: int = 0) -> tuple[int, int]:
    """Parse the value of an option of the form I/N: one of N parts, counted from `first`.

    Raises:
        ConfigError: there is no such part.
    """
    number, slash, count = text.partition("/")
    if not (slash and number.isdecimal() and count.isdecimal() and first <= int(number) < int(count) + first):
        last = "N" if first else "N - 1"
        raise ConfigError(f"--{what} {text} is not a {what}", f"write I/N, with I from {first} to {last}")
    return int(number), int(count)


def parse_ray(options: Options) -> RayOptions | None:
    """Parse --ray with --workers, N or MIN-MAX; None without --ray.

    Raises:
        ConfigError: --workers is no range, or is given without --ray.
    """
    address, text = options["ray"], options["workers"]
    least, _, most = (text or "1").partition("-")
    is_number = least.isdecimal() and (most or least).isdecimal() and int(least) > 0
    if not is_number or (text and not address):
        raise ConfigError(f"--workers {text} cannot be used", "give --ray ADDRESS too, and N or MIN-MAX workers")
    workers = (int(least), max(int(least), int(most or 0))) if text else None
    if not address:
        return None
    from ..app.ray_pool import RayOptions

    return RayOptions(address, workers, options["ledger"] == NO_LEDGER)
