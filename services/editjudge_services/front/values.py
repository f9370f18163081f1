"""The values that Envoy's configuration is rendered from."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, Self
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Field, StringConstraints, model_validator

from editjudge.base.contracts import LONGEST_NAME, NAME
from editjudge.base.strict import Strict

_HOST = r"[A-Za-z0-9_.:%-]+"
Class = Literal["interactive", "batch"]
CLASSES: tuple[Class, ...] = ("interactive", "batch")
Name = Annotated[str, StringConstraints(pattern=f"^{NAME}$", max_length=LONGEST_NAME)]


class Address(NamedTuple):
    """A host, by name or number, and a port."""

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


At = Annotated[Address, BeforeValidator(Address.parse)]
Port = Annotated[int, Field(ge=0, le=65535)]
Positive = Annotated[int, Field(ge=1, le=2**31 - 1)]
Text = Annotated[str, Field(min_length=1)]


def _as_text(where: object) -> object:
    return str(where) if isinstance(where, Path) else where


FileOrUrl = Annotated[str, BeforeValidator(_as_text)]
"""A file or a URL, as text, since a `Path` would merge the slashes of a URL."""


class Tokens(Strict):
    """How callers are authenticated: by a JWT.

    Attributes:
        keys: The public keys of signers (a JWKS), as a file or an http(s) URL. A file is read
            again when it is replaced.
        issuer: The claim `iss` that tokens must have.
        audience: The claim `aud` that tokens must have.
        team_claim: The claim with the team's name.
        class_claim: The claim with `interactive` or `batch`; a token without it is batch.
        key_cache_seconds: How long a key may still be accepted after it was removed.
        ca: The certificate authorities of an https URL of keys (PEM).
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
        """The URL of the keys; "" where they are a file."""
        return self.keys if "://" in self.keys else ""

    @model_validator(mode="after")
    def _check_url(self) -> Self:
        parts = urlsplit(self.url)
        if self.url and (parts.scheme not in {"http", "https"} or not parts.hostname):
            raise ValueError("write `keys` as https://host/path, or as a file")
        if parts.port == 0:  # asking for it finds one above 65535 too
            raise ValueError("no port is 0")
        return self

    @property
    def claims(self) -> dict[str, str]:
        """The claims' names and values, as `TeamKeys.issue_token` takes them."""
        return self.model_dump(include={"issuer", "audience", "team_claim", "class_claim"})


class TritonServers(Strict):
    """Triton servers that serve the same models.

    Attributes:
        addresses: Their addresses; a DNS name may stand for several servers.
        models: The models that only they serve; none means all models that no others serve.
    """

    addresses: tuple[At, ...] = Field(min_length=1)
    models: tuple[Name, ...] = ()


class JudgeServers(Strict):
    """vLLM servers of one model.

    Attributes:
        addresses: Their addresses; a DNS name may stand for several servers.
        protocol: `http` is the OpenAI-compatible API, `grpc` vLLM's own.
    """

    addresses: tuple[At, ...] = Field(min_length=1)
    protocol: Literal["http", "grpc"] = "http"


class GatewayServers(Strict):
    """Replicas of the Judge service.

    Attributes:
        addresses: Their gRPC addresses; a DNS name may stand for several servers.
        json_addresses: Their addresses of JSON over HTTP; none turns JSON off.
    """

    addresses: tuple[At, ...] = Field(min_length=1)
    json_addresses: tuple[At, ...] = ()


class Rate(Strict):
    """The rate limit of a team: a token bucket.

    Attributes:
        calls_per_second: Calls per second on average.
        burst: Calls at once after a pause.
    """

    calls_per_second: Positive = 200
    burst: Positive = 400


class TokenLimits(Strict):
    """Tokens of judges, counted by a rate-limit service (Envoy's protocol, version 3).

    The rate-limit service holds the limits; its descriptors are `kind=tokens` and `team=NAME`. A
    call to the Judge service is admitted while tokens are left, and what it used is deducted when
    it ends, so a team may overdraw its limit by the calls in flight.

    Attributes:
        service: The address of the rate-limit service; a DNS name may stand for several servers.
        domain: The domain of its limits.
        uncounted: Teams whose tokens are not counted. Only they reach judges directly, since the
            Judge service is what reports the tokens of a call.
        open_when_down: Whether calls are admitted, uncounted, while the rate-limit service does not
            answer. Otherwise they fail with UNAVAILABLE.
    """

    service: At
    domain: Text = "editjudge"
    uncounted: tuple[Name, ...] = ()
    open_when_down: bool = False


class Limits(Strict):
    """Limits that protect the front door and the servers behind it.

    Attributes:
        request_bytes: The size of one request.
        heap_bytes: Envoy's memory for all requests that it buffers. Above nine tenths of it the
            largest requests are ended; above the limit no further ones are accepted.
        call_seconds: The duration of one call, including retries.
        stream_seconds: The duration of one stream; its token is checked only when it opens.
        stream_idle_seconds: How long a stream may be without a byte in either direction.
        streams_per_minute: How many streams a team may open per minute.
        open_streams: Open streams at each group of servers, for each class; apart from calls.
        idle_seconds: How long a call may be without a byte in either direction.
        connection_idle_seconds: How long a connection may be without a call.
        connections: Connections of all callers.
        streams: HTTP/2 streams at a time on one connection.
        teams: How many teams have rate-limit counters of their own at a time.
        interactive: Interactive calls in flight at each group of servers.
        batch: Batch calls in flight at each group of servers, so that interactive calls find
            capacity.
    """

    request_bytes: Positive = 64 * 1024 * 1024
    heap_bytes: Annotated[int, Field(ge=64 * 1024 * 1024, le=2**50)] = 2 * 1024**3
    call_seconds: Positive = 300
    stream_seconds: Positive = 600
    stream_idle_seconds: Positive = 120
    streams_per_minute: Positive = 60
    open_streams: Positive = 1024
    idle_seconds: Positive = 300
    connection_idle_seconds: Positive = 60
    connections: Positive = 4096
    streams: Positive = 256
    teams: Positive = 1000
    interactive: Positive = 256
    batch: Positive = 64


class FrontValues(Strict):
    """All values.

    Attributes:
        listen: The address for callers.
        metrics: The address of Prometheus metrics and readiness; not for callers.
        admin_port: Envoy's admin port, on loopback.
        certificate: The front door's certificate chain (PEM).
        private_key: The key of the certificate (PEM).
        client_ca: The authority whose client certificates callers must present (PEM); by default
            none is required.
        tokens: How callers are authenticated.
        triton: Triton servers by group name.
        judges: vLLM servers by the name under which callers reach them.
        gateway: The Judge service.
        rate: The rate limit of each team that `rates` does not name.
        rates: The rate limits of single teams.
        token_limits: Limits on tokens of judges; none by default.
        limits: Limits on sizes, durations and concurrency.
        drain_seconds: How long calls in flight may take when the front door ends.
        otlp: The address of a trace collector (OTLP over gRPC).
        trace_percent: The share of calls that are traced, in percent.
    """

    listen: At
    metrics: At
    admin_port: Port
    certificate: Path
    private_key: Path
    client_ca: Path | None = None
    tokens: Tokens
    triton: dict[str, TritonServers] = Field(default_factory=dict)
    judges: dict[Name, JudgeServers] = Field(default_factory=dict)
    gateway: GatewayServers | None = None
    rate: Rate = Rate()
    rates: dict[Name, Rate] = Field(default_factory=dict)
    token_limits: TokenLimits | None = None
    limits: Limits = Limits()
    drain_seconds: Positive = 30
    otlp: At | None = None
    trace_percent: float = Field(default=1.0, ge=0, le=100, allow_inf_nan=False)

    @model_validator(mode="after")
    def _check_groups(self) -> Self:
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
        """The files that Envoy reads when it starts, by the name of the value."""
        own = {"client_ca": self.client_ca} if self.client_ca else {}
        if not self.tokens.url:
            own["tokens.keys"] = Path(self.tokens.keys)
        elif self.tokens.url.startswith("https"):
            own["tokens.ca"] = self.tokens.ca
        return own


OWN_HEADERS = ("x-team", "x-class", "x-llm-d-inference-fairness-id", "x-llm-d-inference-objective")
"""Headers that only the front door may set; it removes them from what callers send."""
