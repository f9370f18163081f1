"""The way to a generalist, and whether images may go it."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ..base.errors import ConfigError
from ..base.proxy import is_loopback, proxy_of, without_password
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
    """Refuse to send images to a server outside one's own network, or by a proxy, without consent.

    Raises:
        ConfigError: naming the host or the proxy, and the setting.
    """
    host = urlsplit(endpoint.url).hostname or ""
    proxy = proxy_of(endpoint.url)
    if endpoint.send_images or (_own_network(host) and proxy is None):
        return
    to, mend = f"{host}, outside your own network", "set send_images = true for this generalist"
    if proxy is not None:
        to = f"{host} by the proxy {without_password(proxy)}, which counts as leaving your network"
        mend += f" (or no_proxy={host})"
    raise ConfigError(f"{endpoint.url}: images would be sent to {to}", f"if they may be, {mend}")


def _own_network(host: str) -> bool:
    if is_loopback(host):
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        # A name without a dot, or in a domain that public name servers do not have.
        return "." not in host or host.endswith((".local", ".internal", ".localhost", ".svc"))
    return address.is_private
