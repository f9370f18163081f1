"""Generalists' replies in memory, where there is no ledger."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

from .calls import Call, Reply
from .heard import said_of
from .said import Said


class RememberedReplies:
    """A `ReplyStore` that is gone with its panel.

    Args:
        most: How many are remembered, the latest; None for all.
    """

    def __init__(self, most: int | None = None) -> None:
        self._most = most
        # Of a call no more is kept than is shown of it: a prompt holds its pictures.
        self._made: OrderedDict[str, tuple[Reply, Said]] = OrderedDict()
        self._facts: dict[str, str] = {}

    async def get(self, call: Call) -> Reply | None:
        """The reply to a call that was made before, or None."""
        made = self._made.get(call.key)
        return made[0] if made else None

    async def put(self, call: Call, reply: Reply) -> None:
        """Keep a reply; the first one for a call stays."""
        self._made.setdefault(call.key, (reply, said_of(call, reply)))
        if self._most is not None and len(self._made) > self._most:
            self._made.popitem(last=False)

    async def said(self, keys: Iterable[str]) -> dict[str, Said]:
        """What came back from calls, by key; those that are not known are left out."""
        return {key: self._made[key][1] for key in keys if key in self._made}

    async def fact(self, name: str) -> str | None:
        """Something found out about a service before, or None."""
        return self._facts.get(name)

    async def keep_fact(self, name: str, value: str) -> None:
        """Keep what was found out; the last stays."""
        self._facts[name] = value
