"""Scores a run again from its stored replies with the installed code, without any call.

Where its pictures are not at their places, `replay` judges by what the run holds of those that judges saw: digests.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import field, replace
from itertools import chain, product
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from pydantic import ConfigDict, GetPydanticSchema, PlainSerializer
from pydantic.dataclasses import dataclass as result
from pydantic_core.core_schema import any_schema

from ..base.errors import UnreadError, first_error
from ..base.images import RGB, Image, format_path
from ..base.item import Edit
from ..base.strict import STRICT, Strict
from ..base.verdict import Failure, NoScore, NotApplicable, Score, Status, Verdict, Verdicts
from ..benchmarks.cell import Tally
from ..benchmarks.dataset import Dataset, ItemRef
from ..engine.content_keys import ItemContents, JudgedEdit
from ..engine.judge import Judges, computes_pixels, make_judges
from ..engine.progress import Progress
from ..engine.run_inputs import RunInputs
from ..engine.run_plan import RunPlan, compare_with_run, inspect_items
from ..engine.scheduler import Scheduler
from ..engine.stored_items import StoredItems
from ..panel import Panel
from ..storage.store import RunStore, StoredEdit
from .view import RunView


class VerdictSummary(Strict):
    """The mean and the counts of some verdicts.

    Attributes:
        mean: Mean of the scores; null without any.
        counts: Number of verdicts by status.
    """

    mean: float | None
    counts: dict[Status, int]


def _summarise(tally: Tally) -> VerdictSummary:
    return VerdictSummary(mean=tally.mean(), counts=tally.all_counts)


_Tally: TypeAlias = Annotated[Tally, GetPydanticSchema(lambda *_: any_schema()), PlainSerializer(_summarise)]


@result(config=ConfigDict(**STRICT, json_schema_serialization_defaults_required=True))
class RescoreEntry:
    """An entry of `rescore --json`: how the verdicts of one model on one dimension change.

    Attributes:
        before: The stored verdicts, scored or unscored.
        after: The same verdicts scored again; the stored ones where that was not possible.
        changed: How many have another value or status.
        kept: How many could not be judged again.
        why_kept: The reason for the first of these.
    """

    model: str
    dimension: str
    before: _Tally = field(default_factory=Tally)
    after: _Tally = field(default_factory=Tally)
    changed: int = 0
    kept: int = 0
    why_kept: str = ""


class _ComparingStore:
    """Receives new verdicts in place of a store, and compares them with the stored ones."""

    def __init__(self, store: RunStore, *, write: bool) -> None:
        self._store = store
        self._write = write
        self.changes: dict[tuple[str, str], RescoreEntry] = {}

    async def keep(
        self, edit: JudgedEdit, verdicts: Verdicts, signatures: Mapping[str, str], versions: str | None = None
    ) -> None:
        item, model = edit.item, edit.model
        stored_edit = self._store.edit(item, model)
        judged_edit = None if stored_edit is None else self._store.judged_edit(stored_edit)
        old_verdicts = {
            record.dimension: record.verdict for record in self._store.verdicts(model, item=item, evidence=False)
        }
        new_verdicts: dict[str, Verdict] = {}
        for name, verdict in verdicts.items():
            old_verdict = old_verdicts.get(name)
            if old_verdict is None or isinstance(old_verdict, Failure):
                continue
            change = self.changes.setdefault((model, name), RescoreEntry(model, name))
            change.before.add(old_verdict)
            why = verdict.error if isinstance(verdict, Failure) else ""
            if judged_edit is not None:
                why = _why_not_comparable(edit, judged_edit) or why
            if why:
                change.after.add(old_verdict)
                change.kept += 1
                change.why_kept = change.why_kept or why
                continue
            change.after.add(verdict)
            change.changed += _comparable_form(old_verdict) != _comparable_form(verdict)
            new_verdicts[name] = verdict
        if self._write and new_verdicts:
            await self._store.save_edit(edit, new_verdicts, signatures, versions)


def rescore_run(folder: Path, *, write: bool = False) -> list[RescoreEntry]:
    """Score every verdict of the run in a folder again from the stored replies.

    Without the run's data it goes as far as judges' replies suffice.

    Args:
        write: Replace the old verdicts by the new ones.

    Returns:
        The changes, by model and dimension.

    Raises:
        ConfigError: the run has dimensions that this version of editjudge does not know.
        InputError: its data no longer exists.
    """
    with RunStore.open(folder, read_only=not write) as store:
        order, comparison = RunView.from_store(store).resolve_by(None), _ComparingStore(store, write=write)
        panel = Panel.from_ledger(store.ledger, store.header.identities)
        if isinstance(order.dataset, StoredItems):
            asyncio.run(replay(order, store, make_judges(panel), comparison.keep))
        else:
            _judge_again(order, store, panel, comparison)
        keys = product(order.outputs, (dimension.id for dimension in order.dimensions))
        return [comparison.changes[key] for key in keys if key in comparison.changes]


def _judge_again(order: RunInputs, store: RunStore, panel: Panel, comparison: _ComparingStore) -> None:
    """Judge every edit again, with its pictures."""
    header = store.header
    plan = inspect_items(order, store.file_cache())
    services = header.identities.keys()
    absent = {d.id: "not served" for d in plan.needed_dimensions if set(d.roles) - services}
    compare_with_run(plan, None, header.identities, absent)
    _drop_unjudged(plan, store)

    async def judge() -> None:
        progress, judges = Progress.of(plan, {}), make_judges(panel)
        async with panel:
            at_once = 2 * (os.cpu_count() or 1)
            await Scheduler(plan, judges, comparison.keep, progress, max_in_flight=at_once).run()

    try:
        asyncio.run(judge())
    except BaseExceptionGroup as several:
        raise first_error(several) from several


def _drop_unjudged(plan: RunPlan, store: RunStore) -> None:
    """Remove from the plan everything that has no verdict."""
    for model, todo in plan.todo.items():
        there: dict[str, set[str]] = {}
        for verdict in store.verdicts(model, evidence=False):
            if not isinstance(verdict.verdict, Failure):
                there.setdefault(verdict.item, set()).add(verdict.dimension)
        left = (names & there.get(item, set()) for item, names in zip(plan.ids, todo, strict=True))
        same_sets: dict[frozenset[str], frozenset[str]] = {}
        plan.todo[model] = [same_sets.setdefault(names, names) for names in left]


def _why_not_comparable(edit: JudgedEdit, before: JudgedEdit) -> str:
    """Why an edit differs from the one that was judged; empty if it does not."""
    files = edit.output_file, before.output_file
    now, then = (None if file is None else file.digest for file in files)
    item, former = (None if one.content is None else one.content.key for one in (edit, before))
    if former and item != former:
        return "the item has changed since it was judged"
    return "" if now == then else "the output has changed since it was judged"


def _comparable_form(verdict: Verdict) -> tuple[Any, ...]:
    return verdict.status, getattr(verdict, "value", None), getattr(verdict, "kind", None)


_PromptPicture = tuple[str, str, tuple[int, int]]
"""Name, digest and size of a picture in a prompt."""
Keep = Callable[[JudgedEdit, Verdicts, Mapping[str, str], str | None], Awaitable[None]]
_PIXELS = Failure(error="it rests on pixels or was imported, and data and outputs are not at their places")


class _ShownImage(Image):
    """A picture as a judge got it: stored replies are found by its digest; it has no pixels."""

    @property
    def rgb(self) -> RGB:
        """Refused: nobody knows them."""
        raise UnreadError(self.name, "its pixels are not in the run", "restore the file")


async def replay(inputs: RunInputs, store: RunStore, judges: Judges, keep: Keep) -> None:
    """Judge every edit of a run again, as far as the replies of judges suffice.

    Args:
        judges: They answer from the run alone.
        keep: Receives the new verdicts; what rests on pixels is a failure.
    """
    by_id = inputs.dimensions_by_id
    dimensions = {
        d.id: d
        for d in inputs.dimensions
        if not computes_pixels(d, by_id) and all(role.is_judge for role in inputs.roles([d.id]))
    }
    contents = ItemContents(inputs.dataset, store.file_cache())
    for ref in inputs.dataset.items():
        for stored_edit in store.edits(item=ref.id):
            edit, names = _make_edit(inputs.dataset, contents, store, ref, stored_edit)
            judgement = await judges.judge(
                edit,
                [dimensions[name] for name in names if name in dimensions],
                by_id,
                signatures=inputs.signature_cache,
            )
            verdicts: dict[str, Any] = dict.fromkeys(names, _PIXELS) | {
                name: outcome
                for name, outcome in judgement.outcomes.items()
                if isinstance(outcome, Score | NoScore | Failure | NotApplicable)
            }
            signatures = {name: str(of) for name, of in judgement.signatures.items()}
            await keep(store.judged_edit(stored_edit), verdicts, signatures, judgement.versions)


def _make_edit(
    dataset: Dataset, contents: ItemContents, store: RunStore, ref: ItemRef, edit: StoredEdit
) -> tuple[Edit, list[str]]:
    """Make an edit of the pictures that judges saw; return it and its dimensions with verdicts."""
    records = list(store.verdicts(edit.model, item=ref.id))
    names = [one.dimension for one in records if not isinstance(one.verdict, Failure)]
    prompts = {reply.prompt for one in records for reply in one.replies if reply.prompt}
    pictures = [*chain.from_iterable(_list_pictures(store, prompt) for prompt in prompts)]
    images: dict[str, Image] = {}
    for path in dataset.files(ref):
        content = contents.get_stored(path)
        images[path] = _find(pictures, format_path(path), content.digest.hex() if content else "")
    item, paths = dataset.outline(ref), dataset.files(ref)
    flaws = dict(item.flaws)
    if item.mask is not None:
        flaws["mask"] = _PIXELS
    item = replace(
        item,
        sources=tuple(images[path] for path in paths[: len(item.sources)]),
        target=None if item.target is None else images[paths[-1]],
        mask=None,
        flaws=flaws,
    )
    if edit.digest is None:
        return Edit(item, edit.model, None, edit.missing), names
    others = [one for one in pictures if one[0] not in images]
    name = others[0][0] if len({one[0] for one in others}) == 1 else ""
    output = _find(others, name, edit.digest.removeprefix("sha256:"))
    return Edit(item, edit.model, output), names


def _list_pictures(store: RunStore, prompt: str) -> Iterator[_PromptPicture]:
    stored_prompt = store.ledger.get_prompt(prompt)
    parts: tuple[Mapping[str, Any], ...] = stored_prompt.parts if stored_prompt else ()
    for part in parts:
        if "image" in part:
            width, height = part["size"]
            yield part["name"], part["image"], (width, height)


def _find(pictures: Iterable[_PromptPicture], name: str, digest: str) -> Image:
    """Find a picture by the name or the beginning of the digest of its file."""
    matches = {
        (sent_digest, size)
        for picture, sent_digest, size in pictures
        if picture == name or (digest and sent_digest.startswith(f"sha256:{digest}"))
    }
    if len(matches) != 1:  # no judge saw it, or judges saw it in several sizes
        matches = {(f"sha256:{'0' * 64}", (1, 1))}
    sent_digest, size = matches.pop()
    return _ShownImage(name, b"", None, media_type="image/png", size=size, digest=sent_digest)
