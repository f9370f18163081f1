"""A reply as it is read: without the draft before it, and with nothing after its answer."""

from __future__ import annotations

import re
from typing import TypeVar

from ..base.parse import package_tables

T = TypeVar("T")


class Unparsable(Exception):
    """A reply holds no valid answer; the caller keeps it and stores `unparsable`.

    Attributes:
        reason: One line for people; short, whatever the reply's length.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


# Servers take drafts off where they know the model; where they do not, a draft comes in the reply.
# No answer is taken out of one.
_DRAFTS = package_tables(__package__, "drafts.toml")["drafts"]
_OPENS, _CLOSES = (
    re.compile("|".join(tags[side] for tags in _DRAFTS), re.IGNORECASE)
    for side in ("opens", "closes")
)
# What may stand before the first tag of a reply: blanks, and how a turn of gpt-oss begins.
_BEFORE = re.compile(r"\s*(?:<\|start\|>\s*assistant\s*)?", re.IGNORECASE)

# What closes whatever stands around an answer: fences, brackets, \boxed{…}, tags, control tokens.
_MARKS = re.compile(r"(?:[\s`*$\]})]|</[\w:-]{1,40}>|<\|[^<>|]{1,40}\|>)*+")
_LINE = re.compile(r"[ \t]*\n")


class ReplyText:
    """What a judge said.

    A chat template may open a draft itself, so that a reply begins inside it: what stands before a
    closing tag is a draft too. Whether a tag counts, is for whoever reads the text to say, for a
    judge may quote one from an image.

    Args:
        reply: As it came.
        cut: It ended at the token limit.

    Attributes:
        text: The reply without its byte order mark and the drafts that it begins with.
        cut: It ended at the token limit.
        thought: It began with a draft that was opened and closed.
        opens: Where each opening tag of a draft begins in the text.
        closes: Where each closing tag begins and ends.
        end: Where the answer ends in the text, once it has been read; None where nothing is said of
            what follows it.

    Raises:
        Unparsable: it is empty, or a draft that it begins with is not closed.
    """

    def __init__(self, reply: str, *, cut: bool = False) -> None:
        text = reply.removeprefix("\ufeff").lstrip()
        text_start = 0
        while opening_tag := _OPENS.match(text, _skip_turn_header(text, text_start)):
            closing_tag = _CLOSES.search(text, opening_tag.end())
            if closing_tag is None:
                raise unclosed_draft(cut=cut)
            text_start = closing_tag.end()
        self.has_draft = text_start > 0
        text = text[text_start:]
        if not text.strip():
            raise Unparsable(
                "cut at the token limit before any answer" if cut else "the reply is empty"
            )
        self.text = text
        self.cut = cut
        self.closes = tuple(tag.span() for tag in _CLOSES.finditer(text))
        self.opens = tuple(tag.start() for tag in _OPENS.finditer(text))
        self.end: int | None = None

    @property
    def last(self) -> str:
        """What follows the last closing tag."""
        return self.text[self.closes[-1][1] :] if self.closes else self.text

    @property
    def last_line(self) -> str:
        """What follows the last closing tag that ends a line.

        One that is quoted from an image stands within a line.
        """
        for _, end in reversed(self.closes):
            if line := _LINE.match(self.text, end):
                return self.text[line.end() :]
        return self.text

    def check_end(self, answer: T) -> T:
        """The answer that was read, where nothing follows it.

        Of a judge that goes on after it, it cannot be told whether it means it: `If the edit were
        perfect I would say {…}, but`.

        Raises:
            Unparsable: more than fences, closing brackets and closing tags follow.
        """
        if self.end is None:
            return answer
        marks = _MARKS.match(self.text, self.end)
        if marks and marks.end() < len(self.text):
            raise Unparsable(
                "cut at the token limit after an answer that may be a draft"
                if self.cut
                else "text follows the answer, which has to end the reply"
            )
        return answer


def unclosed_draft(*, cut: bool) -> Unparsable:
    """Of a draft without an end."""
    return Unparsable(
        "cut at the token limit while thinking" if cut else "the thinking is not closed"
    )


def _skip_turn_header(text: str, at: int) -> int:
    """Where the blanks that stand here end, and the name of the turn."""
    before = _BEFORE.match(text, at)
    return before.end() if before else at
