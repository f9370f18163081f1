"""Text as token ids, so that text from data never becomes a control token.

`<|im_end|>` in an instruction must stay eleven characters of text, while the template's own
must be the one token. The tokenizers library can only switch this for a whole string, and
only for tokens that are marked special (not for `<think>` or `<tool_call>`), so there are two
tokenizers here: the model's own, and one to which every added token is plain text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from ...base.parse import parse_json

Piece: TypeAlias = tuple[str, bool]
"""Text, and whether it is of a prompt (True) or of the chat template (False)."""


@dataclass(frozen=True, slots=True)
class _Control:
    """Where a control token stands in a text."""

    start: int
    end: int
    content: str


class Tokens:
    """A model's tokenizer.

    Args:
        source: `tokenizer.json`.

    Raises:
        ValueError: it is not a tokenizer.

    Attributes:
        size: Number of tokens, added ones included.
    """

    def __init__(self, source: str) -> None:
        from tokenizers import Tokenizer

        tree = parse_json(source)
        try:
            self._whole = Tokenizer.from_str(source)
            # Runs of white space are added tokens of some models: no control tokens, those.
            added = [t for t in tree.get("added_tokens", ()) if t["content"].strip()]
            for token in added:
                token["special"] = True
            self._plain = Tokenizer.from_str(json.dumps(tree))
        except Exception as error:  # the library raises nothing more precise
            raise ValueError(f"tokenizer.json: {error}") from error
        self._plain.encode_special_tokens = True
        for tokenizer in (self._whole, self._plain):
            tokenizer.no_truncation()
            tokenizer.no_padding()
        self.size: int = self._whole.get_vocab_size(with_added_tokens=True)
        self._added: dict[str, dict[str, Any]] = {t["content"]: t for t in added}
        # The unknown token is no threat: it stands for what has no other token.
        unknown = tree["model"].get("unk_token") if isinstance(tree["model"], dict) else None
        self._guarded = {int(t["id"]) for t in added if t["content"] != unknown}
        # Longest first: where several begin at one place, the library takes the longest.
        longest = sorted(self._added, key=len, reverse=True)
        self._controls = re.compile("|".join(map(re.escape, longest)) or r"(?!)")

    def encode(self, pieces: Sequence[Piece]) -> list[int]:
        """Token ids of a rendered prompt.

        Exactly those of the whole text in one piece wherever its prompt pieces hold no control
        token's text. Where they do, each run between the template's control tokens is encoded
        as plain text.

        Raises:
            ValueError: this tokenizer cannot write a text without a control token.
        """
        text = "".join(part for part, _ in pieces)
        own = [control for span in _template_spans(pieces) for control in self._find(text, *span)]
        if own == list(self._find(text, 0, len(text))):
            ids: list[int] = self._whole.encode(text, add_special_tokens=False).ids
            # A normaliser could still have made one of something else (of a wide "<", say).
            if self._guarded_in(ids) == self._guarded_in([self._id(one) for one in own]):
                return ids
        ids, at = [], 0
        for control in own:
            start, end = self._stripped(control, text, at)
            ids += self.plain(text[at:start])
            ids.append(self._id(control))
            at = end
        return ids + self.plain(text[at:])

    def plain(self, text: str) -> list[int]:
        """Token ids of a text in which nothing is a control token.

        Raises:
            ValueError: this tokenizer cannot write it without one.
        """
        ids: list[int] = self._plain.encode(text, add_special_tokens=False).ids if text else []
        if guarded := self._guarded_in(ids):
            token = self._whole.id_to_token(guarded[0])
            raise ValueError(f"the tokenizer makes {token!r} of a text that is none")
        return ids

    def single(self, text: str) -> int | None:
        """The one token that is the text, or None where it takes several."""
        ids = self._plain.encode(text, add_special_tokens=False).ids
        return ids[0] if len(ids) == 1 else None

    def decode(self, ids: Sequence[int]) -> str:
        """Text of token ids, special ones left out."""
        return str(self._whole.decode(ids, skip_special_tokens=True))

    def text_of(self, token: int) -> str | None:
        """What a token is called, None where there is no such."""
        name: str | None = self._whole.id_to_token(token)
        return name

    def _id(self, control: _Control) -> int:
        return int(self._added[control.content]["id"])

    def _guarded_in(self, ids: Sequence[int]) -> list[int]:
        return [token for token in ids if token in self._guarded]

    def _find(self, text: str, start: int, end: int) -> Iterator[_Control]:
        for match in self._controls.finditer(text, start, end):
            around = text[max(0, match.start() - 1) : match.start()], text[match.end() :][:1]
            if not (self._added[match[0]].get("single_word") and any(map(_in_a_word, around))):
                yield _Control(match.start(), match.end(), match[0])

    def _stripped(self, control: _Control, text: str, least: int) -> tuple[int, int]:
        """A control token with the white space that it takes in."""
        start, end = control.start, control.end
        token = self._added[control.content]
        while token.get("lstrip") and start > least and text[start - 1].isspace():
            start -= 1
        while token.get("rstrip") and end < len(text) and text[end].isspace():
            end += 1
        return start, end


def _template_spans(pieces: Sequence[Piece]) -> Iterator[tuple[int, int]]:
    """Where the template's text is, neighbours taken together."""
    at, begin = 0, 0
    for part, of_prompt in pieces:
        if of_prompt:
            if begin < at:
                yield begin, at
            begin = at + len(part)
        at += len(part)
    if begin < at:
        yield begin, at


def _in_a_word(character: str) -> bool:
    return character.isalnum() or character == "_"
