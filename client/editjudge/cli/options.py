"""What several verbs share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ..client import with_local_stack
from ..config import Settings, load_settings, parsed_generalist
from ..errors import ConfigError

if TYPE_CHECKING:
    from ..benchmarks.benchmark import Benchmark, Rules
    from ..benchmarks.replicas import Replicas

F = TypeVar("F", bound=Callable[..., Any])
_UNIFORM = "uniform_weights"


def config_option(function: F) -> F:
    """`--config FILE`."""
    return click.option(
        "--config",
        type=click.Path(path_type=Path),
        help="Settings file instead of ./editjudge.toml.",
    )(function)


def endpoint_option(function: F) -> F:
    """`--endpoint URL`."""
    return click.option(
        "--endpoint",
        "endpoints",
        multiple=True,
        metavar="URL",
        help="Triton server, grpc://host:port or grpcs://host:port; may be given several times.",
    )(function)


def generalist_option(function: F) -> F:
    """`--generalist [NAME=]URL` and `--judge-model NAME`."""
    url = click.option(
        "--generalist",
        "generalists",
        multiple=True,
        metavar="[NAME=]URL",
        help="Multimodal LLM: http(s)://host:port/v1, or grpc://host:port for vLLM's own; NAME is "
        "judge by default. May be given several times.",
    )
    model = click.option(
        "--judge-model", metavar="NAME", help="The model to ask for there, where it has several."
    )
    return url(model(function))


def asking_options(function: F) -> F:
    """How a generalist is asked: `--repeats`, `--max-cost`."""
    repeats = click.option(
        "--repeats",
        type=click.IntRange(1, 1000),
        help="How often each judge is asked. A run keeps every repeat, and its summary has their "
        "mean and spread; score takes the mean of so many replies where these are sampled.",
    )
    cost = click.option(
        "--max-cost",
        type=click.FloatRange(0, min_open=True),
        help="Stop asking before this is spent, in the currency of the configured prices.",
    )
    return repeats(cost(function))


def ledger_option(function: F) -> F:
    """`--ledger FILE`."""
    return click.option(
        "--ledger",
        type=click.Path(path_type=Path),
        help="SQLite file of calls and replies; calls in it are not made again.",
    )(function)


def dimension_option(function: F) -> F:
    """`--dimension ID`."""
    return click.option(
        "--dimension",
        "patterns",
        multiple=True,
        metavar="ID",
        help="Id or glob (core.psnr.*); may be given several times. All by default.",
    )(function)


def judge_option(function: F) -> F:
    """`--judge NAME`."""
    return click.option(
        "--judge",
        "judges",
        multiple=True,
        metavar="NAME",
        help="A generalist that judges, by its name; several judge side by side. judge by default.",
    )(function)


def replicas_of(judges: tuple[str, ...], repeats: int | None) -> Replicas:
    """Which judges, and how often each."""
    from ..benchmarks.replicas import USUAL, Replicas

    return Replicas(tuple(dict.fromkeys(judges)) or (USUAL,), repeats or 1)


def rules_option(function: F) -> F:
    """`--protocol NAME`, `--with SWITCH`, `--without SWITCH` and `--weights`."""
    options = (
        click.option(
            "--protocol",
            metavar="NAME",
            help="paper or official; by default paper, of summary that of the run.",
        ),
        click.option(
            "--with",
            "with_",
            multiple=True,
            metavar="SWITCH",
            help="Turn on what makes another protocol (editjudge list switches).",
        ),
        click.option(
            "--without", multiple=True, metavar="SWITCH", help="Turn off a switch of the protocol."
        ),
        click.option(
            "--weights",
            type=click.Choice(["paper", "uniform"]),
            help="Weights of composites: uniform is --with uniform_weights, paper is --without it.",
        ),
    )
    for option in reversed(options):
        function = option(function)
    return function


def rules_of(
    benchmark: Benchmark,
    protocol: str | None,
    with_: tuple[str, ...],
    without: tuple[str, ...],
    weights: str | None,
    base: str = "",
) -> Rules:
    """The rules that `rules_option` asks for.

    Args:
        base: A protocol in full that is changed where no other is named.

    Raises:
        ConfigError: the benchmark has no such protocol or switch, or both weights are asked for.
    """
    if weights == "uniform":
        with_ = (*with_, _UNIFORM)
    elif weights == "paper" and any(one.name == _UNIFORM for one in benchmark.switches):
        without = (*without, _UNIFORM)
    if base and protocol is None:
        return benchmark.rules_named(base, with_, without)
    return benchmark.rules(protocol, with_, without)


def root_option(function: F) -> F:
    """`--root OLD=NEW`."""
    return click.option(
        "--root",
        "roots",
        multiple=True,
        metavar="OLD=NEW",
        help="Where files lie that the data names by its authors' paths; several times.",
    )(function)


def pairs_of(flag: str, given: tuple[str, ...]) -> dict[str, str]:
    """What a flag with KEY=VALUE gave.

    Raises:
        ConfigError: one is not KEY=VALUE, or a key is given twice.
    """
    found: dict[str, str] = {}
    for one in given:
        key, equals, value = one.partition("=")
        if not key or not equals or not value:
            raise ConfigError(f"{flag} {one} is not OLD=NEW")
        if key in found:
            raise ConfigError(f"{flag} is given twice for {key}", "give it once")
        found[key] = value
    return found


def json_option(function: F) -> F:
    """`--json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print strict JSON.")(function)


def settings_of(config: Path | None, endpoints: tuple[str, ...] = ()) -> Settings:
    """The settings; endpoints given as flags replace those of file and environment.

    Raises:
        ConfigError: a setting cannot be used.
    """
    settings = load_settings(config)
    return settings.at(*endpoints) if endpoints else settings


def with_generalist(
    settings: Settings,
    *,
    generalists: tuple[str, ...] = (),
    judge_model: str | None = None,
    repeats: int | None = None,
    max_cost: float | None = None,
    ledger: Path | None = None,
) -> Settings:
    """The settings with what `generalist_option` and `asking_options` gave.

    A judge given by address has nothing of the configured one: a key must not go elsewhere.

    Raises:
        ConfigError: an address cannot be used, or a flag has no generalist to act on.
    """
    judges = dict(settings.generalists)
    for one in generalists:
        name, equals, url = one.partition("=")
        if not (equals and name.isidentifier()):
            name, url = "judge", one
        judges[name] = parsed_generalist(url)
    changed = _given(model=judge_model, repeats=repeats)
    if changed and "judge" not in judges:
        flag = "--judge-model" if judge_model else "--repeats"
        raise ConfigError(f"{flag} needs a generalist", "give --generalist URL too")
    if changed:
        judges["judge"] = judges["judge"].model_copy(update=changed)
    update = _given(max_cost=max_cost, ledger=ledger)
    return settings.model_copy(update={"generalists": judges, **update})


def _given(**flags: object) -> dict[str, object]:
    return {name: value for name, value in flags.items() if value is not None}


@contextmanager
def services_at_hand(
    settings: Settings, *, start: bool, say: Callable[[str], None]
) -> Iterator[Settings]:
    """The settings with services: configured ones, a running local stack, or one started here.

    Args:
        start: Whether to start one where there is none.
        say: Where progress goes.

    Raises:
        StackError: a stack is needed and does not start.
    """
    settings = with_local_stack(settings)
    if settings.endpoints or not start:
        yield settings
        return
    try:
        from editjudge_services.runtime.launcher import serve_extra_installed, temporary_stack
    except ImportError as error:
        raise ConfigError(f"editjudge's services cannot be loaded: {error}") from error
    if not serve_extra_installed():
        yield settings
        return
    say("starting the local services for this call (editjudge up keeps them running) …")
    with temporary_stack(settings.stack) as server:
        yield settings.at(server.url)
