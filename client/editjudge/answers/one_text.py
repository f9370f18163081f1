"""A text that a judge writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from .contract import OutputContract, Unparsable, shown
from .json_object import fields
from .spoken import Spoken


@dataclass(frozen=True)
class OneText(OutputContract[str]):
    """One text in one line, under a key that says what it is.

    Source: GIE-Bench, section 3.1 and figure 8: the instruction that a generalist writes.

    Attributes:
        key: Of the text.
        longest: In characters.
    """

    name: ClassVar[str] = "one_text"

    key: str = "text"
    longest: int = 300

    @property
    def instruction(self) -> str:
        """The key and how long the text may be."""
        return (
            f'Reply with one JSON object and nothing around it. Its only key is "{self.key}": a '
            f"text of at most {self.longest} characters."
        )

    @property
    def schema(self) -> Mapping[str, Any]:
        """An object with that text; its length is checked on reading."""
        return {
            "type": "object",
            "properties": {self.key: {"type": "string"}},
            "required": [self.key],
            "additionalProperties": False,
        }

    def parse(self, reply: str, *, cut: bool = False) -> str:
        """Read the text, in single spaces; see `OutputContract.parse`."""
        spoken = Spoken(reply, cut=cut)
        value = fields(spoken, (self.key,))[self.key]
        text = " ".join(value.split()) if isinstance(value, str) else ""
        if not any(c.isalnum() for c in text):
            raise Unparsable(f'"{self.key}" holds {shown(value)}, which is no text')
        if len(text) > self.longest:
            raise Unparsable(f'"{self.key}" has {len(text)} characters, more than {self.longest}')
        return spoken.alone(text)
