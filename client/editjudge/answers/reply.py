"""The text of a judge's reply, without the model's thinking before the answer."""

import re
from typing import ClassVar, TypeVar

from ..base.parse import package_tables
from .words import is_denial

T = TypeVar("T")


class Unparsable(Exception):
    """A reply holds no valid answer; the caller keeps it and stores `unparsable`.

    Attributes:
        reason: One line for people; short, whatever the reply's length.
        kind: Kind of the missing score.
    """

    kind: ClassVar[str] = "unparsable"

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Refusal(Unparsable):
    """A reply declines in words to answer; the caller stores `refused`.

    Args:
        words: What the judge says.
    """

    kind: ClassVar[str] = "refused"

    def __init__(self, words: str) -> None:
        words = " ".join(words.split())
        super().__init__(f"declined: {words[:LONGEST_QUOTE]}")


LONGEST_QUOTE = 150
"""The largest number of characters of a refusal that an error quotes."""

# A server removes the drafts of models that it knows; other drafts arrive in the reply.
# No answer is read from a draft.
_DRAFTS = package_tables(__package__, "drafts.toml")["drafts"]
_OPENS, _CLOSES = (re.compile("|".join(tags[side] for tags in _DRAFTS), re.IGNORECASE) for side in ("opens", "closes"))
# The first tag of a reply, after blanks and the header of a turn of gpt-oss.
_FIRST = re.compile(rf"\s*+(?:<\|start\|>\s*+assistant\s*+)?+(?:{_OPENS.pattern})", re.IGNORECASE)

# What may follow an answer: the ends of fences, brackets, \boxed{…}, tags; control tokens.
_MARKS = re.compile(r"(?:[\s`*$\]})]|</[\w:-]{1,40}>|<\|[^<>|]{1,40}\|>)*+")
_LINE = re.compile(r"[ \t]*\n")


class ReplyText:
    """The text of a reply, and where the tags of its drafts are.

    A draft is the text in which a model thinks before it answers. A chat template may open a draft
    itself, so that the reply begins inside it: text before a closing tag is then a draft as well.
    The reader of an answer decides whether a tag counts, because a judge may quote one from an
    image.

    Args:
        reply: The reply as the server sent it.
        cut: Whether it ended at the token limit.

    Attributes:
        text: The reply without its byte order mark and the drafts that it begins with.
        cut: Whether the reply ended at the token limit.
        has_draft: Whether the reply began with a draft that was opened and closed.
        opens: Where each opening tag of a draft begins in the text.
        closes: Where each closing tag begins and ends.
        end: Where the answer ends in the text, once it was read; None if text may follow it.
        words: The judge's own words, in which it may decline: all but an answer in JSON or one that
            is copied from the prompt.

    Raises:
        Unparsable: The reply is empty, or a draft that it begins with is not closed.
    """

    def __init__(self, reply: str, *, cut: bool = False) -> None:
        text = reply.removeprefix("\ufeff").lstrip()
        text_start = 0
        while opening_tag := _FIRST.match(text, text_start):
            closing_tag = _CLOSES.search(text, opening_tag.end())
            if closing_tag is None:
                raise unclosed_draft(cut=cut)
            text_start = closing_tag.end()
        self.has_draft = text_start > 0
        text = text[text_start:]
        if not text.strip():
            raise Unparsable("cut at the token limit before any answer" if cut else "the reply is empty")
        self.text = text
        self.cut = cut
        self.closes = tuple(tag.span() for tag in _CLOSES.finditer(text))
        self.opens = tuple(tag.start() for tag in _OPENS.finditer(text))
        self.end: int | None = None
        self.words = self.last

    @property
    def last(self) -> str:
        """The text after the last closing tag."""
        return self.text[self.closes[-1][1] :] if self.closes else self.text

    @property
    def last_line(self) -> str:
        """The text after the last closing tag that ends a line.

        A tag that the judge quotes from an image stands within a line.
        """
        for _, end in reversed(self.closes):
            if line := _LINE.match(self.text, end):
                return self.text[line.end() :]
        return self.text

    def check_end(self, answer: T) -> T:
        """Return the answer if no text follows it and the words before it do not deny it.

        A judge that goes on after its answer may not mean it: `If the edit were perfect I would say
        {…}, but`.

        Raises:
            Unparsable: More follows than fences, closing brackets and closing tags, or the answer
                is an object that is named as none: `It would be wrong to say {…}`.
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
        if is_denial(self.words):
            raise Unparsable("the words before the JSON object say that it is not the answer")
        return answer


def unclosed_draft(*, cut: bool) -> Unparsable:
    """Make the error of a draft without a closing tag."""
    return Unparsable("cut at the token limit while thinking" if cut else "the thinking is not closed")
