"""Replies that were stored since the servers of a service last said what they are."""

from ..base.errors import ModelExchanged
from .calls import AnyCall, Reply, ReplyStore


class RecentReplies:
    """Stores the replies of a service, and drops those that another model may have given.

    A server may get another model under the same name. Nobody knows which of the two gave what came
    since the server was last asked. Such replies are dropped, so that their calls are made again,
    and calls in flight fail.

    Args:
        is_watched: Whether replies are noted already; by default from the second time on that the
            servers are asked, since many panels ask them once.
    """

    def __init__(self, *, is_watched: bool = False) -> None:
        self._is_watched = is_watched
        self._marked = 0
        self._stored: list[tuple[ReplyStore, str]] = []
        self._error: ModelExchanged | None = None

    async def put(self, store: ReplyStore, call: AnyCall, reply: Reply) -> Reply:
        """Store a reply; see `ReplyStore.put`.

        Raises:
            ModelExchanged: the model was exchanged before the reply was stored.
        """
        if self._is_watched:
            self._stored.append((store, call.key))
        stored_reply = await store.put(call, reply)
        if self._error is not None:
            await store.drop([call.key])
            raise self._error
        return stored_reply

    def mark(self) -> None:
        """Mark the replies that are noted by now, before the servers are asked."""
        self._marked = len(self._stored)

    def confirm(self) -> None:
        """Forget the marked replies, because the servers still have the same model."""
        self._is_watched = True
        del self._stored[: self._marked]

    async def drop(self, error: ModelExchanged) -> None:
        """Drop all replies that are noted, and let calls in flight fail with an error."""
        self._error, stored, self._stored = error, self._stored, []
        for store, key in stored:
            await store.drop([key])
