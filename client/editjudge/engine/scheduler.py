"""Judging many edits: a bounded number in flight, each kept when it is judged.

When one edit is done the next begins; there are no rounds in which the slowest call holds up
all others. Edits of one item follow each other, so that what depends on the item alone (its
decoded images, features, generated questions, the server's prefix cache) is still there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from ..base.errors import (
    CostLimit,
    EditjudgeError,
    ImageError,
    InputError,
    NotAuthorised,
    ServiceError,
    StoreError,
    WrongModel,
)
from ..base.images import Image, load_image
from ..base.item import Edit, Item, Missing
from ..base.verdict import (
    Failed,
    MissingOutput,
    NotApplicable,
    Outcome,
    Scored,
    Unscored,
    failed,
)
from ..benchmarks.dataset import Dataset, ItemRef, Outputs
from ..benchmarks.dimension import Dimension
from ..panel import Panel
from .judge import Judgement, judge
from .keeping import JudgedEdit, VerdictSink
from .order import Order
from .progress import Progress
from .runplan import RunPlan

Ended: TypeAlias = Literal["done", "cost", "failures", "judge"]
ENOUGH = 20
"""Verdicts before the share of failed ones says anything."""
_FATAL = (NotAuthorised, WrongModel)
"""What would fail every call to come: another model answers, or the key is not taken."""
MAX_DECODED = 1024**3
"""Bytes of decoded pixels in flight above which no further edit begins."""


class _Source:
    """An item that several edits share: loaded once, gone with the last of them."""

    def __init__(self, dataset: Dataset, ref: ItemRef) -> None:
        self._dataset = dataset
        self.ref = ref
        self._loading: asyncio.Future[Item | EditjudgeError] | None = None

    async def item(self) -> Item:
        """The item.

        Raises:
            EditjudgeError: it cannot be loaded.
        """
        if self._loading is None:
            self._loading = asyncio.ensure_future(asyncio.to_thread(self._load))
        loaded = await asyncio.shield(self._loading)
        if isinstance(loaded, EditjudgeError):
            raise loaded
        return loaded

    def _load(self) -> Item | EditjudgeError:
        try:
            item = self._dataset.load(self.ref)
            for picture in item.sources:
                _ = picture.digest
        except EditjudgeError as error:
            return error
        except Exception as error:  # noqa: BLE001 - whatever it is, it costs this item's edits
            return InputError(self.ref.id, f"{type(error).__name__}: {error}")
        return item


class Job(NamedTuple):
    """One edit to judge.

    Attributes:
        dimensions: On which.
    """

    source: _Source
    model: str
    dimensions: tuple[Dimension, ...]


def jobs(plan: RunPlan) -> Iterator[Job]:
    """The edits to judge, all models of an item together."""
    for ref, models in plan.items():
        source = _Source(plan.order.dataset, ref)
        for model, names in models.items():
            yield Job(source, model, plan.named(names))


class _StopError(Exception):
    """Ends the session at once.

    Attributes:
        ended: Why.
    """

    def __init__(self, ended: Ended) -> None:
        super().__init__(ended)
        self.ended = ended


@dataclass
class Scheduler:
    """Judges edits, a bounded number at a time.

    Attributes:
        in_flight: Edits begun and not done.
        fail_on_error: Share of failed verdicts, 0..1, above which the session ends; None never.
        ended: Why it ended.
    """

    order: Order
    panel: Panel
    store: VerdictSink
    progress: Progress
    in_flight: int
    fail_on_error: float | None = None
    ended: Ended = "done"
    say: Callable[[str], None] = lambda _: None
    _decoded: dict[int, int] = field(default_factory=dict)
    _outputs: dict[str, Outputs] = field(default_factory=dict)
    _room: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def run(self, queue: Iterable[Job]) -> Ended:
        """Judge them all, or until it is over.

        Cancelling it cancels the calls in flight, at their servers too; what was judged is
        kept.

        Returns:
            Why it ended: all is `done`; `cost`: the next call would pass `max_cost`, and the
            edits in flight were finished as far as they could; `failures`: too many failed;
            `judge`: one is not the one asked for, or does not let us in.
        """
        remaining = iter(queue)
        try:
            async with asyncio.TaskGroup() as group:
                while (job := await asyncio.to_thread(next, remaining, None)) is not None:
                    async with self._room:
                        await self._room.wait_for(self._has_room)
                    if self.ended != "done":
                        break
                    self._decoded[id(job)] = 0
                    group.create_task(self._done(job))
        except* _StopError as several:
            self.ended = next(e.ended for e in several.exceptions if isinstance(e, _StopError))
        return self.ended

    def _has_room(self) -> bool:
        if self.ended != "done" or not self._decoded:
            return True
        return len(self._decoded) < self.in_flight and sum(self._decoded.values()) < MAX_DECODED

    async def _done(self, job: Job) -> None:
        try:
            await self._judged(job)
        finally:
            del self._decoded[id(job)]
            async with self._room:
                self._room.notify()

    async def _judged(self, job: Job) -> None:
        item = job.source.ref.id
        try:
            edit = await self._loaded(job)
        except StoreError:
            raise
        except Exception as error:  # noqa: BLE001 - what cannot be read costs one edit, not the run
            await self._keep_failed(job, JudgedEdit(item, job.model, None), _failed(error))
            return
        digest = edit.image.digest if edit.image else None
        judged = JudgedEdit(item, job.model, digest, edit.missing)
        try:
            order = self.order
            judgement = await judge(edit, job.dimensions, order.known, self.panel, order.signed)
        except StoreError:
            raise
        except Exception as error:  # noqa: BLE001 - what a scorer trips over costs one edit, not the run
            await self._keep_failed(job, judged, _failed(error))
            return
        signatures = {name: str(signature) for name, signature in judgement.signatures.items()}
        await self._keep(job, judged, self._without_unpaid(judgement), signatures)
        self._end_where_fatal(judgement.errors.values())

    async def _loaded(self, job: Job) -> Edit:
        item = await job.source.item()
        image, missing = await asyncio.to_thread(self._output, job)
        pictures = [*item.sources, *filter(None, (item.target, item.mask, image))]
        self._decoded[id(job)] = sum(picture.pixels.nbytes for picture in pictures)
        shown = [*item.sources, *filter(None, (item.target, image))]
        await asyncio.to_thread(self._prepare, job, shown)
        return Edit(item, job.model, image, missing)

    def _prepare(self, job: Job, images: list[Image]) -> None:
        """Make images ready for the generalists here: resizing would hold up all other calls."""
        for role in self.order.roles(d.id for d in job.dimensions) & self.panel.served:
            if role.is_generalist:
                for image in images:
                    _ = self.panel.generalist(role).picture(image).digest

    def _output(self, job: Job) -> tuple[Image | None, Missing | None]:
        """A model's output, or why there is none; never an error."""
        outputs, item = self._of(job.model), job.source.ref.id
        path = outputs.path(item)
        if path is None:
            return None, outputs.why_not(item)
        try:
            image = load_image(Path(path))
        except ImageError as error:
            return None, Missing("unreadable", f"{error.name}: {error.reason}")
        _ = image.digest
        return image, None

    def _of(self, model: str) -> Outputs:
        if model not in self._outputs:
            self._outputs[model] = self.order.dataset.outputs(self.order.outputs[model])
        return self._outputs[model]

    def _without_unpaid(self, judgement: Judgement) -> dict[str, Outcome]:
        """What is to be kept; for what was not asked since the money is gone, the run ends."""
        unpaid = {n: error for n, error in judgement.errors.items() if isinstance(error, CostLimit)}
        if unpaid and self.ended == "done":
            self.ended = "cost"
            self.say(str(next(iter(unpaid.values()))))
        return {n: outcome for n, outcome in judgement.outcomes.items() if n not in unpaid}

    def _end_where_fatal(self, errors: Iterable[ServiceError]) -> None:
        for error in errors:
            if isinstance(error, _FATAL):
                self.say(str(error))
                raise _StopError("judge")

    async def _keep_failed(self, job: Job, edit: JudgedEdit, failure: Failed) -> None:
        """Keep one failure as the verdict on each dimension."""
        signatures = self.order.signatures(self.panel.identities())
        await self._keep(job, edit, {d.id: failure for d in job.dimensions}, signatures)

    async def _keep(
        self,
        job: Job,
        edit: JudgedEdit,
        outcomes: Mapping[str, Outcome],
        signatures: Mapping[str, str],
    ) -> None:
        verdicts = {
            name: outcome
            for name, outcome in outcomes.items()
            if isinstance(outcome, Scored | Unscored | Failed | NotApplicable)
        }
        if verdicts or any(isinstance(outcome, MissingOutput) for outcome in outcomes.values()):
            await self.store.keep(edit, verdicts, signatures)
        expected = [d.id for d in job.dimensions if d.id in outcomes]
        self.progress.judged_one(outcomes, expected)
        self._check_failures()

    def _check_failures(self) -> None:
        counts = self.progress.verdicts
        if self.fail_on_error is None or counts.total() < ENOUGH:
            return
        if self.progress.share_failed > self.fail_on_error:
            raise _StopError("failures")


def _failed(error: Exception) -> Failed:
    """The verdict that an error is; one that is not ours is named by its type."""
    if isinstance(error, EditjudgeError):
        return failed(error)
    return Failed(error=f"{type(error).__name__}: {error}")
