"""A reply that is taken to the letter, or as an answer in words of one's own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from .contract import OutputContract, Unparsable
from .options import COPY_ONE
from .spoken import Spoken


@dataclass(frozen=True)
class Verbatim(OutputContract[str]):
    """One of the texts that the prompt lists, taken as it stands, space around it apart.

    What it is worth is told by comparing it, to the letter, with the answer that is due: whether
    it is one of the texts is not looked at.

    Source: GIE-Bench's official evaluation.
    """

    name: ClassVar[str] = "verbatim"
    parser: ClassVar[int] = 2

    @property
    def instruction(self) -> str:
        """Says how to choose. The prompt lists the texts itself, marked as data."""
        return COPY_ONE

    @property
    def schema(self) -> None:
        """The reply is free."""
        return

    def parse(self, reply: str, *, cut: bool = False) -> str:
        """The reply itself; see `OutputContract.parse`."""
        text = reply.strip()
        if cut or not text:
            raise Unparsable("cut at the token limit" if cut else "the reply is empty")
        return text


@dataclass(frozen=True)
class ShortAnswer(OutputContract[str]):
    """An answer to a question, in a few words.

    Source: Omni IIE Bench, released code, whose model answers in at most 50 tokens.

    Attributes:
        longest: In characters.
    """

    name: ClassVar[str] = "short_answer"

    longest: int = 300

    @property
    def instruction(self) -> str:
        """Asks for the answer alone."""
        return "Answer in a few words, with nothing but the answer."

    @property
    def schema(self) -> None:
        """The reply is free."""
        return

    def parse(self, reply: str, *, cut: bool = False) -> str:
        """The answer in one line, without thinking before it; see `OutputContract.parse`."""
        text = " ".join(Spoken(reply, cut=cut).last.split())
        if cut or not text:
            raise Unparsable("cut at the token limit" if cut else "the reply is empty")
        if len(text) > self.longest:
            raise Unparsable(f"the answer has {len(text):,} characters, more than {self.longest}")
        return text
