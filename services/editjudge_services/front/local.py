"""The front door of the local stack."""

from __future__ import annotations

import ipaddress
import re
import socket
import ssl
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from pydantic import BaseModel, ValidationError

from editjudge.base.config import StackSettings
from editjudge.base.errors import ConfigError, MissingExtra
from editjudge.base.local_stack import LocalGateway, private_state_dir
from editjudge.base.parse import first_problem

from .values import FrontValues, TokenAuthentication

if TYPE_CHECKING:
    from .server import EnvoyServer

_TOKENS = "tokens.json"
_Part = TypeVar("_Part", bound=BaseModel)
_PACKAGES = ("envoy", "cryptography", "jwt", "yaml")
_HOST_NAME = r"(?=.{1,253}$)[A-Za-z0-9_]([A-Za-z0-9_-]{0,62})([.][A-Za-z0-9]([A-Za-z0-9-]{0,62}))*"
_NO_GATEWAY = LocalGateway(pid=0, url="grpc://127.0.0.1:1", http="http://127.0.0.1:1", log=Path("judge.log"))
_ANY_HOST = ("", "0.0.0.0", "::")  # noqa: S104 - what a user may ask to listen on


def check_front(settings: StackSettings) -> None:
    """Check the settings of the front door before anything is started.

    Raises:
        MissingExtra: a package of the extra `front` is not installed.
        ConfigError: an address or a value cannot be used.
    """
    if not all(find_spec(name) for name in _PACKAGES):
        raise MissingExtra("the front door", "front")
    from .render import render_and_check

    # In a temporary folder, since a front door may run here with other names.
    with tempfile.TemporaryDirectory() as folder:
        nowhere = _describe_upstreams("grpc://127.0.0.1:1", "", _NO_GATEWAY if settings.gateway else None)
        values = _make_values(settings, nowhere, Path(folder))
        for host in (values.listen.host, values.metrics.host):
            if not _is_ip_address(host):  # Envoy cannot listen at names
                fix = f"give 127.0.0.1 or 0.0.0.0, and the name with --front-name {host}"
                raise ConfigError(f"{host}: the front door listens at IP addresses only", fix)
        for name in settings.front_names:
            if not (_is_ip_address(name) or re.fullmatch(_HOST_NAME, name)):
                raise ConfigError(f"{name!r}: this is not a host name", "write it as judges.example.org")
        _prepare_identity(values.listen.host, settings.front_names, Path(folder))
        _check_pair(values)
        render_and_check(values, Path(folder), str(settings.front_values or "the front door"))


def _is_ip_address(host: str) -> bool:
    with suppress(ValueError):
        ipaddress.ip_address(host)
        return True
    return False


def _check_pair(values: FrontValues) -> None:
    """Check certificate and key; Envoy would start with bad ones and accept nobody."""
    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(values.certificate, values.private_key, password="")
    except OSError as error:  # an SSLError is one
        pair = f"{values.certificate}, {values.private_key}"
        reason = getattr(error, "reason", None) or error.strerror or error
        fix = "give a certificate (PEM) and the key that belongs to it"
        raise ConfigError(f"{pair}: {reason}", fix) from error


def make_local_front(
    settings: StackSettings, triton: str, vllm: str, gateway: LocalGateway | None = None
) -> EnvoyServer:
    """Make the front door of local servers; it is not started yet.

    Args:
        triton: The address of the Triton server; "" for none.
        vllm: The address of vLLM; "" for none.
        gateway: Where the Judge service is; None for none.

    Raises:
        ConfigError: an address or a value cannot be used.
    """
    from .identity import front_folder
    from .server import EnvoyServer

    folder = front_folder()
    values = _make_values(settings, _describe_upstreams(triton, vllm, gateway), folder)
    host, names = values.listen.host, settings.front_names
    authority = _prepare_identity(host, names, folder)
    (folder / _TOKENS).write_text(values.tokens.model_dump_json())
    name = next(iter(names), socket.gethostname() if host in _ANY_HOST else host)
    return EnvoyServer(private_state_dir() / "front.log", values, folder, authority, name)


def _describe_upstreams(triton: str, vllm: str, gateway: LocalGateway | None) -> dict[str, Any]:
    upstreams: dict[str, Any] = {}
    if triton:
        upstreams["triton"] = {"local": {"addresses": [urlsplit(triton).netloc]}}
    if vllm.startswith("http"):  # vLLM's own protocol is for the Judge service alone
        upstreams["judges"] = {"judge": {"addresses": [urlsplit(vllm).netloc]}}
    if gateway:
        at, web = urlsplit(gateway.url).netloc, urlsplit(gateway.http).netloc
        upstreams["gateway"] = {"addresses": [at], "json_addresses": [web]}
    return upstreams


def load_last_tokens(folder: Path) -> TokenAuthentication | None:
    """Load the part `tokens` of the front door that last ran here; None where none did."""
    try:
        return TokenAuthentication.model_validate_json((folder / _TOKENS).read_bytes())
    except (OSError, ValidationError):
        return None


def _prepare_identity(host: str, further: tuple[str, ...], folder: Path) -> Path:
    """Prepare the authority, the certificate and the keys of the front door.

    Args:
        host: The host where it listens.
        further: Further host names by which callers reach it.

    Returns:
        The authority's certificate.
    """
    from .identity import Authority, TeamKeys

    authority = Authority(folder)
    names = ("localhost", "127.0.0.1", socket.gethostname(), *further)
    authority.renew_certificate(tuple(dict.fromkeys((*names, *(() if host in _ANY_HOST else (host,))))))
    TeamKeys(folder).publish()
    return authority.certificate


def _make_values(settings: StackSettings, servers: Mapping[str, Any], folder: Path) -> FrontValues:
    try:
        further = read_values(settings.front_values) if settings.front_values else {}
    except ConfigError as error:
        raise ConfigError(f"stack.front_values: {error.message}", error.fix) from error
    values: dict[str, Any] = {
        "listen": settings.front_address,
        "metrics": "127.0.0.1:0",
        "admin_port": 0,
        "certificate": folder / "served" / "server.pem",
        "private_key": folder / "served" / "server.key",
        "tokens": {"keys": folder / "keys" / "jwks.json"},
        **servers,
    }
    if isinstance(further.get("tokens"), dict):
        further = {**further, "tokens": {**values["tokens"], **further["tokens"]}}
    return validate(FrontValues, {**values, **further}, str(settings.front_values or "the front door"))


def read_values(file: Path) -> dict[str, Any]:
    """Read a YAML file of values without validating them.

    Raises:
        ConfigError: the file cannot be read, or is not a YAML mapping.
        MissingExtra: PyYAML is not installed.
    """
    try:
        import yaml
    except ImportError as error:
        raise MissingExtra("the front door", "front") from error
    try:
        values = yaml.safe_load(file.read_text())
    except OSError as error:
        raise ConfigError(f"{file}: {error.strerror}", "give another file") from error
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        where = " ".join(str(error).split())
        raise ConfigError(f"{file}: this is not YAML: {where}", "fix it") from error
    if not isinstance(values, dict):
        raise ConfigError(f"{file}: there are no values", "write them as `name: value`")
    return values


def validate(kind: type[_Part], values: object, where: str) -> _Part:
    """Validate values, or a part of them.

    Args:
        where: Where they are, for messages.

    Raises:
        ConfigError: naming the first value that cannot be used.
    """
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        name, message = first_problem(error, kind)
        message = f"{where}: {name or 'the values'}: {message}"
        raise ConfigError(message, "see docs/howto/sharing.md") from error
