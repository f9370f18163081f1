"""The options of the Judge service: addresses, limits, files, and how it ends."""

from dataclasses import dataclass
from pathlib import Path

from editjudge.base.config import LedgerPlace
from editjudge.base.errors import ConfigError

_MEGA = 1024 * 1024


@dataclass(frozen=True, slots=True)
class ServiceOptions:
    """The options of `editjudge serve`, and limits that have no option.

    Attributes:
        address: The gRPC address, as `host:port`.
        http_address: The address of JSON over HTTP.
        edits: How many edits are in flight at most, of all callers. One caller has half of them,
            with one stream or batch too.
        megapixels: How many megapixels of images are decoded at a time, of all callers. Each takes
            up to about 120 MB of memory while it is judged. A picture that judges and specialists
            only see is checked and not decoded.
        held_bytes: How many bytes of requests are in memory at a time, of all callers. There is
            room for the largest request before one is read.
        rate: How many requests of one caller are read in a second: calls, messages of a stream and
            parts of a batch. After a pause a quarter of as many are read at once.
        streams: How many streams are open at most, of all callers. One that waits for its next
            message has room for it, so all of them take little more than half of `held_bytes`.
        notice: Seconds between the first failing health check and the end of acceptance, so that
            load balancers notice in time.
        drain: Seconds for requests in flight after that.
        cache: The folder of the call cache and the usage file, or the PostgreSQL database that
            holds both for several replicas; None stores neither.
        cache_shared: Whether a reply that one team paid for answers the calls of others.
        keep_days: Days after which replies, usage and lines of the audit log are deleted; 0 deletes
            nothing.
        reward: The file of rewards for trainers; None serves none.
        audit: The file of the audit log; `-` is standard error, None writes none.
    """

    address: str = "127.0.0.1:8002"
    http_address: str = "127.0.0.1:8003"
    edits: int = 128
    megapixels: float = 128
    held_bytes: int = 2 * 1024**3
    rate: int = 200
    streams: int = 16
    notice: float = 6.0
    drain: float = 30.0
    cache: LedgerPlace | None = None
    cache_shared: bool = False
    keep_days: float = 90.0
    audit: Path | None = None
    reward: Path | None = None

    @property
    def pixels(self) -> int:
        """How many pixels are decoded at a time."""
        return int(self.megapixels * _MEGA)

    def check(self) -> None:
        """Check the options before anything is started.

        Raises:
            ConfigError: an address is malformed, or an option needs another one.
        """
        for address in (self.address, self.http_address):
            split_address(address)
        if self.cache_shared and self.cache is None:
            raise ConfigError("--cache-shared needs a cache", "give --cache FOLDER too")


def split_address(address: str) -> tuple[str, int]:
    """Split `host:port`; an IPv6 host is written in brackets.

    Raises:
        ConfigError: the address is malformed.
    """
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise ConfigError(f"{address}: this is not an address", "write it as HOST:PORT")
    return host.removeprefix("[").removesuffix("]"), int(port)
