"""What servers say: secrets never leave through it, and what is known of a failed call is put into plain words."""

import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import quote, urlsplit

from ..base import errors
from ..base.config import Secret
from ..base.errors import ServiceError
from ..base.parse import package_tables

_PLACEHOLDER = "[secret]"
_LEAST = 8
"""Characters of a secret that is looked for in replies: a shorter one, `EMPTY` or `1`, may well be
what a judge has to say."""
_MAX_CHARS = 300


class Secrets:
    """The secrets that are sent to one server, to be found as they are and encoded.

    Encodings are base64, also within a longer text, hexadecimal digits and percent-encoding. A
    server that wants to say a secret can always do it in a way that nobody looks for.

    Args:
        headers: Headers of the settings. Those given as `env` or `file`, and `authorization`, are
            secret.
        values: Values of the headers, by lower-case name.
        proxy: Address of the proxy, which may hold a password.
    """

    def __init__(
        self, headers: Mapping[str, str | Secret], values: Mapping[str, str], proxy: str | None = None
    ) -> None:
        names = {name.lower() for name, value in headers.items() if isinstance(value, Secret)}
        secrets = {v for name, v in values.items() if name in names | {"authorization"}}
        # A server echoes the key alone as often as the whole header.
        secrets |= {value.split(" ", 1)[1] for value in secrets if " " in value}
        secrets.add((urlsplit(proxy).password if proxy else None) or "")
        encodings = {text for secret in secrets if len(secret) >= _LEAST for text in _encode(secret)}
        texts = filter(None, secrets | encodings)
        self._all = tuple(sorted(texts, key=len, reverse=True))  # longest first
        self._long = tuple(text for text in self._all if len(text) >= _LEAST)

    def redact(self, text: str) -> str:
        """A text with every secret replaced."""
        return _without(self._all, text)

    def redact_json(self, reply: Any) -> Any:
        """JSON or text of a server with every secret of 8 characters or more replaced.

        Names of fields are left as they are.
        """
        if not self._long:
            return reply
        match reply:
            case str():
                return _without(self._long, reply)
            case list():
                return [self.redact_json(each) for each in reply]
            case dict():
                return {name: self.redact_json(value) for name, value in reply.items()}
        return reply

    def redact_message(self, message: Any) -> Any:
        """A protobuf message with every secret of 8 characters or more replaced."""
        if not self._long:
            return message
        from google.protobuf.json_format import MessageToDict, ParseDict

        return ParseDict(self.redact_json(MessageToDict(message)), type(message)())


def shorten(text: str) -> str:
    """A text as one line of at most 300 characters."""
    text = " ".join(text.split())
    return text if len(text) <= _MAX_CHARS else text[: _MAX_CHARS - 1] + "…"


def _encode(secret: str) -> Iterator[str]:
    data = secret.encode()
    yield from (data.hex(), data.hex().upper(), quote(secret, safe=""))
    for before in range(3):  # bytes of what precedes it in its first group of three
        text = b64encode(bytes(before) + data).decode()
        # Only characters that no other byte has a part in.
        text = text[-(-before * 4 // 3) : (before + len(data)) * 4 // 3]
        yield from (text, text.replace("+", "-").replace("/", "_"))


def _without(secrets: Iterable[str], text: str) -> str:
    for secret in secrets:
        text = text.replace(secret, _PLACEHOLDER)
    return text


SERVER_WORDS = package_tables(__package__, "server_words.toml")


def read_error_kinds(protocol: str) -> dict[str, type[ServiceError]]:
    """Read which error each status of a protocol means."""
    return {status: getattr(errors, name) for status, name in SERVER_WORDS[protocol].items()}


def explain_failure(detail: str) -> str:
    """Explain what a library or a front door says; what is not known stays as it is."""
    for pattern, words in SERVER_WORDS["meanings"].items():
        if match := re.search(pattern, detail, re.IGNORECASE):
            return match.expand(words)
    return detail
