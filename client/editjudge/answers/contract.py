"""Base class of output contracts, and helpers for their schemas."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Generic, TypeVar

from ..base.digest import content_digest
from ..base.parse import package_tables
from .reply import Refusal, ReplyText
from .words import is_refusal

T_co = TypeVar("T_co", covariant=True)
INSTRUCTIONS = package_tables(__package__, "instructions.toml")


@dataclass(frozen=True)
class OutputContract(Generic[T_co]):
    """The required form of a reply, and the parser that reads it.

    Attributes:
        name: Kind of the contract, as `spec` gives it.
        parser: Version of the parser. It is raised whenever the same reply may give another answer.
        is_averaged: Whether the contract reads scores, so that several sampled replies are
            averaged.
        reads_words: Whether the judge's words beside an answer decide whether it is one. What is
            judged by such a contract names `WORDS`.
    """

    name: ClassVar[str]
    parser: ClassVar[int] = 3
    reads_words: ClassVar[bool] = True
    is_averaged: ClassVar[bool] = False

    @property
    def instruction(self) -> str:
        """The part of the prompt that describes the form; empty if other text does.

        It is template text and never holds text from data.
        """
        return str(INSTRUCTIONS.get(self.name, "")).format(self=self)

    @property
    def schema(self) -> Mapping[str, Any] | None:
        """JSON schema of the reply; None if the reply is not constrained.

        It uses only keywords that constrained decoders know. `parse` checks the same again, because
        not every server obeys the schema.
        """
        return None

    def parse(self, reply: str, *, cut: bool = False) -> T_co:
        """Read a reply.

        Args:
            reply: The text of the reply.
            cut: Whether the reply ended at the token limit.

        Raises:
            Refusal: The judge declines, whatever else the reply holds.
            Unparsable: The reply holds no valid answer, or more than one. No text raises any other
                error.
        """
        text = ReplyText(reply, cut=cut)
        try:
            return text.check_end(self._read(text))
        finally:
            if is_refusal(text.words):
                raise Refusal(text.words)

    def _read(self, reply: ReplyText) -> T_co:
        """Read a reply without its draft; `parse` then checks that no text follows the answer.

        Raises:
            Unparsable: See `parse`.
        """
        raise NotImplementedError

    def spec(self) -> Mapping[str, object]:
        """Return the contract as plain fields, for signatures."""
        return {"contract": self.name, "parser": self.parser, **asdict(self)}

    @property
    def digest(self) -> str:
        """`sha256:` and 64 hex digits of all that shapes a reply or reads it."""
        specification = [dict(self.spec()), self.instruction, self.schema]
        text = json.dumps(specification, ensure_ascii=True, sort_keys=True)
        return content_digest(text.encode("ascii"))


def object_schema(properties: Mapping[str, Any]) -> dict[str, Any]:
    """JSON schema of an object with exactly these members."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }


def list_schema(items: Mapping[str, Any], low: int, high: int) -> dict[str, Any]:
    """JSON schema of a list of `low` to `high` items."""
    return {"type": "array", "items": items, "minItems": low, "maxItems": high}


def abbreviate(value: object) -> str:
    """Return a value from a reply as text that is short enough for an error."""
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "…" + text[-1]
