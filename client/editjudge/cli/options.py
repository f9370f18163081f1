"""What several verbs share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click

from ..client import with_local_stack
from ..config import Settings, load_settings, parsed_generalist
from ..errors import ConfigError

F = TypeVar("F", bound=Callable[..., Any])


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
    """`--generalist URL` and `--judge-model NAME`."""
    url = click.option(
        "--generalist",
        metavar="URL",
        help="Multimodal LLM: http(s)://host:port/v1, or grpc://host:port for vLLM's own.",
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
        help="Replies to average where the generalist tells no probabilities.",
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
    generalist: str | None = None,
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
    if generalist is not None:
        judges["judge"] = parsed_generalist(generalist)
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
