"""A judge that knows the canaries, which can be told to drift."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from editjudge.canary.edits import TEMPLATE, canaries

from .openai import ScriptedOpenAi, reply

WORDS = dict(zip((1, 2, 3, 4, 5), reversed(TEMPLATE.choices), strict=True))
RIGHT = {"right": 5, "partly": 3, "nothing": 2, "other": 1, "ruined": 1}


class CanaryJudge(ScriptedOpenAi):
    """Answers each canary by a level, and every other question as `other` says.

    Attributes:
        levels: By what was done, from 1 to 5; None is no answer.
        asked: How many canaries it was asked about.
        rest: How many other questions.
    """

    def __init__(self, other: str = "good", **more: Any) -> None:
        super().__init__(**more)
        self.levels: Mapping[str, int | None] = RIGHT
        self.other = other
        self.asked = self.rest = 0
        self._names = {_url(edit.output.encoded_bytes): edit.model for edit in canaries().values()}

    def canary(self, asked: dict[str, Any]) -> str | None:
        """What was done in the canary that a request is about, if it is about one."""
        content = asked["messages"][-1]["content"]
        parts = content if isinstance(content, list) else []
        shown = [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]
        return self._names.get(shown[-1]) if shown else None

    def make_reply(self) -> dict[str, Any]:
        if (done := self.canary(self.requests[-1])) is None:
            self.rest += 1
            return reply(self.other)
        self.asked += 1
        level = self.levels[done]
        return reply("Hm." if level is None else WORDS[level])


def _url(encoded: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(encoded).decode()}"
