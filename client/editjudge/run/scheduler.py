"""Judging many edits: a bounded number in flight, each kept when it is judged.

When one edit is done the next begins; there are no rounds in which the slowest call holds up
all others. Edits of one item follow each other, so that what depends on the item alone (its
decoded images, features, generated questions, the server's prefix cache) is found again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple, Protocol, TypeAlias

from ..benchmarks.dataset import Dataset, ItemRef, Outputs
from ..dimension import Dimension
from ..errors import (
    CostLimit,
    EditjudgeError,
    ImageError,
    NotAuthorised,
    StoreError,
    WrongModel,
)
from ..images import Image, load_image
from ..item import Edit, Item
from ..panel import Panel
from ..verdict import (
    Failed,
    MissingOutput,
    NotApplicable,
    Outcome,
    Scored,
    Unscored,
    Verdict,
    failed,
)
from .judge import Judgement, judge, without_calls
from .progress import Progress
from .work import UNREADABLE, Order, Work

Ended: TypeAlias = Literal["done", "cost", "failures", "judge"]
ENOUGH = 20
"""Verdicts before the share of failed ones says anything."""
_FATAL = (NotAuthorised, WrongModel)
"""What would fail every call to come: another model answers, or the key is not taken."""
MAX_DECODED = 1024**3
"""Bytes of decoded pixels in flight above which no further edit begins."""


class Keeps(Protocol):
    """Where verdicts go, as far as judging asks."""

    def edit_id(self, item_id: str, model: str, digest: str | None, missing: str) -> int:
        """The number of an edit."""

    def put_verdicts(
        self, edit: int, verdicts: Mapping[str, Verdict], signatures: Mapping[str, str]
    ) -> None:
        """Keep an edit's verdicts, all or none."""


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
        found = await asyncio.shield(self._loading)
        if isinstance(found, EditjudgeError):
            raise found
        return found

    def _load(self) -> Item | EditjudgeError:
        try:
            item = self._dataset.load(self.ref)
        except EditjudgeError as error:
            return error
        for picture in item.sources:
            _ = picture.digest
        return item


class Job(NamedTuple):
    """One edit to judge.

    Attributes:
        dimensions: On which.
    """

    source: _Source
    model: str
    dimensions: tuple[Dimension, ...]


def jobs(work: Work) -> Iterator[Job]:
    """The edits to judge, all models of an item together."""
    for ref, models in work.items():
        source = _Source(work.order.dataset, ref)
        for model, bits in models.items():
            yield Job(source, model, work.named(bits))


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
    store: Keeps
    progress: Progress
    in_flight: int
    fail_on_error: float | None = None
    ended: Ended = "done"
    say: Callable[[str], None] = lambda _: None
    _decoded: dict[int, int] = field(default_factory=dict)
    _outputs: dict[str, Outputs] = field(default_factory=dict)
    _room: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def run(self, work: Iterable[Job]) -> Ended:
        """Judge them all, or until it is over.

        Cancelling it cancels the calls in flight, at their servers too; what was judged is
        kept.

        Returns:
            Why it ended: all is `done`; `cost`: the next call would pass `max_cost`, and the
            edits in flight were finished as far as they could; `failures`: too many failed;
            `judge`: one is not the one asked for, or does not let us in.
        """
        remaining = iter(work)
        try:
            async with asyncio.TaskGroup() as group:
                while (job := await asyncio.to_thread(next, remaining, None)) is not None:
                    async with self._room:
                        await self._room.wait_for(self._has_room)
                    if self.ended != "done":
                        break
                    self._decoded[id(job)] = 0
                    group.create_task(self._one(job))
        except* _StopError as several:
            self.ended = next(e.ended for e in several.exceptions if isinstance(e, _StopError))
        return self.ended

    def _has_room(self) -> bool:
        if self.ended != "done" or not self._decoded:
            return True
        return len(self._decoded) < self.in_flight and sum(self._decoded.values()) < MAX_DECODED

    async def _one(self, job: Job) -> None:
        try:
            await self._judged(job)
        finally:
            del self._decoded[id(job)]
            async with self._room:
                self._room.notify()

    async def _judged(self, job: Job) -> None:
        names = [d.id for d in job.dimensions]
        try:
            edit = await self._loaded(job)
        except EditjudgeError as error:  # a source that cannot be read
            self._keep(job, None, "", dict.fromkeys(names, failed(error)), self._signatures())
            return
        try:
            judgement = await judge(edit, job.dimensions, self.order.known, self.panel)
        except StoreError:
            raise
        except Exception as error:  # noqa: BLE001 - what a scorer trips over costs one edit, not the run
            verdict = Failed(error=f"{type(error).__name__}: {error}")
            outcomes: dict[str, Outcome] = dict.fromkeys(names, verdict)
            self._keep(job, edit.image, edit.missing, outcomes, self._signatures())
            return
        kept = self._without_unpaid(judgement)
        signatures = {name: str(one) for name, one in judgement.signatures.items()}
        self._keep(job, edit.image, edit.missing, kept, signatures)
        if fatal := [one for one in judgement.errors.values() if isinstance(one, _FATAL)]:
            self.say(str(fatal[0]))
            raise _StopError("judge")

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
            if role.startswith("generalist."):
                for image in images:
                    _ = self.panel.generalist(role).picture(image).digest

    def _output(self, job: Job) -> tuple[Image | None, str]:
        """A model's output, or why there is none; never an error."""
        outputs, item = self._of(job.model), job.source.ref.id
        found = outputs.path(item)
        if found is None:
            return None, outputs.why_not(item)
        try:
            image = load_image(Path(found))
        except ImageError as error:
            return None, f"{UNREADABLE}{error.name}: {error.reason}"
        _ = image.digest
        return image, ""

    def _of(self, model: str) -> Outputs:
        if model not in self._outputs:
            self._outputs[model] = self.order.dataset.outputs(self.order.outputs[model])
        return self._outputs[model]

    def _signatures(self) -> dict[str, str]:
        return self.order.signatures(self.panel.identities())

    def _without_unpaid(self, judgement: Judgement) -> dict[str, Outcome]:
        """What is to be kept; for what was not asked since the money is gone, the run ends."""
        unpaid = {n for n, error in judgement.errors.items() if isinstance(error, CostLimit)}
        if unpaid and self.ended == "done":
            self.ended = "cost"
            self.say(str(next(iter(judgement.errors[name] for name in unpaid))))
        return {n: one for n, one in judgement.outcomes.items() if n not in unpaid}

    def _keep(
        self,
        job: Job,
        image: Image | None,
        missing: str,
        outcomes: Mapping[str, Outcome],
        signatures: Mapping[str, str],
    ) -> None:
        ref = job.source.ref
        verdicts = {
            name: without_session(one)
            for name, one in outcomes.items()
            if isinstance(one, Scored | Unscored | Failed | NotApplicable)
        }
        if verdicts or any(isinstance(one, MissingOutput) for one in outcomes.values()):
            digest = image.digest if image else None
            edit = self.store.edit_id(ref.id, job.model, digest, missing)
            self.store.put_verdicts(edit, verdicts, signatures)
        expected = [d.id for d in job.dimensions if d.id in outcomes]
        self.progress.judged_one(outcomes, expected)
        self._check_failures()

    def _check_failures(self) -> None:
        counts = self.progress.verdicts
        if self.fail_on_error is None or counts.total() < ENOUGH:
            return
        if self.progress.share_failed > self.fail_on_error:
            raise _StopError("failures")


def without_session(verdict: Verdict) -> Verdict:
    """A verdict without what depends on the session: how many calls were made for it just now."""
    evidence = getattr(verdict, "evidence", None)
    if not evidence:
        return verdict
    return verdict.model_copy(update={"evidence": without_calls(evidence)})
