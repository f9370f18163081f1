"""The Python API: judge edits from files or in-memory images.

```python
import editjudge

result = editjudge.score(source="a.png", edited="b.png", instruction="make the cup red")
result.outcomes["core.psnr.source.whole"]
```

`Client` is the same for asynchronous programs and for many edits on one connection.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AsyncExitStack, aclosing
from dataclasses import replace
from functools import partial, wraps
from inspect import signature
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeAlias, TypeVar

from ..base.config import JudgeEndpoint, Settings, load_settings
from ..base.errors import ConfigError, EditjudgeError, ImageError, InputError
from ..base.images import ImageLike, Mask, load_image, load_mask
from ..base.item import Edit, Item
from ..base.local_stack import running_stack
from ..base.threads import in_thread
from ..base.verdict import calls_of
from ..benchmarks.benchmark import make_rubric_dimensions, use_templates
from ..benchmarks.dimension import Dimension
from ..benchmarks.registry import CORE, add_specialists, load_benchmark, select_dimensions
from ..benchmarks.registry import load_dimensions as all_dimensions
from ..benchmarks.rounds import JudgeRounds
from ..engine.judge import Judgement, Signatures, judge
from ..panel import Panel
from ..panel.budget import Budget
from ..panel.calls import CallRecord
from ..panel.context import CallContext, CallLog
from ..panel.specialists import list_custom_services
from ..prompts.custom_templates import load_custom_templates
from ..prompts.prompt_files import load_prompt_files
from ..storage.ledger import Ledger

__all__ = [
    "Client",
    "Judgement",
    "Ledger",
    "add_local_stack",
    "make_edit",
    "make_edit_async",
    "score",
    "score_many",
]

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ..gateway.panel import Gateway

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R")
AT_ONCE = 16
"""In progress by default: their pictures are in memory; calls have limits of their own."""
Dimensions: TypeAlias = str | Dimension | Iterable[str | Dimension] | None
"""One, or several: ids, globs or declarations. None for those of `core`."""


def make_edit(
    *,
    source: ImageLike | Sequence[ImageLike],
    edited: ImageLike,
    instruction: str,
    mask: ImageLike | NDArray[np.bool_] | Mask | None = None,
    target: ImageLike | None = None,
    target_text: str | None = None,
    item_id: str = "edit",
    model: str = "",
) -> Edit:
    """Put an edit together from what is at hand.

    Images are paths, encoded bytes, Pillow images or uint8 arrays of shape (H, W),
    (H, W, 3) or (H, W, 4), RGB order, 0..255.

    Args:
        source: The image before the edit, or several.
        edited: The image after it.
        instruction: What the editing model was told.
        mask: Where the edit may change the source: white (True in a bool array) may.
        target: The ground-truth result.
        target_text: Text that the result must show.
        item_id: How results call it.
        model: The editing model.

    Raises:
        ImageError: an image is not one still picture, or the mask fits neither the source
            nor the target.
        TextError: see `editjudge.base.item.Item`.
    """
    several = isinstance(source, Sequence) and not isinstance(source, str | bytes)
    images = list(source) if several else [source]  # type: ignore[arg-type]
    if not images:
        raise ImageError("source", "no picture", "give one, or several")
    item = Item(
        id=item_id,
        instruction=instruction,
        sources=tuple(load_image(image) for image in images),  # type: ignore[arg-type]
        mask=None if mask is None else load_mask(mask),
        target=None if target is None else load_image(target),
        target_text=target_text,
    )
    item.check_mask()
    return Edit(item, model, load_image(edited))


def _threaded(make: Callable[P, T]) -> Callable[P, Coroutine[Any, Any, T]]:
    """The same for coroutines: pictures are read and decoded in a thread."""

    @wraps(make)
    async def made(*arguments: P.args, **named: P.kwargs) -> T:
        return await in_thread(partial(make, *arguments, **named))

    return made


make_edit_async = _threaded(make_edit)


class Client:
    """Judges edits with the services at hand; use as an async context manager.

    ```python
    async with Client() as client:
        result = await client.score(make_edit(source=…, edited=…, instruction=…))
    ```

    Args:
        settings: By default read from `EDITJUDGE_*` and `editjudge.toml`; without any
            endpoint there, a running local stack (`editjudge up`) is used. With a `gateway` edits
            are judged by that Judge service.

    Attributes:
        panel: The services at hand, once entered; RuntimeError before.
        budget: What all its calls may cost (`max_cost` of the settings), and have, in the
            currency of the configured prices.

    Raises:
        ConfigError: on construction or entry, for settings that cannot be used.
    """

    def __init__(self, settings: Settings | None = None) -> None:
        self.settings = add_local_stack(settings or load_settings())
        self.budget = Budget(self.settings.max_cost)
        self._resources = AsyncExitStack()
        self._panel: Panel | None = None
        self._gateway: Gateway | None = None
        self._signed = Signatures({})

    @property
    def panel(self) -> Panel:
        """See the class."""
        if self._panel is None:
            raise RuntimeError("the client is not open: enter it, `async with Client() as client`")
        return self._panel

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as resources:
            path = self.settings.ledger
            ledger = None if path is None else resources.enter_context(Ledger(path))
            if self.settings.gateway is not None:
                from ..gateway.panel import Gateway

                self._gateway = Gateway(self.settings.gateway, self.settings, ledger)
            panel = self._gateway or Panel(self.settings, ledger=ledger)
            self._panel = await resources.enter_async_context(panel)
            self._resources = resources.pop_all()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._resources.aclose()

    async def score(
        self,
        edit: Edit,
        dimensions: Dimensions = None,
        prompts: Path | str | Mapping[str, str] | None = None,
        budget: Budget | None = None,
    ) -> Judgement:
        """Judge one edit.

        Args:
            dimensions: One or several: ids, globs or declarations; those of `core` by default.
            prompts: Folder of templates of one's own, which replace ours, or their texts by file;
                rubrics among them are dimensions besides (docs/prompts.md, docs/own.md).
            budget: That pays for its calls, instead of the client's.

        Returns:
            An outcome for every dimension asked for: a number on the dimension's scale, or the
            reason why there is none. A failing service gives a `Failure`, never an exception.

        Raises:
            ConfigError: an id or glob matches no dimension, none is given, prompts that are asked
                are not imported, or one's own cannot be used.
            StoreError: the ledger is damaged, or its disk is full.
            RuntimeError: the client was not entered.
        """
        texts = _texts(prompts)
        custom = load_custom_templates(texts)
        asked = use_templates(
            _declared(dimensions, self._own(make_rubric_dimensions(custom))), custom
        )
        others = all_dimensions(dimension.id for dimension in asked).values()
        known = {d.id: d for d in (*use_templates(others, custom), *asked)}
        signatures = self._signatures(known)
        if self._gateway is None:
            context = CallContext(budget or self.budget)
            return await self.judge(edit, asked, known, signatures, context)
        from ..gateway.messages import make_protocol
        from ..gateway.session import GatewaySession

        protocol = make_protocol(CORE, "", JudgeRounds(), texts)
        judges = GatewaySession(self._gateway, protocol, budget or self.budget)
        await judges.begin(asked, known, signatures)
        return await judges.judge(edit, asked, known, signatures)

    async def score_many(
        self,
        edits: Iterable[Edit | Mapping[str, Any]],
        dimensions: Dimensions = None,
        prompts: Path | str | Mapping[str, str] | None = None,
        budget: Budget | None = None,
        *,
        concurrency: int = AT_ONCE,
    ) -> AsyncGenerator[tuple[int, Judgement | EditjudgeError], None]:
        """Judge many edits side by side; each is told as soon as it is judged.

        Leaving the loop over it, or cancelling its task, cancels the calls in flight.

        Args:
            edits: Edits, or for each the arguments of `make_edit` by name: it is then made in its
                turn, in a thread, so that no more pictures are in memory than are judged. An
                iterable is asked for no more than can begin.
            dimensions: As for `score`.
            concurrency: Edits in progress at most.

        Yields:
            The place of an edit, from 0, and its judgement; or the error where there is none,
            which costs only this edit.

        Raises:
            ConfigError, StoreError, RuntimeError: as `score`; no further edit could be judged.
        """
        asked = None if dimensions is None else _several(dimensions)

        async def one(place: int, each: Edit | Mapping[str, Any]) -> Judgement | EditjudgeError:
            try:
                edit = each if isinstance(each, Edit) else await _made(place, each)
                return await self.score(edit, asked, prompts, budget)
            except InputError as error:
                return error

        async with aclosing(iterate_completed(edits, one, concurrency)) as results:
            async for result in results:
                yield result

    async def judge(
        self,
        edit: Edit,
        dimensions: Iterable[Dimension],
        known: Mapping[str, Dimension],
        signatures: Signatures,
        context: CallContext,
    ) -> Judgement:
        """Judge one edit by rules that are known already; see `score` and `engine.judge.judge`.

        Args:
            context: Who pays for the calls, and where they are kept.
        """
        heard: dict[str, CallRecord] = {}
        panel = self.panel.with_context(context.with_log(CallLog(records=heard)))
        judgement = await judge(edit, dimensions, known, panel, signatures)
        calls = {key for outcome in judgement.outcomes.values() for key in calls_of(outcome)}
        # What was heard may be kept nowhere; specialists' are read as they are kept.
        kept = await panel.get_records(calls - heard.keys())
        said = {key: said for key, said in heard.items() if key in calls}
        return replace(judgement, replies={**kept, **said})

    def _own(self, rubrics: tuple[Dimension, ...]) -> tuple[Dimension, ...]:
        """Rubrics, and what specialists of one's own say."""
        rules = add_specialists(load_benchmark(CORE).rules(), list_custom_services(self.settings))
        return (*rules.extra_dimensions, *rubrics)

    def _signatures(self, known: Mapping[str, Dimension]) -> Signatures:
        """Those made for the calls before, as long as these knew the same dimensions."""
        if self._signed.known != known:
            self._signed = Signatures(known)
        return self._signed


def score(
    *,
    source: ImageLike | Sequence[ImageLike],
    edited: ImageLike,
    instruction: str,
    mask: ImageLike | NDArray[np.bool_] | Mask | None = None,
    target: ImageLike | None = None,
    target_text: str | None = None,
    dimensions: Dimensions = None,
    settings: Settings | None = None,
    prompts: Path | str | Mapping[str, str] | None = None,
) -> Judgement:
    """Judge one edit, synchronously: `make_edit` and `Client.score` in one call.

    It runs an event loop of its own, in a thread where one runs already, as in a notebook; from a
    coroutine await `Client.score`.

    Args:
        source: As all images and the mask, see `make_edit`.
        dimensions: One or several: ids, globs or declarations; those of `core` by default.
        settings: See `Client`.
        prompts: Folder of templates of one's own; see `Client.score`.

    Returns:
        See `Client.score`.

    Raises:
        ConfigError: settings or prompts that cannot be used, or an id or glob that matches no
            dimension.
        ImageError: an image is not one still picture, or the mask fits neither the source nor
            the target.
        TextError: see `editjudge.base.item.Item`.
        StoreError: the ledger is damaged, or its disk is full.
    """
    edit = make_edit(
        source=source,
        edited=edited,
        instruction=instruction,
        mask=mask,
        target=target,
        target_text=target_text,
    )

    async def once() -> Judgement:
        async with Client(settings) as client:
            return await client.score(edit, dimensions, prompts)

    return run_sync(once())


def score_many(
    edits: Iterable[Edit | Mapping[str, Any]],
    dimensions: Dimensions = None,
    *,
    settings: Settings | None = None,
    prompts: Path | str | Mapping[str, str] | None = None,
    concurrency: int = AT_ONCE,
    progress: Callable[[int, Judgement | EditjudgeError], object] | None = None,
) -> list[Judgement | EditjudgeError]:
    """Judge many edits, synchronously, on one connection; see `Client.score_many`.

    ```python
    edits = [{"source": "a.png", "edited": f, "instruction": "…"} for f in ("b.png", "c.png")]
    for judged in editjudge.score_many(edits, ["core.psnr.*"]):
        print(judged if isinstance(judged, editjudge.EditjudgeError) else judged.outcomes)
    ```

    Args:
        progress: Called with place and result, as each edit is done; where an event loop runs
            already, as in a notebook, in another thread.

    Returns:
        For each edit, in their order, its judgement or the error that it has instead.

    Raises:
        ConfigError: as `score`.
        StoreError: as `score`.
    """

    async def all_of_them() -> list[Judgement | EditjudgeError]:
        results: dict[int, Judgement | EditjudgeError] = {}
        async with Client(settings) as client:
            done = client.score_many(edits, dimensions, prompts, concurrency=concurrency)
            async with aclosing(done) as judged:
                async for place, result in judged:
                    results[place] = result
                    if progress is not None:
                        progress(place, result)
        return [results[place] for place in sorted(results)]

    return run_sync(all_of_them())


def add_local_stack(settings: Settings) -> Settings:
    """The settings, with what a running local stack has where nothing is configured.

    Its Triton becomes the endpoint, and its vLLM the judge `judge`. Where a Judge service is
    configured that judges.
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


async def _made(place: int, arguments: object) -> Edit:
    """An edit by the names of `make_edit`'s arguments, made in a thread.

    Raises:
        InputError: they make none.
    """
    name = f"edit {place}"
    if not isinstance(arguments, Mapping):
        kind = type(arguments).__name__
        raise InputError(name, f"{kind} is neither an edit nor the arguments of one")
    if unknown := [key for key in arguments if key not in _ARGUMENTS]:
        raise InputError(
            name, f"unknown {unknown[0]!r}", f"make_edit takes {', '.join(_ARGUMENTS)}"
        )
    try:
        return await in_thread(lambda: make_edit(**arguments))
    except (TypeError, ValueError) as error:
        raise InputError(name, str(error), "see editjudge.make_edit") from error


_ARGUMENTS = tuple(signature(make_edit).parameters)


def _texts(prompts: Path | str | Mapping[str, str] | None) -> Mapping[str, str]:
    if prompts is None or isinstance(prompts, Mapping):
        return prompts or {}
    load_custom_templates(
        texts := load_prompt_files(Path(prompts)), str(prompts)
    )  # errors name the folder
    return texts


def _several(
    dimensions: str | Dimension | Iterable[str | Dimension],
) -> tuple[str | Dimension, ...]:
    return (dimensions,) if isinstance(dimensions, str | Dimension) else tuple(dimensions)


def _declared(dimensions: Dimensions, rubrics: tuple[Dimension, ...] = ()) -> tuple[Dimension, ...]:
    """What is asked for.

    Raises:
        ConfigError: nothing is, or what no dimension is called.
    """
    if dimensions is None:  # as the command line's `score`
        return (*select_dimensions((), load_benchmark("core").rules()), *rubrics)
    own = {rubric.id: rubric for rubric in rubrics}
    asked = tuple(
        each if isinstance(each, Dimension) else own.get(each, each)
        for each in _several(dimensions)
    )
    if not asked:
        raise ConfigError(
            "no dimension is asked for: dimensions is empty",
            "name some, or leave it out for those of core",
        )
    return tuple(
        dimension
        for one in asked
        for dimension in (
            (one,) if isinstance(one, Dimension) else select_dimensions([os.fspath(one)])
        )
    )


async def iterate_completed(
    things: Iterable[T],
    work: Callable[[int, T], Coroutine[Any, Any, R]],
    at_once: int = AT_ONCE,
) -> AsyncGenerator[tuple[int, R], None]:
    """Work on what an iterable gives, which is asked for no more than can begin.

    Leaving it, or being cancelled, cancels what is in progress.

    Args:
        work: Gets the place, from 0, and what is there.
        at_once: How many are in progress at most.

    Yields:
        Place and result, each as soon as it is there.

    Raises:
        InputError: `at_once` is below 1.
    """
    if at_once < 1:
        raise InputError("concurrency", f"{at_once} edits at once", "give 1 or more")
    places: dict[asyncio.Task[R], int] = {}
    remaining = enumerate(things)
    more = True
    try:
        while True:
            while more and len(places) < at_once:
                following = next(remaining, None)
                if following is None:
                    more = False
                else:
                    place, each = following
                    places[asyncio.ensure_future(work(place, each))] = place
            if not places:
                return
            done, _ = await asyncio.wait(places, return_when=asyncio.FIRST_COMPLETED)
            for task in sorted(done, key=places.__getitem__):
                place = places.pop(task)
                yield place, task.result()
    finally:
        for task in places:
            task.cancel()
        await asyncio.gather(*places, return_exceptions=True)


def run_sync(judging: Coroutine[Any, Any, T]) -> T:
    """What a coroutine gives, by an event loop of its own.

    Where a loop runs already (a notebook, a web server) the coroutine has a thread. An
    interruption (KeyboardInterrupt) cancels it.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(judging)
    return _in_a_thread(judging)


def _in_a_thread(judging: Coroutine[Any, Any, T]) -> T:
    """What a coroutine gives, by a loop in a thread of its own; an interruption cancels it."""
    ready = threading.Event()
    cancel: list[Callable[[], object]] = []

    async def watched() -> T:
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        if task is not None:
            cancel.append(lambda: loop.call_soon_threadsafe(task.cancel))
        ready.set()
        return await judging

    with ThreadPoolExecutor(1, "editjudge.loop") as pool:
        future: Future[T] = pool.submit(lambda: asyncio.run(watched()))
        try:
            return future.result()
        except BaseException:  # an interruption of this thread: the other must not judge on
            if not future.done():
                ready.wait()
                for interrupt in cancel:
                    interrupt()
            raise
