"""The values of the front door, from which the configuration of Envoy is rendered."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, Self
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Field, StringConstraints, model_validator

from editjudge.base.contracts import CLASS_HEADER, LONGEST_NAME, NAME, TEAM_HEADER, TOKENS_HEADER
from editjudge.base.strict import Strict

_HOST = r"[A-Za-z0-9_.:%-]+"
CallClass = Literal["interactive", "batch"]
CALL_CLASSES: tuple[CallClass, ...] = ("interactive", "batch")
Name = Annotated[str, StringConstraints(pattern=f"^{NAME}$", max_length=LONGEST_NAME)]


class Address(NamedTuple):
    """A host name or IP address, and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @classmethod
    def parse(cls, text: object) -> Address:
        """Parse `host:port`.

        Raises:
            ValueError: the text is not an address.
        """
        if isinstance(text, tuple):
            return cls(*text)
        parts = urlsplit(f"//{text}")
        host = parts.hostname or ""
        if not re.fullmatch(_HOST, host) or parts.port is None or parts.path or parts.username:
            raise ValueError("write it as host:port")
        return cls(host, parts.port)


AddressField = Annotated[Address, BeforeValidator(Address.parse)]
Port = Annotated[int, Field(ge=0, le=65535)]
Positive = Annotated[int, Field(ge=1, le=2**31 - 1)]
Text = Annotated[str, Field(min_length=1)]


FileOrUrl = Annotated[str, BeforeValidator(lambda where: str(where) if isinstance(where, Path) else where)]
"""A file or a URL; a string, since a `Path` would merge the slashes of a URL."""


class TokenAuthentication(Strict):
    """The authentication of callers by JSON Web Tokens (JWT).

    Attributes:
        keys: A file or http(s) URL with the public keys of the token issuers (JWKS). A replaced
            file is read again.
        issuer: The required value of the claim `iss`.
        audience: The required value of the claim `aud`.
        team_claim: The name of the claim that names the team.
        class_claim: The name of the claim that is `interactive` or `batch`; without it, calls are
            batch.
        key_cache_seconds: The longest time that a removed key is still accepted.
        ca: The certificate authorities (PEM) that are trusted for an https URL of keys.
    """

    keys: FileOrUrl
    issuer: Text = "editjudge"
    audience: Text = "judges"
    team_claim: Text = "team"
    class_claim: Text = "class"
    key_cache_seconds: Positive = 2
    ca: Path = Path("/etc/ssl/certs/ca-certificates.crt")

    @property
    def url(self) -> str:
        """The URL of the keys; "" if they are in a file."""
        return self.keys if "://" in self.keys else ""

    @model_validator(mode="after")
    def _check_url(self) -> Self:
        parts = urlsplit(self.url)
        if self.url and (parts.scheme not in {"http", "https"} or not parts.hostname):
            raise ValueError("write `keys` as https://host/path, or as a file")
        if parts.port == 0:  # asking for it finds one above 65535 too
            raise ValueError("no port is 0")
        return self


class TritonServers(Strict):
    """A group of Triton servers that serve the same models.

    Attributes:
        addresses: Their addresses; a DNS name may stand for several servers.
        models: The models that the group serves; empty means all models of no other group.
    """

    addresses: tuple[AddressField, ...] = Field(min_length=1)
    models: tuple[Name, ...] = ()


class JudgeServers(Strict):
    """A group of vLLM servers that serve the same model over the OpenAI-compatible API.

    Attributes:
        addresses: Their addresses; a DNS name may stand for several servers.
    """

    addresses: tuple[AddressField, ...] = Field(min_length=1)


class InsideJudges(Strict):
    """Judges for the Judge service and runs, spread by source as those of callers are.

    Attributes:
        listen: The address of a listener without TLS and without tokens. Who can connect to it can
            ask these judges, and no other server.
        judges: vLLM servers by name.
    """

    listen: AddressField
    judges: dict[Name, JudgeServers] = Field(min_length=1)


class GatewayServers(Strict):
    """Replicas of the Judge service.

    Attributes:
        addresses: Their gRPC addresses; a DNS name may stand for several servers.
        json_addresses: Their addresses for JSON over HTTP, in the same order; empty turns JSON off.
    """

    addresses: tuple[AddressField, ...] = Field(min_length=1)
    json_addresses: tuple[AddressField, ...] = ()


class Rate(Strict):
    """The rate limit of a team, a token bucket.

    Attributes:
        calls_per_second: The rate at which the bucket is filled.
        burst: The size of the bucket: calls that may come at once after a pause.
    """

    calls_per_second: Positive = 200
    burst: Positive = 100


class TokenLimits(Strict):
    """Limits on the tokens that teams use on judges, held by a rate-limit service.

    The service speaks Envoy's rate-limit protocol, version 3, with the descriptors `kind=tokens`
    and `team=NAME`. A call to the Judge service is admitted while tokens are left. Its tokens are
    deducted when it ends, so the calls in flight may exceed the limit.

    Attributes:
        service: The address of the rate-limit service; a DNS name may stand for several servers.
        domain: The rate-limit domain in the configuration of this service.
        uncounted: Teams whose tokens are not counted. Only they may call judges directly, since
            only the Judge service reports the tokens of a call.
        open_when_down: Whether calls are admitted, uncounted, while the rate-limit service does not
            answer. Otherwise they fail with UNAVAILABLE.
    """

    service: AddressField
    domain: Text = "editjudge"
    uncounted: tuple[Name, ...] = ()
    open_when_down: bool = False


class Limits(Strict):
    """Limits that protect the front door and the servers behind it.

    Attributes:
        request_bytes: The maximum size of one request.
        heap_bytes: The limit on Envoy's heap, which has the buffers of all requests. Above nine
            tenths of it the largest requests are reset; above all of it no new ones are accepted.
        call_seconds: The maximum duration of one call, including retries.
        stream_seconds: The maximum duration of one stream; its token is checked only at the start.
        stream_idle_seconds: The idle timeout of a stream: no byte in either direction.
        streams_per_minute: The maximum number of streams that a team opens per minute.
        open_calls: The maximum number of calls and streams that are open to the Judge service, for
            each class. It divides its own places among teams.
        idle_seconds: The idle timeout of a call: no byte in either direction.
        connection_idle_seconds: The idle timeout of a connection: no call.
        connection_seconds: The age at which a connection, of a caller or to a server, takes no
            more calls, so that what came since gets some. Its calls end as they would.
        connections: The maximum number of connections of all callers together.
        streams: The maximum number of concurrent HTTP/2 streams on one connection.
        teams: The maximum number of teams with token buckets of their own at a time.
        interactive: The maximum number of interactive calls in flight to each group of Triton or
            vLLM servers.
        batch: The same of batch calls. It leaves capacity to interactive calls.
    """

    request_bytes: Positive = 64 * 1024 * 1024
    heap_bytes: Annotated[int, Field(ge=64 * 1024 * 1024, le=2**50)] = 2 * 1024**3
    call_seconds: Positive = 300
    stream_seconds: Positive = 600
    stream_idle_seconds: Positive = 120
    streams_per_minute: Positive = 60
    open_calls: Positive = 8192
    idle_seconds: Positive = 300
    connection_idle_seconds: Positive = 60
    connection_seconds: Positive = 300
    connections: Positive = 4096
    streams: Positive = 256
    teams: Positive = 1000
    interactive: Positive = 256
    batch: Positive = 64


class FrontValues(Strict):
    """All values of the front door.

    Attributes:
        listen: The address that callers connect to.
        metrics: The address for Prometheus metrics and the readiness probe; not for callers.
        admin_port: Envoy's admin port, on loopback.
        certificate: The front door's certificate chain (PEM).
        private_key: The key of the certificate (PEM).
        client_ca: The certificate authority (PEM) of the client certificates that callers must
            present; None requires none.
        tokens: The authentication of callers.
        triton: Triton servers by group name.
        judges: vLLM servers by the name under which callers reach them.
        gateway: The replicas of the Judge service.
        inside: Judges that the Judge service asks through the front door; None has it ask them itself.
        rate: The rate limit of each team without an own one.
        rates: Rate limits by team.
        token_limits: Limits on the tokens of teams; None counts no tokens.
        limits: Limits on sizes, durations and concurrency.
        drain_seconds: The time for calls in flight to finish when the front door ends.
        otlp: The address of a trace collector (OTLP over gRPC).
        trace_percent: The share of calls that are traced, in percent.
    """

    listen: AddressField
    metrics: AddressField
    admin_port: Port
    certificate: Path
    private_key: Path
    client_ca: Path | None = None
    tokens: TokenAuthentication
    triton: dict[str, TritonServers] = Field(default_factory=dict)
    judges: dict[Name, JudgeServers] = Field(default_factory=dict)
    gateway: GatewayServers | None = None
    inside: InsideJudges | None = None
    rate: Rate = Rate()
    rates: dict[Name, Rate] = Field(default_factory=dict)
    token_limits: TokenLimits | None = None
    limits: Limits = Limits()
    drain_seconds: Positive = 30
    otlp: AddressField | None = None
    trace_percent: float = Field(default=1.0, ge=0, le=100, allow_inf_nan=False)

    @model_validator(mode="after")
    def _check_consistency(self) -> Self:
        rest = [name for name, servers in self.triton.items() if not servers.models]
        if len(rest) > 1:
            raise ValueError(f"only one of {', '.join(rest)} can serve what no others do")
        models = [model for servers in self.triton.values() for model in servers.models]
        if twice := sorted({model for model in models if models.count(model) > 1}):
            raise ValueError(f"{', '.join(twice)}: served by two groups of servers")
        if not (self.triton or self.judges or self.gateway):
            raise ValueError("there is nothing to stand in front of")
        if self.token_limits and not self.gateway:
            raise ValueError("token_limits: `gateway` is missing, which reports tokens")
        return self

    def required_files(self) -> dict[str, Path]:
        """Return the files that Envoy reads when it starts, by the name of the value."""
        own = {"client_ca": self.client_ca} if self.client_ca else {}
        if not self.tokens.url:
            own["tokens.keys"] = Path(self.tokens.keys)
        elif self.tokens.url.startswith("https"):
            own["tokens.ca"] = self.tokens.ca
        return own


OWN_HEADERS = (
    *(TEAM_HEADER, CLASS_HEADER, TOKENS_HEADER),
    *("x-llm-d-inference-fairness-id", "x-llm-d-inference-objective"),
)
"""Headers that only the front door sets. It removes them from requests of callers."""
