"""Services for a command: those that are configured, a stack that runs, or one for its length."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from importlib.metadata import entry_points
from typing import Protocol

from ..app.client import with_local_stack
from ..base.config import Settings
from ..base.errors import ConfigError
from ..base.local import running_stack

_STACK = "editjudge.stack"


class _Started(Protocol):
    """What a local stack's package starts."""

    @property
    def url(self) -> str:
        """Its address for clients."""

    @property
    def unloaded(self) -> Mapping[str, str]:
        """Models that it could not load, and why."""


def _local_stack(settings: Settings) -> AbstractContextManager[_Started] | None:
    """Start a local stack for the duration of a block; None where no package here can.

    A package that can start one has an entry point in the group `editjudge.stack`.

    Raises:
        ConfigError: that package cannot be loaded.
    """
    for point in entry_points(group=_STACK):
        try:
            start = point.load()
        except (ImportError, AttributeError) as error:
            raise ConfigError(f"editjudge's services cannot be loaded: {error}") from error
        stack: AbstractContextManager[_Started] | None = start(settings.stack)
        if stack is not None:
            return stack
    return None


@contextmanager
def services_at_hand(
    settings: Settings,
    *,
    start: bool,
    say: Callable[[str], None],
    without: Callable[[str, str], None] | None = None,
) -> Iterator[Settings]:
    """Add services to the settings: a running local stack, or one that starts here.

    Args:
        start: Whether to start a stack where no endpoint is configured and no stack runs.
        say: Where progress goes.
        without: Told of each model that the stack could not load, and why; `say` by default.

    Raises:
        StackError: a stack is needed and does not start.
    """
    settings = with_local_stack(settings)
    if settings.gateway is not None:
        yield settings
        return
    tell = without or (lambda model, why: say(f"{model} is not served: {why}"))
    stack = _local_stack(settings) if start and not settings.endpoints else None
    if stack is None:
        running = running_stack()
        urls = {endpoint.url for endpoint in settings.endpoints.values()}
        for model, why in running.unloaded.items() if running and running.grpc in urls else ():
            tell(model, why)
        yield settings
        return
    say("starting the local services for this call (editjudge up keeps them running) …")
    with stack as server:
        for model, why in server.unloaded.items():
            tell(model, why)
        yield settings.at(server.url)
