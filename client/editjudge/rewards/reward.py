"""Scores batches of edits in this process, by a panel of its own or through a Judge service."""

import asyncio
import math
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from ..app.canary import check_canaries
from ..app.client import Client, JudgeConfigs, work_on_all
from ..base.closeable import Closeable
from ..base.config import Settings
from ..base.errors import ConfigError, InputError
from ..base.identity import ModelIdentity, ServiceName, describe_difference
from ..base.item import Edit, EditArguments
from ..base.terminal import print_notice
from ..base.text import group_by_key
from ..benchmarks.rounds import JudgeRounds
from ..engine.judge import roles_of
from ..panel import Panel
from .config import RewardConfig
from .mix import fail_edit, reward_edit, sign_reward, summarise
from .schema import EditReward, NoReward, RewardReply, RewardValue

T = TypeVar("T")
LATE = NoReward(kind="deadline", reason="not judged within the deadline", retry=True)
"""Why an edit has no reward that was not judged in time."""


class Reward(Closeable):
    """Scores edits for a trainer.

    ```python
    with Reward("reward.toml") as reward:
        reply = reward.score([{"source": "a.png", "edited": "b.png", "instruction": "…"}])
        reply.numbers("quality")
    ```

    It has an event loop in a thread of its own, so that any thread and any event loop may use it.
    Connections are opened with the first batch and closed by `close`.

    Args:
        config: The file `reward.toml`, or what was read from it.
        settings: See `Client`.
        judges: See `Client`.

    Attributes:
        client: The client that judges; its `budget` knows the cost.

    Raises:
        ConfigError: the file or the settings cannot be used.
    """

    def __init__(
        self, config: RewardConfig | Path | str, settings: Settings | None = None, *, judges: JudgeConfigs | None = None
    ) -> None:
        self.config = config if isinstance(config, RewardConfig) else RewardConfig.load(config)
        self.client = Client(settings, judges=judges)
        self._watch = JudgeWatch()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="editjudge.rewards", daemon=True)
        self._opening: asyncio.Task[Client] | None = None

    def close(self) -> None:
        """Close the connections and end the thread; the object is then of no more use."""
        if self._thread.is_alive():
            self._submit(self._close()).result()
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
        self._loop.close()

    def score(self, edits: Iterable[Edit | EditArguments], want: Sequence[str] = ()) -> RewardReply:
        """Score a batch and wait for it.

        Edits of one source are judged one after another, so that the server's caches hit.

        Args:
            edits: Edits, or for each the arguments of `Edit.load` by name.
            want: The names of the rewards; by default all.

        Returns:
            The rewards of each edit, in their order, and a summary. An edit that cannot be judged
            has the reason instead, and never a number, unless `without_number` is one.

        Raises:
            ConfigError: there is no such reward, or a signature is not the `pin`.
            StoreError: the ledger is damaged, or its disk is full.
        """
        return self._wait(self._score(list(edits), want))

    async def score_async(self, edits: Iterable[Edit | EditArguments], want: Sequence[str] = ()) -> RewardReply:
        """Score a batch as `score` does, without blocking the caller's event loop."""
        return await asyncio.wrap_future(self._submit(self._score(list(edits), want)))

    def describe(self) -> tuple[dict[str, str], dict[str, str]]:
        """Ask the services what they are.

        Returns:
            The signature of each reward by name; and by service that a reward needs and nobody
            serves the reason.
        """
        return self._wait(self._describe())

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        future = self._submit(work)
        try:
            return future.result()
        except BaseException:  # an interruption of this thread: nothing must be judged on
            future.cancel()
            raise

    def _submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        with suppress(RuntimeError):  # it runs already
            self._thread.start()
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    async def _open(self) -> Client:
        """Open the client once."""
        if self._opening is None or (self._opening.done() and self._opening.exception()):
            self._opening = asyncio.create_task(self.client.__aenter__())
        return await asyncio.shield(self._opening)

    async def _close(self) -> None:
        if self._opening is not None:
            await self._opening
            await self.client.__aexit__()

    async def _describe(self) -> tuple[dict[str, str], dict[str, str]]:
        panel, dimensions = (await self._open()).panel, self.config.dimension_set
        selection = dimensions.select(self.config.list_ids())
        signatures = dimensions.signatures.of(selection, await identify_models(panel))
        roles = set().union(*(roles_of(each, dimensions.by_id) for each in selection))
        missing = {str(role): panel.why_not(role) for role in sorted(roles - panel.service_names)}
        return {n: sign_reward(self.config, n, signatures) for n in self.config.rewards}, missing

    async def _score(self, edits: Sequence[Edit | EditArguments], want: Sequence[str]) -> RewardReply:
        began, config = time.monotonic(), self.config
        names = want or tuple(config.rewards)
        dimensions = config.dimension_set
        selection = dimensions.select(config.list_ids(*names))
        rounds = JudgeRounds(config.judges)
        rewards: list[Mapping[str, RewardValue]] = [fail_edit(config, names, LATE)] * len(edits)
        groups = [str(place) for place in range(len(edits))]
        ids = [_name_edit(place, edit) for place, edit in enumerate(edits)]

        async def one(_: int, place: int) -> None:
            name, edit = f"edit {ids[place]}", edits[place]
            by_id, signatures = dimensions.by_id, dimensions.signatures
            rules = by_id, signatures, config.prompts, rounds
            try:
                judgement = await client.judge_selection(name, edit, selection, *rules)
            except InputError as error:
                why = NoReward(kind="input", reason=str(error))
                rewards[place] = fail_edit(config, names, why)
                return
            rewards[place] = reward_edit(config, names, judgement)
            item = judgement.edit.item
            groups[place] = " ".join([*(each.digest for each in item.sources), item.instruction])

        keys = [_source_key(edit) for edit in edits]
        client = await self._open()
        async with self._watch.watch(client, config), end_after(config.deadline):
            await score_siblings(keys, one, config.concurrency)
        return make_reply(config, names, ids, rewards, groups, time.monotonic() - began)


@asynccontextmanager
async def end_after(seconds: float) -> AsyncIterator[None]:
    """Cancel what the block has not done in time, without an error."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            yield


class JudgeWatch:
    """Looks, batch by batch, whether the judges are still what they were."""

    def __init__(self) -> None:
        self._checked_at, self._problem = -math.inf, ""
        self._lock = asyncio.Lock()

    @property
    def age(self) -> float:
        """Seconds since all judges last rated the canaries; infinity before."""
        return time.monotonic() - self._checked_at

    @asynccontextmanager
    async def watch(self, client: Client, config: RewardConfig) -> AsyncIterator[None]:
        """Ask the servers what they are before a batch and after it; rate the canaries when it is time.

        Raises:
            ConfigError: a model was exchanged during the batch, or a judge rates the canaries in
                another way than before.
        """
        async with self._lock:
            if config.check_every and self.age >= config.check_every:
                await self._rate_canaries(client.settings, config)
        if self._problem:
            fix = "judge with what it was; `editjudge canary --new-baseline` accepts it as it is"
            raise ConfigError(self._problem, fix)
        before = await identify_models(client.panel)
        yield
        after = await identify_models(client.panel)
        for service, identity in before.items():
            if not identity.may_be(after.get(service, identity)):
                difference = describe_difference(after[service], identity)
                fix = "send the batch again, or go back to the model that was there"
                raise ConfigError(f"{service} was exchanged during the batch: {difference}", fix)

    async def _rate_canaries(self, settings: Settings, config: RewardConfig) -> None:
        results = await asyncio.to_thread(check_canaries, settings, config.judges)
        cost = sum(each.cost or 0.0 for each in results)
        print_notice(f"canaries before a batch: {sum(each.calls for each in results)} calls, cost {cost:g}")
        changes = [f"{each.service}: {each.why}" for each in results if each.state in {"shifted", "disordered"}]
        self._problem = "; ".join(changes)
        if all(each.state != "unchecked" for each in results):
            self._checked_at = time.monotonic()


async def identify_models(panel: Panel) -> Mapping[ServiceName, ModelIdentity]:
    """Ask the servers what they are now."""
    await panel.rebind()
    await panel.probe_judges()
    return panel.identities()


def make_reply(
    config: RewardConfig,
    names: Iterable[str],
    ids: Sequence[str],
    rewards: Sequence[Mapping[str, RewardValue]],
    groups: Sequence[str],
    seconds: float,
) -> RewardReply:
    """Make the reply to a batch, with a summary of each reward.

    Args:
        ids: The ids of the edits.
        rewards: Of each edit its rewards by name.
        groups: See `summarise`.
    """
    pairs = zip(ids, rewards, strict=True)
    results = tuple(EditReward(id=id_, rewards=dict(values)) for id_, values in pairs)
    summary = {name: summarise(config, name, results, groups) for name in names}
    return RewardReply(results=results, summary=summary, seconds=seconds)


async def score_siblings(
    keys: Sequence[object], score: Callable[[int, int], Coroutine[Any, Any, None]], at_once: int
) -> None:
    """Score edits side by side, those with the same source one after another.

    Args:
        keys: What edits of one source have in common.
        score: Is given the place of an edit as its second argument.
    """
    siblings = group_by_key((key, place) for place, key in enumerate(keys))
    await work_on_all((place for places in siblings.values() for place in places), score, at_once)


def _source_key(edit: object) -> object:
    """Return what the siblings of an edit have in common, without reading any file."""
    if isinstance(edit, Edit):
        return tuple(source.digest for source in edit.item.sources)
    source = edit.get("source") if isinstance(edit, Mapping) else None
    return source if isinstance(source, str | bytes | Path) else id(source)


def _name_edit(place: int, edit: object) -> str:
    if isinstance(edit, Edit):
        return edit.item.id
    item_id = edit.get("item_id") if isinstance(edit, Mapping) else ""
    return str(item_id or place)
