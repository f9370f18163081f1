"""The plan of a run: which dimensions of which edits are still to be judged.

`inspect_items` checks the items. `compare_with_run` then compares the outputs with the stored
verdicts. Neither calls a service or decodes an image. An outline is an item with placeholders for
its images. Items to which the same dimensions apply share one outline, and edits with the same
dimensions left to judge share one set of ids. So the plan of 100,000 edits takes a few megabytes
and about a second.
"""

from collections import Counter
from collections.abc import Collection, Container, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache, cached_property, partial
from types import MappingProxyType
from typing import NamedTuple

from ..base.digest import digest_text
from ..base.errors import ConfigError, InputError
from ..base.file_states import FileState
from ..base.identity import Identities, ServiceName
from ..base.images import format_path
from ..base.item import Flaws, Item, Missing
from ..base.text import format_count, group_by_key, shorten_list
from ..base.verdict import NotApplicable
from ..benchmarks.dataset import NO_FILE, Dataset, ItemRef
from ..benchmarks.dimension import Dimension, no_condition
from .content_keys import (
    FileCache,
    ItemContent,
    ItemContents,
    JudgedEdit,
    StandingVerdicts,
    VerdictStore,
    check_items,
    find_by_content,
    find_current_output,
)
from .outcomes import Circumstances, sort_by_dependency
from .run_inputs import RunInputs

_NOT_SELECTED = -1
_NO_DIMENSIONS: frozenset[str] = frozenset()


class FlawedItem(NamedTuple):
    """An item with fields that cannot be used, for example a missing or damaged image."""

    ref: ItemRef
    flaws: Flaws

    @property
    def description(self) -> str:
        """The item and its flaws, in one line."""
        return f"{self.ref.id}: {'; '.join(flaw.reason for flaw in self.flaws.values())}"


def describe_data_problems(dataset: Dataset, items: Sequence[FlawedItem]) -> tuple[str, ...]:
    """Describe doubts about data, its rejected entries and flawed items: one line for each kind."""
    lines = [*dataset.doubts()]
    left_out = dataset.list_rejected_entries()
    if left_out:
        where, what = left_out[0]
        entries = format_count(len(left_out), "entry cannot be used", "entries cannot be used")
        lines.append(f"{entries} (first: {where}: {what})")
    if items:
        count = format_count(len(items), "item is", "items are")
        no_file = [one.ref for one in items if any(NO_FILE in f.reason for f in one.flaws.values())]
        fix = f"; {dataset.fix(no_file)}" if no_file and dataset.fix(no_file) else ""
        lines.append(f"{count} judged in part only (first: {items[0].description}){fix}")
    return tuple(lines)


@dataclass
class RunPlan:
    """The dimensions that each edit of a run still needs; a `Session` judges them.

    The plan numbers its items by their position in the data.

    Attributes:
        inputs: The data, outputs and dimensions of the run.
        contents: The reader of the items' content, used for the whole session.
        ids: The ids of the items, up to the limit.
        kinds: For each item, the position of its kind in `outlines`; negative where the tasks or
            the shard exclude the item.
        outlines: For each kind, one of its items with placeholders for images. The same dimensions
            apply to all items of a kind.
        needed_dimensions: The dimensions of the run and the dimensions that they derive from; each
            stands after those that it derives from.
        keys: For each item, its content key; None where the item is not selected, or where the run
            has stored no digest of one of its files.
        ids_beyond_limit: Ids of the items that the limit leaves out.
        flawed_items: The selected items with fields that cannot be used.
        signatures: The signatures that new verdicts would have, by dimension.
        todo: By model, for each item the ids of the dimensions to judge.
        counts: By model and dimension, how many edits have each state: `standing` (it has a valid
            verdict), `todo` (it is to be judged), `not_served`, `missing_output`, or `unscored` (an
            item's field that the dimension needs has a flaw). Edits to which a dimension does not
            apply are not counted.
        missing: By model, how many outputs are missing, and the first reason.
        unmatched_files: By model, how many files in its folder are the output of no item, and the
            name of the first one.
        lost_outputs: By model, how many missing outputs were judged earlier. Their verdicts stay.
        finished_edits: How many edits have valid verdicts and nothing left to judge.
        current_edits: The edits whose content differs from what the run has stored.
    """

    inputs: RunInputs
    contents: ItemContents
    needed_dimensions: tuple[Dimension, ...] = ()
    ids: list[str] = field(default_factory=list)
    kinds: list[int] = field(default_factory=list)
    outlines: list[Item] = field(default_factory=list)
    keys: list[bytes | None] = field(default_factory=list)
    ids_beyond_limit: list[str] = field(default_factory=list)
    flawed_items: list[FlawedItem] = field(default_factory=list)
    signatures: Mapping[str, str] = field(default_factory=dict)
    todo: dict[str, list[frozenset[str]]] = field(default_factory=dict)
    counts: dict[str, dict[str, Counter[str]]] = field(default_factory=dict)
    missing: dict[str, tuple[int, str]] = field(default_factory=dict)
    unmatched_files: dict[str, tuple[int, str]] = field(default_factory=dict)
    lost_outputs: Counter[str] = field(default_factory=Counter)
    finished_edits: int = 0
    current_edits: list[JudgedEdit] = field(default_factory=list)

    @cached_property
    def selected_positions(self) -> frozenset[int]:
        """The positions of the items that the tasks and the shard select."""
        return frozenset(i for i, kind in enumerate(self.kinds) if kind != _NOT_SELECTED)

    @cached_property
    def all_ids(self) -> frozenset[str]:
        """The ids of all items of the data, also of those beyond the limit."""
        return frozenset((*self.ids, *self.ids_beyond_limit))

    @property
    def unmatched_file_notes(self) -> list[str]:
        """One line for each model that has files which are the output of no item."""
        lines = []
        for model, (count, name) in self.unmatched_files.items():
            if count:
                place = format_path(self.inputs.outputs[model])
                files = format_count(count, f"file in {place} belongs", f"files in {place} belong")
                lines.append(f"{model}: {files} to no item (first: {name})")
        return lines

    @property
    def edit_count(self) -> int:
        """How many edits have something to judge."""
        return sum(1 for todo in self.todo.values() for names in todo if names)

    def total(self, status: str) -> int:
        """Sum one state of `counts` over all models and dimensions."""
        return sum(count[status] for row in self.counts.values() for count in row.values())

    @property
    def dimensions(self) -> tuple[Dimension, ...]:
        """The dimensions of the run that are left to judge on at least one edit."""
        return self.select_dimensions(_NO_DIMENSIONS.union(*(set().union(*set(t)) for t in self.todo.values())))

    @property
    def roles(self) -> frozenset[ServiceName]:
        """The services that these dimensions call."""
        return self.inputs.roles(d.id for d in self.dimensions)

    def select_dimensions(self, names: Collection[str]) -> tuple[Dimension, ...]:
        """The dimensions with these ids, in the order of the inputs."""
        return tuple(d for d in self.inputs.dimensions if d.id in names)

    def list_unfinished_items(self) -> Iterator[tuple[ItemRef, dict[str, frozenset[str]]]]:
        """Yield each item with something left to judge, and by model the dimensions' ids."""
        places = {index for todo in self.todo.values() for index, names in enumerate(todo) if names}
        for ref in self.inputs.dataset.items(places):
            yield ref, {model: t[ref.index] for model, t in self.todo.items() if t[ref.index]}


def inspect_items(inputs: RunInputs, before: FileCache | None = None) -> RunPlan:
    """Begin a plan by checking all items; `compare_with_run` then finds what is left to judge.

    Args:
        before: What the run has stored about the items' files; None for a new run.

    Raises:
        InputError: the data cannot be used, no item has one of the tasks, or a folder of outputs
            does not exist.
    """
    plan = RunPlan(
        inputs, ItemContents(inputs.dataset, before), sort_by_dependency(inputs.dimensions, inputs.dimensions_by_id)
    )
    conditional = [d for d in plan.needed_dimensions if d.when is not no_condition]
    kinds: dict[Hashable, int] = {}
    for ref in inputs.dataset.check_items():
        flaws = inputs.dataset.flaws(ref)
        if flaws != ref.flaws:
            of_files = {name: flaws[name] for name in flaws.keys() - ref.flaws.keys()}
            plan.contents.file_flaws[ref.id] = of_files
        if inputs.limit is not None and ref.index >= inputs.limit:
            plan.ids_beyond_limit.append(ref.id)
            continue
        is_selected = _is_selected(inputs, ref)
        plan.ids.append(ref.id)
        plan.keys.append(plan.contents.key_from_cache(ref) if is_selected and before else None)
        kind = _NOT_SELECTED
        if is_selected:
            kind = kinds.setdefault(_list_traits(inputs.dataset, ref, flaws, conditional), len(kinds))
            if kind == len(plan.outlines):
                plan.outlines.append(inputs.dataset.outline(ref))
        plan.kinds.append(kind)
        if flaws and is_selected:
            plan.flawed_items.append(FlawedItem(ref, flaws))
    if plan.ids and not plan.outlines and inputs.shard == (0, 1):
        raise _no_such_task(inputs)
    for model, folder in inputs.outputs.items():
        if not inputs.dataset.has_outputs(folder):
            raise InputError(format_path(folder), f"no such folder for the outputs of {model}")
    return plan


def compare_with_run(
    plan: RunPlan,
    store: VerdictStore | None = None,
    identities: Identities = MappingProxyType({}),
    why_not_served: Mapping[str, str] = MappingProxyType({}),
) -> RunPlan:
    """Find what is left to judge, note it in the plan, and return the plan.

    Args:
        store: The run with its verdicts; None for a new run.
        identities: Identities of the services, which enter the signatures.
        why_not_served: By dimension id, why no service can compute the scorer fields that the
            dimension reads itself.

    Raises:
        ConfigError: the data has none of the items that the run has judged, or a model has a new
            folder of outputs with none of the outputs that were judged.
        InputError: a model has no output at all.
    """
    inputs = plan.inputs
    plan.signatures = inputs.signatures(identities)
    plan.lost_outputs, plan.finished_edits, plan.current_edits = Counter(), 0, []
    decide_states = cache(partial(_decide_states, plan, why_not_served))
    has_judged_items = False
    for model, place in inputs.output_folders.items():
        before = store.header.outputs.get(model, place) if store else place
        standing_by_item = store.find_standing(model, plan.signatures) if store else {}
        has_judged_items = has_judged_items or not plan.all_ids.isdisjoint(standing_by_item)
        edits = _compare_outputs(plan, model, standing_by_item, before, has_run=store is not None)
        plan.counts[model] = {d.id: Counter() for d in inputs.dimensions}
        todo: dict[_EditTraits | None, frozenset[str]] = {None: _NO_DIMENSIONS}
        for edit, number in Counter(filter(None, edits)).items():
            # A valid verdict stays valid even if the service that made it is not there now.
            valid = dict.fromkeys(edit.standing_dimensions, "standing")
            states = decide_states(edit.kind, edit.absent)
            state_of = {name: valid.get(name, state) for name, state in states.items()}
            todo[edit] = frozenset(name for name, state in state_of.items() if state == "todo")
            plan.finished_edits += number * ("standing" in state_of.values() and not todo[edit])
            for name, state in state_of.items():
                plan.counts[model][name][state] += number
        plan.todo[model] = [todo[edit] for edit in edits]
    if store is not None and not has_judged_items:
        check_items(inputs.dataset, plan.all_ids, store)
    _read_items_without_outputs(plan)
    return plan


def _list_traits(dataset: Dataset, ref: ItemRef, flaws: Flaws, conditional: Sequence[Dimension]) -> Hashable:
    """List what decides which dimensions apply to an item: its kind.

    Args:
        conditional: The dimensions with a condition of their own, which look at the item itself.
    """
    traits: Hashable = dataset.shape_key(ref)
    if flaws:  # which dimensions a flaw spoils may depend on any of the item's fields
        traits = traits, ref.id
    if conditional:
        outline = dataset.outline(ref)
        traits = traits, tuple(d.why_not_applicable(outline) is None for d in conditional)
    return traits


class _EditTraits(NamedTuple):
    """What decides which dimensions an edit still needs. Very many edits have equal traits.

    Attributes:
        kind: The position of its item's kind in `RunPlan.outlines`.
        standing_dimensions: The ids of the dimensions that have a valid verdict.
        absent: Whether the output has no file, or one that cannot be read.
    """

    kind: int
    standing_dimensions: frozenset[str]
    absent: bool


def _compare_outputs(
    plan: RunPlan, model: str, standing_by_item: Mapping[str, Sequence[StandingVerdicts]], before: str, *, has_run: bool
) -> list[_EditTraits | None]:
    """Compare a model's outputs with the stored ones that were judged.

    Args:
        plan: Receives the missing outputs and the edits with changed content.
        standing_by_item: By item id, the valid verdicts on the model's edit.
        before: The model's folder of outputs according to the stored header.
        has_run: Whether there is a stored run, so that missing outputs can be stored in it.

    Returns:
        For each item the traits of its edit; None for items that are not selected.

    Raises:
        ConfigError: the model has a new folder with none of the outputs that were judged.
        InputError: the model has no output at all.
    """
    folder, files = plan.inputs.outputs[model], plan.contents.files
    outputs = plan.inputs.dataset.outputs(folder).index()
    plan.missing[model] = 0, ""
    others = outputs.list_unmatched(plan.all_ids)
    plan.unmatched_files[model] = len(others), others[0] if others else ""
    _compute_missing_keys(plan, standing_by_item)
    matching_count = other_count = 0
    edits: list[_EditTraits | None] = []
    alike: dict[_EditTraits, _EditTraits] = {}
    for item, kind, key in zip(plan.ids, plan.kinds, plan.keys, strict=True):
        if kind == _NOT_SELECTED:
            edits.append(None)
            continue
        path, of_edit = outputs.path(item), standing_by_item.get(item, ())
        match = None
        if key is not None and of_edit:
            output, stat = find_current_output(of_edit, path, files)
            match = find_by_content(of_edit, key, output, absent=path is None)
            if path is not None and output is not None:
                is_same = any(one.output == output for one in of_edit)
                matching_count += is_same
                other_count += not is_same and any(one.dimensions for one in of_edit)
            last = of_edit[-1]
            if output is not None and not _is_up_to_date(last, match, stat, absent=path is None):
                file, why = FileState(stat, digest_text(output)), match.missing if match else None
                plan.current_edits.append(JudgedEdit(item, model, file, why, ItemContent(key)))
        if path is None:
            _note_missing(plan, (item, model, outputs.why_not(item)), match, key, has_run=has_run)
        absent = path is None or (match is not None and match.missing is not None)
        edit = _EditTraits(kind, match.dimensions if match else _NO_DIMENSIONS, absent)
        edits.append(alike.setdefault(edit, edit))
    place = plan.inputs.output_folders[model]
    if before != place and other_count and not matching_count:
        raise ConfigError(
            f"{place} holds none of the outputs of {model} that were judged from {before}",
            "give these outputs another model's name, or another folder for this run",
        )
    missing, reason = plan.missing[model]
    nothing = missing == len(plan.selected_positions) and not standing_by_item
    # In a shard all outputs may be missing. In the whole data it means that the folder is wrong.
    if plan.selected_positions and nothing and not any(map(outputs.path, plan.ids)):
        raise InputError(format_path(folder), f"holds no output of {model}: {reason}")
    return edits


def _is_up_to_date(last: StandingVerdicts, match: StandingVerdicts | None, stat: bytes, *, absent: bool) -> bool:
    """Whether the newest stored state has the present content, so that nothing is to be stored.

    Args:
        last: The newest stored state of the edit.
        match: The stored state with the present content; None where there is none.
        stat: Stat digest of the output's file now.
        absent: Whether the output has no file now.
    """
    if match is None or match.output is None:
        return absent or match is not None
    return match is last and match.stat == stat


def _compute_missing_keys(plan: RunPlan, judged_ids: Container[str]) -> None:
    """Compute the missing content keys of items that the model's stored edits belong to."""
    unknown = (place for place in plan.selected_positions if plan.keys[place] is None)
    lacking = {place for place in unknown if plan.ids[place] in judged_ids}
    for ref in plan.inputs.dataset.items(lacking) if lacking else ():
        plan.keys[ref.index] = plan.contents.read(ref).key


def _read_items_without_outputs(plan: RunPlan) -> None:
    """Read the files of items that no model has an output for, so that the run can store them.

    Nothing else reads these files, and a missing output can count as the worst.
    """
    unread_edits = (edit for edit in plan.current_edits if edit.missing and edit.content is None)
    counts = Counter(edit.item for edit in unread_edits)
    places = {i for i, item in enumerate(plan.ids) if counts[item] == len(plan.inputs.outputs)}
    for ref in plan.inputs.dataset.items(places) if places else ():
        plan.contents.read(ref)


def _decide_states(plan: RunPlan, why_not_served: Mapping[str, str], kind: int, absent: bool) -> dict[str, str]:
    """Decide the state of each dimension that applies, as `RunPlan.counts` names it.

    It is that of an edit without valid verdicts.
    """
    missing = Missing("absent", "") if absent else None
    outcomes = Circumstances(plan.outlines[kind], missing=missing, why_not_served=why_not_served).decide(
        plan.needed_dimensions
    )
    return {
        d.id: "todo" if status == "pending" else status
        for d in plan.inputs.dimensions
        for status in [outcomes[d.id].status]
        if status != "not_applicable"
    }


def _is_selected(inputs: RunInputs, ref: ItemRef) -> bool:
    first, step = inputs.shard
    if ref.index % step != first:
        return False
    task = inputs.dataset.outline(ref).task if inputs.tasks else ""
    return not inputs.tasks or any(fnmatchcase(task, pattern) for pattern in inputs.tasks)


def _no_such_task(inputs: RunInputs) -> InputError:
    tasks = {inputs.dataset.outline(ref).task for ref in inputs.dataset.items()}
    return InputError(
        "--task",
        f"no item has a task like {', '.join(inputs.tasks)}",
        f"the data's tasks: {', '.join(sorted(filter(None, tasks))) or 'none'}",
    )


def _note_missing(
    plan: RunPlan, absent: tuple[str, str, Missing], match: StandingVerdicts | None, key: bytes | None, *, has_run: bool
) -> None:
    """Note a missing output in the plan.

    Args:
        absent: The item's id, the model, and why the output is missing.
        match: The stored state with the present content; None where there is none.
        key: The content key of the item; None where it is unknown.
        has_run: Whether there is a stored run, so that the missing output can be stored in it.
    """
    item, model, why = absent
    number, first = plan.missing[model]
    plan.missing[model] = number + 1, first or str(why)
    # An output that was read and is gone now keeps its verdicts; one that never was is missing.
    stays = match is not None and match.missing is None and match.output is not None
    if has_run and not stays and (match is None or match.missing != why):
        content = None if key is None else ItemContent(key)
        plan.current_edits.append(JudgedEdit(item, model, None, why, content))
    plan.lost_outputs[model] += match is not None and bool(match.dimensions)


def find_inapplicable(plan: RunPlan) -> dict[str, tuple[str, ...]]:
    """Find the dimensions that apply to no selected item, grouped by why they do not.

    The reason is that of the first item; rounds of another dimension are left out.
    """
    reasons = {one.id: "" for one in plan.inputs.dimensions if not one.round_of}
    for outline in plan.outlines:
        if not reasons:
            break
        outcomes = Circumstances(outline).decide(plan.needed_dimensions)
        for name, why in tuple(reasons.items()):
            outcome = outcomes[name]
            if isinstance(outcome, NotApplicable):
                reasons[name] = why or outcome.reason
            else:
                del reasons[name]
    by_reason = group_by_key((why, name) for name, why in reasons.items())
    return {why: tuple(names) for why, names in by_reason.items() if why}


def describe_inapplicable(plan: RunPlan) -> tuple[str, ...]:
    """Describe the dimensions that apply to no selected item, one line for each reason."""
    reasons = find_inapplicable(plan).items()
    return tuple(f"{shorten_list(names)}: applies to no item ({why})" for why, names in reasons)


def check_applicable(plan: RunPlan) -> None:
    """Refuse a plan in which no dimension applies to any item. A shard is always accepted.

    Raises:
        InputError: no dimension applies to any item.
    """
    order = plan.inputs
    nothing = find_inapplicable(plan)
    count = sum(not one.round_of for one in order.dimensions)
    if order.shard == (0, 1) and count and sum(map(len, nothing.values())) == count:
        raise InputError(
            "--dimension",
            "; ".join(describe_inapplicable(plan)),
            "choose others (editjudge list dimensions), or add to the items what these need",
        )
