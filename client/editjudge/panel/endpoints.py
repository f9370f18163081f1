"""The endpoints of the settings: clients, retry policy, prices and consent to send images."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

from ..base.config import JudgeEndpoint, Settings
from ..base.errors import ConfigError
from ..base.identity import ModelIdentity, ServiceName
from ..base.proxy import find_proxy, is_loopback, without_password
from .retry import RetryPolicy
from .specialists import model_name

if TYPE_CHECKING:
    from .transport import Transport
    from .triton import TritonEndpoint

K = TypeVar("K")
V = TypeVar("V")


def make_retry_policy(settings: Settings) -> RetryPolicy:
    """The retry policy of the settings."""
    return RetryPolicy(
        attempts=settings.attempts,
        deadline=settings.deadline,
        first_wait=settings.retry_wait,
        connection_age=settings.connection_age,
    )


def replace_contents(target: dict[K, V], now: Mapping[K, V]) -> None:
    """Replace the contents of a dictionary; others hold the dictionary itself."""
    target.clear()
    target.update(now)


def add_problem(problems: dict[str, str], url: str, text: str) -> None:
    """Add a problem to those of a server."""
    before = problems.get(url)
    problems[url] = f"{before}; {text}" if before else text


async def find_identity(triton: TritonEndpoint, name: ServiceName, timeout: float) -> ModelIdentity | None:
    """Identity of the model behind a specialist at a Triton server; None where it is not ready."""
    model = model_name(name)
    return await triton.identity(model, timeout) if await triton.ready(model, timeout) else None


def check_prices(settings: Settings) -> None:
    """Check that a limit of the cost can be kept.

    Raises:
        ConfigError: a judge has no price, although `max_cost` is set.
    """
    for name, judge in settings.judges.items():
        if settings.max_cost is not None and judge.price is None:
            raise ConfigError(
                f"max_cost is set, but {ServiceName.judge(name)} has no price",
                f"write price = {{input = …, output = …}} in [judges.{name}]",
            )


def make_transport(endpoint: JudgeEndpoint, policy: RetryPolicy, service: str, concurrency: int) -> Transport:
    """The transport for the scheme of an endpoint's address: vLLM's gRPC, or HTTP."""
    if urlsplit(endpoint.url).scheme == "grpc":
        from .vllm import VllmTransport

        return VllmTransport(endpoint, policy, service=service)
    from .openai import OpenAiTransport

    return OpenAiTransport(endpoint, policy, service=service, concurrency=concurrency)


def check_consent(endpoint: JudgeEndpoint) -> None:
    """Refuse to send images outside one's own network, or through a proxy, without consent.

    Raises:
        ConfigError: naming the host or the proxy, and the setting.
    """
    host = urlsplit(endpoint.url).hostname or ""
    proxy = find_proxy(endpoint.url)
    if endpoint.send_images or (_own_network(host) and proxy is None):
        return
    to = f"{host}, outside your own network"
    fix = "set send_images = true for this judge (or --set judges.NAME.send_images=true)"
    if proxy is not None:
        to = f"{host} by the proxy {without_password(proxy)}, which counts as leaving your network"
        fix += f" (or no_proxy={host})"
    raise ConfigError(f"images would be sent to {to}", f"if they may be, {fix}")


def _own_network(host: str) -> bool:
    if is_loopback(host):
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        # A name without a dot, or in a domain that public name servers do not have.
        return "." not in host or host.endswith((".local", ".internal", ".localhost", ".svc"))
    return address.is_private
