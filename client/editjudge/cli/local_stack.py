"""The services that a command uses: those of the settings, or a local stack."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from importlib.metadata import entry_points
from typing import Any

from ..app.client import add_local_stack
from ..base.config import Settings
from ..base.errors import ConfigError
from ..base.identity import ServiceName
from ..base.local_stack import running_stack
from ..panel import SPECIALISTS, model_name

_STACK = "editjudge.stack"


def _start_local_stack(settings: Settings, roles: Iterable[ServiceName]) -> AbstractContextManager[Any] | str:
    """Start a local stack for the duration of a block, or return why there is none.

    A package that can start one has an entry point in the group `editjudge.stack`: a function of
    the settings and the names of the needed models. What it starts has `url`, the address for
    clients, and `unloaded_models`, by model the reason. It returns None if it cannot start any
    stack, and the reason if it has none of the models.

    Raises:
        ConfigError: that package cannot be loaded.
    """
    for point in entry_points(group=_STACK):
        try:
            start = point.load()
        except (ImportError, AttributeError) as error:
            raise ConfigError(f"editjudge's services cannot be loaded: {error}") from error
        stack: AbstractContextManager[Any] | str | None
        stack = start(settings.stack, [model_name(role) for role in roles if not role.is_judge])
        if stack is not None:
            return stack
    return ""


@contextmanager
def provide_services(
    settings: Settings,
    *,
    roles: Collection[ServiceName] = tuple(SPECIALISTS),
    say: Callable[[str], None],
    on_unloaded: Callable[[str, str], None] | None = None,
) -> Iterator[Settings]:
    """Add a local stack to the settings: the running one, or a new one for the block.

    Args:
        roles: The needed services. If no endpoint is configured and no stack is running, a stack
            of those that are installed is started. By default all specialists.
        say: Receives progress messages.
        on_unloaded: Receives each model that the stack could not load, and the reason; by default
            they are progress messages.

    Raises:
        StackError: a stack is needed and does not start.
    """
    settings = add_local_stack(settings)
    if settings.gateway is not None:
        yield settings
        return
    report = on_unloaded or (lambda model, why: say(f"{model} is not served: {why}"))
    needs_stack = not settings.endpoints and any(not role.is_judge for role in roles)
    stack = _start_local_stack(settings, roles) if needs_stack else ""
    with ExitStack() as exits:
        unloaded_models: Mapping[str, str] = {}
        if not isinstance(stack, str):
            say("starting the local services for this command (editjudge up keeps them running) …")
            server = exits.enter_context(stack)
            settings, unloaded_models = settings.at(server.url), server.unloaded_models
        elif stack:
            say(f"no local service is started: {stack}")
        elif running := running_stack():
            urls = {endpoint.url for endpoint in settings.endpoints.values()}
            unloaded_models = running.unloaded if running.grpc in urls else {}
        for model, why in unloaded_models.items():
            report(model, why)
        yield settings


def list_default_roles(settings: Settings) -> tuple[ServiceName, ...]:
    """The services that a command without edits needs: none beside a judge that is named."""
    return () if settings.judges else tuple(SPECIALISTS)
