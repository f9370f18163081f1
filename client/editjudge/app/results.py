"""Computes the results table of a run: an outcome for each edit and dimension, then columns."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from itertools import islice, product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from pydantic import ConfigDict, Field, PlainSerializer, computed_field
from pydantic.dataclasses import dataclass as result

from ..base.errors import MissingExtra
from ..base.identity import Identities, ServiceName, format_identities, untrained_services
from ..base.signature import Signature
from ..base.strict import STRICT, to_plain
from ..base.text import format_count, shorten_list
from ..base.verdict import Failure, LeftOut, Outcome, Score
from ..benchmarks.benchmark import Benchmark
from ..benchmarks.cell import Cell
from ..benchmarks.column import Column, Row
from ..benchmarks.dataset import ItemRef
from ..benchmarks.dimension import Dimension, Formula
from ..benchmarks.published_tables import PublishedTable
from ..benchmarks.published_tables import load_published_tables as printed_tables
from ..benchmarks.rounds import JudgeRounds
from ..engine.content_keys import ItemContents, check_items, find_by_content, find_current_output
from ..engine.outcomes import Circumstances, sort_by_dependency
from ..stats.anchor import Anchor
from ..stats.preferences import PairRanking
from ..storage.edit_rows import EditRow, missing_of
from ..storage.store import RunStore, StoredVerdict
from .intervals import ColumnValues
from .judge_spread import Cells
from .spec import ResolvedSpec
from .summary import mean_columns as means

if TYPE_CHECKING:
    from pandas import DataFrame

OTHER_COLUMNS_GROUP = "also judged"
"""The group of columns that are not in the paper's table."""
RowCallback: TypeAlias = Callable[[Row, Sequence[StoredVerdict]], None]
"""A function that gets every requested edit with its stored verdicts."""
EvidenceOf: TypeAlias = bool | Callable[[str], bool]
"""Whether evidence and replies are read too: of all items or none, or of those with these ids."""
_ITEMS_AT_ONCE = 100
"""Items whose verdicts are in memory at once."""


@result(frozen=True, slots=True, config=STRICT)
class Comparability:
    """Whether a column's number can be compared with the printed one.

    Attributes:
        comparable: Whether it can, with the switches that are on in the run.
        why: The condition, or the difference.
    """

    comparable: bool
    why: str


@result(frozen=True, slots=True, config=STRICT)
class PublishedNumbers:
    """The numbers that a paper prints for the columns of a run, for comparison only.

    Attributes:
        title: The title of the benchmark.
        shared_columns: The columns of the run that the paper prints too.
        tables: The tables of the paper, reduced to these columns; tables without any are left out.
        columns: Whether each column can be compared, by column id.
    """

    title: Annotated[str, Field(exclude=True)]
    shared_columns: Annotated[tuple[Column, ...], Field(exclude=True)]
    tables: tuple[PublishedTable, ...]
    columns: Mapping[str, Comparability]

    def columns_of(self, table: PublishedTable) -> tuple[Column, ...]:
        """Return the columns of the run that a table has."""
        column_ids = {name for row in table.models.values() for name in row}
        return tuple(column for column in self.shared_columns if column.id in column_ids)


@result(frozen=True, kw_only=True, config=ConfigDict(**STRICT, arbitrary_types_allowed=True))
class Results:
    """The table of a run, as the paper of its benchmark prints it.

    ```python
    with editjudge.RunView("runs/first") as view:
        results = view.results()
    results.models["ours"]["core.psnr.source.whole"].value
    results.to_pandas()
    ```

    Attributes:
        benchmark: The benchmark that the table is of.
        protocol: In full, for example `kris.paper.1`.
        judge_rounds: The judges and their rounds.
        judges: Cells of each judge alone, by model, judge and column, for the columns that depend
            on judges; empty for a single judge with a single round.
        switches: Names of the protocol's switches that are on.
        items: The number of items in the data.
        prompts: Who wrote the prompts: `own`, `original`, `custom`, or several joined by `+`; None
            without prompts.
        services: Identities of the services that the columns may depend on.
        columns: The columns of the table, in order.
        models: Cells by model under test and column id.
        count_missing: Whether missing outputs count as the worst value, marked as imputed.
        common: Whether each dimension counts only the items on which all models have a number.
        start_time: When the run began, ISO 8601 in UTC; "" where that is not known.
        sources: The number of clusters of items; two clusters share no source picture.
        published: The numbers that the paper prints; None unless they were requested.
        unserved: The dimensions that wait for models, by reason; None unless requested.
        anchor: What people's ratings make of the means; None unless requested.
        pairs: The models' ranking by each dimension, in the summary of a run about pairs.
        roles: The services that each column may depend on, by column id.
        values: What the numbers of each column are made of, by column id, to compare models.
    """

    judge_rounds: Annotated[JudgeRounds, Field(exclude=True)] = JudgeRounds()
    judges: Mapping[str, Cells] = field(default_factory=dict)
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
    start_time: str = ""
    sources: int = 0
    published: PublishedNumbers | None = None
    unserved: Mapping[str, Sequence[str]] | None = None
    anchor: Anchor | None = None
    pairs: Sequence[PairRanking] = ()
    roles: Annotated[Mapping[str, frozenset[ServiceName]], Field(exclude=True)] = field(default_factory=dict)
    values: Annotated[Mapping[str, ColumnValues], Field(exclude=True)] = field(default_factory=dict)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def rounds(self) -> int:
        """The number of rounds of each judge."""
        return self.judge_rounds.rounds

    @computed_field  # type: ignore[prop-decorator]
    @property
    def untrained(self) -> tuple[str, ...]:
        """Services with random weights; values that depend on them are no results."""
        return tuple(map(str, untrained_services(self.services)))

    @computed_field  # type: ignore[prop-decorator]
    @property
    def checks(self) -> str:
        """The last checks of the judges that the columns rest on; "" if they rest on none.

        The line is read from this machine's file of checks; see `last_checks_line`.

        Raises:
            StoreError: the file cannot be read.
        """
        from .canary import last_checks_line

        return last_checks_line(self.services)

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
            MissingExtra: pandas is not installed.
        """
        try:
            from pandas import DataFrame
        except ImportError as error:
            raise MissingExtra("to_pandas", "pandas") from error
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


def extend_signatures(row: Mapping[str, Cell], key: str, how: str) -> dict[str, Cell]:
    """Add a field to the signatures of cells, since options changed which edits they count."""
    return {n: replace(cell, signature=cell.signature | {key: how}) for n, cell in row.items()}


def restrict_to_common_items(edit_rows: Iterator[Row], models: int) -> Iterator[Row]:
    """Leave out the numbers of a dimension on items on which any model has none."""
    while rows := list(islice(edit_rows, models)):
        everywhere = {n for n in rows[0].outcomes if all(isinstance(row.outcomes[n], Score) for row in rows)}
        for row in rows:
            outcomes = {
                name: LeftOut() if isinstance(one, Score) and name not in everywhere else one
                for name, one in row.outcomes.items()
            }
            yield replace(row, outcomes=outcomes)


def select_table_columns(spec: ResolvedSpec) -> tuple[Column, ...]:
    """Return the requested columns of the paper, then means of the other dimensions."""
    rules = spec.rules
    paper_ids = {name for column in rules.columns for name in column.dimensions}
    others = means(d for d in spec.dimensions if d.id not in paper_ids and not d.round_of)
    if not rules.columns:
        return others
    return select_columns(rules.columns, spec.requested_ids) + tuple(
        Column(c.id, c.id, c.how, c.higher_is_better, c.source, OTHER_COLUMNS_GROUP) for c in others
    )


def select_columns(columns: Iterable[Column], requested_ids: Collection[str]) -> tuple[Column, ...]:
    """Select the columns of these dimensions, and columns whose parts are all selected."""
    selected_columns: dict[str, Column] = {}
    for column in columns:
        if column.parts:
            due = all(part in selected_columns for part in column.parts)
        else:
            due = column.dimensions[0] in requested_ids
        if due:
            selected_columns[column.id] = column
    return tuple(selected_columns.values())


def read_rows(
    store: RunStore,
    spec: ResolvedSpec,
    *,
    items: Collection[str] | None = None,
    single_image: Collection[str] = (),
    count_missing: bool = False,
    contents: ItemContents | None = None,
    each: RowCallback | None = None,
    evidence: EvidenceOf = False,
) -> Iterator[Row]:
    """Read every requested edit, item by item, with an outcome for each dimension.

    Verdicts are read when they are needed.

    Args:
        items: Only the items with these ids.
        single_image: Models that take one image only.
        count_missing: Missing outputs count as the worst value.
        contents: What the items hold now; by default it is read.
        each: A function that gets every edit with its stored verdicts.
        evidence: Whether these have evidence and replies too.
    """
    header, contents = store.header, contents or ItemContents(spec.dataset, store.file_cache())
    value_alone = spec.rules.single_image
    table_ids = {name for column in select_table_columns(spec) for name in column.dimensions}
    by_id = spec.dimensions_by_id
    dimensions = sort_by_dependency((by_id[name] for name in by_id if name in table_ids), by_id)
    signatures = spec.signature_cache.of(dimensions, header.identities)
    today = {name: str(signature) for name, signature in signatures.items()}
    # What is made of readings and of other dimensions is judged with all of them.
    missing_roles = {
        d.id: ", ".join(sorted(absent))
        for d in dimensions
        for absent in [spec.roles([d.id]) & header.not_served.keys()]
        if absent
    }
    part_ids = signatures.keys() - set(header.dimensions)
    check_items(spec.dataset, (ref.id for ref in spec.dataset.items()), store)
    outputs = {
        model: spec.dataset.outputs(Path(folder)).index()
        for model, folder in header.outputs.items()
        if spec.dataset.has_outputs(Path(folder))
    }
    number = 0
    checked_items = spec.dataset.check_items(contents.was_read)
    remaining = (ref for ref in checked_items if items is None or ref.id in items)
    is_whole = bool(part_ids) or evidence is True
    while refs := list(islice(remaining, _ITEMS_AT_ONCE)):
        detailed_ids = {r.id for r in refs if is_whole or (callable(evidence) and evidence(r.id))}
        other_ids = {ref.id for ref in refs} - detailed_ids
        rows_of = store.rows_of(other_ids, evidence=False) if other_ids else {}
        rows_of |= store.rows_of(detailed_ids, evidence=True) if detailed_ids else {}
        entries = enumerate(((ref, spec.dataset.outline(ref)) for ref in refs), number)
        number += len(refs)
        for (place, (ref, item)), model in product(entries, header.outputs):
            of_edit, of_model = rows_of.get((model, ref.id), ()), outputs.get(model)
            path = None if of_model is None else of_model.path(ref.id)
            edit = _find_current_edit(of_edit, contents, ref, path)
            why = None if edit is None else missing_of(edit)
            is_gone = False
            if edit is not None and of_model is not None and path is None:
                is_gone, why = True, why or of_model.why_not(ref.id)
            has_details = ref.id in detailed_ids
            records = () if edit is None else tuple(store.verdicts_in(edit, evidence=has_details))
            verdicts: dict[str, Outcome] = {}
            for record in records:
                # What failed cannot be judged again without an output, so it is missing by now.
                stands = not (is_gone and isinstance(record.verdict, Failure))
                if stands and today.get(record.dimension) == record.signature:
                    verdicts[record.dimension] = record.verdict
                if part_ids:
                    parts = _extract_part_scores(record, by_id, signatures).items()
                    verdicts |= {name: part for name, part in parts if name in part_ids}
            # Nothing is to be read for a missing output, so what it was read from may be gone.
            whole = spec.dataset.outline(ref, contents.was_read) if why and item.flaws else item
            alone = model in single_image and len(whole.sources) > 1
            outcomes = Circumstances(
                whole,
                missing=why,
                why_not_served=missing_roles,
                verdicts=verdicts,
                value_if_missing=value_alone if alone and not (why and why.was_given) else None,
                count_missing=count_missing,
            ).decide(dimensions)
            verdict_signatures = {name: signatures[name] for name in verdicts}
            row = Row(item, model, outcomes, verdict_signatures, place)
            if each is not None:
                each(row, records)
            yield row


def _find_current_edit(
    edit_rows: Sequence[EditRow], contents: ItemContents, ref: ItemRef, path: str | None
) -> EditRow | None:
    """Find the stored edit whose item and output are the same as now; None if there is none.

    Args:
        edit_rows: The stored rows of the edit, the latest last.
        path: The output; None where it, or the folder, is gone: it counts as unchanged.
    """
    if not edit_rows:
        return None
    output, _ = find_current_output(edit_rows, path, contents.files)
    return find_by_content(edit_rows, contents.key(ref), output, absent=path is None)


def _extract_part_scores(
    record: StoredVerdict, by_id: Mapping[str, Dimension], today: Mapping[str, Signature]
) -> dict[str, Score]:
    """Return the scores of the parts that a composite stores in its evidence, by dimension id.

    Args:
        record: A verdict with its evidence.
        by_id: All dimensions.
        today: Their current signatures: a part counts only if its own is the same.
    """
    how, verdict = getattr(by_id.get(record.dimension), "how", None), record.verdict
    values = verdict.evidence.get("parts") if isinstance(verdict, Score) and not verdict.imputed else None
    if not isinstance(how, Formula) or not isinstance(values, Mapping):
        return {}
    parts_text = dict(Signature.parse(record.signature).fields).get("parts", "")
    part_digests = dict(part.rpartition("=")[::2] for part in parts_text.split("+"))
    parts: dict[str, Score] = {}
    for name, of in how.of.items():
        value = values.get(name)
        if not isinstance(of, str) or of not in today or not isinstance(value, float):
            continue
        if part_digests.get(name) == today[of].digest:
            parts[of] = Score(value=value, evidence={"from": record.dimension})
    return parts


def read_published(results: Results) -> PublishedNumbers:
    """Read what the paper prints of the columns of a run's table.

    Raises:
        ConfigError: there is no file of its numbers.
    """
    paper = printed_tables(results.benchmark.name)
    column_ids = {name for table in paper.tables for row in table.models.values() for name in row}
    columns = tuple(column for column in results.columns if column.id in column_ids)
    ids = {column.id for column in columns}
    tables = []
    for table in paper.tables:
        rows = {model: {n: row[n] for n in row if n in ids} for model, row in table.models.items()}
        if any(rows.values()):
            tables.append(replace(table, models=rows))
    comparisons = {name: paper.comparison(name) for name in sorted(ids)}
    verdicts = {name: Comparability(one.holds(results.switches), one.why) for name, one in comparisons.items()}
    return PublishedNumbers(paper.title, columns, tuple(tables), verdicts)
