"""The Python API: judge edits from files or in-memory images.

```python
import editjudge

judged = editjudge.score(source="a.png", edited="b.png", instruction="make the cup red")
judged["psnr.source.whole"].value
```

`Client` does the same for asynchronous programs, and for many edits on one connection.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AsyncExitStack, aclosing
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeAlias, TypeVar, Unpack

from pydantic import ValidationError

from ..base.config import JudgeEndpoint, Settings, load_settings
from ..base.errors import ConfigError, EditjudgeError, InputError
from ..base.item import Edit, EditArguments
from ..base.local_stack import running_stack
from ..base.parse import first_problem
from ..base.threads import in_thread
from ..base.verdict import calls_of
from ..benchmarks.benchmark import use_templates
from ..benchmarks.dimension import Dimension
from ..benchmarks.registry import CORE, list_requests, load_benchmark, make_specialist_dimensions, select_dimensions
from ..benchmarks.registry import load_dimensions as all_dimensions
from ..benchmarks.rounds import JudgeRounds
from ..engine.judge import Judgement, Signatures, computes_pixels, find_lazy_limit, judge, roles_of
from ..panel import Panel
from ..panel.budget import Budget
from ..panel.calls import CallRecord
from ..panel.context import CallContext, CallLog
from ..panel.specialists import list_custom_services

__all__ = ["Client", "Judgement", "add_local_stack", "resolve_settings", "score", "score_many"]

if TYPE_CHECKING:
    from ..gateway.panel import Gateway
    from ..prompts import Template

T = TypeVar("T")
R = TypeVar("R")
AT_ONCE = 16
"""Edits in progress by default. Their pictures are in memory; calls have limits of their own."""
Dimensions: TypeAlias = str | Dimension | Iterable[str | Dimension] | None
"""One, or several: ids, globs or declarations. None for those of `core`."""
JudgeConfigs: TypeAlias = Mapping[str, JudgeEndpoint | Mapping[str, Any]]
"""Judges by name, each as `[judges.NAME]` of `editjudge.toml` has it: `url`, `model`, …"""
Prompts: TypeAlias = Path | str | Mapping[str, str] | None
"""A folder of prompt templates, or their texts by file."""


class Client:
    """A client that judges edits with the available services; it is an async context manager.

    ```python
    async with Client() as client:
        judged = await client.score({"source": "a.png", "edited": "b.png", "instruction": "…"})
    ```

    Args:
        settings: By default read from `EDITJUDGE_*` and `editjudge.toml`; without any
            endpoint there, the client uses a running local stack (`editjudge up`). With a
            `gateway`, that Judge service judges the edits.
        judges: Judges by name instead of those of the settings, as dictionaries:
            `{"judge": {"url": "http://gpu:8000/v1"}}`. `judge` is the one that `core` asks.

    Attributes:
        panel: The available services, once entered; RuntimeError before.
        budget: The cost of all its calls and its limit (`max_cost` of the settings), in the
            currency of the configured prices.

    Raises:
        ConfigError: on construction or entry, for settings that cannot be used.
    """

    def __init__(self, settings: Settings | None = None, *, judges: JudgeConfigs | None = None) -> None:
        self.settings = resolve_settings(settings, judges)
        self.budget = Budget(self.settings.max_cost)
        self._resources = AsyncExitStack()
        self._panel: Panel | None = None
        self._gateway: Gateway | None = None
        self._last_signatures = Signatures({})

    @property
    def panel(self) -> Panel:
        """The available services; see the class."""
        if self._panel is None:
            raise RuntimeError("the client is not open: enter it, `async with Client() as client`")
        return self._panel

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as resources:
            ledger = None
            if self.settings.ledger is not None:
                from ..storage.shared_ledger import open_ledger

                ledger = open_ledger(self.settings.ledger, self.settings.patience)
                resources.callback(ledger.close)
            if self.settings.gateway is not None:
                from ..gateway.panel import Gateway

                self._gateway = Gateway(self.settings.gateway, self.settings, ledger)
            if self.settings.budget is not None:
                self.budget = Budget.of(self.settings, ledger)
            panel = self._gateway or Panel(self.settings, ledger=ledger)
            self._panel = await resources.enter_async_context(panel)
            self._resources = resources.pop_all()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._resources.aclose()

    async def score(
        self,
        edit: Edit | EditArguments,
        dimensions: Dimensions = None,
        prompts: Prompts = None,
        budget: Budget | None = None,
    ) -> Judgement:
        """Judge one edit.

        Args:
            edit: An edit, or the arguments of `Edit.load` by name: it is then loaded in a thread.
            dimensions: One or several: ids, globs or declarations; those of `core` by default.
            prompts: A folder of your own prompt templates, which replace ours, or their texts by
                file; rubrics among them add dimensions (docs/howto/prompts.md, docs/howto/own.md).
            budget: The budget that pays for its calls, instead of the client's.

        Returns:
            An outcome for every selected dimension: a number on the dimension's scale, or the
            reason why there is none. A failing service gives a `Failure`, never an exception.

        Raises:
            ConfigError: an id or glob matches no dimension, none is given, official prompts are
                not imported, or your own prompts cannot be used.
            StoreError: the ledger is damaged, or its disk is full.
            RuntimeError: the client was not entered.
        """
        return await self._score("edit", edit, dimensions, prompts, budget or self.budget)

    async def _score(
        self, name: str, edit: object, dimensions: Dimensions, prompts: Prompts, budget: Budget
    ) -> Judgement:
        texts = _texts(prompts)
        custom, rubrics = _custom_templates(texts)
        own = (*make_specialist_dimensions(list_custom_services(self.settings)), *rubrics)
        selection = use_templates(_select_dimensions(dimensions, own), custom)
        others = all_dimensions(dimension.id for dimension in selection).values()
        by_id = {d.id: d for d in (*use_templates(others, custom), *selection)}
        signatures = self._signatures(by_id)
        return await self.judge_selection(name, edit, selection, by_id, signatures, texts, JudgeRounds(), budget)

    async def judge_selection(
        self,
        name: str,
        edit: object,
        selection: tuple[Dimension, ...],
        by_id: Mapping[str, Dimension],
        signatures: Signatures,
        texts: Mapping[str, str],
        rounds: JudgeRounds,
        budget: Budget | None = None,
    ) -> Judgement:
        """Load and judge one edit on dimensions that are selected already.

        Args:
            name: What errors call the edit.
            edit: As for `score`.
            by_id: All dimensions, for what the selected ones derive from.
            texts: The texts of custom prompts by file, which are in the dimensions already.
            rounds: The judges and rounds, which are in the dimensions already.
        """
        edit = await _load_edit(name, edit, self._find_lazy_limit(selection, by_id))
        if self._gateway is None:
            context = CallContext(budget or self.budget)
            return await self.judge(edit, selection, by_id, signatures, context)
        from ..gateway.messages import make_protocol
        from ..gateway.session import GatewaySession

        protocol = make_protocol(CORE, "", rounds, texts)
        judges = GatewaySession(self._gateway, protocol, budget or self.budget)
        await judges.begin(selection, by_id, signatures)
        return await judges.judge(edit, selection, by_id, signatures)

    async def score_many(
        self,
        edits: Iterable[Edit | EditArguments],
        dimensions: Dimensions = None,
        prompts: Prompts = None,
        budget: Budget | None = None,
        *,
        concurrency: int = AT_ONCE,
    ) -> AsyncGenerator[tuple[int, Judgement | EditjudgeError], None]:
        """Judge many edits side by side, and yield each as soon as it is judged.

        Leaving the loop over it, or cancelling its task, cancels the calls in flight.

        Args:
            edits: Edits, or for each the arguments of `Edit.load` by name: it is then loaded in its
                turn, in a thread, so that no more pictures are in memory than are judged. No more
                is taken from an iterable than can begin.
            dimensions: As for `score`.
            concurrency: The largest number of edits in progress.

        Yields:
            The place of an edit, from 0, and its judgement; or the error where there is none,
            which costs only this edit.

        Raises:
            ConfigError, StoreError, RuntimeError: as `score`; no further edit could be judged.
        """
        requested_dimensions = None if dimensions is None else list_requests(dimensions)

        async def one(place: int, each: Edit | EditArguments) -> Judgement | EditjudgeError:
            try:
                return await self._score(f"edit {place}", each, requested_dimensions, prompts, budget or self.budget)
            except InputError as error:
                return error

        async with aclosing(iterate_completed(edits, one, concurrency)) as results:
            async for result in results:
                yield result

    async def judge(
        self,
        edit: Edit,
        dimensions: Iterable[Dimension],
        dimensions_by_id: Mapping[str, Dimension],
        signatures: Signatures,
        context: CallContext,
    ) -> Judgement:
        """Judge one edit on dimensions that are selected already; see `engine.judge.judge`.

        Args:
            dimensions_by_id: All dimensions, for what the given ones derive from.
            context: The budget that pays for the calls, and where they are stored.
        """
        new_records: dict[str, CallRecord] = {}
        panel = self.panel.with_context(context.with_log(CallLog(records=new_records)))
        judgement = await judge(edit, dimensions, dimensions_by_id, panel, signatures)
        calls = {key for outcome in judgement.outcomes.values() for key in calls_of(outcome)}
        # New replies may be stored nowhere; those of specialists are read as they are stored.
        stored_records = await panel.get_records(calls - new_records.keys())
        own_records = {key: record for key, record in new_records.items() if key in calls}
        return replace(judgement, replies={**stored_records, **own_records})

    def _find_lazy_limit(self, selection: Iterable[Dimension], by_id: Mapping[str, Dimension]) -> int:
        """Return the most pixels of a picture that stays encoded; any does for a Judge service."""
        if self._gateway is not None:
            return find_lazy_limit((), reads_pixels=False)
        roles = set().union(*(roles_of(each, by_id) for each in selection))
        judges = (one for role, one in self.panel.judges.items() if role in roles)
        reads_pixels = any(computes_pixels(each, by_id) for each in selection)
        return find_lazy_limit(judges, reads_pixels=reads_pixels)

    def _signatures(self, dimensions_by_id: Mapping[str, Dimension]) -> Signatures:
        """Return the signatures of the last call if it had the same dimensions, else new ones."""
        if self._last_signatures.dimensions_by_id != dimensions_by_id:
            self._last_signatures = Signatures(dimensions_by_id)
        return self._last_signatures


def score(
    *,
    dimensions: Dimensions = None,
    settings: Settings | None = None,
    judges: JudgeConfigs | None = None,
    prompts: Prompts = None,
    **edit: Unpack[EditArguments],
) -> Judgement:
    """Judge one edit and wait for the result: `Edit.load` and `Client.score` in one call.

    ```python
    judged = editjudge.score(source="a.png", edited="b.png", instruction="make the cup red")
    ```

    It runs an event loop of its own, in a thread where one runs already, as in a notebook; a
    coroutine awaits `Client.score` instead.

    Args:
        dimensions: One or several: ids, globs or declarations; those of `core` by default.
        settings: See `Client`.
        judges: See `Client`.
        prompts: A folder of your own prompt templates; see `Client.score`.
        edit: `source`, `edited`, `instruction`, and what else `Edit.load` takes.

    Returns:
        See `Client.score`.

    Raises:
        ConfigError: settings, judges or prompts cannot be used, or an id or glob matches no
            dimension.
        ImageError: an image is not one still picture, or the mask fits neither the source nor
            the target.
        TextError: see `editjudge.base.item.Item`.
        StoreError: the ledger is damaged, or its disk is full.
    """

    async def score_once() -> Judgement:
        async with Client(settings, judges=judges) as client:
            return await client.score(edit, dimensions, prompts)

    return run_sync(score_once())


def score_many(
    edits: Iterable[Edit | EditArguments],
    dimensions: Dimensions = None,
    *,
    settings: Settings | None = None,
    judges: JudgeConfigs | None = None,
    prompts: Prompts = None,
    concurrency: int = AT_ONCE,
    progress: Callable[[int, Judgement | EditjudgeError], object] | None = None,
) -> list[Judgement | EditjudgeError]:
    """Judge many edits on one connection and wait for all; see `Client.score_many`.

    ```python
    edits = [{"source": "a.png", "edited": f, "instruction": "…"} for f in ("b.png", "c.png")]
    for judged in editjudge.score_many(edits, ["core.psnr.*"]):
        print(judged)  # a judgement, or the error that the edit has instead
    ```

    Args:
        settings: See `Client`.
        judges: See `Client`.
        progress: A function that gets place and result when an edit is done; where an event loop
            runs already, as in a notebook, it is called in another thread.

    Returns:
        For each edit, in their order, its judgement or the error that it has instead.

    Raises:
        ConfigError: as `score`.
        StoreError: as `score`.
    """

    async def score_all() -> list[Judgement | EditjudgeError]:
        results: dict[int, Judgement | EditjudgeError] = {}
        async with Client(settings, judges=judges) as client:
            stream = client.score_many(edits, dimensions, prompts, concurrency=concurrency)
            async with aclosing(stream) as closing_stream:
                async for place, result in closing_stream:
                    results[place] = result
                    if progress is not None:
                        progress(place, result)
        return [results[place] for place in sorted(results)]

    return run_sync(score_all())


def check_type(name: str, value: object, kind: type, fix: str) -> None:
    """Refuse an argument of another type.

    Raises:
        ConfigError: it is one.
    """
    if not isinstance(value, kind):
        raise ConfigError(f"{name}: {type(value).__name__} is no {kind.__name__}", fix)


def resolve_settings(settings: Settings | None, judges: JudgeConfigs | None = None) -> Settings:
    """Return the settings to judge with: read where none are given, with a running local stack.

    Args:
        judges: Judges by name that replace those of the settings.

    Raises:
        ConfigError: the settings or a judge cannot be used.
    """
    settings = load_settings() if settings is None else settings
    check_type("settings", settings, Settings, "give editjudge.Settings(attempts=1) or the like")
    check_type("judges", judges or {}, Mapping, 'give {"judge": {"url": "http://host:8000/v1"}}')
    endpoints: dict[str, JudgeEndpoint] = {}
    for name, judge_ in (judges or {}).items():
        try:
            endpoints[name] = JudgeEndpoint.model_validate(judge_)
        except ValidationError as error:
            problem = f"judges[{name!r}] {first_problem(error, JudgeEndpoint)}"
            raise ConfigError(problem, "see docs/howto/configuration.md") from None
    if endpoints:
        settings = settings.model_copy(update={"judges": endpoints})
    return add_local_stack(settings)


def add_local_stack(settings: Settings) -> Settings:
    """Add a running local stack to the settings, where they configure no such services.

    Its Triton becomes the endpoint, and its vLLM the judge `judge`. A configured Judge service
    leaves the settings as they are.
    """
    missing = not settings.endpoints or not settings.judges
    if settings.gateway is not None or not missing or (stack := running_stack()) is None:
        return settings
    if not settings.endpoints and stack.grpc:
        settings = settings.at(stack.grpc)
    if not settings.judges and (local := stack.judge):
        judge_ = JudgeEndpoint(url=local.url, model=local.model)
        settings = settings.model_copy(update={"judges": {"judge": judge_}})
    return settings


async def _load_edit(name: str, edit: object, max_lazy_pixels: int) -> Edit:
    """Load an edit in a thread, unless it is one already.

    Args:
        name: What errors call it.
        max_lazy_pixels: See `Edit.load`.

    Raises:
        InputError: the arguments make no edit.
    """
    if isinstance(edit, Edit):
        return edit
    if not isinstance(edit, Mapping):
        kind = type(edit).__name__
        raise InputError(name, f"{kind} is neither an edit nor the arguments of one")
    names = EditArguments.__annotations__
    if unknown := [key for key in edit if key not in names]:
        raise InputError(name, f"unknown {unknown[0]!r}", f"Edit.load takes {', '.join(names)}")
    try:
        return await in_thread(lambda: Edit.load(**edit, max_lazy_pixels=max_lazy_pixels))
    except (TypeError, ValueError) as error:
        raise InputError(name, str(error), "see editjudge.Edit.load") from error


def _texts(prompts: Prompts) -> Mapping[str, str]:
    if prompts is None or isinstance(prompts, Mapping):
        return prompts or {}
    from ..prompts.custom_templates import load_custom_texts

    return load_custom_texts(Path(prompts))


def _custom_templates(texts: Mapping[str, str]) -> tuple[tuple[Template, ...], tuple[Dimension, ...]]:
    """The custom templates, and the dimensions of the rubrics among them."""
    if not texts:
        return (), ()
    from ..benchmarks.rubric_dimensions import make_rubric_dimensions
    from ..prompts.custom_templates import load_custom_templates

    custom = load_custom_templates(texts)
    return custom, make_rubric_dimensions(custom)


def _select_dimensions(dimensions: Dimensions, rubrics: tuple[Dimension, ...] = ()) -> tuple[Dimension, ...]:
    """Select the requested dimensions.

    Raises:
        ConfigError: none is requested, or a name matches no dimension.
    """
    if dimensions is None:  # as the command line's `score`
        return (*select_dimensions((), load_benchmark("core").rules()), *rubrics)
    own = {rubric.id: rubric for rubric in rubrics}
    requests = tuple(each if isinstance(each, Dimension) else own.get(each, each) for each in list_requests(dimensions))
    return tuple(
        d for one in requests for d in ((one,) if isinstance(one, Dimension) else select_dimensions([os.fspath(one)]))
    )


async def iterate_completed(
    things: Iterable[T], work: Callable[[int, T], Coroutine[Any, Any, R]], at_once: int = AT_ONCE
) -> AsyncGenerator[tuple[int, R], None]:
    """Work on the elements of an iterable side by side, taking no more than can begin.

    Leaving the loop over it, or cancelling its task, cancels the work in progress.

    Args:
        work: A coroutine function of the place, from 0, and the element.
        at_once: The largest number in progress.

    Yields:
        Place and result, as soon as each is ready.

    Raises:
        InputError: `at_once` is below 1.
    """
    if at_once < 1:
        raise InputError("concurrency", f"{at_once} edits at once", "give 1 or more")
    places: dict[asyncio.Task[R], int] = {}
    remaining = enumerate(things)
    try:
        while True:
            for place, each in islice(remaining, at_once - len(places)):
                places[asyncio.ensure_future(work(place, each))] = place
            if not places:
                return
            finished_tasks, _ = await asyncio.wait(places, return_when=asyncio.FIRST_COMPLETED)
            for task in sorted(finished_tasks, key=places.__getitem__):
                place = places.pop(task)
                yield place, task.result()
    finally:
        for task in places:
            task.cancel()
        await asyncio.gather(*places, return_exceptions=True)


async def work_on_all(things: Iterable[T], work: Callable[[int, T], Coroutine[Any, Any, object]], at_once: int) -> None:
    """Work on the elements of an iterable side by side, and wait for all; see `iterate_completed`."""
    async with aclosing(iterate_completed(things, work, at_once)) as results:
        async for _ in results:
            pass


def run_sync(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in an event loop of its own, and return its result.

    Where a loop runs already (a notebook, a web server) the coroutine gets a thread. An
    interruption (KeyboardInterrupt) cancels it.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coroutine)
    return _run_in_thread(coroutine)


def _run_in_thread(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in a loop in a thread of its own; an interruption cancels it."""
    ready = threading.Event()
    cancel: list[Callable[[], object]] = []

    async def run_cancellable() -> T:
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        if task is not None:
            cancel.append(lambda: loop.call_soon_threadsafe(task.cancel))
        ready.set()
        return await coroutine

    with ThreadPoolExecutor(1, "editjudge.loop") as pool:
        future: Future[T] = pool.submit(lambda: asyncio.run(run_cancellable()))
        try:
            return future.result()
        except BaseException:  # an interruption of this thread: the other must not judge on
            if not future.done():
                ready.wait()
                for interrupt in cancel:
                    interrupt()
            raise
