"""What the front door's file is filled with."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, Self
from urllib.parse import urlsplit

from pydantic import (
    BeforeValidator,
    Field,
    StringConstraints,
    model_validator,
)

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
        """The address that `host:port` is.

        Raises:
            ValueError: it is none.
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
"""As text, for a path would lose a slash of an address."""


class Tokens(Strict):
    """How a caller is known.

    Attributes:
        keys: Public keys that tokens are signed with (a JWKS), as a file or an http(s) address.
            A file is read again when it is replaced.
        issuer: Who signs.
        audience: Whom the tokens are for.
        team_claim: Claim with the team's name.
        class_claim: Claim with `interactive` or `batch`; a token without it is batch.
        key_cache_seconds: How long a key that was taken away may still be honoured.
        ca: Authorities by which an https address of keys is known (PEM).
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
        """Where the keys are fetched; "" where they are a file."""
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
        """What tokens of ours say, as `TeamKeys.token` takes it."""
        return self.model_dump(include={"issuer", "audience", "team_claim", "class_claim"})


class TritonServers(Strict):
    """Triton servers that serve the same models.

    Attributes:
        addresses: Of the servers; a name may stand for several.
        models: What they alone serve; none where they serve all that no others do.
    """

    addresses: tuple[At, ...] = Field(min_length=1)
    models: tuple[Name, ...] = ()


class JudgeServers(Strict):
    """vLLM servers of one model.

    Attributes:
        addresses: Of the servers; a name may stand for several.
        protocol: `http` is the OpenAI-compatible API, `grpc` vLLM's own.
    """

    addresses: tuple[At, ...] = Field(min_length=1)
    protocol: Literal["http", "grpc"] = "http"


class GatewayServers(Strict):
    """Copies of the Judge service.

    Attributes:
        addresses: Where they speak gRPC; a name may stand for several.
        json_addresses: Where they speak JSON over HTTP; none where they are not asked so.
    """

    addresses: tuple[At, ...] = Field(min_length=1)
    json_addresses: tuple[At, ...] = ()


class Rate(Strict):
    """Calls of a team.

    Attributes:
        calls_per_second: On average.
        burst: At once, after a pause.
    """

    calls_per_second: Positive = 200
    burst: Positive = 400


class TokenLimits(Strict):
    """Tokens of judges, counted by a rate-limit service (Envoy's protocol, version 3).

    The service holds the limits; it is asked with `kind=tokens` and `team=NAME`. A call of the
    Judge service is let in while there are tokens left, and its tokens are taken off at its end.

    Attributes:
        service: Where it is; a name may stand for several.
        domain: Of its limits.
        uncounted: Teams whose tokens nobody counts. They alone reach judges without the Judge
            service, which is what says how many a call has used.
        open_when_down: Let calls in while the service does not answer, uncounted; otherwise they
            are UNAVAILABLE.
    """

    service: At
    domain: Text = "editjudge"
    uncounted: tuple[Name, ...] = ()
    open_when_down: bool = False


class Limits(Strict):
    """What no caller goes beyond.

    Attributes:
        request_bytes: Of one request.
        heap_bytes: Of Envoy itself, for all requests that it holds: above nine tenths the largest
            are ended, and above that no more are taken.
        call_seconds: Of one call, its retries included.
        stream_seconds: Of one stream, which its token let in when it began.
        stream_idle_seconds: Of a stream, without a byte in either direction.
        streams_per_minute: That a team may open.
        open_streams: At a time, at each group of servers, of each class; apart from other calls.
        idle_seconds: Of a call, without a byte in either direction.
        connection_idle_seconds: Of a connection without a call.
        connections: Of all callers.
        streams: At a time on one connection.
        teams: Of which the calls are counted apart.
        interactive: Calls at a time, at each group of servers.
        batch: The same of class `batch`, so that places stay free for the others.
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
        listen: Where callers come to.
        metrics: Prometheus metrics and readiness; not for callers.
        admin_port: On loopback, Envoy's own.
        certificate: Of the front door (PEM, the chain).
        private_key: Of it (PEM).
        client_ca: Callers must show a certificate of this authority (PEM); none by default.
        tokens: How a caller is known.
        triton: Triton servers by name.
        judges: vLLM servers, by the name under which callers reach them.
        gateway: The Judge service.
        rate: Of each team that `rates` does not name.
        rates: By team.
        token_limits: Who counts tokens of judges; nobody by default.
        limits: What no caller goes beyond.
        drain_seconds: For what is in flight when it ends.
        otlp: Where spans go, over gRPC.
        trace_percent: Of the calls that are traced.
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
        """What Envoy reads before it starts, by the name of the value."""
        own = {"client_ca": self.client_ca} if self.client_ca else {}
        if not self.tokens.url:
            own["tokens.keys"] = Path(self.tokens.keys)
        elif self.tokens.url.startswith("https"):
            own["tokens.ca"] = self.tokens.ca
        return own


OWN_HEADERS = (
    "x-team",
    "x-class",
    "x-llm-d-inference-fairness-id",
    "x-llm-d-inference-objective",
)
"""What the front door says about a caller, and nobody else."""
