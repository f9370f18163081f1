"""A reply that is taken to the letter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from .contract import OutputContract, Unparsable
from .options import COPY_ONE


@dataclass(frozen=True)
class Verbatim(OutputContract[str]):
    """One of the texts that the prompt lists, taken as it stands, space around it apart.

    What it is worth is told by comparing it, to the letter, with the answer that is due: whether
    it is one of the texts is not looked at.

    Source: GIE-Bench's official evaluation.
    """

    name: ClassVar[str] = "verbatim"

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
