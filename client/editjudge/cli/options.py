"""What several verbs share: options, each group of them handed over as one object.

`--help` on a verb loads this, so what options become is imported where they become it.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ParamSpec, TypeAlias, TypeVar, get_type_hints

import click

from ..base.errors import ConfigError, InputError
from ..base.screen import tell

if TYPE_CHECKING:
    from ..app.spec import RunSpec
    from ..base.config import Concurrency, Settings
    from ..base.identity import ServiceName
    from ..benchmarks.benchmark import Rules

P = ParamSpec("P")
T = TypeVar("T")
G = TypeVar("G")
Function: TypeAlias = Callable[P, T]
_PATH = click.Path(path_type=Path)
_UNIFORM = "uniform_weights"


def options(group: type[G], name: str) -> Callable[[Function[P, T]], Function[P, T]]:
    """Add the options with which a dataclass's fields are annotated.

    Args:
        name: Of the argument as which the command gets all of them.
    """
    hints = get_type_hints(group, include_extras=True)

    def decorated(function: Function[P, T]) -> Function[P, T]:
        @functools.wraps(function)
        def command(*args: P.args, **kwargs: P.kwargs) -> T:
            kwargs[name] = group(**{field: kwargs.pop(field) for field in hints})
            return function(*args, **kwargs)

        for hint in reversed(hints.values()):
            (declare,) = hint.__metadata__
            command = declare(command)
        return command

    return decorated


json_option = click.option("--json", "as_json", is_flag=True, help="Print strict JSON.")
ledger_option = click.option(
    "--ledger",
    type=_PATH,
    help="SQLite file of calls and replies; calls in it are not made again.",
)
limit_option = click.option("--limit", type=click.IntRange(1), help="Only the first items.")
concurrency_option = click.option(
    "--concurrency",
    metavar="[[START]..]MAX",
    help="Calls in flight per endpoint at most, and at first; with START, so many at first and"
    " never fewer; as ..MAX how many is found out.",
)
cost_option = click.option(
    "--max-cost",
    type=click.FloatRange(0, min_open=True),
    help="Stop asking before this is spent, in the currency of the configured prices.",
)
config_option = click.option(
    "--config", type=_PATH, help="Settings file instead of ./editjudge.toml."
)
endpoint_option = click.option(
    "--endpoint",
    "endpoints",
    multiple=True,
    metavar="URL",
    help="Triton server, grpc://host:port or grpcs://host:port; may be given several times.",
)
dimension_option = click.option(
    "--dimension",
    "-d",
    "patterns",
    multiple=True,
    metavar="ID",
    help="Id, part of one (ssim), glob (core.psnr.*), or title of a table's column; may be given "
    "several times. All by default.",
)
prompts_option = click.option(
    "--prompts",
    type=_PATH,
    metavar="DIR",
    help="Templates of your own, which replace ours by name (editjudge prompts check DIR).",
)
rubric_option = click.option(
    "--rubric",
    "rubrics",
    multiple=True,
    type=_PATH,
    metavar="FILE",
    help="A criterion of your own with its scale, as a dimension rubric.<name of the file>; may be "
    "given several times (editjudge prompts preview FILE).",
)
as_named_option = click.option(
    "--as-named",
    is_flag=True,
    help="Take outputs by their names, also where their sizes say that they are those of the items "
    "beside them.",
)
single_image_option = click.option(
    "--single-image",
    "single_image",
    multiple=True,
    metavar="MODEL",
    help="A model that takes one image only: it needs no output to several, and the paper's rule "
    "holds where it gave none. A run remembers it; may be given several times.",
)


@dataclass(frozen=True)
class JudgeOptions:
    """Which generalists there are, and the settings file."""

    generalists: Annotated[
        tuple[str, ...],
        click.option(
            "--generalist",
            "generalists",
            multiple=True,
            metavar="[NAME=]URL",
            help="Multimodal LLM: http(s)://host:port/v1, or grpc://host:port for vLLM's own; NAME "
            "is judge by default. May be given several times.",
        ),
    ]
    judge_model: Annotated[
        str | None,
        click.option(
            "--judge-model",
            metavar="NAME",
            help="Which model the generalist `judge` asks for, where its server has several.",
        ),
    ]
    config: Annotated[Path | None, config_option]

    def settings(
        self,
        *,
        repeats: int | None = None,
        max_cost: float | None = None,
        ledger: Path | None = None,
        concurrency: str | None = None,
    ) -> Settings:
        """Read the settings, with what these options and the further ones change.

        A generalist named by its address takes nothing from the configured one of the same name: a
        key must not go elsewhere.

        Raises:
            ConfigError: an address or a range cannot be used, or a flag has no generalist to act
                on.
        """
        from ..base.config import GeneralistEndpoint

        settings = settings_of(self.config, getattr(self, "endpoints", ()))
        judges = dict(settings.generalists)
        for text in self.generalists:
            name, equals, url = text.partition("=")
            if not (equals and name.isidentifier()):
                name, url = "judge", text
            judges[name] = GeneralistEndpoint.at(url, "generalist")
        changed = _without_none(model=self.judge_model, repeats=repeats)
        if changed and "judge" not in judges:
            flag = "--judge-model" if self.judge_model else "--repeats"
            raise ConfigError(f"{flag} needs a generalist", "give --generalist URL too")
        if changed:
            judges["judge"] = judges["judge"].model_copy(update=changed)
        calls = None if concurrency is None else concurrency_of(concurrency)
        update = _without_none(max_cost=max_cost, ledger=ledger, concurrency=calls)
        return settings.model_copy(update={"generalists": judges, **update})


@dataclass(frozen=True)
class ServiceOptions(JudgeOptions):
    """Where generalists and specialists are, and the settings file."""

    endpoints: Annotated[tuple[str, ...], endpoint_option]


@dataclass(frozen=True)
class GatewayOptions(ServiceOptions):
    """The same, or the Judge service that judges instead of them."""

    gateway: Annotated[
        str | None,
        click.option(
            "--gateway",
            metavar="URL",
            help="Judge through this Judge service, grpc(s)://host:port, instead of reaching "
            "generalists and specialists from here (docs/sharing.md).",
        ),
    ]

    def settings(
        self,
        *,
        repeats: int | None = None,
        max_cost: float | None = None,
        ledger: Path | None = None,
        concurrency: str | None = None,
    ) -> Settings:
        """As of every command; with a Judge service nothing that it decides may be given.

        A flag that says where a judge is, or how it is asked, comes before a `gateway` of the
        settings file.

        Raises:
            ConfigError: as of every command, or a flag contradicts --gateway.
        """
        own = {
            "--endpoint": self.endpoints,
            "--generalist": self.generalists,
            "--judge-model": self.judge_model,
            "--repeats": repeats,
            "--ledger": ledger,
        }
        decided = [flag for flag, value in own.items() if value]
        if self.gateway is not None and decided:
            raise ConfigError(
                f"--gateway and {decided[0]} contradict each other: the Judge service has its own",
                "give one of the two",
            )
        settings = super().settings(
            repeats=repeats, max_cost=max_cost, ledger=ledger, concurrency=concurrency
        )
        if self.gateway is not None:
            return settings.through(self.gateway)
        return settings.model_copy(update={"gateway": None}) if decided else settings


@dataclass(frozen=True)
class RulesOptions:
    """The rules: a protocol, and switches that change it."""

    protocol: Annotated[
        str | None,
        click.option(
            "--protocol",
            metavar="NAME",
            help="paper or official; by default paper, of summary that of the run.",
        ),
    ]
    with_: Annotated[
        tuple[str, ...],
        click.option(
            "--with",
            "with_",
            multiple=True,
            metavar="SWITCH",
            help="Turn on what makes another protocol (editjudge list switches).",
        ),
    ]
    without: Annotated[
        tuple[str, ...],
        click.option(
            "--without", multiple=True, metavar="SWITCH", help="Turn off a switch of the protocol."
        ),
    ]
    weights: Annotated[
        str | None,
        click.option(
            "--weights",
            type=click.Choice(["paper", "uniform"]),
            help="Weights of composites: uniform is --with uniform_weights, paper is --without it.",
        ),
    ]

    def switches(self, benchmark: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The switches to turn on, and those to turn off."""
        from ..benchmarks.registry import benchmark as benchmark_of

        on, off = self.with_, self.without
        if self.weights == "uniform":
            on = (*on, _UNIFORM)
        elif self.weights and hasattr(benchmark_of(benchmark).switches, _UNIFORM):
            off = (*off, _UNIFORM)
        return on, off

    def rules(self, spec: RunSpec) -> Rules:
        """Change the rules of a stored run; without --protocol they keep the run's protocol.

        Raises:
            ConfigError: the benchmark has no such protocol or switch, or two flags contradict.
        """
        on, off = self.switches(spec.benchmark)
        protocol = spec.protocol if self.protocol is None else self.protocol
        return spec.model_copy(update={"protocol": protocol, "on": on, "off": off}).rules()


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


@dataclass(frozen=True)
class SpecOptions(RulesOptions):
    """What a run judges, and by which rules."""

    benchmark: Annotated[str, click.argument("benchmark")]
    data: Annotated[
        Path,
        click.option(
            "--data",
            required=True,
            type=_PATH,
            help="The benchmark's data: items.jsonl of core (docs/runs.md), a folder "
            "(docs/benchmarks.md).",
        ),
    ]
    roots: Annotated[
        tuple[str, ...],
        click.option(
            "--root",
            "roots",
            multiple=True,
            metavar="[OLD=]FOLDER",
            help="A folder outside that of the data whose pictures it may name; OLD is what "
            "official data calls it. May be given several times.",
        ),
    ]
    outputs: Annotated[
        tuple[str, ...],
        click.option(
            "--outputs",
            "outputs",
            multiple=True,
            metavar="MODEL=DIR",
            help="A model under test and its DIR/<item id>.png; may be given several times. "
            ":sources in the place of DIR judges the sources themselves, unedited.",
        ),
    ]
    patterns: Annotated[tuple[str, ...], dimension_option]
    tasks: Annotated[
        tuple[str, ...],
        click.option(
            "--task",
            "tasks",
            multiple=True,
            metavar="TASK",
            help="Only items of this task, or of all that a glob names; may be given several "
            "times.",
        ),
    ]
    single_image: Annotated[tuple[str, ...], single_image_option]
    limit: Annotated[int | None, limit_option]
    judges: Annotated[
        tuple[str, ...],
        click.option(
            "--judge",
            "judges",
            multiple=True,
            metavar="NAME",
            help="A generalist that judges, by its name; several judge side by side. judge by "
            "default.",
        ),
    ]
    rounds: Annotated[
        int,
        click.option(
            "--rounds",
            type=click.IntRange(1, 1000),
            default=1,
            help="How often each judge judges. Every round is kept, and the summary has their mean "
            "and spread.",
        ),
    ]
    prompts: Annotated[Path | None, prompts_option]
    rubrics: Annotated[tuple[Path, ...], rubric_option]

    def spec(
        self, before: RunSpec | None = None, services: tuple[ServiceName, ...] = ()
    ) -> RunSpec:
        """Make the spec.

        Args:
            before: The spec of the run that is resumed; it keeps its roots and its prompts where
                no --root and no --prompts say otherwise.
            services: Specialists of one's own, by the settings.

        Raises:
            ConfigError: there is no such benchmark, protocol or switch, or an option is malformed.
        """
        from ..app.spec import RunSpec
        from ..benchmarks.registry import benchmark as benchmark_of
        from ..prompts.rubrics import rubric_files

        on, off = self.switches(benchmark_of(self.benchmark).name)
        judges = {"judges": self.judges} if self.judges else {}
        rubrics = rubric_files(self.rubrics)
        return RunSpec.model_validate(
            {
                "benchmark": self.benchmark,
                "data": self.data,
                "outputs": models_of(self.outputs),
                "protocol": self.protocol or "",
                "on": on,
                "off": off,
                "roots": self._roots(before),
                "rounds": self.rounds,
                "dimensions": with_rubrics(self.patterns, rubrics),
                "limit": self.limit,
                "tasks": self.tasks,
                "prompts": self._prompts(before, rubrics),
                "single_image": self.single_image,
                "services": (*services, *(before.services if before else ())),
                **judges,
            }
        )

    def _roots(self, before: RunSpec | None) -> Mapping[str, Path]:
        """The roots, absolute so that they hold in any folder; by default those of the run."""
        roots = roots_of(self.roots)
        if before is None or before.benchmark != self.benchmark or roots == before.roots:
            return roots
        if not roots:
            return before.roots
        tell("--root differs from that of the run: the files there are taken to be the same")
        return roots

    def _prompts(self, before: RunSpec | None, rubrics: Mapping[str, str]) -> Mapping[str, str]:
        """The texts of prompts, by default those that the run is asked in, and rubrics."""
        if self.prompts is not None:
            return {**texts_in(self.prompts), **rubrics}
        kept = before.prompts if before is not None and before.benchmark == self.benchmark else {}
        if told := [name for name in kept if name not in rubrics]:
            tell(f"asked in the run's own prompts: {', '.join(told)}")
        return {**kept, **rubrics}

    def check_judges(self, settings: Settings) -> None:
        """Refuse a --judge for which no generalist is configured.

        Raises:
            ConfigError: the message names it and the generalists there are.
        """
        if settings.gateway is not None:
            return  # it says itself which it has
        for name in self.judges:
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


def pairs_of(flag: str, texts: tuple[str, ...]) -> dict[str, str]:
    """Split the values of a flag that takes OLD=NEW.

    Raises:
        ConfigError: a value is not OLD=NEW, or two have the same key.
    """
    pairs: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not key or not equals or not value:
            raise ConfigError(f"{flag} {text} is not OLD=NEW")
        if key in pairs:
            raise ConfigError(f"{flag} is given twice for {key}", "give it once")
        pairs[key] = value
    return pairs


def concurrency_of(text: str) -> Concurrency:
    """The value of --concurrency.

    Raises:
        ConfigError: it is no range.
    """
    from ..base.config import Concurrency

    try:
        return Concurrency.parsed(text)
    except ValueError as error:
        raise ConfigError(f"--concurrency {text}: {error}") from error


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


def settings_of(config: Path | None, endpoints: tuple[str, ...] = ()) -> Settings:
    """The settings; endpoints given as flags replace those of file and environment.

    Raises:
        ConfigError: a setting cannot be used.
    """
    from ..base.config import load_settings

    settings = load_settings(config)
    return settings.at(*endpoints) if endpoints else settings


def _without_none(**flags: object) -> dict[str, object]:
    return {name: value for name, value in flags.items() if value is not None}
