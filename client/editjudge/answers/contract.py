"""What every output contract has."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Generic, TypeVar

from ..base.digest import content_digest

T_co = TypeVar("T_co", covariant=True)


class Unparsable(Exception):
    """A reply holds no valid answer; the caller keeps it and stores `unparsable`.

    Attributes:
        reason: One line for people; short, whatever the reply's length.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True)
class OutputContract(ABC, Generic[T_co]):
    """How a reply must look and what it is read to.

    Attributes:
        name: Of the kind of contract, as `spec` tells it.
        parser: Raised whenever the same replies may lead to another answer than before.
        averaged: Whether it reads scores, of which several sampled replies give the mean.
    """

    name: ClassVar[str]
    parser: ClassVar[int] = 3
    averaged: ClassVar[bool] = False

    @property
    @abstractmethod
    def instruction(self) -> str:
        """How the reply must look. Template text: it never holds text from data."""

    @property
    @abstractmethod
    def schema(self) -> Mapping[str, Any] | None:
        """The JSON schema of the reply; None where the reply cannot be constrained.

        Only keywords that constrained decoders know. What it asks for is checked again when
        the reply is read, because not every server obeys it.
        """

    @abstractmethod
    def parse(self, reply: str, *, cut: bool = False) -> T_co:
        """Read a reply.

        Args:
            cut: The reply ended at the token limit.

        Raises:
            Unparsable: it holds no valid answer, or more than one. Nothing else is raised,
                whatever the text.
        """

    def spec(self) -> Mapping[str, object]:
        """The contract as plain fields, for signatures."""
        return {"contract": self.name, "parser": self.parser, **asdict(self)}

    @property
    def digest(self) -> str:
        """`sha256:` and 64 hex digits of all that shapes or reads a reply."""
        shown = [dict(self.spec()), self.instruction, self.schema]
        text = json.dumps(shown, ensure_ascii=True, sort_keys=True)
        return content_digest(text.encode("ascii"))


def shown(value: object) -> str:
    """A value from a reply, short enough for a reason."""
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "…" + text[-1]
