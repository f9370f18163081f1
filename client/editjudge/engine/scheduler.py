"""Judges many edits at once, up to a limit, and stores each as soon as it is judged.

When one edit is done the next begins, so a slow call delays no other edit. The edits of one item
follow each other, so that they share what depends on the item alone: its decoded images, features,
generated questions, and the server's prefix cache. A process that is killed loses only the edits in
flight. The next session judges these again, from the stored replies as far as there are any.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice, starmap
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from ..base.errors import (
    CostLimit,
    EditjudgeError,
    ImageError,
    InputError,
    NoAccess,
    ServiceError,
    StoreError,
    UnreadError,
    WrongModel,
)
from ..base.file_states import FileRead, FileState
from ..base.images import Image, load_image
from ..base.item import Edit, Item, Missing
from ..base.verdict import Failure, MissingOutput, NoScore, NotApplicable, Outcome, Score, Verdicts, make_failure
from ..benchmarks.dataset import Dataset, ItemRef
from ..benchmarks.dimension import Dimension
from ..benchmarks.outputs import Outputs
from ..panel.judge import Judge
from .content_keys import ItemContent, ItemContents, JudgedEdit
from .judge import Judgement, Judges, WaitForIdentities, find_lazy_limit
from .progress import Progress
from .run_plan import RunPlan

EndReason: TypeAlias = Literal["done", "cost", "failures", "judge"]
MIN_VERDICTS = 20
"""How many verdicts there must be before the share of failed ones can end a session."""
_FATAL = (NoAccess, WrongModel)
"""Errors that every later call would meet too: another model answers, or the key is refused."""
_JOBS_AT_ONCE = 64
"""How many jobs are listed at once in a thread, to share the cost of starting it."""
_RECENT_EDITS = 16
"""How many latest edits the size of one that is not loaded yet is estimated from."""
MAX_HELD = 1024**3
"""Bytes of pictures in flight above which no further edit begins."""


_LoadedItem: TypeAlias = tuple[Item, ItemContent]
"""An item, and its content when it was loaded."""


class _SharedItem:
    """An item shared by its edits: it is loaded for the first edit and freed after the last."""

    def __init__(self, contents: ItemContents, ref: ItemRef) -> None:
        self._contents = contents
        self._dataset: Dataset = contents.dataset
        self.ref = ref
        self._loading: asyncio.Future[_LoadedItem | EditjudgeError] | None = None

    async def load(self, max_lazy_pixels: int) -> _LoadedItem:
        """Load the item and its content, or wait while another edit loads them.

        Args:
            max_lazy_pixels: Images with at most this many pixels stay encoded, see `load_image`;
                only the first call's value counts.

        Raises:
            EditjudgeError: the item cannot be loaded.
        """
        if self._loading is None:
            self._loading = asyncio.ensure_future(asyncio.to_thread(self._read, max_lazy_pixels))
        result = await asyncio.shield(self._loading)
        if isinstance(result, EditjudgeError):
            raise result
        return result

    def _read(self, max_lazy_pixels: int) -> _LoadedItem | EditjudgeError:
        try:
            readings = {path: FileRead(path) for path in self._dataset.files(self.ref)}
            item = self._dataset.load(self.ref, max_lazy_pixels)
            read = _list_loaded_files(item, readings)
            content = self._contents.read(self.ref, read)
            other_readings = (readings[path] for path in readings.keys() - read.keys())
            if any(reading.has_changed() for reading in other_readings):
                return InputError(self.ref.id, "its files changed while they were read")
        except EditjudgeError as error:
            return error
        except Exception as error:  # noqa: BLE001 - whatever it is, it costs this item's edits
            return InputError(self.ref.id, f"{type(error).__name__}: {error}")
        return item, content


def _list_loaded_files(item: Item, readings: Mapping[str, FileRead]) -> dict[str, FileState]:
    """Return the state of each file that an item was loaded from, by path."""
    images = filter(None, (*item.sources, item.target, item.mask))
    return {one.file: FileState(readings[one.file].stat(), one.digest) for one in images if one.file in readings}


class Job(NamedTuple):
    """One edit to judge.

    Attributes:
        shared_item: The item, shared with the edits by other models.
        model: The model under test.
        dimensions: The dimensions to judge.
    """

    shared_item: _SharedItem
    model: str
    dimensions: tuple[Dimension, ...]


def make_jobs(plan: RunPlan, ref: ItemRef, models: Mapping[str, Collection[str]]) -> Iterator[Job]:
    """Make the jobs of an item: by model, the dimensions with these ids."""
    shared_item = _SharedItem(plan.contents, ref)
    for model, names in models.items():
        yield Job(shared_item, model, plan.select_dimensions(names))


class StopError(Exception):
    """Ends the session at once.

    Attributes:
        reason: Why.
    """

    def __init__(self, reason: EndReason) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass
class Scheduler:
    """Judges the edits of a plan for a `Session`; each becomes a `Judgement` that is stored.

    Attributes:
        plan: The edits to judge.
        judges: The judges and other services.
        save_edit: Commits an edit's verdicts; see `VerdictStore.save_edit`.
        progress: Counts of the session, which the scheduler updates.
        max_in_flight: How many edits may be in flight at once.
        wait_for_identities: Waits until the identities of the services are known; awaited before
            anything is signed or stored.
        fail_on_error: The share of failed verdicts, 0 to 1, above which the session ends; None for
            never.
        end_reason: Why the session ends, see `run`.
        say: Receives messages for people.
    """

    plan: RunPlan
    judges: Judges
    save_edit: Callable[[JudgedEdit, Verdicts, Mapping[str, str], str | None], Awaitable[None]]
    progress: Progress
    max_in_flight: int
    wait_for_identities: WaitForIdentities | None = None
    fail_on_error: float | None = None
    end_reason: EndReason = "done"
    say: Callable[[str], None] = lambda _: None
    _bytes_in_flight: dict[int, int | None] = field(default_factory=dict)
    _recent_sizes: deque[int] = field(default_factory=lambda: deque(maxlen=_RECENT_EDITS))
    _outputs: dict[str, Outputs] = field(default_factory=dict)
    _room: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def run(self) -> EndReason:
        """Judge all edits of the plan, or until the session ends early.

        Cancelling it cancels the calls in flight, at their servers too; stored edits stay.

        Returns:
            Why it ended. `done`: all is judged. `cost`: the next call would exceed `max_cost`, and
            the edits in flight were finished as far as possible. `failures`: too many verdicts
            failed. `judge`: a judge is another model than configured, or refuses the key.
        """
        try:
            async with asyncio.TaskGroup() as group:
                async for job in self._list_jobs():
                    async with self._room:
                        await self._room.wait_for(self._has_room)
                    if self.end_reason != "done":
                        break
                    self._bytes_in_flight[id(job)] = None
                    group.create_task(self._run_job(job))
        except* StopError as errors:
            self.end_reason = next(e.reason for e in errors.exceptions if isinstance(e, StopError))
        return self.end_reason

    async def _list_jobs(self) -> AsyncIterator[Job]:
        """Yield the edits to judge, all models of an item one after another."""
        items = self.plan.list_unfinished_items()
        jobs = chain.from_iterable(starmap(partial(make_jobs, self.plan), items))
        while several := await asyncio.to_thread(lambda: [*islice(jobs, _JOBS_AT_ONCE)]):
            for job in several:
                yield job

    def _has_room(self) -> bool:
        if self.end_reason != "done" or not self._bytes_in_flight:
            return True
        return len(self._bytes_in_flight) < self.max_in_flight and self._estimate_bytes() < MAX_HELD

    def _estimate_bytes(self) -> int:
        """Estimate the bytes of the edits in flight.

        An edit that is not loaded yet counts as the largest of the edits that were loaded last.
        Before any edit is loaded it counts as the maximum, so the first edit is loaded alone.
        """
        loading = max(self._recent_sizes, default=MAX_HELD)
        return sum(loading if size is None else size for size in self._bytes_in_flight.values())

    async def _note_loaded(self, job: Job, byte_count: int) -> None:
        self._bytes_in_flight[id(job)] = byte_count
        self._recent_sizes.append(byte_count)
        async with self._room:
            self._room.notify()

    async def _run_job(self, job: Job) -> None:
        try:
            await self._judge_job(job)
        finally:
            del self._bytes_in_flight[id(job)]
            async with self._room:
                self._room.notify()

    async def _judge_job(self, job: Job) -> None:
        judged_edit = None
        try:
            edit, judged_edit = await self._load_edit(job)
            inputs = self.plan.inputs
            judgement = await self.judges.judge(
                edit,
                job.dimensions,
                inputs.dimensions_by_id,
                signatures=inputs.signature_cache,
                wait_for_identities=self.wait_for_identities,
            )
        except StoreError:
            raise
        except Exception as error:  # noqa: BLE001 - what cannot be read or scored costs one edit, not the run
            judged_edit = judged_edit or await self._describe_unloadable(job)
            await self._save_failure(job, judged_edit, make_failure(error))
            return
        signatures = {name: str(signature) for name, signature in judgement.signatures.items()}
        outcomes = self._remove_unpaid(judgement)
        await self._save(job, judged_edit, outcomes, signatures, judgement.versions)
        self._end_where_fatal(judgement.errors.values())

    async def _load_edit(self, job: Job) -> tuple[Edit, JudgedEdit]:
        judges = self._list_local_judges(job)
        reads_pixels = self.plan.inputs.reads_pixels and self.judges.is_local
        max_lazy_pixels = find_lazy_limit(judges, reads_pixels=reads_pixels)
        item, content = await job.shared_item.load(max_lazy_pixels)
        edit, output_file, byte_count = await asyncio.to_thread(self._make_edit, job, item, judges, max_lazy_pixels)
        await self._note_loaded(job, byte_count)
        judged_edit = JudgedEdit(item.id, job.model, output_file, edit.missing, content)
        return edit, judged_edit

    def _make_edit(
        self, job: Job, item: Item, judges: Iterable[Judge], max_lazy_pixels: int
    ) -> tuple[Edit, FileState | None, int]:
        """Load the output; return the edit, its output's file, and the bytes of all its images."""
        image, missing, output_file = self._load_output(job, max_lazy_pixels)
        images = [*item.sources, *filter(None, (item.target, image))]
        # Images are encoded for the judges here, in a thread: it would block the event loop.
        pictures = [judge.prepare_picture(image) for judge in judges for image in images]
        sizes = [one.memory_bytes for one in images] + [one.memory_bytes for one in pictures]
        sizes.append(item.mask.memory_bytes if item.mask else 0)
        return Edit(item, job.model, image, missing), output_file, sum(sizes)

    def _list_local_judges(self, job: Job) -> list[Judge]:
        """Return the judges that this process calls itself for this edit; none behind a gateway."""
        if not self.judges.is_local:
            return []
        panel = self.judges.panel
        roles = self.plan.inputs.roles(d.id for d in job.dimensions) & panel.service_names
        return [panel.judge(role) for role in roles if role.is_judge]

    def _load_output(self, job: Job, max_lazy_pixels: int) -> tuple[Image | None, Missing | None, FileState | None]:
        """Load a model's output; return the image or why it is missing, and the state of its file.

        Raises:
            UnreadError: the file was deleted since the plan was made, or cannot be read now.
        """
        outputs, item = self._get_outputs(job.model), job.shared_item.ref.id
        path = outputs.path(item)
        if path is None:
            raise UnreadError(item, f"its output by {job.model} was deleted during the run: {outputs.why_not(item)}")
        reading = FileRead(path)
        try:
            image = load_image(Path(path), max_lazy_pixels=max_lazy_pixels)
        except UnreadError:
            raise
        except ImageError as error:
            why = Missing("unreadable", f"{error.name}: {error.reason}")
            return None, why, self.plan.contents.files.get_state(path)
        return image, None, FileState(reading.stat(), image.digest)

    async def _describe_unloadable(self, job: Job) -> JudgedEdit:
        """Return an edit that cannot be loaded, with the content that its failure is valid for."""
        ref = job.shared_item.ref
        item, content = ref.id, await asyncio.to_thread(self.plan.contents.read, ref)
        path = self._get_outputs(job.model).path(item)
        get_state = self.plan.contents.files.get_state
        output_file = None if path is None else await asyncio.to_thread(get_state, path)
        return JudgedEdit(item, job.model, output_file, None, content)

    def _get_outputs(self, model: str) -> Outputs:
        if model not in self._outputs:
            self._outputs[model] = self.plan.inputs.dataset.outputs(self.plan.inputs.outputs[model])
        return self._outputs[model]

    def _remove_unpaid(self, judgement: Judgement) -> dict[str, Outcome]:
        """Remove the outcomes whose calls the budget refused; if there are any, end the session."""
        unpaid = {n: error for n, error in judgement.errors.items() if isinstance(error, CostLimit)}
        if unpaid and self.end_reason == "done":
            self.end_reason = "cost"
            self.say(str(next(iter(unpaid.values()))))
        return {n: outcome for n, outcome in judgement.outcomes.items() if n not in unpaid}

    def _end_where_fatal(self, errors: Iterable[ServiceError]) -> None:
        for error in errors:
            if isinstance(error, _FATAL):
                if self.end_reason != "judge":  # one message is enough for all edits in flight
                    self.end_reason = "judge"
                    self.say(str(error))
                raise StopError("judge")

    async def _save_failure(self, job: Job, edit: JudgedEdit, failure: Failure) -> None:
        """Store a failure as the verdict of each dimension of the job."""
        if self.wait_for_identities is not None:
            await self.wait_for_identities()
        signatures = self.plan.inputs.signatures(self.judges.panel.identities())
        await self._save(job, edit, {d.id: failure for d in job.dimensions}, signatures)

    async def _save(
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
        counts, most = self.progress.verdicts, self.fail_on_error
        if most is not None and counts.total() >= MIN_VERDICTS and counts["failed"] / counts.total() > most:
            raise StopError("failures")
