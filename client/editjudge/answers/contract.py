"""What every output contract has."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Generic, TypeVar

from ..base.digest import content_digest
from ..base.parse import package_tables
from .reply import ReplyText

T_co = TypeVar("T_co", covariant=True)
INSTRUCTIONS = package_tables(__package__, "instructions.toml")


@dataclass(frozen=True)
class OutputContract(Generic[T_co]):
    """How a reply must look and what it is read to.

    Attributes:
        name: Of the kind of contract, as `spec` tells it.
        parser: Raised whenever the same replies may lead to another answer than before.
        averaged: Whether it reads scores, of which several sampled replies give the mean.
    """

    name: ClassVar[str]
    parser: ClassVar[int] = 3
    is_averaged: ClassVar[bool] = False

    @property
    def instruction(self) -> str:
        """How the reply must look; empty where other words ask for it.

        It is template text and never holds text from data.
        """
        return str(INSTRUCTIONS.get(self.name, "")).format(self=self)

    @property
    def schema(self) -> Mapping[str, Any] | None:
        """The JSON schema of the reply; None where the reply is not constrained.

        It has only keywords that constrained decoders know. What it asks for is checked again when
        the reply is read, because not every server obeys it.
        """
        return None

    def parse(self, reply: str, *, cut: bool = False) -> T_co:
        """Read a reply.

        Args:
            cut: The reply ended at the token limit.

        Raises:
            Unparsable: it holds no valid answer, or more than one. Nothing else is raised,
                whatever the text.
        """
        text = ReplyText(reply, cut=cut)
        return text.check_end(self._read(text))

    def _read(self, reply: ReplyText) -> T_co:
        """Read a reply without its draft; `parse` sees to it that nothing follows the answer.

        Raises:
            Unparsable: see `parse`.
        """
        raise NotImplementedError

    def spec(self) -> Mapping[str, object]:
        """The contract as plain fields, for signatures."""
        return {"contract": self.name, "parser": self.parser, **asdict(self)}

    @property
    def digest(self) -> str:
        """`sha256:` and 64 hex digits of all that shapes or reads a reply."""
        specification = [dict(self.spec()), self.instruction, self.schema]
        text = json.dumps(specification, ensure_ascii=True, sort_keys=True)
        return content_digest(text.encode("ascii"))


def object_schema(properties: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of an object with these members, all of them, and no others."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }


def list_schema(items: Mapping[str, Any], low: int, high: int) -> dict[str, Any]:
    """The schema of a list with so many items."""
    return {"type": "array", "items": items, "minItems": low, "maxItems": high}


def abbreviate(value: object) -> str:
    """A value from a reply, short enough for a reason."""
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "…" + text[-1]
