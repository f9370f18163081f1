"""The way to a generalist, and whether images may go it."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ..base.errors import ConfigError
from .transport import Transport

if TYPE_CHECKING:
    from ..base.config import GeneralistEndpoint
    from .retry import RetryPolicy


def transport_for(
    endpoint: GeneralistEndpoint, policy: RetryPolicy, service: str, concurrency: int
) -> Transport:
    """The transport that an address asks for."""
    if urlsplit(endpoint.url).scheme == "grpc":
        from .vllm import VllmTransport

        return VllmTransport(endpoint, policy, service=service)
    from .openai import OpenAiTransport

    return OpenAiTransport(endpoint, policy, service=service, concurrency=concurrency)


def check_consent(endpoint: GeneralistEndpoint) -> None:
    """Refuse to send images to a server outside one's own network without consent.

    Raises:
        ConfigError: naming the host and the setting.
    """
    host = urlsplit(endpoint.url).hostname or ""
    if endpoint.send_images or _own_network(host):
        return
    raise ConfigError(
        f"{endpoint.url}: images would be sent to {host}, outside your own network",
        "if they may be, set send_images = true for this generalist",
    )


def _own_network(host: str) -> bool:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        # A name without a dot, or in a domain that public name servers do not have.
        return "." not in host or host.endswith((".local", ".internal", ".localhost", ".svc"))
    return address.is_private or address.is_loopback
