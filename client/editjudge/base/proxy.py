"""Which proxy the environment names for an address; one rule for HTTP and gRPC."""

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
    """Whether a host is a loopback address or name of this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def find_proxy(url: str) -> str | None:
    """Find the proxy for calls to an address; None if calls go directly.

    It is that of `http_proxy` and the like, unless `no_proxy` lists the host. Loopback addresses
    have no proxy.
    """
    from urllib.request import getproxies, proxy_bypass  # brings Python's own HTTP with it

    parts = urlsplit(url)
    host = parts.hostname or ""
    if is_loopback(host) or proxy_bypass(host):
        return None
    proxies = getproxies()
    return next((proxies[n] for n in _NAMED_BY.get(parts.scheme, ()) if proxies.get(n)), None)


def without_password(proxy: str) -> str:
    """The address of a proxy without its user name and password, for messages."""
    parts = urlsplit(proxy)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
