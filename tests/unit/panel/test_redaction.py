"""No secret stands in what a server says."""

from __future__ import annotations

import base64
from collections.abc import Callable
from urllib.parse import quote

import pytest

from editjudge.base.config import Secret
from editjudge.panel.redaction import Secrets

PROXY = "http://me:proxy-password@proxy:3128"


def secrets_of(headers: dict[str, str], *, secret: tuple[str, ...] = (), proxy: str = "") -> Secrets:
    declared = {name: Secret(env="X") if name in secret else headers[name] for name in headers}
    return Secrets(declared, {name.lower(): value for name, value in headers.items()}, proxy or None)


BEARER = secrets_of({"Authorization": "Bearer key-12345"})


@pytest.mark.parametrize(
    ("secrets", "said", "shown"),
    [
        (BEARER, "Bearer key-12345 is wrong", "[secret] is wrong"),
        (BEARER, "no key-12345 here", "no [secret] here"),
        (secrets_of({"X-Key": "12345678"}, secret=("X-Key",)), "is 12345678", "is [secret]"),
        (secrets_of({"X-Team": "12345678"}), "is 12345678", "is 12345678"),
        (secrets_of({}, proxy=PROXY), "407 for proxy-password", "407 for [secret]"),
        (secrets_of({}, proxy="http://proxy:3128"), "407 from proxy", "407 from proxy"),
        # One secret begins as another does: nothing of the longer one is left.
        (
            secrets_of({"A": "12345678", "B": "12345678-tail"}, secret=("A", "B")),
            "is 12345678-tail",
            "is [secret]",
        ),
    ],
)  # fmt: skip
def test_a_secret_is_not_shown(secrets: Secrets, said: str, shown: str) -> None:
    assert secrets.redact(said) == shown
    assert secrets.redact_json({"a": [said, 1]}) == {"a": [shown, 1]}


def test_a_reply_may_hold_a_short_secret_and_an_error_may_not() -> None:
    secrets = secrets_of({"Authorization": "Bearer 1"})
    assert secrets.redact("key 1") == "key [secret]"
    assert secrets.redact_json({"score": "1"}) == {"score": "1"}


KEY = "sk-ö?~/>key-7654321"
ENCODINGS: dict[str, Callable[[bytes], str]] = {
    "base64": lambda data: base64.b64encode(data).decode(),
    "base64 for URLs": lambda data: base64.urlsafe_b64encode(data).decode(),
    "base64 without padding": lambda data: base64.b64encode(data).decode().rstrip("="),
    "hex": lambda data: data.hex(),
    "HEX": lambda data: data.hex().upper(),
    "percent": lambda data: quote(data, safe=""),
}


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("before", ["", "a", "ab", "Bearer "])
@pytest.mark.parametrize("after", ["", "z", "zy"])
def test_a_secret_that_is_encoded_is_not_shown(encoding: str, before: str, after: str) -> None:
    """Wherever it lies in what is encoded, all but bits of its first and last byte are gone."""
    secrets = secrets_of({"Authorization": f"Bearer {KEY}"})
    said = ENCODINGS[encoding](f"{before}{KEY}{after}".encode())
    around = len(ENCODINGS[encoding](before.encode()) + ENCODINGS[encoding](after.encode()))
    for shown in (secrets.redact(said), secrets.redact_json([said])[0]):
        assert "[secret]" in shown
        assert len(shown.replace("[secret]", "")) <= around + 2


def test_what_only_looks_encoded_stays() -> None:
    secrets = secrets_of({"Authorization": f"Bearer {KEY}"})
    said = [base64.b64encode(KEY[:-8].encode()).decode(), KEY[8:].encode().hex(), KEY[::-1]]
    assert secrets.redact_json(said) == said
    assert secrets_of({"Authorization": "Bearer EMPTY"}).redact("RU1QVFk=") == "RU1QVFk="
