"""Settings: flags, then `EDITJUDGE_*` variables, then `editjudge.toml`.

A nested setting's variable joins its names with two underscores:
`EDITJUDGE_ENDPOINTS__GPU__URL=grpc://node7:8001`.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, TypeAlias
from urllib.parse import parse_qs, urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, JsonValue, ValidationError, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict, SettingsError, TomlConfigSettingsSource
from pydantic_settings import PydanticBaseSettingsSource as Source

from .errors import ConfigError
from .parse import describe_failure, first_problem
from .providers import load_providers
from .strict import FrozenModel

CONFIG_FILE = "editjudge.toml"


class Secret(FrozenModel):
    """The place of a secret. The secret is read when it is used, and never printed.

    Attributes:
        env: Name of an environment variable.
        file: Path of a file; surrounding white space is dropped.
    """

    env: str | None = None
    file: Path | None = None

    @model_validator(mode="before")
    @classmethod
    def _check_form(cls, value: Any) -> Any:
        if not isinstance(value, dict | cls):
            form = '{ env = "NAME" } or { file = "PATH" }'
            why = f"name the place of the secret, {form}, not the secret itself"
            raise ValueError(why)  # noqa: TRY004 - pydantic reports no TypeError
        return value

    @model_validator(mode="after")
    def _check_one_place(self) -> Self:
        if (self.env is None) == (self.file is None):
            raise ValueError("give either `env` or `file`")
        return self

    def read(self, setting: str) -> str:
        """Read the secret.

        Raises:
            ConfigError: the variable is not set, or the file cannot be read or holds no secret.
        """
        if self.env is not None:
            value = os.environ.get(self.env, "")
            if not value:
                raise ConfigError(f"{setting}: the variable {self.env} is not set")
            return value
        try:
            value = self.file.read_text().strip()  # type: ignore[union-attr]
        except OSError as error:
            raise ConfigError(f"{setting}: {self.file}: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise ConfigError(f"{setting}: {self.file}: this is no text") from error
        if not value.isprintable() or not value:  # it goes into a header
            defect = "more than one line" if "\n" in value else "nothing that can be sent"
            raise ConfigError(f"{setting}: {self.file} holds {defect}", "write the secret alone")
        return value


class Address(FrozenModel):
    """The address of a server, with its certificates and credentials.

    Attributes:
        url: Its address.
        ca_file: Certificate authorities to trust instead of the system's (PEM).
        cert_file: Client certificate (PEM), with `key_file`.
        key_file: Its private key (PEM).
        api_key: Sent as a bearer token; `{env = …}` or `{file = …}`, never the key itself.
        headers: Sent with every call; a value is text, `{env = …}` or `{file = …}`.
    """

    url: str
    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None
    api_key: Secret | None = None
    headers: dict[str, Secret | str] = Field(default_factory=dict, repr=False)

    @model_validator(mode="after")
    def _check_pair(self) -> Self:
        if (self.cert_file is None) != (self.key_file is None):
            raise ValueError("`cert_file` and `key_file` go together")
        return self

    @classmethod
    def at(cls, url: str, what: str) -> Self:
        """Make the settings of a server from its address, with defaults for all else.

        Args:
            what: The name of the server in errors.

        Raises:
            ConfigError: the address is malformed.
        """
        try:
            return cls(url=url)
        except ValidationError as error:
            raise ConfigError(f"{what} {url}: {first_problem(error).message}") from error

    def header_values(self) -> dict[str, str]:
        """Read the headers of a call: those of the settings, with secrets, and the API key.

        Raises:
            ConfigError: a secret is not where its setting says.
        """
        headers = {
            name.lower(): value.read(f"{self.url}: header {name}") if isinstance(value, Secret) else value
            for name, value in self.headers.items()
        }
        if self.api_key is not None:
            headers["authorization"] = f"Bearer {self.api_key.read(f'{self.url}: api_key')}"
        return headers

    def certificates(self) -> dict[str, bytes | None]:
        """Read the certificate files as arguments of `grpc.ssl_channel_credentials`.

        Raises:
            ConfigError: a file cannot be read.
        """
        return {
            "root_certificates": self._pem(self.ca_file),
            "private_key": self._pem(self.key_file),
            "certificate_chain": self._pem(self.cert_file),
        }

    def _pem(self, path: Path | None) -> bytes | None:
        try:
            return path.read_bytes() if path else None
        except OSError as error:
            raise ConfigError(f"{self.url}: {path}: {error.strerror}") from error


def _check_grpc_url(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in {"grpc", "grpcs"} or not parts.netloc or parts.path.strip("/"):
        raise ValueError("write it as grpc://host:port, or grpcs://host:port for TLS")
    return url.rstrip("/")


class GrpcAddress(Address):
    """A gRPC server: `grpc://host:port`, or `grpcs://host:port` for TLS."""

    url: Annotated[str, AfterValidator(_check_grpc_url)]


class Endpoint(GrpcAddress):
    """One Triton server.

    Attributes:
        services: Services to ask, as `role.variant`; empty means all that it serves. Services of
            your own must be named.
    """

    services: tuple[str, ...] = ()


class GatewayEndpoint(GrpcAddress):
    """A Judge service (`editjudge serve`) that judges edits in place of the configured servers.

    Attributes:
        edit_deadline: Seconds for one edit, with retries and waits.
    """

    edit_deadline: float = Field(default=600.0, gt=0)


class Price(FrozenModel):
    """What a judge charges, in any one currency, per million tokens.

    Attributes:
        input: Prompt tokens.
        cached: Prompt tokens found in the provider's cache; as `input` by default.
        output: Generated tokens.
    """

    input: float = Field(ge=0)
    cached: float | None = Field(default=None, ge=0)
    output: float = Field(ge=0)

    def of(self, prompt: int, cached_tokens: int, completion: int) -> float:
        """Compute the price of a call in tokens; `cached_tokens` are part of `prompt`."""
        rate = self.input if self.cached is None else self.cached
        prompt_cost = (prompt - cached_tokens) * self.input + cached_tokens * rate
        return (prompt_cost + completion * self.output) / 1e6


_OWN_FIELDS = frozenset(
    {
        "messages", "model", "n", "stream", "tools", "max_tokens", "max_completion_tokens",
        "temperature", "top_p", "seed", "response_format", "structured_outputs", "logprobs",
        "top_logprobs",
    }
)  # fmt: skip
"""Fields of a request that have a setting or are ours, and cannot be in `extra`."""


def _check_judge_url(url: str) -> str:
    parts = urlsplit(url)
    path = parts.path.rstrip("/")
    if not parts.netloc or not (parts.scheme in {"http", "https"} if path else parts.scheme == "grpc"):
        raise ValueError("write it as http(s)://host:port/v1, or grpc://host:port for vLLM's own")
    return url.rstrip("/")


def _check_temperature(value: Any) -> Any:
    try:
        is_number = not isinstance(value, bool) and 0 <= float(value) <= 2
    except (TypeError, ValueError):
        is_number = False
    if value != "default" and not is_number:
        raise ValueError('give a number from 0 to 2, or "default"')
    return value if value == "default" else float(value)


def _check_extra(extra: dict[str, JsonValue]) -> dict[str, JsonValue]:
    if own := sorted(extra.keys() & _OWN_FIELDS):
        raise ValueError(f"{', '.join(own)}: this field is set by the program itself")
    return extra


_JudgeUrl: TypeAlias = Annotated[str, AfterValidator(_check_judge_url)]


class JudgeEndpoint(Address):
    """One multimodal LLM as judge, bound as `generalist.<its name in the settings>`.

    Attributes:
        provider: Name of a provider; sets the defaults of `url` and `api_key`.
        url: `http(s)://host:port/v1` for an OpenAI-compatible API, `grpc://host:port` for
            vLLM's own protocol (extra `vllm`). A `provider` sets it.
        replicas: More addresses with the same model and key, which share the calls.
        model: The model to ask for; optional if the server has only one.
        accept: Other names (globs) under which the model may answer.
        send_images: Consent to send images outside your own network, or through a proxy.
        max_pixels: Larger images are resized (Lanczos) before they are sent.
        max_tokens: Token limit of a reply; by default the limit of each prompt.
        temperature: 0 is greedy; `default` sends none.
        seed: For servers that take one.
        extra: More fields of each HTTP request, for example `reasoning_effort`; part of the
            identity of the judge.
        image_detail: `low`, `high` or `auto`; part of the identity of the judge; only over HTTP.
        logprobs: `auto` uses probabilities if the server returns them, `never` samples words.
        samples: Sampled replies to average.
        max_outside: Largest probability outside the choices; above it there is no score.
        price: Prices for reports and `max_cost`.
    """

    provider: str = ""
    url: _JudgeUrl
    replicas: tuple[_JudgeUrl, ...] = ()
    model: str = ""
    accept: tuple[str, ...] = ()
    send_images: bool = False
    max_pixels: int = Field(default=1024 * 1024, ge=1024, le=64 * 1024 * 1024)
    max_tokens: int | None = Field(default=None, ge=1)
    temperature: Annotated[float | Literal["default"], BeforeValidator(_check_temperature)] = 0.0
    seed: int | None = 0
    extra: Annotated[dict[str, JsonValue], AfterValidator(_check_extra)] = Field(default_factory=dict)
    image_detail: Literal["auto", "low", "high"] | None = None
    logprobs: Literal["auto", "never"] = "auto"
    samples: int = Field(default=1, ge=1, le=1000)
    max_outside: float = Field(default=0.5, ge=0, le=1)
    price: Price | None = None

    @model_validator(mode="before")
    @classmethod
    def _fill_in_provider(cls, values: Any) -> Any:
        name = values.get("provider") if isinstance(values, dict) else None
        if not name:
            return values
        providers = load_providers()
        if name not in providers:
            raise ValueError(f"no provider {name!r}; there are {', '.join(providers)}")
        provider = providers[name]
        if "url" not in values and (not provider.url or "{" in provider.url):
            example = provider.url or "http://host:port/v1"
            raise ValueError(f"give the `url` of {provider.title}, such as {example}")
        defaults: dict[str, Any] = {"url": provider.url}
        if provider.key and "headers" not in values:
            defaults["api_key"] = {"env": provider.key}
        return defaults | values

    @property
    def is_greedy(self) -> bool:
        """Whether a judge that is asked again says the same, as far as the settings tell."""
        return self.temperature == 0

    @model_validator(mode="after")
    def _check_replicas(self) -> Self:
        urls = (self.url, *self.replicas)
        if len(set(urls)) < len(urls):
            raise ValueError("an address is among the replicas twice")
        if len({urlsplit(url).scheme == "grpc" for url in urls}) > 1:
            raise ValueError("replicas are asked over the same protocol as `url`")
        if urlsplit(self.url).scheme == "grpc" and (self.extra or self.image_detail):
            raise ValueError("`extra` and `image_detail` are sent over HTTP only")
        return self


@dataclass(frozen=True)
class PostgresAddress:
    """The address of a PostgreSQL database, without a password.

    Attributes:
        url: `postgresql://user@host:port/database?sslmode=…`, as `libpq` reads it.
    """

    url: str


LedgerPlace: TypeAlias = Path | PostgresAddress


def parse_ledger(value: object, name: str = "ledger") -> LedgerPlace | None:
    """Parse where a ledger is: a file, or a database by its address.

    Raises:
        ConfigError: the address holds a password, or is of another kind; the message holds neither.
    """
    if value is None or isinstance(value, Path | PostgresAddress):
        return value
    text = str(value)
    scheme, separator, rest = text.partition("://")
    if not separator:
        return Path(text)
    if scheme not in {"postgresql", "postgres"}:
        raise ConfigError(f"{name}: no address begins with {scheme}://", "give a file or postgresql://host/database")
    user = rest.partition("/")[0].rpartition("@")[0]
    if ":" in user or parse_qs(rest.partition("?")[2]).keys() & {"password", "sslpassword"}:
        raise ConfigError(
            f"{name}: a password is in the address, which others can see",
            "leave it out, and set PGPASSWORD or name a file by ?passfile=PATH",
        )
    return PostgresAddress(text)


class StackSettings(FrozenModel):
    """The local stack (`editjudge up`).

    Attributes:
        models: Models to load; empty means all.
        grpc_port: Port for gRPC on the loopback address; 0 means a free one.
        http_port: Port for health and models; 0 means a free one.
        metrics_port: Port for Prometheus metrics; 0 means a free one.
        precision: Which export of the models to serve: `fp32`, `tf32`, `fp16` or `bf16`.
        startup_timeout: Seconds until every model must be ready.
        triton: Whether to start Triton.
        judge: Folder of a multimodal LLM that vLLM serves.
        judge_protocol: `http` for the OpenAI-compatible API, `grpc` for vLLM's own protocol.
        judge_port: Port of the judge; 0 means a free one.
        judge_args: More arguments for vLLM, for example `--dtype=float32`.
        judge_timeout: Seconds until the judge must be ready.
        gateway: Whether to start the Judge service.
        gateway_port: Port of the Judge service for gRPC; 0 means a free one.
        gateway_http_port: Port of the Judge service for JSON; 0 means a free one.
        gateway_args: More arguments for `editjudge serve`, such as `--keep-days=30`.
        front: Whether to start the front door.
        front_address: Address of the front door, as `host:port`; port 0 means a free one.
        front_names: Host names that callers use, for the certificate. The first one is printed.
        front_values: YAML file with more values of the front door.
    """

    models: tuple[str, ...] = ()
    grpc_port: int = Field(default=0, ge=0, le=65535)
    http_port: int = Field(default=0, ge=0, le=65535)
    metrics_port: int = Field(default=0, ge=0, le=65535)
    precision: Literal["fp32", "tf32", "fp16", "bf16"] = "fp32"
    startup_timeout: float = Field(default=120.0, gt=0)
    triton: bool = True
    judge: Path | None = None
    judge_protocol: Literal["http", "grpc"] = "http"
    judge_port: int = Field(default=0, ge=0, le=65535)
    judge_args: tuple[str, ...] = ()
    judge_timeout: float = Field(default=600.0, gt=0)
    gateway: bool = False
    gateway_port: int = Field(default=0, ge=0, le=65535)
    gateway_http_port: int = Field(default=0, ge=0, le=65535)
    gateway_args: tuple[str, ...] = ()
    front: bool = False
    front_address: str = "127.0.0.1:0"
    front_names: tuple[str, ...] = ()
    front_values: Path | None = None


class Settings(BaseSettings):
    """All settings.

    Attributes:
        stack: The local stack.
        endpoints: Triton servers by name. Servers with the same model share its calls.
        judges: Multimodal LLMs by name. Dimensions ask the one named `judge`.
        gateway: The Judge service to use instead of endpoints and judges.
        vllm_python: Python of an environment with vLLM, for `editjudge up --judge`.
        ledger: SQLite file or PostgreSQL database that stores calls and replies. A call in it is
            not made again. Without one, `score` keeps calls to judges in memory, and a run keeps
            its calls in its folder.
        max_cost: Cost limit of a run for judges, in the currency of their prices.
        budget: Name of a budget in a PostgreSQL ledger. All processes with this name share
            `max_cost`.
        attempts: Largest number of attempts per call.
        retry_wait: Approximate seconds before the second attempt; doubles each time, up to 5.
        deadline: Seconds for one call at one endpoint, with retries and waits.
        patience: Seconds to wait for a lost or full endpoint before its calls fail.
        connection_age: Approximate seconds after which a connection is replaced, so that new
            servers get calls.
        probe_timeout: Seconds to wait for the version and models of a server.
        concurrency: Largest number of calls in flight per endpoint. An overloaded endpoint gets
            fewer.
    """

    model_config = SettingsConfigDict(
        env_prefix="EDITJUDGE_", env_nested_delimiter="__", extra="forbid", toml_file=CONFIG_FILE
    )
    endpoints: dict[str, Endpoint] = Field(default_factory=dict)
    stack: StackSettings = StackSettings()
    judges: dict[str, JudgeEndpoint] = Field(default_factory=dict)
    gateway: GatewayEndpoint | None = None
    vllm_python: Path | None = None
    ledger: Annotated[LedgerPlace | None, BeforeValidator(parse_ledger)] = None
    max_cost: float | None = Field(default=None, gt=0)
    budget: str | None = Field(default=None, min_length=1)
    attempts: int = Field(default=4, ge=1, le=20)
    retry_wait: float = Field(default=0.1, ge=0)
    deadline: float = Field(default=60.0, gt=0)
    patience: float = Field(default=300.0, ge=0)
    connection_age: float = Field(default=300.0, gt=0)
    probe_timeout: float = Field(default=5.0, gt=0)
    concurrency: int = Field(default=32, ge=1, le=1024)

    if not TYPE_CHECKING:  # type checkers take the fields for the arguments

        def __init__(self, **values: Any) -> None:
            try:
                super().__init__(**values)
            except ValidationError as error:
                problem = first_problem(error, type(self))
                fix = "" if problem.message.endswith("?") else "see docs/howto/configuration.md"
                # Its cause would show the values, which may be secrets.
                raise ConfigError(f"setting {problem}", fix) from None
            except SettingsError as error:
                name = str(error).split('"')[1].upper()
                raise ConfigError(f"variable EDITJUDGE_{name}: its value is no JSON") from None
            except (ValueError, RecursionError) as error:
                file = self.model_config["toml_file"]
                raise ConfigError(f"{file}: {describe_failure(error)}", "fix its TOML") from error

    @classmethod
    def settings_customise_sources(
        cls, settings_cls: type[BaseSettings], init_settings: Source, env_settings: Source, *_: Source, **others: Source
    ) -> tuple[Source, ...]:
        """Flags, then variables, then the file."""
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls)

    def at(self, *urls: str) -> Self:
        """Copy the settings with these endpoints and no others.

        Raises:
            ConfigError: an address is malformed.
        """
        return self.model_copy(update={"endpoints": {url: Endpoint.at(url, "endpoint") for url in urls}})

    def through(self, url: str) -> Self:
        """Copy the settings with a Judge service at an address.

        A key of the settings goes to the address that it was written for, and to no other.

        Raises:
            ConfigError: the address is malformed.
        """
        gateway = GatewayEndpoint.at(url, "gateway")
        current = self.gateway
        if current is not None and current.url == gateway.url:
            gateway = current
        return self.model_copy(update={"gateway": gateway})


def load_settings(file: Path | None = None, **flags: Any) -> Settings:
    """Read the settings.

    Args:
        file: Instead of `editjudge.toml` in the current folder (where that may be absent).
        flags: Given on the command line; None means not given.

    Raises:
        ConfigError: naming the setting and what is wrong with it.
    """
    if file is not None and not file.is_file():
        raise ConfigError(f"{file}: no such configuration file", "check the path")

    class FromFile(Settings):
        model_config = SettingsConfigDict(**{**Settings.model_config, "toml_file": file})

    set_by_flags = {name: value for name, value in flags.items() if value is not None}
    return (FromFile if file else Settings)(**set_by_flags)
