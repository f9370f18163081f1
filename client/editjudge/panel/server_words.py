"""What libraries and front doors say of a failed call, in plain words."""

from __future__ import annotations

import re

_NEW = "ask the operator of the front door for a new one"
_MEANINGS = {
    "jwt is missing": "the front door got no token; set `api_key`",
    "jwt is expired": f"the token has expired; {_NEW}",
    r"\bjw(ks|t) ": f"the token is not accepted: malformed, revoked or of another door; {_NEW}",
    "rbac: access denied": "the team of this token may not do that",
    r"certificate_verify_failed\]?:? (?:certificate verify failed: )?([\w ,'.-]*\w)": (
        r"the server's certificate is not trusted: \1; set `ca_file`"
    ),
    "wrong_version_number": "the server speaks no TLS; check the address",
    "connection refused": "nothing listens at this address",
    "name or service not known|nodename|domain name not found|dns resolution|getaddrinfo": (
        "the name of the host is not known"
    ),
    "network is unreachable|no route to host": "the host cannot be reached",
    "connection reset|socket closed|goaway|broken pipe|server disconnected|not completed": (
        "the connection was lost"
    ),
}
"""What texts mean, by a pattern that finds them."""


def explain_failure(detail: str) -> str:
    """Explain what a library or a front door says; what is not known stays as it is."""
    for pattern, words in _MEANINGS.items():
        if match := re.search(pattern, detail, re.IGNORECASE):
            return match.expand(words)
    return detail
