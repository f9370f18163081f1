"""A read-only view of a stored run, the only access of commands and pages to it."""

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import compress
from pathlib import Path
from types import MappingProxyType
from typing import Self

from pydantic import JsonValue

from ..base.closeable import Closeable
from ..base.errors import ConfigError, EditjudgeError
from ..base.identity import ServiceName
from ..base.item import Item
from ..base.verdict import NoScore, NotServed
from ..benchmarks.benchmark import Rules
from ..benchmarks.column import Row
from ..benchmarks.dataset import Dataset, ItemRef
from ..benchmarks.dimension import Dimension
from ..benchmarks.registry import select_among
from ..benchmarks.tabulation import Tabulation
from ..engine.content_keys import ItemContents
from ..engine.judge import roles_of
from ..engine.outcomes import Circumstances, sort_by_dependency
from ..engine.run_header import RunHeader
from ..stats.clusters import link_clusters
from ..storage.store import FILE as RUN_FILE
from ..storage.store import RunStore, StoredEdit, StoredPrompt, StoredVerdict
from . import results as tables
from .intervals import with_intervals
from .judge_spread import JudgeSpreadBuilder
from .pictures import PictureFinder, Pictures, Places
from .spec import ResolvedSpec, RunSpec, check_known

__all__ = ["RUN_FILE", "Pictures", "RunView", "StoredEdit", "StoredPrompt", "StoredVerdict"]


class RunView(Closeable):
    """A view of a stored run; it is a context manager.

    It takes no lock and changes nothing, so it works beside the process that judges; each method
    reads what is stored when it is called. Nothing needs a service, and nothing but pictures the
    data: where it is gone, or is not what the run judged, items are as the run stored them.

    ```python
    with RunView("runs/first") as view:
        print(view.results().to_markdown())
    ```

    Args:
        folder: The folder of the run.
        dimensions: Dimensions that the run was given as objects and that no package registers.
        data: Where the data is now, to find its pictures; by default where it was.
        roots: Where folders of the data, of its pictures or of outputs are now, by the beginning of
            their former paths; or as of `RunSpec`.

    Raises:
        ConfigError: the folder holds no run, or one of a newer editjudge.
        StoreError: its file is damaged.
    """

    def __init__(
        self,
        folder: Path | str,
        dimensions: Iterable[Dimension] = (),
        *,
        data: Path | str | None = None,
        roots: Mapping[str, Path] = MappingProxyType({}),
    ) -> None:
        self.folder = Path(folder)
        self._own_dimensions = tuple(dimensions)
        self._store = RunStore.open(self.folder, read_only=True)
        self._places = Places(None if data is None else Path(data), roots)

    def __repr__(self) -> str:
        return f"RunView({str(self.folder)!r})"

    @classmethod
    def from_store(cls, store: RunStore) -> Self:
        """Make the view of an open run, which stays open."""
        view = cls.__new__(cls)
        view.folder, view._store, view._own_dimensions = store.folder, store, ()
        view._places = Places()
        return view

    @staticmethod
    def exists_at(folder: Path) -> bool:
        """Return whether a folder has a run, or the beginning of one."""
        return (folder / RUN_FILE).is_file()

    def close(self) -> None:
        """Close the file."""
        self._store.close()

    @property
    def header(self) -> RunHeader:
        """The header of the run as its last session left it."""
        return self._store.header

    @property
    def spec(self) -> RunSpec:
        """The spec of the run over all sessions; `limit` and `tasks` are not stored."""
        return RunSpec.of(self.header, self._own_dimensions)

    @cached_property
    def resolved_spec(self) -> ResolvedSpec:
        """The rules, dimensions and items of the spec.

        Raises:
            InputError: its data is not there any more, and the run stores no items.
        """
        return ResolvedSpec(self.spec, read_items=lambda: self._items[0])

    @property
    def data_note(self) -> str:
        """Why items are as the run stored them, and not as the data has them; else empty.

        Raises:
            InputError: its data is not there any more, and the run stores no items.
        """
        return self._items[1]

    @cached_property
    def _items(self) -> tuple[Dataset, str]:
        """The items, and why they are not read from the data."""
        header = self.header
        stored_items = self._store.stored_items(Path(header.data), header.data_digest)
        if stored_items is not None and not header.data:  # imported without data
            return stored_items, ""
        try:
            dataset = ResolvedSpec(self.spec).dataset
            if stored_items is None or dataset.digest == header.data_digest:
                return dataset, ""
            why = f"{header.data} is not what the run judged"
        except EditjudgeError as error:
            if stored_items is None:
                error.fix = "the run stores no items of its own: restore its data"
                raise
            why = f"the data of the run cannot be read ({error.message})"
        return stored_items, f"{why}; items are as the run stored them"

    def match_ids(self, patterns: Iterable[str]) -> frozenset[str]:
        """Return the ids of its dimensions that match patterns; see `select_dimensions`.

        Raises:
            ConfigError: a pattern names none, or the run is by rules that are not known here.
        """
        run_dimensions = [
            self.resolved_spec.dimensions_by_id[n]
            for n in self.header.dimensions
            if n in self.resolved_spec.dimensions_by_id
        ]
        matches = select_among(run_dimensions, patterns, self.resolved_spec.rules)
        return frozenset(dimension.id for dimension in matches)

    def resolve_by(self, rules: Rules | None) -> ResolvedSpec:
        """Resolve the spec with other rules (None: those of the run); all dimensions must be known.

        Raises:
            ConfigError: it has dimensions that this editjudge does not know, or its data has none
                of its items.
            InputError: its data is not there any more.
        """
        header, own = self.header, self.resolved_spec
        check_known(header.dimensions, own.dimensions_by_id)
        return ResolvedSpec(self.spec, rules, read_items=lambda: self._items[0]) if rules else own

    def copy_to(self, file: Path) -> None:
        """Write the file of the run, as it is now, to a new file.

        Raises:
            StoreError: the run is damaged.
        """
        self._store.database.copy_to(file)

    def edits(self, model: str | None = None) -> Iterator[StoredEdit]:
        """Read the edits in stored order: the digest of the output, or why it is missing.

        Args:
            model: Only edits of this model under test.
        """
        return self._store.edits(model)

    @cached_property
    def calls(self) -> tuple[int, float, float]:
        """Number of calls, their cost, and when the last was made, in seconds since 1970."""
        return self._store.ledger.totals

    def clusters(self, selection: Iterable[bool]) -> Sequence[int]:
        """Return the clusters of items: those that share a source, even indirectly, share one.

        Args:
            selection: Of each item of the data, whether it is among them.
        """
        dataset = self.resolved_spec.dataset
        contents = ItemContents(dataset, self._store.file_cache())
        return link_clusters(map(contents.list_source_keys, compress(dataset.items(), selection)))

    def changed_items(self, other: Self) -> frozenset[str]:
        """Return the items that both runs have and whose contents differed when they were judged.

        The data itself is not read.
        """
        mine, others = self._store.content_keys(), other._store.content_keys()
        return frozenset(item for item in mine.keys() & others.keys() if mine[item] != others[item])

    def verdicts(
        self, model: str | None = None, dimension: str | None = None, *, item: str | None = None, evidence: bool = True
    ) -> Iterator[StoredVerdict]:
        """Read the verdicts edit by edit, with evidence and the replies behind it.

        Args:
            item: Only verdicts of the item with this id.
            evidence: False leaves evidence out, which is several times as fast.
        """
        return self._store.verdicts(model, dimension, item=item, evidence=evidence)

    def prompt(self, digest: str) -> StoredPrompt | None:
        """Return a prompt as it was sent, without its pictures; None where it is not stored.

        Args:
            digest: The digest that the replies of a verdict have.
        """
        return self._store.ledger.get_prompt(digest)

    def form(self, call: str) -> Mapping[str, JsonValue]:
        """Return the form that a reply was to have, and how it was sampled.

        Args:
            call: Key of a call, as the replies of a verdict have it.
        """
        return self._store.ledger.get_form(call)

    def item(self, name: str) -> Item | None:
        """Read an item of the data without its pictures; None where the data has no such item."""
        ref = self._find_ref(name)
        return None if ref is None else self.resolved_spec.dataset.outline(ref)

    def pictures(self, name: str) -> Pictures:
        """Return the paths of the pictures of an item and of its outputs.

        Raises:
            ConfigError: the data has no such item.
        """
        if self._find_ref(name) is None:
            raise ConfigError(f"{self.header.data} has no item {name!r}", "give an item's id")
        return self.make_picture_finder().find(name)

    def _find_data(self) -> Dataset | None:
        """Return the data where it is now, to read its pictures; None where it cannot be read.

        Raises:
            EditjudgeError: it was named, and cannot be read.
        """
        items, note = self._items
        if not note and not self._places.are_named:
            return items
        try:
            return ResolvedSpec(self._places.apply_to(self.spec)).dataset
        except EditjudgeError:
            if self._places.data is not None:
                raise
            return None

    def make_picture_finder(self, *, checks: bool = False) -> PictureFinder:
        """Return what finds pictures like `pictures`, for many items.

        Args:
            checks: Leave out files with other content than was judged, as is done where the data
                or a place of pictures was named, or items are as the run stored them.

        Raises:
            EditjudgeError: the data that was named cannot be read.
        """
        items, note = self._items
        outputs = self._places.apply_to(self.spec).outputs
        checks = checks or bool(note) or self._places.are_named
        live = self._find_data()
        return PictureFinder(self._store, items, live, outputs, checks=checks)

    def make_item_filter(self) -> Callable[[StoredEdit | StoredVerdict], bool]:
        """Return a function that tells if the data has the item of a record; true without data."""
        if self.missing_data_reason:
            return lambda _: True
        there = {ref.id for ref in self.resolved_spec.dataset.items()}
        return lambda record: record.item in there

    @property
    def missing_data_reason(self) -> str:
        """Why the data of the run cannot be read; empty where it can."""
        try:
            _ = self.resolved_spec.dataset, self.resolved_spec.dimensions
        except EditjudgeError as error:
            return str(error)
        return ""

    def flawed_outcomes(self, only: str | None = None) -> dict[str, dict[str, NoScore]]:
        """Return outcomes that flaws of the data cause, by item and dimension; none is stored.

        Empty where the data is gone; see `missing_data_reason`.

        Args:
            only: Only this item.
        """
        if self.missing_data_reason:
            return {}
        order = self.resolved_spec
        dimensions = sort_by_dependency(order.dimensions, order.dimensions_by_id)
        requested_ids = {d.id for d in order.dimensions}
        outcomes_by_item: dict[str, dict[str, NoScore]] = {}
        for ref in order.dataset.items():
            if (only in {None, ref.id}) and order.dataset.flaws(ref):
                outcomes = Circumstances(order.dataset.outline(ref)).decide(dimensions)
                outcomes_by_item[ref.id] = {
                    name: outcome
                    for name, outcome in outcomes.items()
                    if name in requested_ids and isinstance(outcome, NoScore)
                }
        return outcomes_by_item

    def rows(self, items: Collection[str] | None = None) -> Iterator[Row]:
        """Read every requested edit, item by item, with an outcome for each of its dimensions.

        What no session judged is `Pending`, `NotServed`, `NotApplicable` or `MissingOutput`, and so
        is what was judged of an item that changed since.

        Args:
            items: Only the items with these ids.

        Raises:
            ConfigError: it has dimensions that this editjudge does not know, or its data has none
                of its items.
            InputError: its data is not there any more.
        """
        return tables.read_rows(self._store, self.resolve_by(None), items=items)

    def results(
        self,
        single_image: Collection[str] = (),
        rules: Rules | None = None,
        *,
        count_missing: bool = False,
        common: bool = False,
        each: tables.RowCallback | None = None,
        evidence: tables.EvidenceOf = False,
    ) -> tables.Results:
        """Make the table of the benchmark's paper, with the spread of several judges.

        Verdicts count if they were made by the services of the last session, with today's prompts
        and code, of items and outputs as they are today; so do the parts that composites store.
        Every other requested dimension counts as `pending`.

        Args:
            single_image: Models under test that take one image only: what they gave no output for
                counts as the benchmark says, marked as imputed.
            rules: Other rules than the run's own: derived dimensions are derived anew, and
                dimensions that need new calls count as `pending`.
            count_missing: Other missing outputs count as the worst value of each dimension, marked
                as imputed; otherwise they are left out of means.
            common: Count in each dimension the items alone on which all models have a number.
            each: A function that gets every edit with its stored verdicts.
            evidence: Whether these have evidence and replies too, which is half as fast; or of
                which items, by id.

        Raises:
            ConfigError: a model is not in the run, the benchmark has no rule for such models, or
                the data has none of the run's items.
            InputError: the data is not there any more.
        """
        store, spec = self._store, self.resolve_by(rules)
        header = store.header
        spec.check_single_image(single_image)
        table = tables.select_table_columns(spec)
        model_of = header.model_of
        alone_names = {*header.single_image, *single_image}
        alone = frozenset(name for name, model in model_of.items() if not alone_names.isdisjoint({name, model}))
        tabulation = Tabulation(table)
        spreading = JudgeSpreadBuilder(table, spec.judge_rounds, spec.dimensions_by_id)
        contents = ItemContents(spec.dataset, store.file_cache())
        clusters = link_clusters(map(contents.list_source_keys, spec.dataset.items()))
        edit_rows = tables.read_rows(
            store,
            spec,
            single_image=alone,
            count_missing=count_missing,
            contents=contents,
            each=each,
            evidence=evidence,
        )
        for row in tables.restrict_to_common_items(edit_rows, len(header.outputs)) if common else edit_rows:
            if (model := model_of[row.model]) != row.model:
                row = replace(row, model=model, output=row.model)
            tabulation.add(row)
            spreading.add(row)
        caps = {d.id: d.cap for d in spec.dimensions_by_id.values() if d.cap is not None}
        ranges = {
            d.id: d.range if d.worst_of is None else (d.range[0], math.inf) for d in spec.dimensions_by_id.values()
        }
        cells, values = with_intervals(table, tabulation, clusters, caps, ranges)
        if count_missing:
            cells = {model: tables.extend_signatures(row, "missing", "worst") for model, row in cells.items()}
        if common:
            models = "+".join(sorted(header.outputs))
            cells = {model: tables.extend_signatures(row, "common", models) for model, row in cells.items()}
        tags = {one for d in spec.dimensions if d.prompt_origins for one in d.prompt_origins.split("+")}
        roles: dict[str, frozenset[ServiceName]] = {}
        for column in table:
            own = spec.roles(column.dimensions)
            roles[column.id] = own.union(*(roles[part] for part in column.parts))
        used_roles = frozenset[ServiceName]().union(*roles.values())
        with_rounds, judges = spreading.build(cells)
        return tables.Results(
            judge_rounds=spec.judge_rounds,
            judges=judges,
            benchmark=spec.benchmark,
            protocol=spec.rules.protocol,
            switches=spec.rules.switches.on,
            items=len(clusters),
            prompts="+".join(sorted(tags)) or None,
            start_time=header.created,
            services={r: identity for r, identity in header.identities.items() if r in used_roles},
            columns=table,
            models=with_rounds,
            count_missing=count_missing,
            common=common,
            sources=max(clusters, default=-1) + 1,
            roles=roles,
            values=values,
        )

    def unserved_reasons(self) -> dict[str, str]:
        """Return the dimensions that wait for a service that no session had, each with the reason.

        Empty for a run by an older version of its benchmark, whose dimensions are not known any
        more.
        """
        header = self.header
        if not header.not_served:
            return {}
        try:
            by_id = ResolvedSpec(self.spec).dimensions_by_id
        except ConfigError:
            return {}
        absent = {
            name: sorted(roles_of(by_id[name], by_id) & header.not_served.keys())
            for name in header.dimensions
            if name in by_id
        }
        return {
            name: "; ".join(f"{role}: {header.not_served[role]}" for role in roles)
            for name, roles in absent.items()
            if roles
        }

    def unserved_reasons_of(self, item: str) -> dict[str, str]:
        """Return `unserved_reasons` of the dimensions that apply to an item, given its data."""
        reasons = self.unserved_reasons()
        ref = None if self.missing_data_reason else self._find_ref(item)
        if ref is None:
            return reasons
        order = self.resolved_spec
        dimensions = sort_by_dependency(order.dimensions, order.dimensions_by_id)
        outcomes = Circumstances(order.dataset.outline(ref), why_not_served=reasons).decide(dimensions)
        return {n: why for n, why in reasons.items() if isinstance(outcomes.get(n), NotServed)}

    def _find_ref(self, name: str) -> ItemRef | None:
        return next((ref for ref in self.resolved_spec.dataset.items() if ref.id == name), None)
