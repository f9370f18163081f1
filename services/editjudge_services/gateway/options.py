"""How a Judge service is served: its addresses, its bounds, what outlives it and how it ends."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from editjudge.base.errors import ConfigError

_MEGA = 1024 * 1024


@dataclass(frozen=True, slots=True)
class ServiceOptions:
    """The options of `editjudge serve`, and bounds that have none.

    Attributes:
        address: Where callers come to by gRPC, as `host:port`.
        http_address: The same of JSON over HTTP.
        edits: Judged at a time, of all callers.
        edits_of_one: The same of one caller.
        megapixels: Of the pictures that are decoded at a time; service takes up to some 120 MB for
            each. One caller has half of them at most.
        held_bytes: Of the requests that are held at a time; one caller has half of them at most.
            Each stream holds one message more at most, which waits for them.
        streams: Open at a time, of all callers.
        streams_of_one: The same of one caller.
        notice: Seconds between saying that it ends and ending, so that whoever asks for its health
            has seen that others are to be asked.
        drain: Seconds for what is in flight then.
        cache: Folder of calls, which are not made again, and of what teams use; None keeps neither.
        cache_shared: Whether what one team paid for answers another.
        keep_days: How long calls are kept; None for ever.
        audit: The file that has a line for each request; `-` is standard error, None nowhere.
    """

    address: str = "127.0.0.1:8002"
    http_address: str = "127.0.0.1:8003"
    edits: int = 64
    edits_of_one: int = 32
    megapixels: float = 128
    held_bytes: int = 2 * 1024**3
    streams: int = 64
    streams_of_one: int = 8
    notice: float = 6.0
    drain: float = 30.0
    cache: Path | None = None
    cache_shared: bool = False
    keep_days: float | None = None
    audit: Path | None = None

    @property
    def pixels(self) -> int:
        """Of the pictures that are decoded at a time."""
        return int(self.megapixels * _MEGA)

    def check(self) -> None:
        """Refuse what cannot be served.

        Raises:
            ConfigError: an address is none, or an option needs another one.
        """
        for address in (self.address, self.http_address):
            split_address(address)
        for name, value in (("--cache-shared", self.cache_shared), ("--keep-days", self.keep_days)):
            if value and self.cache is None:
                raise ConfigError(f"{name} needs a cache", "give --cache FOLDER too")


def split_address(address: str) -> tuple[str, int]:
    """The host and port of an address; one of IPv6 stands in brackets there.

    Raises:
        ConfigError: it is none.
    """
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise ConfigError(f"{address}: this is no address", "write it as HOST:PORT")
    return host.removeprefix("[").removesuffix("]"), int(port)
