"""Judging many edits: a bounded number in flight, each kept when it is judged.

When one edit is done the next begins; there are no rounds in which the slowest call holds up
all others. Edits of one item follow each other, so that what depends on the item alone (its
decoded images, features, generated questions, the server's prefix cache) is still there.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
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
    UnreadError,
    WrongModel,
)
from ..base.file_states import FileRead, FileState
from ..base.images import MAX_PIXELS, Image, load_image
from ..base.item import Edit, Item, Missing
from ..base.verdict import (
    Failure,
    MissingOutput,
    NoScore,
    NotApplicable,
    Outcome,
    Score,
    Verdict,
    make_failure,
)
from ..benchmarks.dataset import Dataset, ItemRef
from ..benchmarks.dimension import Dimension
from ..benchmarks.outputs import Outputs
from ..panel.judge import Judge
from .content_keys import ItemContent, ItemContents, JudgedEdit
from .judge import Judgement, Judges, ReportProgress, WaitForIdentities
from .progress import Progress
from .run_inputs import RunInputs
from .run_plan import RunPlan

EndReason: TypeAlias = Literal["done", "cost", "failures", "judge"]
ENOUGH = 20
"""Verdicts before the share of failed ones says anything."""
_FATAL = (NotAuthorised, WrongModel)
"""What would fail every call to come: another model answers, or the key is not taken."""
_AHEAD = 64
"""Edits that are made out at once: what a thread takes to begin is shared by them."""
_LATELY = 16
"""Edits whose largest tells what one holds that is not loaded yet."""
MAX_HELD = 1024**3
"""Bytes of pictures in flight, decoded ones above all, above which no further edit begins."""


_Loaded: TypeAlias = tuple[Item, ItemContent]
"""An item, and what it held when it was loaded."""


class _Source:
    """An item that several edits share: loaded once, gone with the last of them."""

    def __init__(self, contents: ItemContents, ref: ItemRef) -> None:
        self._contents = contents
        self._dataset: Dataset = contents.dataset
        self.ref = ref
        self._loading: asyncio.Future[_Loaded | EditjudgeError] | None = None

    async def item(self, left_encoded: int) -> _Loaded:
        """The item, and what it is.

        Args:
            left_encoded: See `load_image`; the same for all who ask.

        Raises:
            EditjudgeError: it cannot be loaded.
        """
        if self._loading is None:
            self._loading = asyncio.ensure_future(asyncio.to_thread(self._load, left_encoded))
        result = await asyncio.shield(self._loading)
        if isinstance(result, EditjudgeError):
            raise result
        return result

    def _load(self, left_encoded: int) -> _Loaded | EditjudgeError:
        try:
            readings = {path: FileRead(path) for path in self._dataset.files(self.ref)}
            item = self._dataset.load(self.ref, left_encoded)
            read = _read(item, readings)
            content = self._contents.read(self.ref, read)
            unread = (readings[path] for path in readings.keys() - read.keys())
            if any(reading.has_changed() for reading in unread):
                return InputError(self.ref.id, "its files change while they are read")
        except EditjudgeError as error:
            return error
        except Exception as error:  # noqa: BLE001 - whatever it is, it costs this item's edits
            return InputError(self.ref.id, f"{type(error).__name__}: {error}")
        return item, content

    async def content(self) -> ItemContent:
        """What it holds, where it cannot be loaded."""
        return await asyncio.to_thread(self._contents.read, self.ref)


def _read(item: Item, readings: Mapping[str, FileRead]) -> dict[str, FileState]:
    """The files of an item that it was loaded from, as they were read."""
    images = filter(None, (*item.sources, item.target, item.mask))
    return {
        one.file: FileState(readings[one.file].stat(), one.digest)
        for one in images
        if one.file in readings
    }


class Job(NamedTuple):
    """One edit to judge.

    Attributes:
        dimensions: On which.
    """

    source: _Source
    model: str
    dimensions: tuple[Dimension, ...]


def list_jobs(plan: RunPlan) -> Iterator[Job]:
    """The edits to judge, all models of an item together."""
    for ref, models in plan.items():
        source = _Source(plan.contents, ref)
        for model, names in models.items():
            yield Job(source, model, plan.select_dimensions(names))


class _StopError(Exception):
    """Ends the session at once.

    Attributes:
        ended: Why.
    """

    def __init__(self, reason: EndReason) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass
class Scheduler:
    """Judges edits, a bounded number at a time.

    Attributes:
        judges: Who judges them.
        in_flight: Edits begun and not done.
        keep: Keeps an edit, its verdicts, their signatures, and the versions of packages.
        settled: Waited for before anything is signed or kept.
        fail_on_error: Share of failed verdicts, 0..1, above which the session ends; None never.
        ended: Why it ended.
    """

    plan: RunPlan
    judges: Judges
    save_edit: Callable[
        [JudgedEdit, Mapping[str, Verdict], Mapping[str, str], str | None], Awaitable[None]
    ]
    progress: Progress
    in_flight: int
    wait_for_identities: WaitForIdentities | None = None
    fail_on_error: float | None = None
    end_reason: EndReason = "done"
    say: Callable[[str], None] = lambda _: None
    _bytes_in_flight: dict[int, int | None] = field(default_factory=dict)
    _lately: deque[int] = field(default_factory=lambda: deque(maxlen=_LATELY))
    _outputs: dict[str, Outputs] = field(default_factory=dict)
    _room: asyncio.Condition = field(default_factory=asyncio.Condition)

    @property
    def order(self) -> RunInputs:
        """What is asked for."""
        return self.plan.inputs

    async def run(self) -> EndReason:
        """Judge what is left of the plan, or until it is over.

        Cancelling it cancels the calls in flight, at their servers too; what was judged is
        kept.

        Returns:
            Why it ended: all is `done`; `cost`: the next call would pass `max_cost`, and the
            edits in flight were finished as far as they could; `failures`: too many failed;
            `judge`: one is not the one asked for, or does not let us in.
        """
        try:
            async with asyncio.TaskGroup() as group:
                async for job in _ahead(list_jobs(self.plan)):
                    async with self._room:
                        await self._room.wait_for(self._has_room)
                    if self.end_reason != "done":
                        break
                    self._bytes_in_flight[id(job)] = None
                    group.create_task(self._run_job(job))
        except* _StopError as several:
            self.end_reason = next(
                e.reason for e in several.exceptions if isinstance(e, _StopError)
            )
        return self.end_reason

    def _has_room(self) -> bool:
        if self.end_reason != "done" or not self._bytes_in_flight:
            return True
        return len(self._bytes_in_flight) < self.in_flight and self._holding() < MAX_HELD

    def _holding(self) -> int:
        """Bytes of the edits in flight; one that is not loaded yet is taken to be like the last.

        Before any is loaded nothing is known, and the first goes alone.
        """
        loading = max(self._lately, default=MAX_HELD)
        return sum(
            loading if byte_count is None else byte_count
            for byte_count in self._bytes_in_flight.values()
        )

    async def _has_loaded(self, job: Job, byte_count: int) -> None:
        self._bytes_in_flight[id(job)] = byte_count
        self._lately.append(byte_count)
        async with self._room:
            self._room.notify()

    async def _run_job(self, job: Job) -> None:
        try:
            with self.progress.track_edit() as report_progress:
                await self._judge_job(job, report_progress)
        finally:
            del self._bytes_in_flight[id(job)]
            async with self._room:
                self._room.notify()

    async def _judge_job(self, job: Job, report_progress: ReportProgress) -> None:
        try:
            edit, judged_edit = await self._load_edit(job)
        except StoreError:
            raise
        except Exception as error:  # noqa: BLE001 - what cannot be read costs one edit, not the run
            await self._keep_failed(job, await self._describe_unloadable(job), _failure_of(error))
            return
        try:
            order = self.order
            judgement = await self.judges.judge(
                edit,
                job.dimensions,
                order.dimensions_by_id,
                signatures=order.signature_cache,
                wait_for_identities=self.wait_for_identities,
                report_progress=report_progress,
            )
        except StoreError:
            raise
        except Exception as error:  # noqa: BLE001 - what a scorer trips over costs one edit, not the run
            await self._keep_failed(job, judged_edit, _failure_of(error))
            return
        signatures = {name: str(signature) for name, signature in judgement.signatures.items()}
        outcomes = self._without_unpaid(judgement)
        await self._keep(job, judged_edit, outcomes, signatures, judgement.versions)
        self._end_where_fatal(judgement.errors.values())

    async def _load_edit(self, job: Job) -> tuple[Edit, JudgedEdit]:
        judges = self._judges(job)
        # Smaller pictures than every judge is shown are resized for none.
        left = min((one.endpoint.max_pixels for one in judges), default=MAX_PIXELS)
        left_encoded = 0 if self.order.reads_pixels and self.judges.is_local else left
        item, content = await job.source.item(left_encoded)
        edit, output_file, byte_count = await asyncio.to_thread(
            self._make_edit, job, item, judges, left_encoded
        )
        await self._has_loaded(job, byte_count)
        judged_edit = JudgedEdit(item.id, job.model, output_file, edit.missing, content)
        return edit, judged_edit

    def _make_edit(
        self, job: Job, item: Item, judges: Iterable[Judge], left_encoded: int
    ) -> tuple[Edit, FileState | None, int]:
        """The edit, the file of its output, and how many bytes its pictures hold."""
        image, missing, output_file = self._output(job, left_encoded)
        images = [*item.sources, *filter(None, (item.target, image))]
        # Made ready for the judges here: it would hold up all other calls.
        prompt_images = [
            judge.prepare_picture(image).ready() for judge in judges for image in images
        ]
        sizes = [one.memory_bytes for one in images] + [one.memory_bytes for one in prompt_images]
        sizes.append(item.mask.memory_bytes if item.mask else 0)
        return Edit(item, job.model, image, missing), output_file, sum(sizes)

    def _judges(self, job: Job) -> list[Judge]:
        """The judges that are asked from here about this edit."""
        if not self.judges.is_local:
            return []
        panel = self.judges.panel
        roles = self.order.roles(d.id for d in job.dimensions) & panel.service_names
        return [panel.judge(role) for role in roles if role.is_judge]

    def _output(
        self, job: Job, left_encoded: int
    ) -> tuple[Image | None, Missing | None, FileState | None]:
        """A model's output, or why it is none, and its file.

        Raises:
            UnreadError: it went away since it was looked at, or cannot be read just now.
        """
        outputs, item = self._of(job.model), job.source.ref.id
        path = outputs.path(item)
        if path is None:
            raise UnreadError(item, f"its output by {job.model} went away: {outputs.why_not(item)}")
        reading = FileRead(path)
        try:
            image = load_image(Path(path), max_lazy_pixels=left_encoded)
        except UnreadError:
            raise
        except ImageError as error:
            why = Missing("unreadable", f"{error.name}: {error.reason}")
            return None, why, self.plan.contents.files.get_state(path)
        return image, None, FileState(reading.stat(), image.digest)

    async def _describe_unloadable(self, job: Job) -> JudgedEdit:
        """What an edit that cannot be loaded holds."""
        item = job.source.ref.id
        path, content = self._of(job.model).path(item), await job.source.content()
        output_file = (
            None
            if path is None
            else await asyncio.to_thread(self.plan.contents.files.get_state, path)
        )
        return JudgedEdit(item, job.model, output_file, None, content)

    def _of(self, model: str) -> Outputs:
        if model not in self._outputs:
            self._outputs[model] = self.order.dataset.outputs(self.order.outputs[model])
        return self._outputs[model]

    def _without_unpaid(self, judgement: Judgement) -> dict[str, Outcome]:
        """What is to be kept; for what was not asked since the money is gone, the run ends."""
        unpaid = {n: error for n, error in judgement.errors.items() if isinstance(error, CostLimit)}
        if unpaid and self.end_reason == "done":
            self.end_reason = "cost"
            self.say(str(next(iter(unpaid.values()))))
        return {n: outcome for n, outcome in judgement.outcomes.items() if n not in unpaid}

    def _end_where_fatal(self, errors: Iterable[ServiceError]) -> None:
        for error in errors:
            if isinstance(error, _FATAL):
                if self.end_reason != "judge":  # edits that waited for the same end with the same
                    self.end_reason = "judge"
                    self.say(str(error))
                raise _StopError("judge")

    async def _keep_failed(self, job: Job, edit: JudgedEdit, failure: Failure) -> None:
        """Keep one failure as the verdict on each dimension."""
        if self.wait_for_identities is not None:
            await self.wait_for_identities()
        signatures = self.order.signatures(self.judges.panel.identities())
        await self._keep(job, edit, {d.id: failure for d in job.dimensions}, signatures)

    async def _keep(
        self,
        job: Job,
        edit: JudgedEdit,
        outcomes: Mapping[str, Outcome],
        signatures: Mapping[str, str],
        versions: str | None = None,
    ) -> None:
        verdicts = {
            name: outcome
            for name, outcome in outcomes.items()
            if isinstance(outcome, Score | NoScore | Failure | NotApplicable)
        }
        if verdicts or any(isinstance(outcome, MissingOutput) for outcome in outcomes.values()):
            await self.save_edit(edit, verdicts, signatures, versions)
        expected_names = [d.id for d in job.dimensions if d.id in outcomes]
        self.progress.count_edit(outcomes, expected_names)
        self._check_failures()

    def _check_failures(self) -> None:
        counts = self.progress.verdicts
        if self.fail_on_error is None or counts.total() < ENOUGH:
            return
        if self.progress.share_failed > self.fail_on_error:
            raise _StopError("failures")


async def _ahead(queue: Iterable[Job]) -> AsyncIterator[Job]:
    """The jobs, made several at a time and beside the event loop."""
    remaining = iter(queue)
    while several := await asyncio.to_thread(lambda: [*islice(remaining, _AHEAD)]):
        for job in several:
            yield job


def _failure_of(error: Exception) -> Failure:
    """The verdict that an error is; one that is not ours is named by its type."""
    if isinstance(error, EditjudgeError):
        return make_failure(error)
    return Failure(error=f"{type(error).__name__}: {error}")
