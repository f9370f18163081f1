"""Merges runs of one benchmark, such as shards or runs of different models, into one."""

import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from ..base.differences import compare_signatures
from ..base.digest import content_digest
from ..base.errors import ConfigError
from ..base.item import Flaws
from ..base.output_files import wrap_disk_errors
from ..base.verdict import Failure, Score
from ..benchmarks.dataset import ItemRef
from ..benchmarks.dimension import Dimension
from ..engine.content_keys import KEY_BYTES, FileCache
from ..engine.run_header import RunHeader
from ..engine.stored_items import encode_items, encode_traits
from ..storage.store import RunStore, StoredEdit, StoredVerdict
from .spec import ResolvedSpec, RunSpec
from .view import RunView

_LEAVE_OUT = (
    "leave {} out: only runs of one benchmark, protocol, judges and number of rounds can be merged,"
    " each model's outputs from one folder"
)
_ONE_OF_BOTH = "merge runs that agree: leave one of the two out"


@dataclass
class MergeCounts:
    """The counts of a merge.

    Attributes:
        edits: Edits in the new run.
        verdicts: Verdicts in it.
        duplicates: Verdicts that were in several runs.
        costs: Of each new run the cost of its calls, in the currency of the prices.
    """

    edits: int = 0
    verdicts: int = 0
    duplicates: int = 0
    costs: list[float] = field(default_factory=list)


def dimensions_of(header: RunHeader) -> Mapping[str, Dimension]:
    """All dimensions by id, under the rules of a run."""
    return ResolvedSpec(RunSpec.of(header)).dimensions_by_id


def merge(
    folders: Sequence[Path],
    out: Path,
    dimensions: Callable[[RunHeader], Mapping[str, Dimension]] = dimensions_of,
    *,
    shards: int | None = None,
) -> MergeCounts:
    """Write a new run with the edits, verdicts and calls of several runs, or one for each shard.

    A verdict that several runs hold with one signature is written once; any other verdict replaces
    a failed one.

    Args:
        folders: Folders of the runs.
        out: Folder of the new run, which is written completely or not at all.
        dimensions: Returns the dimensions of a run by id, for their tolerances.
        shards: Write as many runs, named by their numbers from 0, into the folder `out`: what there
            is of each shard's items, by their places in the data as it is now. A session with
            `shard=(i, shards)` goes on in the i-th. The former runs must not be in use. A call that
            no verdict rests on yet is in each; its cost, like any, counts in the first one alone.

    Raises:
        ConfigError: the runs differ in their benchmark, protocol, judges or in an item; values of
            one signature differ by more than the dimension's tolerance; outputs, signatures or
            statuses of an edit differ; the new folder exists.
        StoreError: a run is damaged, or the disk is full.
    """
    if out.exists():
        raise ConfigError(f"{out} exists", "give another --out")
    new_folder = out.with_name(f".{out.name}.partial")
    shutil.rmtree(new_folder, ignore_errors=True)
    counts = MergeCounts()
    try:
        with wrap_disk_errors(out), ExitStack() as stack:
            # A session in one of them would judge what the shards judge as well.
            stores = (RunStore.open(each, read_only=shards is None) for each in folders)
            runs = list(map(stack.enter_context, stores))
            header = _join_headers(runs)
            merger = _Merger(counts, dimensions(header))
            if shards is None:
                merger.write(runs, header, new_folder)
            else:
                items = RunView.from_store(runs[0]).resolved_spec.dataset.items()
                shard_of = {ref.id: ref.index % shards for ref in items}
                for shard in range(shards):
                    # Items that the data has no more are in the first.
                    def has(item: str, own: int = shard) -> bool:
                        return shard_of.get(item, 0) == own

                    merger.write(runs, header, new_folder / str(shard), has)
            new_folder.replace(out)
    finally:
        shutil.rmtree(new_folder, ignore_errors=True)
    return counts


def _join_headers(runs: Sequence[RunStore]) -> RunHeader:
    header = runs[0].header
    for run in runs[1:]:
        later = run.header
        for model, folder in later.outputs.items():
            if header.outputs.get(model, folder) != folder:
                raise ConfigError(
                    f"{runs[0].folder} has the outputs of {model} from {header.outputs[model]}, not {folder}",
                    _LEAVE_OUT.format(run.folder),
                )
        header = header.join(later, str(runs[0].folder), _LEAVE_OUT.format(run.folder))
    return header


def _join_items(runs: Sequence[RunStore]) -> FileCache:
    """Join the items of runs; of an item that runs have in several versions, the judged one."""
    stored_items = (run.stored_items(Path(run.header.data), run.header.data_digest) for run in runs)
    datasets = [dataset for dataset in stored_items if dataset is not None]
    if len(datasets) < len(runs):  # one of them was begun and never got so far
        return FileCache()
    digests = sorted({dataset.digest for dataset in datasets})
    if len(digests) == 1:
        return replace(runs[0].file_cache(), files={}, items=tuple(runs[0].item_blocks()))
    refs: dict[str, ItemRef] = {}
    flaws: dict[str, Flaws] = {}
    records: dict[str, bytes] = {}
    for run, dataset in zip(runs, datasets, strict=True):
        judged_ids = run.content_keys().keys()
        for ref in dataset.items():
            if ref.id not in refs or ref.id in judged_ids:
                index = refs[ref.id].index if ref.id in refs else len(refs)
                refs[ref.id] = replace(ref, index=index)
                records[ref.id] = dataset.record_digest(ref)[:KEY_BYTES]
                flaws[ref.id] = dataset.find_file_flaws(ref)
    traits = encode_traits(datasets[0], {name: one for name, one in flaws.items() if one})
    digest = content_digest("\n".join(digests).encode())
    items = encode_items(refs.values())
    return FileCache({}, digest, b"".join(records.values()), traits, items)


class _Merger:
    """Writes new runs, adding former ones to each, one after another."""

    _target: RunStore

    def __init__(self, counts: MergeCounts, dimensions: Mapping[str, Dimension]) -> None:
        self._counts = counts
        self._dimensions = dimensions
        self._paid_calls: dict[Path, set[int]] = {}

    def write(
        self, runs: Sequence[RunStore], header: RunHeader, folder: Path, has: Callable[[str], bool] | None = None
    ) -> None:
        """Write a new run.

        Args:
            has: Whether the run has an item, by its id; None for a run that has all.
        """
        with RunStore.open(folder, header) as self._target:
            with self._target.database.transaction():
                for run in runs:
                    self._add(run, has)
                contents = _join_items(runs)
                digest = contents.data or header.data_digest
                self._target.save_contents([], contents, {"data_digest": digest})
            self._counts.costs.append(self._target.costs[0])

    def _add(self, run: RunStore, has: Callable[[str], bool] | None) -> None:
        """Add one run's calls, facts, items, edits and verdicts."""
        own, others = set[int](), set[int]()
        for edit in run.edits() if has else ():
            of_edit = own if has is None or has(edit.item) else others
            of_edit.update(*run.calls_of(edit).values())
        paid_calls = self._paid_calls.setdefault(run.folder, set())
        calls = run.ledger.copy_to(self._target.ledger, others - own, paid_calls)
        paid_calls.update(calls)
        self._check_items(run)
        for edit in run.edits():
            if has and not has(edit.item):
                continue
            self._check_output(run, edit)
            edit_key, numbers = run.judged_edit(edit), run.calls_of(edit)
            self._target.save_edit_now(edit_key)
            for new_verdict in self._select_verdicts(run, edit):
                name = new_verdict.dimension
                self._target.save_edit_now(
                    edit_key,
                    {name: new_verdict.verdict},
                    {name: new_verdict.signature},
                    new_verdict.versions,
                    {name: [calls[number] for number in numbers[name]]},
                )

    def _check_items(self, run: RunStore) -> None:
        """Refuse a run with an item that differs from an earlier run; else copy its item contents.

        Raises:
            ConfigError: an item differs.
        """
        there = self._target.content_keys()
        for item, content in run.content_keys().items():
            if there.get(item, content) != content:
                raise ConfigError(
                    f"{run.folder} judged another version of {item} than an earlier run: its record"
                    " or a picture changed in between",
                    "resume each of these runs on the present data, then merge",
                )
        self._target.save_contents([], FileCache(run.file_cache().files), {})

    def _check_output(self, run: RunStore, edit: StoredEdit) -> None:
        """Refuse another output of an edit than an earlier run has; else count the edit."""
        earlier = self._target.edit(edit.item, edit.model)
        if earlier is None:
            self._counts.edits += 1
        elif earlier.digest != edit.digest:
            raise ConfigError(
                f"{run.folder} has another output of {edit.model} for {edit.item} than an earlier run", _ONE_OF_BOTH
            )

    def _select_verdicts(self, run: RunStore, edit: StoredEdit) -> list[StoredVerdict]:
        """Select the verdicts of an edit that the new run uses."""
        earlier = _verdicts_by_dimension(self._target, edit)
        selection = []
        for name, later in _verdicts_by_dimension(run, edit).items():
            where = f"{name} of {edit.model} for {edit.item} in {run.folder}"
            if name not in earlier:
                self._counts.verdicts += 1
            else:
                self._counts.duplicates += 1
                if not self._wins(later, earlier[name], name, where):
                    continue
            selection.append(later)
        return selection

    def _wins(self, later: StoredVerdict, earlier: StoredVerdict, name: str, where: str) -> bool:
        """Whether the later of two verdicts replaces the earlier one.

        Raises:
            ConfigError: they differ in signature or status, or by more than the tolerance.
        """
        verdict, before = later.verdict, earlier.verdict
        differs = later.signature != earlier.signature
        if isinstance(verdict, Failure) or isinstance(before, Failure):
            return not isinstance(verdict, Failure)
        if not differs and verdict.status == before.status:
            if isinstance(verdict, Score) and isinstance(before, Score):
                self._check_close(verdict.value, before.value, name, where)
            return False
        what = "another signature" if differs else f"status {verdict.status}"
        causes = compare_signatures(earlier.signature, later.signature) if differs else ()
        keys = f": {'; '.join(map(str, causes))}" if causes else ""
        raise ConfigError(f"{where} has {what} than in an earlier run{keys}", _ONE_OF_BOTH)

    def _check_close(self, later: float, earlier: float, name: str, where: str) -> None:
        tolerance = self._dimensions[name].tolerance if name in self._dimensions else 0.0
        if abs(later - earlier) > tolerance:
            raise ConfigError(
                f"{where} is {later:.9g}, and {earlier:.9g} in an earlier run with the same"
                f" signature (tolerance {tolerance:g})",
                "find out which of the runs is wrong, and merge without it",
            )


def _verdicts_by_dimension(run: RunStore, edit: StoredEdit) -> dict[str, StoredVerdict]:
    """An edit's verdicts, by dimension."""
    return {record.dimension: record for record in run.verdicts(edit.model, item=edit.item)}
