"""What a multimodal LLM is asked: system text, then text and labelled images in order.

Text from data (instructions, hints, texts to render) is marked as such: transports encode
it with special tokens disabled, so that an instruction holding `<|im_end|>` stays text.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from ..base.digest import content_digest
from .pictures import Picture


@dataclass(frozen=True, slots=True)
class Text:
    """A run of text.

    Attributes:
        data: It comes from an item or a model, not from a template of ours.
    """

    text: str
    data: bool = False


Part: TypeAlias = "Text | Picture"


@dataclass(frozen=True)
class Prompt:
    """One question: a system turn and a user turn; the assistant's comes from the model.

    Attributes:
        system: Template text; empty for none.
        parts: The user turn, in order.
    """

    system: str
    parts: tuple[Part, ...]

    @property
    def pictures(self) -> tuple[Picture, ...]:
        """The images in order."""
        return tuple(part for part in self.parts if isinstance(part, Picture))

    @cached_property
    def digest(self) -> str:
        """`sha256:` and 64 hex digits of all that a model sees of it."""
        shown = [
            self.system,
            *([p.digest] if isinstance(p, Picture) else [p.text, p.data] for p in self.parts),
        ]
        return content_digest(json.dumps(shown, ensure_ascii=False).encode("utf-8"))

    @cached_property
    def prefix(self) -> str:
        """Digest of what comes up to the last image: prompts that share it share computing."""
        last = max((i for i, p in enumerate(self.parts) if isinstance(p, Picture)), default=-1)
        return (
            Prompt(self.system, self.parts[: last + 1]).digest
            if last + 1 < len(self.parts)
            else self.digest
        )

    def followed_by(self, *parts: Part) -> Prompt:
        """The same prompt with more at its end."""
        return Prompt(self.system, (*self.parts, *parts))
