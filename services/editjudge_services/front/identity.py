"""The front door's certificates, and the keys and tokens of its callers.

Every team has its own signing keys, so that the tokens of one team can be revoked without touching
the others'. Envoy reads the public keys again when their file is replaced.
"""

import ipaddress
import json
import os
import re
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import jwt
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from filelock import FileLock
from jwt.algorithms import ECAlgorithm

from editjudge.base.contracts import LONGEST_NAME, NAME
from editjudge.base.errors import ConfigError
from editjudge.base.local_stack import private_state_dir

from .values import CallClass, TokenAuthentication

ALGORITHM = "ES256"
AUTHORITY_DAYS = 3650
CERTIFICATE_DAYS = 800
_LEFT_AT_START = timedelta(days=400)
"""How long a certificate must still be valid when a front door starts; else it is renewed."""
_MOST_DAYS = 400


def front_folder() -> Path:
    """The folder of this machine's front door, readable by its owner alone."""
    folder = private_state_dir() / "front"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


class Authority:
    """A certificate authority, and the front door's certificate that it issues.

    Args:
        folder: The folder of its files, which are created where they do not exist.

    Attributes:
        certificate: The file of the authority's certificate (PEM), which callers trust.
        server: The file of the front door's certificate (PEM).
        server_key: The file of its key (PEM).
    """

    def __init__(self, folder: Path) -> None:
        self.certificate = folder / "ca.pem"
        self._key = folder / "ca.key"
        # In a folder of its own: Envoy watches it.
        self._server_folder = folder / "served"
        self.server = self._server_folder / "server.pem"
        self.server_key = self._server_folder / "server.key"

    def renew_certificate(self, names: tuple[str, ...]) -> None:
        """Issue the front door's certificate anew where it expires soon or names other hosts.

        Args:
            names: The host names and IP addresses of the front door.
        """
        key, authority = self._load_authority()
        if not self._is_due(names, authority):
            return
        self._server_folder.mkdir(mode=0o700, exist_ok=True)
        own = ec.generate_private_key(ec.SECP256R1())
        certificate = (
            _start_leaf_certificate(own, authority, CERTIFICATE_DAYS, ExtendedKeyUsageOID.SERVER_AUTH)
            .subject_name(x509.Name([]))
            .add_extension(x509.SubjectAlternativeName([_make_general_name(n) for n in names]), critical=True)
            .sign(key, hashes.SHA256())
        )
        _replace(self.server_key, _encode_pem(own))
        _replace(self.server, certificate.public_bytes(serialization.Encoding.PEM))

    def issue_client_certificate(self, team: str, days: float, folder: Path) -> tuple[Path, Path]:
        """Issue a client certificate, for a front door that requires one.

        The certificate only admits a client to the front door; its team is read from its token.

        Args:
            days: Days until it expires, above 0 and at most 400.
            folder: The folder for `<team>.pem` and `<team>.key`.

        Returns:
            Both files.

        Raises:
            ConfigError: the team's name or the days are not valid, or the folder does not exist.
        """
        _check_team(team)
        _check_days(days)
        if not folder.is_dir():
            raise ConfigError(f"{folder}: no such folder", "make it first")
        key, authority = self._load_authority()
        own = ec.generate_private_key(ec.SECP256R1())
        certificate = (
            _start_leaf_certificate(own, authority, days, ExtendedKeyUsageOID.CLIENT_AUTH)
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, team)]))
            .sign(key, hashes.SHA256())
        )
        files = folder / f"{team}.pem", folder / f"{team}.key"
        _replace(files[1], _encode_pem(own))
        _replace(files[0], certificate.public_bytes(serialization.Encoding.PEM))
        return files

    def _load_authority(self) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
        if self._key.is_file() and self.certificate.is_file():
            try:
                certificate = x509.load_pem_x509_certificate(self.certificate.read_bytes())
            except ValueError as error:
                message = f"{self.certificate}: this is not a certificate"
                raise ConfigError(message, "delete it and ca.key; callers then need the new certificate") from error
            return _load_private_key(self._key), certificate
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "editjudge")])
        certificate = (
            _start_certificate(key, name, AUTHORITY_DAYS)
            .subject_name(name)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .sign(key, hashes.SHA256())
        )
        _replace(self._key, _encode_pem(key))
        _replace(self.certificate, certificate.public_bytes(serialization.Encoding.PEM))
        return key, certificate

    def _is_due(self, names: tuple[str, ...], authority: x509.Certificate) -> bool:
        try:
            certificate = x509.load_pem_x509_certificate(self.server.read_bytes())
            certificate.verify_directly_issued_by(authority)
            own = _load_private_key(self.server_key).public_key()
            alternative_names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        except Exception:  # noqa: BLE001 - whatever is wrong with it, a new one fixes it
            return True
        soon = certificate.not_valid_after_utc - datetime.now(UTC) < _LEFT_AT_START
        is_for_others = {*alternative_names} != {_make_general_name(name) for name in names}
        return soon or is_for_others or own != certificate.public_key()


class TeamKeys:
    """The keys by which the tokens of each team are signed.

    Args:
        folder: The folder of the private keys.

    Attributes:
        public: The file of all public keys (a JWKS), in a folder of its own, which Envoy watches.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "teams"
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Against other processes, so that all keys that exist are published.
        self._lock = FileLock(folder / "teams.lock", mode=0o600)
        self.public = folder / "keys" / "jwks.json"

    def list_teams(self) -> list[str]:
        """List the teams that have a key."""
        return sorted({path.stem.rpartition("@")[0] for path in self._find_keys()})

    def issue_token(self, team: str, days: float, of: CallClass, tokens: TokenAuthentication) -> str:
        """Issue a token for a team; the first one creates the team's key.

        Args:
            days: Days until it expires, above 0 and at most 400.
            of: The class of its calls; interactive ones go before those of class batch.
            tokens: The names and values of the claims that the front door requires. A dot in a name
                separates nested claims.

        Raises:
            ConfigError: the team's name or the days are not valid.
        """
        _check_team(team)
        _check_days(days)
        with self._lock:
            newest = max(self._find_keys(team), default=None, key=_read_number) or self._make_key(team)
            key = _load_private_key(newest)
        now = datetime.now(UTC)
        claims: dict[str, Any] = {"iss": tokens.issuer, "aud": tokens.audience, "sub": team}
        claims |= {"iat": now, "exp": now + timedelta(days=days)}
        for path, value in ((tokens.class_claim, of), (tokens.team_claim, team)):
            _write_claim(claims, path, value)
        return jwt.encode(claims, key, ALGORITHM, headers={"kid": newest.stem})

    def rotate(self, team: str) -> None:
        """Sign further tokens of a team with a new key; earlier tokens expire as they state.

        Raises:
            ConfigError: no team of this name has a key.
        """
        with self._lock:
            self._check_team_has_key(team)
            self._make_key(team)

    def revoke(self, team: str) -> int:
        """Revoke every token of a team by deleting its keys; a later token gets a new key.

        Returns:
            The number of deleted keys.

        Raises:
            ConfigError: no team of this name has a key.
        """
        with self._lock:
            self._check_team_has_key(team)
            revoked_keys = [*self._find_keys(team)]
            # Key numbers are never used twice, so that a later key is not taken for one of these.
            number_file = self._folder / f".{team}"
            number_file.write_text(str(max(map(_read_number, revoked_keys))))
            for path in revoked_keys:
                path.unlink()
            self._publish()
        return len(revoked_keys)

    def _make_key(self, team: str) -> Path:
        number_file = self._folder / f".{team}"
        before = int(number_file.read_text()) if number_file.is_file() else 0
        number = 1 + max([before, *map(_read_number, self._find_keys(team))])
        path = self._folder / f"{team}@{number}.pem"
        _replace(path, _encode_pem(ec.generate_private_key(ec.SECP256R1())))
        self._publish()
        return path

    def publish(self) -> None:
        """Write the public keys of all teams; Envoy reads them again."""
        with self._lock:
            self._publish()

    def _publish(self) -> None:
        private = {path.stem: _load_private_key(path) for path in sorted(self._find_keys())}
        # Envoy refuses a file without keys, so it gets one whose private half nobody has.
        private = private or {"nobody": ec.generate_private_key(ec.SECP256R1())}
        keys = [
            {**ECAlgorithm.to_jwk(key.public_key(), as_dict=True), "kid": name} | {"alg": ALGORITHM, "use": "sig"}
            for name, key in private.items()
        ]
        self.public.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _replace(self.public, json.dumps({"keys": keys}, indent=1).encode())

    def _find_keys(self, team: str = "*") -> Iterator[Path]:
        paths = self._folder.glob(f"{team}@*.pem")
        return (path for path in paths if path.stem.rpartition("@")[2].isdecimal())

    def _check_team_has_key(self, team: str) -> None:
        _check_team(team)
        if not any(self._find_keys(team)):
            names = ", ".join(self.list_teams()) or "none"
            raise ConfigError(f"no team {team} has a key", f"teams that have: {names}")


def _check_team(team: str) -> None:
    if not re.fullmatch(NAME, team):
        raise ConfigError(
            f"no team can be called {team!r}",
            f"letters, digits, dot, - and _, {LONGEST_NAME} at most, a letter or digit first",
        )


def _write_claim(claims: dict[str, Any], path: str, value: str) -> None:
    """Write a claim where Envoy reads it: a dot in its name separates nested claims."""
    *outer, name = path.split(".")
    for each in outer:
        claims = claims.setdefault(each, {})
    claims[name] = value


def _check_days(days: float) -> None:
    if not 0 < days <= _MOST_DAYS:
        raise ConfigError(f"{days:g} days", f"give more than 0, up to {_MOST_DAYS}")


def _read_number(path: Path) -> int:
    return int(path.stem.rpartition("@")[2])


def _start_certificate(key: ec.EllipticCurvePrivateKey, issuer: x509.Name, days: float) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))  # the caller's clock may be behind
        .not_valid_after(now + timedelta(days=days))
    )


def _start_leaf_certificate(
    key: ec.EllipticCurvePrivateKey, authority: x509.Certificate, days: float, use: x509.ObjectIdentifier
) -> x509.CertificateBuilder:
    return (
        _start_certificate(key, authority.subject, days)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([use]), critical=False)
    )


def _make_general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _encode_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _load_private_key(path: Path) -> ec.EllipticCurvePrivateKey:
    try:
        key = serialization.load_pem_private_key(path.read_bytes(), None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise ConfigError(f"{path}: this key was not made by editjudge", "take the file away") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ConfigError(f"{path}: this key was not made by editjudge", "take the file away")
    return key


def _replace(path: Path, content: bytes) -> None:
    """Replace a file atomically by one that only its owner can read."""
    # A unique name, since another process may be writing the same file.
    partial = path.with_name(f".{path.name}.{uuid.uuid4().hex}.partial")
    handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
