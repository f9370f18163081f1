"""Replies that were stored since the servers of a service last said what they are."""

from collections.abc import Iterable, Mapping

from ..base.errors import ModelExchanged
from ..base.identity import ModelIdentity, describe_difference
from .calls import AnyCall, Reply, ReplyStore


class RecentReplies:
    """Stores the replies of a service, and drops those that another model may have given.

    A server may get another model under the same name. Nobody knows which of the two gave what came
    since the server was last asked. Such replies are dropped, so that their calls are made again,
    and calls in flight fail.

    Args:
        service: The name of the service.
        models: The models at its servers, by address; empty before they were asked. Replies are
            noted from the second time on that they are asked, since many panels ask them once.
        is_watched: Whether replies are noted already.
    """

    def __init__(self, service: str, models: Mapping[str, ModelIdentity] = {}, *, is_watched: bool = False) -> None:
        self._service, self._models, self._is_watched = service, models, is_watched
        self._mark_count = 0
        self._calls: list[tuple[ReplyStore, str]] = []
        self._error: ModelExchanged | None = None

    async def put(self, store: ReplyStore, call: AnyCall, reply: Reply) -> Reply:
        """Store a reply; see `ReplyStore.put`.

        Raises:
            ModelExchanged: the model was exchanged before the reply was stored.
        """
        if self._is_watched:
            self._calls.append((store, call.key))
        stored_reply = await store.put(call, reply)
        if self._error is not None:
            await store.drop([call.key])
            raise self._error
        return stored_reply

    def mark(self) -> None:
        """Mark the replies that are noted by now, before the servers are asked."""
        self._mark_count = len(self._calls)

    async def settle(self, found_models: Mapping[str, ModelIdentity], urls: Iterable[str]) -> "RecentReplies":
        """Forget the marked replies if the servers have the same models, else drop all replies.

        Args:
            found_models: The model of each server that answered, by address.
            urls: The addresses of the servers that are used from now on.

        Returns:
            What stores the replies from now on.
        """
        former, models = self._models, {url: found_models[url] for url in urls}
        for url, now in found_models.items():
            if former.get(url, now) != now:
                difference = describe_difference(now, former[url])
                self._error = ModelExchanged(f"it was exchanged: {difference}", service=self._service)
                for store, key in self._calls:
                    await store.drop([key])
                return RecentReplies(self._service, models, is_watched=True)
        self._models, self._is_watched = models, bool(former)
        del self._calls[: self._mark_count]
        return self
