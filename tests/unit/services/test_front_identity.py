"""The authority, certificates, keys and tokens of the front door."""

from __future__ import annotations

import json
import ssl
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography import x509

from editjudge.base.errors import ConfigError
from editjudge_services.front import identity
from editjudge_services.front.identity import ALGORITHM, Authority, TeamKeys
from editjudge_services.front.values import TokenAuthentication

TOKENS = TokenAuthentication(keys="")


@pytest.fixture
def keys(tmp_path: Path) -> TeamKeys:
    return TeamKeys(tmp_path)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    """One with a certificate of its server."""
    authority = Authority(tmp_path)
    authority.renew_certificate(("localhost",))
    return authority


def issue(keys: TeamKeys, team: str = "vision", days: float = 1) -> str:
    return keys.issue_token(team, days, "batch", TOKENS)


def read(keys: TeamKeys, token: str) -> dict[str, Any]:
    """What a token says, if one of the public keys has signed it."""
    public = jwt.PyJWKSet.from_json(keys.public.read_text())
    key = public[jwt.get_unverified_header(token)["kid"]]
    return dict(jwt.decode(token, key, [ALGORITHM], issuer=TOKENS.issuer, audience=TOKENS.audience))


def test_a_token_names_its_team_and_class_and_ends(keys: TeamKeys) -> None:
    said = read(keys, issue(keys, days=30))
    assert (said["team"], said["class"], said["sub"]) == ("vision", "batch", "vision")
    ends = datetime.fromtimestamp(said["exp"], UTC) - datetime.now(UTC)
    assert timedelta(days=29) < ends <= timedelta(days=30)


def test_a_new_key_ends_no_token_and_a_revocation_all_of_the_team(keys: TeamKeys) -> None:
    other, first = issue(keys, "audio"), issue(keys)
    keys.rotate("vision")
    second = issue(keys)
    assert read(keys, first)["team"] == read(keys, second)["team"] == "vision"
    assert keys.revoke("vision") == 2
    for ended in (first, second):
        with pytest.raises(KeyError):
            read(keys, ended)
    assert read(keys, other)["team"] == "audio"
    third = issue(keys)
    assert read(keys, third)["team"] == "vision"
    named = [jwt.get_unverified_header(token)["kid"] for token in (first, second, third)]
    assert len(set(named)) == 3


def test_keys_that_change_at_the_same_time_are_published_as_they_are(tmp_path: Path) -> None:
    def revoke_key(_: int) -> None:
        TeamKeys(tmp_path).revoke("vision")

    def issue_key(team: str) -> str:
        return issue(TeamKeys(tmp_path), team)

    keys = TeamKeys(tmp_path)
    for number in range(30):
        lost = issue_key("vision")
        teams = [f"team{number}-{i}" for i in range(3)]
        with ThreadPoolExecutor() as pool:
            ended = pool.map(revoke_key, [0])
            tokens = [*pool.map(issue_key, teams)]
            assert [*ended] == [None]
        assert [read(keys, token)["team"] for token in tokens] == teams
        with pytest.raises(KeyError):
            read(keys, lost)
    assert not [*tmp_path.rglob("*.partial")]


def test_the_file_of_public_keys_has_no_private_one_and_is_never_empty(keys: TeamKeys, tmp_path: Path) -> None:
    keys.publish()
    (nobody,) = json.loads(keys.public.read_text())["keys"]
    assert nobody["kid"] == "nobody"
    issue(keys)
    (public,) = json.loads(keys.public.read_text())["keys"]
    assert "d" not in public
    assert public["kid"] == "vision@1"
    private = [path for path in tmp_path.rglob("*.pem") if b"PRIVATE" in path.read_bytes()]
    assert [path.stat().st_mode & 0o077 for path in private] == [0]


@pytest.mark.parametrize("team", ["", "a b", "-a", "a/../b", "a*", "ü", "a" * 64, "a@1", "a\nb"])
def test_a_team_is_called_so_that_it_can_stand_in_a_header(keys: TeamKeys, team: str) -> None:
    with pytest.raises(ConfigError, match="no team can be called"):
        issue(keys, team)


@pytest.mark.parametrize("days", [0, -1, 401, float("nan"), float("inf")])
def test_a_token_ends_within_a_year_or_so(keys: TeamKeys, days: float) -> None:
    with pytest.raises(ConfigError, match="days"):
        issue(keys, days=days)


def test_who_has_no_key_is_told_who_has(keys: TeamKeys) -> None:
    issue(keys)
    for act in (keys.rotate, keys.revoke):
        with pytest.raises(ConfigError, match="teams that have: vision"):
            act("visoin")


def test_the_certificate_is_made_anew_only_where_it_is_due(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    authority.renew_certificate(("localhost", "127.0.0.1"))
    first = authority.server.read_bytes()
    authority.renew_certificate(("127.0.0.1", "localhost"))
    assert authority.server.read_bytes() == first
    authority.renew_certificate(("localhost", "127.0.0.1", "judges.example.org"))
    assert authority.server.read_bytes() != first
    certificate = x509.load_pem_x509_certificate(authority.server.read_bytes())
    certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(authority.certificate.read_bytes()))
    context = ssl.create_default_context(cafile=str(authority.certificate))
    assert len(context.get_ca_certs()) == 1
    own = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    own.load_cert_chain(authority.server, authority.server_key)
    assert authority.server_key.stat().st_mode & 0o077 == 0


def test_a_door_starts_with_a_certificate_for_a_year_at_least(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    authority = Authority(tmp_path)
    for days, is_new in ((399, True), (401, True), (800, False)):
        before = authority.server.read_bytes() if authority.server.is_file() else b""
        monkeypatch.setattr(identity, "CERTIFICATE_DAYS", days)
        authority.renew_certificate(("localhost",))
        assert (authority.server.read_bytes() != before) == is_new


def test_a_certificate_of_another_authority_is_made_anew(authority: Authority) -> None:
    first = authority.server.read_bytes()
    authority.certificate.unlink()
    authority.renew_certificate(("localhost",))
    assert authority.server.read_bytes() != first


@pytest.mark.parametrize("damaged", ["garbage", "no names", "another key", "no key"])
def test_a_certificate_that_is_damaged_is_made_anew(authority: Authority, tmp_path: Path, damaged: str) -> None:
    nameless, other = authority.issue_client_certificate("vision", 90, tmp_path)
    if damaged == "garbage":
        authority.server.write_text("junk")
    elif damaged == "no names":
        authority.server.write_bytes(nameless.read_bytes())
        authority.server_key.write_bytes(other.read_bytes())
    else:
        authority.server_key.write_bytes(other.read_bytes() if damaged == "another key" else b"")
    authority.renew_certificate(("localhost",))
    own = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    own.load_cert_chain(authority.server, authority.server_key)
    served = x509.load_pem_x509_certificate(authority.server.read_bytes())
    assert served.extensions.get_extension_for_class(x509.SubjectAlternativeName)


def test_a_file_that_is_no_key_is_named(keys: TeamKeys, authority: Authority, tmp_path: Path) -> None:
    issue(keys)
    (tmp_path / "teams" / "a@x.pem").write_text("junk")  # no key of ours is called so
    issue(keys, "audio")
    (tmp_path / "teams" / "b@1.pem").write_text("junk")
    with pytest.raises(ConfigError, match="b@1.pem: this key was not made by editjudge"):
        keys.publish()
    authority.certificate.write_text("junk")
    with pytest.raises(ConfigError, match="ca.pem: this is not a certificate"):
        authority.renew_certificate(("localhost",))


def test_a_client_certificate_is_the_authority_s_and_for_clients_alone(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    files = authority.issue_client_certificate("vision", 3, tmp_path)
    certificate = x509.load_pem_x509_certificate(files[0].read_bytes())
    known = x509.load_pem_x509_certificate(authority.certificate.read_bytes())
    certificate.verify_directly_issued_by(known)
    uses = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert [*uses] == [x509.oid.ExtendedKeyUsageOID.CLIENT_AUTH]
    assert "vision" in certificate.subject.rfc4514_string()
    with pytest.raises(ConfigError, match="401 days"):
        authority.issue_client_certificate("vision", 401, tmp_path)
    with pytest.raises(ConfigError, match="no such folder"):
        authority.issue_client_certificate("vision", 1, tmp_path / "none")


def test_a_token_says_the_team_in_the_claim_that_the_door_reads(tmp_path: Path) -> None:
    tokens = TokenAuthentication(keys="", audience="studio", team_claim="org.department")
    token = TeamKeys(tmp_path).issue_token("vision", 1, "batch", tokens)
    said = jwt.decode(token, options={"verify_signature": False})
    assert (said["org"]["department"], said["aud"], said["class"]) == ("vision", "studio", "batch")
