"""OpenAI's chat completions as bytes and JSON: requests are written here, and replies read.

These are pure functions; `OpenAiTransport` makes the calls.
"""

import json
import math
import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, TypeAlias

from ...answers.contract import object_schema
from ...base.errors import Abstention
from ...base.parse import parse_json
from ...base.text import join_surrogates
from ..calls import Usage
from ..choices import check_logprobs
from ..prompt import Picture, Prompt, Text, break_token
from ..redaction import SERVER_WORDS
from .http import HttpReply

Part: TypeAlias = "str | Picture"

# Every form in which models write control tokens: <s>, </img>, <|im_end|>, the same with
# full-width bars (U+FF5C), [INST], [gMASK]. Those in brackets are looked for apart, for they
# may be inside the others.
_ANGLE_TOKEN = re.compile(r"<[^<>\s]{1,64}>|<([|\uff5c])[^<>]{1,64}\1>")
_BRACKET_TOKEN = re.compile(r"\[/?[A-Za-z0-9_]{2,32}\]")
Body: TypeAlias = list[bytes | Picture]
"""A request's body in pieces: a picture stands for its base64."""
_CHOICE = "choice"
_ENCODER = json.JSONEncoder(separators=(",", ":"))


def dump_json(value: Any) -> bytes:
    """JSON without spaces; characters that are not ASCII are escaped."""
    return _ENCODER.encode(value).encode("ascii")


def make_chat_body(fields: Mapping[str, Any], system: str, parts: Sequence[Part], detail: str | None = None) -> Body:
    """The body of a request in pieces: a picture stands for its base64, made when it is sent.

    Args:
        fields: All fields but `messages`.
        system: System text; empty for none.
        parts: The user turn. Without images it is sent as plain text, which servers of text-only
            models need.
        detail: How closely the images are looked at; None leaves it to the server.
    """
    image_end = f'","detail":"{detail}"}}}}'.encode("ascii") if detail else b'"}}'
    pieces: Body = []
    pending = dump_json(fields)[:-1] + b',"messages":['
    if system:
        pending += dump_json({"role": "system", "content": system}) + b","
    pending += b'{"role":"user","content":'
    if all(isinstance(part, str) for part in parts):
        return [pending + dump_json("".join(map(str, parts))) + b"}]}"]
    separator = b"["
    for part in parts:
        pending += separator
        separator = b","
        if isinstance(part, str):
            pending += dump_json({"type": "text", "text": part})
        else:
            pending += b'{"type":"image_url","image_url":{"url":"' + part.url_head
            pieces += [pending, part]
            pending = image_end
    return [*pieces, pending + b"]}]}"]


def join_parts(prompt: Prompt, control_tokens: Container[str] = ()) -> list[Part]:
    """The user turn with neighbouring texts joined and control tokens in data broken.

    Servers put line breaks of their own between text parts, which would tear a sentence in which a
    template quotes data.
    """
    parts: list[Part] = []
    for data, run in groupby(prompt.parts, _is_data):
        run_parts = [p if isinstance(p, Picture) else p.text for p in run]
        if data:
            run_parts = [_break_tokens("".join(map(str, run_parts)), control_tokens)]
        for part in run_parts:
            if isinstance(part, str) and parts and isinstance(parts[-1], str):
                parts[-1] += part
            else:
                parts.append(part)
    return parts


def find_token_candidates(prompt: Prompt) -> set[str]:
    """What looks like a control token in the data of a prompt; one could span two parts."""
    return {
        m.group()
        for data, run in groupby(prompt.parts, _is_data)
        for text in ["".join(part.text for part in run if data and isinstance(part, Text))]
        for pattern in (_ANGLE_TOKEN, _BRACKET_TOKEN)
        for m in pattern.finditer(text)
    }


def _break_tokens(text: str, tokens: Container[str]) -> str:
    """Break those of the candidates that are tokens, in one pass however many there are."""
    for pattern in (_ANGLE_TOKEN, _BRACKET_TOKEN):
        text = pattern.sub(lambda m: break_token(m[0]) if m[0] in tokens else m[0], text)
    return text


def read_choice(data: Any) -> dict[str, Any]:
    """The only choice in a reply, which has a message.

    Raises:
        ValueError: there is none, or several.
        Abstention: `refused`, the provider filtered it or the model declined.
    """
    choices = data.get("choices") if isinstance(data, dict) else None
    if isinstance(choices, list) and len(choices) > 1:
        raise ValueError(f"{len(choices)} choices came, one was asked for")
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(choice, dict) or not isinstance(message, dict):
        raise ValueError("the reply holds no choice with a message")  # noqa: TRY004
    refusal = message.get("refusal")
    if isinstance(refusal, str) and refusal.strip():
        raise Abstention("refused", join_surrogates(" ".join(refusal.split())[:300]))
    if choice.get("finish_reason") == "content_filter":
        raise Abstention("refused", "the provider's content filter withheld the reply")
    return choice


def make_constraint(schema: Mapping[str, Any], *, is_vllm: bool) -> dict[str, Any]:
    """The field of a request that holds the reply to a schema.

    A choice is given to vLLM (0.11 or newer) as it is. Others take only objects, so it becomes the
    member of one; see `unwrap_choice`.
    """
    if "enum" in schema:
        if is_vllm:
            return {"structured_outputs": {"choice": schema["enum"]}}
        schema = object_schema({_CHOICE: schema})
    json_schema = {"name": "reply", "schema": dict(schema), "strict": True}
    return {"response_format": {"type": "json_schema", "json_schema": json_schema}}


def unwrap_choice(text: str, schema: Mapping[str, Any] | None) -> str:
    """The choice in the object that `make_constraint` asks for; any other text as it is."""
    options = () if schema is None else schema.get("enum", ())
    try:
        value = parse_json(text) if options else None
    except ValueError:
        return text
    choice = value[_CHOICE] if isinstance(value, dict) and value.keys() == {_CHOICE} else None
    return str(choice) if choice in options else text


def read_text(choice: Mapping[str, Any]) -> str:
    """The text of a choice, with lone surrogates replaced: it may become part of a prompt.

    It is empty where a model thought until its limit, and wrote nothing.

    Raises:
        ValueError: its content is missing, or is no text.
    """
    content = choice["message"].get("content")
    if content is None and choice.get("finish_reason") == "length":
        return ""
    if not isinstance(content, str):
        reason = choice.get("finish_reason")
        raise ValueError(  # noqa: TRY004
            f"content is {type(content).__name__}, not text (finished by {reason})"
        )
    return join_surrogates(content)


def read_first_logprobs(choice: Mapping[str, Any]) -> list[tuple[str, float]] | None:
    """Tokens and natural logarithms of their probability, for the first token of the reply.

    Only the likeliest tokens that were asked for. The sampled token is not added to them, because
    the same question would then be answered otherwise from call to call.

    Returns:
        None where the server reports none.

    Raises:
        ValueError: they have another shape, or are no probabilities.
    """
    logprobs = choice.get("logprobs")
    if logprobs is None:
        return None
    content = logprobs.get("content", ()) if isinstance(logprobs, dict) else ()
    if content is None:
        return None
    first = content[0] if isinstance(content, list) and content else None
    top = first.get("top_logprobs") if isinstance(first, dict) else None
    if not isinstance(top, list) or not top:
        raise ValueError("logprobs hold no list of tokens for the first position")
    tokens = [_token(entry) for entry in top]
    check_logprobs([value for _, value in tokens])
    return tokens


def read_usage(data: Mapping[str, Any]) -> Usage:
    """Tokens that the call took; zeros where the server does not count.

    Providers bill tokens of hidden reasoning as those of the reply. Some do not count them there,
    but all have them in the total.
    """
    usage = data.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    details = usage.get("prompt_tokens_details")
    cache_hits = details.get("cached_tokens") if isinstance(details, dict) else 0
    prompt, completion, total = (
        count if isinstance(count := usage.get(f"{kind}_tokens"), int) else 0
        for kind in ("prompt", "completion", "total")
    )
    return Usage.from_counts(prompt, cache_hits, max(completion, total - prompt))


def _is_data(part: Text | Picture) -> bool:
    return isinstance(part, Text) and part.is_data


def _token(item: Any) -> tuple[str, float]:
    fields = item if isinstance(item, dict) else {}
    token, value = fields.get("token"), fields.get("logprob")
    if not isinstance(token, str) or isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("logprobs hold an entry that is no token with a number")  # noqa: TRY004
    try:
        return token, float(value)
    except OverflowError:  # an integer of hundreds of digits
        return token, math.inf if value > 0 else -math.inf


_UNSUPPORTED_WORDS = re.compile("|".join(SERVER_WORDS["unsupported"]), re.IGNORECASE)
_FEWER = 5  # likeliest tokens; what servers with a low limit allow
_SURE = 32  # replies in a row without probabilities; one edit may have a dozen of them


_REJECTIONS = frozenset({400, 403, 422})


@dataclass(slots=True)
class Capabilities:
    """What the server was found to accept; each kind of rejection happens once.

    Attributes:
        limit: Name of the field that limits a reply's tokens.
        by_ids: Whether `logprob_token_ids` may be sent.
        priority: Whether `priority` may be sent; some versions of vLLM refuse it when they were
            started without priorities.
        top_logprobs: How many of the likeliest tokens may be asked for.
    """

    limit: str = "max_tokens"
    by_ids: bool = True
    priority: bool = True
    top_logprobs: int = 20
    _lacking: int = 0
    _why: str = ""

    @property
    def no_logprobs(self) -> str:
        """Why the server gives no probabilities; empty while it may give them."""
        return self._why if self._lacking >= _SURE else ""

    def add_logprobs(self) -> None:
        """Count a reply with probabilities."""
        self._lacking = 0

    def add_missing_logprobs(self, why: str) -> None:
        """Count a reply without probabilities; it fails its own call until 32 in a row do."""
        self._lacking += 1
        self._why = why

    def denies_logprobs(self, reply: HttpReply, body_fields: Mapping[str, Any]) -> bool:
        """Whether a rejection that taught nothing means that the server gives no probabilities."""
        about = f"{reply.param} {reply.words}".lower()
        return reply.status in _REJECTIONS and "logprobs" in body_fields and "logprobs" in about

    def learn(self, reply: HttpReply, body_fields: Mapping[str, Any]) -> bool:
        """Learn from a rejected request; tells whether it is worth sending in another form.

        Args:
            reply: The rejection.
            body_fields: Fields of the rejected request; calls overlap, so others may be sent by
                now.
        """
        if reply.status not in _REJECTIONS:
            return False
        about = f"{reply.param} {reply.words}".lower()
        if "priority" in body_fields and "priority" in about:
            self.priority = False
            return True
        is_unsupported = _UNSUPPORTED_WORDS.search(f"{about} {reply.codes}") is not None
        if is_unsupported and "logprob_token_ids" in body_fields and "logprob_token_ids" in about:
            self.by_ids = False
            return True
        if "logprobs" in body_fields and "logprobs" in about:
            if is_unsupported or body_fields["top_logprobs"] <= _FEWER:
                return False
            self.top_logprobs = _FEWER
            return True
        if is_unsupported and "max_tokens" in body_fields and "max_tokens" in about:
            self.limit = "max_completion_tokens"
            return True
        return False


def find_refused_setting(reply: HttpReply, body_fields: Mapping[str, Any]) -> str:
    """The setting whose field a server rejects; empty where it complains of something else.

    Args:
        reply: The rejection.
        body_fields: Fields of the rejected request.
    """
    about = f"{reply.param} {reply.words}".lower()
    if reply.status not in _REJECTIONS or not (reply.param or _UNSUPPORTED_WORDS.search(f"{about} {reply.codes}")):
        return ""
    for setting, names in SERVER_WORDS["optional_fields"].items():
        if not body_fields.keys().isdisjoint(names) and any(name in about for name in names):
            return str(setting)
    return ""
