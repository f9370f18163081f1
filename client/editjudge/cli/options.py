"""What several verbs share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click

from ..client import with_local_stack
from ..config import Settings, load_settings
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
