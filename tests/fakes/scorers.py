"""Scorers whose verdicts stand in the item, for tests of what happens around them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from editjudge.base.identity import ModelIdentity, ServiceName
from editjudge.base.images import load_image, load_mask
from editjudge.base.item import Edit, Item
from editjudge.base.verdict import Score, Verdict
from editjudge.scorers.scorer import Scorer

from .transport import PanelStandIn

PIXEL = load_image(np.zeros((1, 1, 3), np.uint8))


class FakePanel(PanelStandIn):
    """Says which services it has, and answers nothing."""

    def __init__(self, *services: str) -> None:
        self.service_names = frozenset(services)

    def identities(self) -> dict[ServiceName, ModelIdentity]:
        return {ServiceName.parse(name): ModelIdentity(f"{name}/1") for name in self.service_names}

    def why_not(self, service: str) -> str:
        return f"no {service} here"


@dataclass(frozen=True)
class ScriptedScorer(Scorer):
    """Reads its fields from `item.extra["replies"]`; an exception there is raised."""

    name: ClassVar[str] = "scripted"
    key: str = ""
    needs: tuple[str, ...] = ()
    calls: list[frozenset[str]] = field(default_factory=list, compare=False, hash=False)

    @property
    def roles(self) -> tuple[ServiceName, ...]:
        return tuple(map(ServiceName.parse, self.needs))

    def spec(self) -> Mapping[str, object]:
        return {"key": self.key}

    async def score(self, edit: Edit, panel: Any, wanted: frozenset[str]) -> Mapping[str, Verdict]:
        self.calls.append(wanted)
        replies = edit.item.extra["replies"]
        verdicts = {}
        for name in wanted:
            reply = replies.get(f"{self.key}.{name}", replies.get(name))
            if isinstance(reply, Exception):
                raise reply
            verdicts[name] = Score(value=reply) if isinstance(reply, int | float) else reply
        return verdicts


def edit(task: str = "", model: str = "m", item_id: str = "1", **replies: Any) -> Edit:
    """An edit whose scripted scorers answer `replies`."""
    extra = {"replies": replies.pop("replies", replies), "subject": True}
    extra.update(replies.pop("extra", {}))
    item = Item(item_id, "x", (PIXEL,), mask=load_mask(np.ones((1, 1), bool)), task=task, extra=extra)
    return Edit(item, model, PIXEL)
