"""Which proxy the environment names for an address; one rule for HTTP and gRPC."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

_NAMED_BY: dict[str, tuple[str, ...]] = {
    "http": ("http",),
    "https": ("https",),
    # As gRPC's own library takes them.
    "grpc": ("grpc", "https", "http"),
    "grpcs": ("grpc", "https", "http"),
}
"""By an address's scheme, the variables `…_proxy` that count, the first that is set."""


def is_loopback(host: str) -> bool:
    """Whether a host is this machine by its own name for itself."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def find_proxy(url: str) -> str | None:
    """The proxy that calls to an address go through; None where they go straight.

    It is that of `http_proxy` and its kin, unless `no_proxy` has the host. This machine is never
    asked through a proxy.
    """
    from urllib.request import getproxies, proxy_bypass  # brings Python's own HTTP with it

    parts = urlsplit(url)
    host = parts.hostname or ""
    if is_loopback(host) or proxy_bypass(host):
        return None
    proxies = getproxies()
    return next((proxies[n] for n in _NAMED_BY.get(parts.scheme, ()) if proxies.get(n)), None)


def without_password(proxy: str) -> str:
    """A proxy's address as people may see it."""
    parts = urlsplit(proxy)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
