"""gRPC clients: channels that are replaced when their connection is dead, and typed errors."""

import re
from abc import ABC
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Self, TypeVar
from urllib.parse import urlsplit

from ..base import errors
from ..base.config import Address
from ..base.contracts import TEAM_HEADER
from ..base.errors import Abstention, DeadlineExceeded, NoAccess, ServiceError, Unreachable
from ..base.parse import package_tables
from ..base.proxy import find_proxy
from .redaction import SERVER_WORDS, Secrets, explain_failure, read_error_kinds, shorten
from .renewal import RenewableConnection
from .retry import RetryPolicy, read_clock

T = TypeVar("T")
MAX_REPLY_BYTES = 64 * 1024 * 1024
"""Of one message: more than the mask of the largest picture takes."""
_OPTIONS: Mapping[str, str | int] = package_tables(__package__, "grpc_options.toml")
_ERRORS = read_error_kinds("grpc")


def channel_options(url: str) -> tuple[tuple[str, int | str], ...]:
    """Options of a channel to an address, with its proxy."""
    proxy = find_proxy(url)
    through = (("grpc.http_proxy", proxy),) if proxy else ()
    limit = ("grpc.max_receive_message_length", MAX_REPLY_BYTES)
    return (*_OPTIONS.items(), limit, ("grpc.enable_http_proxy", int(proxy is not None)), *through)


class Connection(ABC):
    """A client of one server; use as an async context manager.

    Attributes:
        url: Address as configured.
        connections: Its connections to the server, or servers, behind that address.
    """

    url: str
    connections: RenewableConnection[Any]

    async def close(self) -> None:
        """Close connections; calls in flight fail or are cancelled."""
        await self.connections.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()


class GrpcConnection(Connection):
    """A client of one gRPC server, with TLS where its address says so.

    A connection whose other end has vanished stays open for minutes, and one to a server that ends
    refuses calls until it is gone. So when a call was lost or got no reply in time, later calls get
    a new channel.

    Args:
        endpoint: Its address and credentials.
        service: The service in errors.
        policy: How often and how long to try.
        stub: Makes the stub for a channel.

    Raises:
        ConfigError: a certificate or a header's secret cannot be read.

    Attributes:
        model: The model in errors, where it is known.
        secrets: Secrets that no error and no reply may hold.
        metadata: Metadata of every call.
    """

    def __init__(self, endpoint: Address, service: str, policy: RetryPolicy, stub: Callable[[Any], Any]) -> None:
        import grpc.aio

        values = endpoint.header_values()
        self.url = endpoint.url
        self.service = service
        self.model = ""
        self.metadata = tuple(values.items())
        self.secrets = Secrets(endpoint.headers, values, find_proxy(endpoint.url))
        self._policy = policy
        self._rpc_error: type[Exception] = grpc.RpcError
        secure = urlsplit(endpoint.url).scheme == "grpcs"
        certificates = endpoint.certificates() if secure else {}
        self._credentials = grpc.ssl_channel_credentials(**certificates) if secure else None
        self._stub_of = stub
        self.connections = RenewableConnection(self._open, lambda pair, s: pair[0].close(s), policy)

    @property
    def stub(self) -> Any:
        """The stub for a call that begins now."""
        return self.connections.get()[1]

    def _open(self) -> tuple[Any, Any]:
        """A new channel and its stub."""
        import grpc.aio

        address, options = urlsplit(self.url).netloc, channel_options(self.url)
        if self._credentials is not None:
            channel = grpc.aio.secure_channel(address, self._credentials, options=options)
        else:
            channel = grpc.aio.insecure_channel(address, options=options)
        return channel, self._stub_of(channel)

    async def await_reply(self, call: Awaitable[T], service: str | None = None, model: str | None = None) -> T:
        """The reply to a call, with failures as typed errors.

        Args:
            call: The call.
            service: The service in errors, where it is not that of the connection.
            model: The model in errors, where it is not that of the connection.
        """
        began = read_clock()
        try:
            reply = await call
        except self._rpc_error as error:
            failure = self.to_error(error, service, model)
            if isinstance(failure, Unreachable | DeadlineExceeded):
                self.connections.renew_after_failure(began)
            raise failure from error
        return reply

    def to_error(self, error: Any, service: str | None = None, model: str | None = None) -> ServiceError | Abstention:
        """The typed error for a `grpc.RpcError`, with the server's own words in one line."""
        detail = shorten(read_status(error))
        kind = _ERRORS.get(error.code().name, ServiceError)
        for row in SERVER_WORDS["grpc_words"]:
            if row["error"] in ("", kind.__name__) and re.search(row["words"], detail):
                kind = getattr(errors, row["means"])
                break
        if issubclass(kind, Unreachable | NoAccess):
            detail = explain_failure(detail)
        return self.make_error(kind, detail, service, model)

    def make_error(
        self, kind: type[ServiceError], detail: str, service: str | None = None, model: str | None = None
    ) -> ServiceError:
        """An error that names this server, without its secrets."""
        service = self.service if service is None else service
        model = self.model if model is None else model
        return kind(self.secrets.redact(detail), service=service, endpoint=self.url, model=model)


async def read_team(call: Any) -> str:
    """The team that a front door names in the headers of its reply; "" where it names none."""
    headers = dict(await call.initial_metadata() or ())
    return shorten(str(headers.get(TEAM_HEADER, "")))


def read_status(error: Any) -> str:
    """The server's own words in a `grpc.RpcError`, or the name of its status."""
    return str(error.details() or error.code().name).strip()
