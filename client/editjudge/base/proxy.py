"""Which proxy the environment names for an address; one rule for HTTP and gRPC."""

import ipaddress
from urllib.parse import urlsplit

_OF_GRPC = ("grpc", "https", "http")
"""The variables `…_proxy` that count for gRPC, the first that is set, as its own library takes them."""


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
    names = _OF_GRPC if parts.scheme in {"grpc", "grpcs"} else (parts.scheme,)
    return next((proxies[name] for name in names if proxies.get(name)), None)


def without_password(proxy: str) -> str:
    """The address of a proxy without its user name and password, for messages."""
    parts = urlsplit(proxy)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
