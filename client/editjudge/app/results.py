"""The paper's own table from a run: every edit's outcome, then the benchmark's columns."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice, product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from pydantic import ConfigDict, Field, PlainSerializer, computed_field
from pydantic.dataclasses import dataclass as result

from ..base.errors import ConfigError
from ..base.identity import Identities, format_identities, untrained_services
from ..base.signature import Signature
from ..base.strict import STRICT, to_plain
from ..base.text import format_count, shorten_list
from ..base.verdict import LeftOut, Outcome, Score
from ..benchmarks.benchmark import Benchmark
from ..benchmarks.cell import Cell
from ..benchmarks.column import Column, Row
from ..benchmarks.dataset import ItemRef
from ..benchmarks.dimension import Dimension, Formula
from ..benchmarks.outputs import Outputs
from ..benchmarks.published_tables import PublishedTable
from ..benchmarks.published_tables import load_published_tables as printed_tables
from ..benchmarks.tabulation import Tabulation
from ..engine.content_keys import ItemContents, check_items, find_by_content, find_current_output
from ..engine.outcomes import decide_outcomes, sort_by_dependency
from ..stats.clusters import link_clusters
from ..storage.edit_rows import EditRow, missing_of
from ..storage.store import RunStore, StoredVerdict
from .intervals import with_intervals
from .judge_spread import Cells, JudgeSpread, JudgeSpreadBuilder
from .spec import ResolvedSpec
from .summary import mean_columns as means

if TYPE_CHECKING:
    from pandas import DataFrame

ALSO = "also judged"
"""The group of columns that are not in the paper's table."""
OnRow: TypeAlias = Callable[[Row, Sequence[StoredVerdict]], None]
"""Is shown every edit that was asked for, with the verdicts that are stored of it."""
_ITEMS_AT_ONCE = 100
"""Items whose verdicts are held at once."""


@result(frozen=True, slots=True, config=STRICT)
class Comparability:
    """Whether a column's number can be compared with the printed one.

    Attributes:
        comparable: By the switches that are on.
        why: What makes it comparable, or keeps it apart.
    """

    comparable: bool
    why: str


@result(frozen=True, slots=True, config=STRICT)
class PublishedNumbers:
    """What a paper prints of a run's columns; it is in no number of the run.

    Attributes:
        title: Of the benchmark.
        shown: The run's own columns that the paper prints too.
        tables: With these columns alone; a table that has none is left out.
        columns: By column id.
    """

    title: Annotated[str, Field(exclude=True)]
    shared_columns: Annotated[tuple[Column, ...], Field(exclude=True)]
    tables: tuple[PublishedTable, ...]
    columns: Mapping[str, Comparability]

    def columns_of(self, table: PublishedTable) -> tuple[Column, ...]:
        """The run's columns that a table has."""
        named = {name for row in table.models.values() for name in row}
        return tuple(column for column in self.shared_columns if column.id in named)


@result(frozen=True, kw_only=True, config=ConfigDict(**STRICT, arbitrary_types_allowed=True))
class Results(JudgeSpread):
    """The table of a run, as the paper of its benchmark prints it.

    ```python
    with editjudge.RunView("runs/first") as view:
        results = view.results()
    results.models["ours"]["core.psnr.source.whole"].value
    results.to_pandas()
    ```

    Attributes:
        switches: Names of the switches that are on.
        items: The number of items in the data.
        prompts: Whose words the prompts are in: `own`, `original`, `custom`, or several joined by
            `+`; None without prompts.
        services: Identities of the services that the columns can rest on.
        columns: The columns of the table, in order.
        models: Cells by model under test and column id.
        count_missing: Whether missing outputs count as the worst value, marked as imputed.
        common: Whether each dimension counts only the items on which all models have a number.
        sources: The number of clusters of items; two clusters share no source picture.
        published: The numbers that the paper prints; None unless they were requested.
        unserved: The dimensions that wait for models, by reason; None unless requested.
    """

    benchmark: Annotated[Benchmark, PlainSerializer(lambda b: b.name, return_type=str)]
    protocol: str
    switches: Annotated[frozenset[str], Field(exclude=True)]
    items: int
    prompts: str | None
    services: Annotated[Identities, PlainSerializer(format_identities, return_type=dict[str, str])]
    columns: tuple[Column, ...]
    models: Cells
    count_missing: bool = False
    common: bool = False
    sources: int = 0
    published: PublishedNumbers | None = None
    unserved: Mapping[str, Sequence[str]] | None = None

    @computed_field  # type: ignore[prop-decorator]
    @property
    def untrained(self) -> tuple[str, ...]:
        """The services whose weights are random: what rests on them is no result."""
        return tuple(map(str, untrained_services(self.services)))

    def to_dict(self) -> dict[str, Any]:
        """Return the strict JSON form, as `editjudge summary --json` prints it."""
        plain: dict[str, Any] = to_plain(self)
        return plain

    def to_markdown(self) -> str:
        """Return the table as Markdown, as `editjudge summary --format markdown` prints it."""
        from ..report.summary import format_results

        return format_results(self, "markdown")

    def to_pandas(self) -> DataFrame:
        """Return the unrounded numbers: a row for each model and column.

        The columns are those of `editjudge summary --format csv`: `model`, `column`, `value`,
        `scored`, `low`, `high` and so on. `frame.pivot(index="model", columns="column",
        values="value")` makes it wide.

        Raises:
            ConfigError: pandas is not installed.
        """
        try:
            from pandas import DataFrame
        except ImportError as error:
            raise ConfigError(
                "to_pandas needs the package pandas", "pip install 'editjudge[pandas]'"
            ) from error
        from ..report.summary import build_numbers_table

        table = build_numbers_table(self)
        names = [heading.title for heading in table.heads]
        return DataFrame([list(row.cells) for row in table.rows], columns=names)

    def __repr__(self) -> str:
        columns = shorten_list([column.id for column in self.columns])
        models = shorten_list(list(self.models))
        items = format_count(self.items, "item")
        return f"Results of {self.protocol}, {items}: {models}; columns: {columns}"

    def _repr_html_(self) -> str:
        from ..report.summary import build_paper_table

        return build_paper_table(self).to_html()


def make_results(
    store: RunStore,
    resolved: ResolvedSpec,
    single_image: Collection[str] = (),
    *,
    count_missing: bool = False,
    common: bool = False,
    each: OnRow | None = None,
    evidence: bool = False,
) -> Results:
    """Aggregate a run; nothing is called.

    Verdicts count that were made by the services of the last session, with today's prompts and
    code, of items and outputs as they are today, and what composites say of their parts.
    Everything else that was asked for counts as `pending`.

    Args:
        single_image: Models under test that take one image only: what they gave no output for
            counts as the benchmark says, marked as imputed. Beside those that the run remembers.
        count_missing: Other missing outputs count as the worst value of each dimension
            (`Dimension.worst`), marked as imputed; otherwise they are left out of means.
        common: Count in each dimension the items alone on which all models have a number; the
            others' are `left_out`.
        resolved: What the run was asked for, or that by other rules: what is derived from other
            dimensions is derived anew, and what would have to be read anew counts as `pending`.
        each: Is shown every edit on the way.
        evidence: It gets evidence and replies too.

    Raises:
        ConfigError: a model is not in the run, or the benchmark has no rule for such models.
    """
    header = store.header
    rules = resolved.rules
    resolved.check_single_image(single_image)
    table = _columns(resolved)
    alone = frozenset((*header.single_image, *single_image))
    asked = {d.id for d in resolved.dimensions}
    tabulation = Tabulation(table)
    spreading = JudgeSpreadBuilder(table, resolved.judge_rounds, resolved.dimensions_by_id, asked)
    contents = contents_of(store, resolved)
    clusters = clusters_of(contents, resolved.dataset.items())
    judged = read_rows(
        store,
        resolved,
        single_image=alone,
        count_missing=count_missing,
        contents=contents,
        each=each,
        evidence=evidence,
    )
    for row in _common(judged, len(header.outputs)) if common else judged:
        tabulation.add(row)
        spreading.add(row)
    caps = {d.id: d.cap for d in resolved.dimensions_by_id.values() if d.cap is not None}
    cells = with_intervals(table, tabulation, clusters, caps)
    if count_missing:
        cells = {model: _signed(row, "missing", "worst") for model, row in cells.items()}
    if common:
        models = "+".join(sorted(header.outputs))
        cells = {model: _signed(row, "common", models) for model, row in cells.items()}
    words = {
        part
        for d in resolved.dimensions
        if d.prompt_origins
        for part in d.prompt_origins.split("+")
    }
    of = {name for column in table for name in column.dimensions}
    roles = resolved.roles(name for name in resolved.dimensions_by_id if name in of)
    with_rounds, spread = spreading.build(cells)
    return Results(
        judge_rounds=spread.judge_rounds,
        judges=spread.judges,
        agreement=spread.agreement,
        benchmark=resolved.benchmark,
        protocol=rules.protocol,
        switches=rules.switches.on,
        items=len(clusters),
        prompts="+".join(sorted(words)) or None,
        services={r: identity for r, identity in header.identities.items() if r in roles},
        columns=table,
        models=with_rounds,
        count_missing=count_missing,
        common=common,
        sources=max(clusters, default=-1) + 1,
    )


def _signed(row: Mapping[str, Cell], key: str, how: str) -> dict[str, Cell]:
    """Numbers that count other edits are signed otherwise than those that do not."""
    return {n: replace(cell, signature=cell.signature | {key: how}) for n, cell in row.items()}


def _common(judged: Iterator[Row], models: int) -> Iterator[Row]:
    """The same edits; a dimension's numbers are left out of items where a model has none."""
    while rows := list(islice(judged, models)):
        everywhere = {
            name
            for name in rows[0].outcomes
            if all(isinstance(row.outcomes[name], Score) for row in rows)
        }
        for row in rows:
            yield replace(row, outcomes=_without(row.outcomes, everywhere))


def _without(outcomes: Mapping[str, Outcome], kept: Collection[str]) -> dict[str, Outcome]:
    return {
        name: LeftOut() if isinstance(outcome, Score) and name not in kept else outcome
        for name, outcome in outcomes.items()
    }


def contents_of(store: RunStore, resolved: ResolvedSpec) -> ItemContents:
    """What the items of a run hold now."""
    return ItemContents(resolved.dataset, store.file_cache())


def _columns(resolved: ResolvedSpec) -> tuple[Column, ...]:
    """The paper's, as far as they were asked for, then the means of what was judged besides."""
    rules = resolved.rules
    known = {name for column in rules.columns for name in column.dimensions}
    others = means(d for d in resolved.dimensions if d.id not in known and not d.round_of)
    if not rules.columns:
        return others
    return select_columns(rules.columns, resolved.requested_ids) + tuple(
        Column(c.id, c.id, c.how, c.higher_is_better, c.source, ALSO) for c in others
    )


def select_columns(columns: Iterable[Column], asked: Collection[str]) -> tuple[Column, ...]:
    """The columns of these dimensions, and those that are made of such columns alone."""
    kept: dict[str, Column] = {}
    for column in columns:
        if column.parts:
            due = all(part in kept for part in column.parts)
        else:
            due = column.dimensions[0] in asked
        if due:
            kept[column.id] = column
    return tuple(kept.values())


def read_rows(
    store: RunStore,
    resolved: ResolvedSpec,
    *,
    items: Collection[str] | None = None,
    single_image: Collection[str] = (),
    count_missing: bool = False,
    contents: ItemContents | None = None,
    each: OnRow | None = None,
    evidence: bool = False,
) -> Iterator[Row]:
    """Every edit that was asked for, item by item, with an outcome for each dimension.

    Verdicts are read as they are needed.

    Args:
        items: Only of these, by their ids.
        single_image: Models that take one image only.
        count_missing: Missing outputs count as the worst value.
        contents: What the items hold now; without, it is looked at.
        each: Is shown every edit on the way.
        evidence: It gets evidence and replies too.
    """
    header, contents = store.header, contents or contents_of(store, resolved)
    imputed = resolved.rules.single_image
    of = {name for column in _columns(resolved) for name in column.dimensions}
    known = resolved.dimensions_by_id
    dimensions = sort_by_dependency((known[name] for name in known if name in of), known)
    signatures = resolved.signature_cache.of(dimensions, header.identities)
    today = {name: str(signature) for name, signature in signatures.items()}
    # What is made of readings and of other dimensions is judged with all of them.
    unserved = {
        d.id: ", ".join(sorted(absent))
        for d in dimensions
        for absent in [resolved.roles([d.id]) & header.not_served.keys()]
        if absent
    }
    unasked = signatures.keys() - set(header.dimensions)
    check_items(resolved.dataset, (ref.id for ref in resolved.dataset.items()), store)
    outputs = {
        model: resolved.dataset.outputs(Path(folder)).index()
        for model, folder in header.outputs.items()
        if resolved.dataset.has_outputs(Path(folder))
    }
    number = 0
    remaining = (ref for ref in resolved.dataset.check_items() if items is None or ref.id in items)
    evidence = evidence or bool(unasked)
    while refs := list(islice(remaining, _ITEMS_AT_ONCE)):
        rows_of = store.rows_of([ref.id for ref in refs], evidence=evidence)
        numbered = enumerate(((ref, resolved.dataset.outline(ref)) for ref in refs), number)
        number += len(refs)
        for (place, (ref, item)), model in product(numbered, header.outputs):
            of_edit = rows_of.get((model, ref.id), ())
            judged = _of_today(of_edit, contents, ref, outputs.get(model))
            why = None if judged is None else missing_of(judged)
            kept = () if judged is None else tuple(store.verdicts_in(judged, evidence=evidence))
            verdicts: dict[str, Outcome] = {}
            for stored in kept:
                if today.get(stored.dimension) == stored.signature:
                    verdicts[stored.dimension] = stored.verdict
                if unasked:
                    parts = _of_parts(stored, known, signatures).items()
                    verdicts |= {name: part for name, part in parts if name in unasked}
            alone = model in single_image and len(item.sources) > 1
            outcomes = decide_outcomes(
                dimensions,
                item,
                missing=why,
                why_not_served=unserved,
                verdicts=verdicts,
                value_if_missing=imputed if alone and not (why and why.was_given) else None,
                count_missing=count_missing,
            )
            signed = {name: signatures[name] for name in verdicts}
            row = Row(item, model, outcomes, signed, place)
            if each is not None:
                each(row, kept)
            yield row


def _of_today(
    judged: Sequence[EditRow], contents: ItemContents, ref: ItemRef, outputs: Outputs | None
) -> EditRow | None:
    """What is kept of an edit as it is today.

    Args:
        judged: What is kept of it, the last one last.
        outputs: Of the model; None where their folder was put away: they are what they were.
    """
    if not judged:
        return None
    path = None if outputs is None else outputs.path(ref.id)
    output, _ = find_current_output(judged, path, contents.files)
    return find_by_content(judged, contents.key(ref), output, absent=path is None)


def clusters_of(contents: ItemContents, refs: Iterable[ItemRef]) -> array[int]:
    """By item, in their order, its cluster: those that share a source picture have one.

    Pictures are told by what they held when they were read last; where no session read them, by
    their files.
    """
    outline = contents.dataset.outline
    return link_clusters(contents.source_keys(ref, len(outline(ref).sources)) for ref in refs)


def _of_parts(
    stored: StoredVerdict, known: Mapping[str, Dimension], today: Mapping[str, Signature]
) -> dict[str, Score]:
    """The values of a composite's parts, which it keeps beside its own, by dimension id.

    Args:
        stored: With its evidence.
        known: All dimensions by id.
        today: Their signatures: a part counts that was made as it would be now.
    """
    dimension, verdict = known.get(stored.dimension), stored.verdict
    if dimension is None or not isinstance(dimension.how, Formula):
        return {}
    if not isinstance(verdict, Score) or verdict.imputed:
        return {}
    values = verdict.evidence.get("parts")
    told = dict(Signature.parse(stored.signature).fields).get("parts", "")
    made = dict(part.rpartition("=")[::2] for part in told.split("+"))
    if not isinstance(values, Mapping):
        return {}
    parts: dict[str, Score] = {}
    for name, of in dimension.how.of.items():
        value = values.get(name)
        if not isinstance(of, str) or of not in today or not isinstance(value, float):
            continue
        if made.get(name) == today[of].digest:
            parts[of] = Score(value=value, evidence={"from": stored.dimension})
    return parts


def read_published(results: Results) -> PublishedNumbers:
    """What the paper prints of the columns of a run's table.

    Raises:
        ConfigError: nothing is kept of what it prints.
    """
    printed = printed_tables(results.benchmark.name)
    named = {name for table in printed.tables for row in table.models.values() for name in row}
    columns = tuple(column for column in results.columns if column.id in named)
    ids = {column.id for column in columns}
    tables = (
        replace(
            table,
            models={
                model: {name: number for name, number in row.items() if name in ids}
                for model, row in table.models.items()
            },
        )
        for table in printed.tables
    )
    said = {name: printed.comparison(name) for name in sorted(ids)}
    return PublishedNumbers(
        printed.title,
        columns,
        tuple(table for table in tables if any(table.models.values())),
        {name: Comparability(one.holds(results.switches), one.why) for name, one in said.items()},
    )
