"""What libraries and front doors say of a failed call is explained."""

from __future__ import annotations

import pytest

from editjudge.panel.server_words import explain_failure

REVOKED = "the token is not accepted: malformed, revoked or of another door; ask the operator"
TRUST = "the server's certificate is not trusted: "
EXPLAINED = {
    "Jwks doesn't have key to match kid or alg from Jwt": REVOKED,
    "Jwt verification fails": REVOKED,
    "Audiences in Jwt are not allowed": REVOKED,
    "Jwt issuer is not configured": REVOKED,
    "Jwt is missing": "the front door got no token; set `api_key`",
    "Jwt is expired": "the token has expired; ask the operator of the front door for a new one",
    "RBAC: access denied": "the team of this token may not do that",
    "connections to all backends failing; last error: UNKNOWN: ipv4:127.0.0.1:9: Failed to connect"
    " to remote host: Connection refused": "nothing listens at this address",
    "DNS resolution failed for nowhere:1: C-ares status is not ARES_SUCCESS qtype=A name=nowhere:"
    " Domain name not found": "the name of the host is not known",
    "Cannot connect to host nowhere:80 ssl:default [Name or service not known]": (
        "the name of the host is not known"
    ),
    "TLS: Cannot connect to host h:1 ssl:True [SSLCertVerificationError: (1, '[SSL:"
    " CERTIFICATE_VERIFY_FAILED] certificate verify failed: self-signed certificate"
    " (_ssl.c:1006)')]": f"{TRUST}self-signed certificate; set `ca_file`",
    "Tls handshake failed (TSI_PROTOCOL_FAILURE): SSL_ERROR_SSL: error:1000007d:SSL routines:"
    "OPENSSL_internal:CERTIFICATE_VERIFY_FAILED: self signed certificate: OK": (
        f"{TRUST}self signed certificate; set `ca_file`"
    ),
    "TLS: Cannot connect to host h:1 ssl:True [[SSL: WRONG_VERSION_NUMBER] wrong version number"
    " (_ssl.c:1006)]": "the server speaks no TLS; check the address",
    "Network is unreachable": "the host cannot be reached",
    "[Errno 104] Connection reset by peer": "the connection was lost",
    "Response payload is not completed: <TransferEncodingError: 400>": "the connection was lost",
    "the queue is full": "the queue is full",
}


@pytest.mark.parametrize("said", EXPLAINED)
def test_a_failure_is_explained(said: str) -> None:
    assert explain_failure(said).startswith(EXPLAINED[said])
