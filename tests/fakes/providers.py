"""Providers and servers as judges meet them, as strict as the real ones (`providers.toml`)."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from aiohttp import web

from .openai import ScriptedOpenAi

PROVIDERS: Mapping[str, Any] = tomllib.loads(Path(__file__).with_name("providers.toml").read_text("utf-8"))
TOO_MANY = {"status": 429, "body": {"error": {"message": "slow down"}}}
ROOT = {
    "status": 400,
    "body": {
        "error": {
            "message": "Invalid schema for response_format 'reply': schema must be a JSON Schema"
            " of 'type: \"object\"', got 'type: \"string\"'.",
            "param": "response_format",
        }
    },
}
_THOUGHT = {"prompt_tokens": 100, "completion_tokens": 1, "total_tokens": 161}


class ScriptedProvider(ScriptedOpenAi):
    """A server with the habits of a provider, which answers `script` where it refuses nothing.

    Args:
        limited: How many calls it answers by its limit before others.

    Attributes:
        refusals: The fields that it refused, in order.
    """

    def __init__(self, name: str, *script: Any, limited: int = 0, **more: Any) -> None:
        self.habits = PROVIDERS[name]
        self.model: str = self.habits["model"]
        listed = self.habits.get("listed", (self.model,))
        super().__init__(
            *script,
            owner=self.habits.get("owner", "system"),
            models=listed,
            answers_as=self.model,
            binds=self.habits.get("holds", True),
            models_answer=None,
            **more,
        )
        self.limited = limited
        self.refusals: list[str] = []

    async def _models(self, request: web.Request) -> web.Response:
        if self.models == "none":
            return web.json_response({"error": {"message": "not found"}}, status=404)
        return await super()._models(request)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        asked = json.loads(await request.read())
        name, refusal = self._find_refusal(asked)
        if self.limited:
            self.limited -= 1
            refusal = self.habits.get("limit", TOO_MANY)
        elif name:
            self.refusals.append(name)
        if refusal is not None:
            return web.json_response(refusal["body"], status=refusal["status"], headers=refusal.get("headers"))
        return await super()._answer(request)

    def make_reply(self) -> dict[str, Any]:
        if not self.habits.get("top_logprobs"):
            self.requests[-1].pop("logprobs", None)
        usage = {"usage": _THOUGHT} if self.habits.get("thinks") else {}
        return super().make_reply() | usage

    def _find_refusal(self, asked: Mapping[str, Any]) -> tuple[str, Any]:
        """The field that is refused, and with what."""
        words = json.dumps(asked["messages"]).lower()
        for name, refusal in self.habits.get("refused", {}).items():
            if name not in asked or asked[name] == refusal.get("unless"):
                continue
            if refusal.get("beside", name) in asked and refusal.get("word", "\0") not in words:
                return name, refusal
        schema = asked.get("response_format", {}).get("json_schema", {}).get("schema", {})
        if schema.get("type", "object") != "object":
            return "response_format", ROOT
        if "filter" in self.habits and "forbidden" in words:
            return "messages", self.habits["filter"]
        return "", None
