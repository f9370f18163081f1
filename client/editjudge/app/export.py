"""Writes the verdicts of a run as a table to one file, row by row.

There is one row for each verdict, one for each missing output (no dimension, status
`missing_output`), one for each dimension that a flaw of the data affects (status `unscored`, no
signature), and one for each dimension that waits for a service (no edit, status `not_served`), so
that the file alone gives the coverage. The wide form has one row for each edit instead.
"""

import csv
import json
import operator
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from itertools import count, islice
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from ..base import output_files
from ..base.errors import ConfigError, MissingExtra
from ..base.output_files import wrap_disk_errors, write_atomically, write_file
from ..base.text import escape_formula
from ..engine.score_report import Row
from ..storage.compression import dumps
from ..storage.store import FILE
from . import label_studio
from .label_studio import PICTURES, PicturePaths
from .verdicts import make_row
from .view import RunView

Format: TypeAlias = Literal["parquet", "csv", "jsonl", "label-studio"]
JsonRow: TypeAlias = dict[str, Any]
Fields: TypeAlias = tuple[str, ...]

FIELDS = tuple(Row.model_fields)
"""The columns of the long form; see `Row`."""
_HEAD_BYTES = 4096
_PARQUET = b"PAR1"
METADATA = "editjudge.run"
"""The key of the run's header in a parquet file."""
FIRST_COLUMNS = (("item", "model", "dimension"), ("item", "model", "missing"))
"""The first columns of a table in the long form and in the wide form."""
_EDIT_COLUMNS = ("item", "model", "missing")
_BATCH_ROWS = 10_000
_CONDITION = re.compile(r"\s*(?P<name>\S+?)\s*(?P<operator>[<>]=?)\s*(?P<number>[-+]?[0-9.]+(?:e[-+]?[0-9]+)?)\s*")
_OPERATORS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
_REPEATING_COLUMNS = ("model", "dimension", "status", "kind", "signature", "versions")


def export(
    view: RunView,
    file: Path,
    form: Format,
    *,
    wide: bool = False,
    pictures: bool = False,
    pairs: bool = False,
    dimensions: Collection[str] = (),
    urls: Mapping[str, str] = MappingProxyType({}),
    where: Iterable[str] = (),
) -> int:
    """Write all verdicts of a run to a file, which is written completely or not at all.

    Args:
        form: `jsonl` has evidence and calls as objects; `csv` and `parquet` as JSON text, and
            `csv` has nothing where there is no value; `label-studio` has tasks, see
            `app.label_studio`, and the configuration for them lies beside it as `.xml`.
        wide: Write one row for each edit, with a column for each dimension; see `wide_rows`.
        pictures: Add the paths of each edit's pictures.
        pairs: Write tasks of two edits each; see `label_studio.write_tasks`.
        dimensions: Ids, globs, parts of ids or titles of columns; by default all.
        urls: Replacements for folders in the paths of pictures, by folder.
        where: Conditions such as `core.drift.shift < 1`; only edits of which all hold are written.

    Returns:
        The number of rows.

    Raises:
        ConfigError: the file cannot be written, or exists and is not an export; a dimension is not
            in the run; another format has no pairs; a condition is none, or the format is
            `label-studio`, which has no choice of edits.
        InputError: the data is needed and no longer exists.
        MissingExtra: the format is parquet, and pyarrow is not installed.
        StoreError: the run cannot be read, or the disk is full.
    """
    if pairs and form != "label-studio":
        raise ConfigError(f"{form} has no pairs", "give --format label-studio")
    check_target(view.folder, file, form)
    names = view.header.dimensions
    if dimensions:
        selection = view.match_ids(dimensions)
        names = tuple(name for name in names if name in selection)
    chosen_edits = _find_edits(view, [*where], form)
    with wrap_disk_errors(file), write_atomically(file) as partial:
        if form == "label-studio":
            dimensions_by_id = view.resolved_spec.dimensions_by_id
            tasks = {name: dimensions_by_id[name] for name in names}
            task_count, configuration = label_studio.write_tasks(partial, view, tasks, urls, pairs=pairs)
            write_file(file.with_suffix(".xml"), configuration.encode())
            return task_count
        if wide:
            rows, fields = wide_rows(view, names), (*_EDIT_COLUMNS, *names)
        else:
            rows, fields = (row.model_dump(mode="json") for row in long_rows(view)), FIELDS
            if dimensions:
                rows = (row for row in rows if row["dimension"] in {None, *names})
        if chosen_edits is not None:
            rows = (row for row in rows if (row["item"], row["model"]) in chosen_edits)
        if pictures or urls:
            paths = label_studio.picture_paths(view, urls)
            rows, fields = _add_picture_paths(rows, paths), (*fields, *PICTURES)
        numbers = count()
        counted_rows = (row for row, _ in zip(rows, numbers, strict=False))
        _WRITERS[form](partial, counted_rows, fields, view.header.model_dump_json())
        return next(numbers)


def _find_edits(view: RunView, conditions: Sequence[str], form: Format) -> set[tuple[str, str]] | None:
    """Find the edits, by item and model, of which all conditions hold; None without conditions."""
    if not conditions:
        return None
    if form == "label-studio":
        raise ConfigError("--where cannot be used with label-studio", "write jsonl, and choose by its items")
    tests = []
    for text in conditions:
        match = _CONDITION.fullmatch(text)
        if match is None:
            raise ConfigError(f"--where {text!r} is no condition", 'write it as "core.drift.shift < 1"')
        (name, *others) = view.match_ids([match["name"]])
        if others:
            raise ConfigError(f"--where {text!r} means several dimensions: {name}, {others[0]}", "give one id")
        tests.append((name, _OPERATORS[match["operator"]], float(match["number"])))
    return {
        (row["item"], row["model"])
        for row in wide_rows(view, {name for name, _, _ in tests})
        if all(row[name] is not None and holds(row[name], limit) for name, holds, limit in tests)
    }


def _add_picture_paths(rows: Iterable[JsonRow], paths_of: PicturePaths) -> Iterator[JsonRow]:
    for row in rows:
        edit = row["item"], row["model"]
        paths = paths_of(*edit) if None not in edit else {}
        yield {**row, **{name: paths.get(name) for name in PICTURES}}


def wide_rows(view: RunView, dimensions: Iterable[str] = ()) -> Iterator[JsonRow]:
    """Yield a row for each requested edit: item, model, and the value of each dimension.

    The values are those that `summary` counts: a verdict of other prompts or services than those of
    the last session, or of an item that changed since, has none. The long form gives the reason for
    each missing value; `missing` is the reason for a missing output.

    Args:
        dimensions: Ids of dimensions; by default all of the run.

    Raises:
        ConfigError: the run has dimensions that this version of editjudge does not know.
        InputError: the data no longer exists.
    """
    missing = {(e.model, e.item): str(e.missing) for e in view.edits() if e.missing}
    names = tuple(dimensions) or view.header.dimensions
    for row in view.rows():
        place = row.model, row.item.id
        why = missing[place] or "the model gave no image" if place in missing else None
        outcomes = ((name, row.outcomes.get(name)) for name in names)
        values = {name: None if outcome is None else outcome.value for name, outcome in outcomes}
        yield {"item": row.item.id, "model": row.model, "missing": why, **values}


def long_rows(view: RunView) -> Iterator[Row]:
    """Yield the rows of the long form.

    Their order is: dimensions that are not served, missing outputs, verdicts edit by edit, and
    dimensions without a verdict because of a flaw of the data. Items that the data no longer has
    are left out.
    """
    for name, reason in view.unserved_reasons().items():
        yield Row(dimension=name, status="not_served", reason=reason)
    for edit in filter(view.make_item_filter(), view.edits()):
        if edit.missing is not None:
            reason = str(edit.missing)
            yield Row(item=edit.item, model=edit.model, status="missing_output", reason=reason)
    spoilt = view.flawed_outcomes()
    stored_keys: set[tuple[str, str, str]] = set()
    for verdict in filter(view.make_item_filter(), view.verdicts()):
        if verdict.item in spoilt:
            stored_keys.add((verdict.item, verdict.model, verdict.dimension))
        yield make_row(verdict)
    for item, outcomes in spoilt.items():
        for model in view.header.outputs:
            for name, outcome in outcomes.items():
                if (item, model, name) not in stored_keys:
                    yield Row.of(item, model, name, outcome)


def _write_jsonl(file: Path, rows: Iterable[JsonRow], _: Fields, __: str) -> None:
    # A reply may hold lone surrogates, which are not valid UTF-8; their escapes are valid JSON.
    with file.open("w", encoding="utf-8", errors="backslashreplace", newline="\n") as out:
        out.writelines(dumps(row) + "\n" for row in rows)


def write_csv(file: Path, rows: Iterable[JsonRow], fields: Fields, _: str = "") -> None:
    """Write rows as CSV; text that a spreadsheet would take for a formula is escaped."""
    with file.open("w", encoding="utf-8", errors="backslashreplace", newline="") as out:
        writer = csv.DictWriter(out, fields)
        writer.writeheader()
        for row in map(_as_text, rows):
            writer.writerow({name: escape_formula(value) for name, value in row.items()})


def _write_parquet(file: Path, rows: Iterable[JsonRow], fields: Fields, header: str) -> None:
    try:
        pa: Any = import_module("pyarrow")
        parquet: Any = import_module("pyarrow.parquet")
    except ModuleNotFoundError as error:
        raise MissingExtra("parquet export", "report") from error
    except ImportError as error:  # for example a build for another NumPy
        raise ConfigError(f"pyarrow cannot be loaded: {error}", 'run: pip install "pyarrow<26"') from error
    kinds = dict.fromkeys((*FIELDS, *_EDIT_COLUMNS, *PICTURES), pa.string())
    kinds |= {"value": pa.float64(), "imputed": pa.bool_()}
    columns = [pa.field(name, kinds.get(name, pa.float64())) for name in fields]
    schema = pa.schema(columns, metadata={METADATA: header})
    remaining = map(_as_text, rows)
    with parquet.ParquetWriter(file, schema, use_dictionary=list(_REPEATING_COLUMNS)) as writer:
        while batch := list(islice(remaining, _BATCH_ROWS)):
            writer.write_table(pa.Table.from_pylist([_to_utf8(row) for row in batch], schema))


def _as_text(row: JsonRow) -> JsonRow:
    json_fields = [name for name in ("evidence", "calls") if name in row]
    return row | {name: dumps(row[name]) if row[name] else None for name in json_fields}


def _to_utf8(row: JsonRow) -> JsonRow:
    """Replace lone surrogates, which Arrow refuses, by their escapes."""
    return {
        name: value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value
        for name, value in row.items()
    }


_WRITERS: Mapping[str, Callable[[Path, Iterable[JsonRow], Fields, str], None]] = {
    "parquet": _write_parquet,
    "csv": write_csv,
    "jsonl": _write_jsonl,
}


def check_target(run: Path, file: Path, form: str) -> None:
    """Refuse a target that is neither new nor an earlier export, or is a file of the run itself.

    Raises:
        ConfigError: another file exists at the target, or its name is reserved.
        StoreError: the disk fails.
    """
    files = [file]
    if form == "label-studio":
        if file.suffix.lower() == ".xml":
            raise ConfigError(
                f"{file} is the name of the labelling configuration beside the tasks",
                "give --out a name that ends in .json",
            )
        files.append(file.with_suffix(".xml"))
    for each in files:
        # SQLite has further files beside its own, and an empty file there locks it.
        if each.name.startswith(f"{Path(FILE).stem}.") and each.parent.resolve() == run.resolve():
            raise ConfigError(f"{each} is a file of the run itself", "give another --out")
        output_files.check_overwrite(each, is_export, "former export of editjudge")


def is_export(file: Path) -> bool:
    """Whether `export` wrote a file, by its first bytes, or its last ones for parquet."""
    with file.open("rb") as stream:
        head = stream.read(_HEAD_BYTES)
        if head.startswith(_PARQUET):
            stream.seek(-8, os.SEEK_END)
            length = int.from_bytes(stream.read(4), "little")
            stream.seek(-min(8 + length, file.stat().st_size), os.SEEK_END)
            return METADATA.encode() in stream.read()
        tasks = label_studio.TASKS.encode(), label_studio.CONFIGURATION.encode()
        if head.startswith(tasks) or head == b"[]\n":
            return True
        if not head.startswith(b"{"):
            return head.startswith(tuple(",".join(columns).encode() for columns in FIRST_COLUMNS))
        stream.seek(0)
        try:
            fields = json.loads(stream.readline())
        except ValueError:
            return False
    return tuple(fields)[:3] in FIRST_COLUMNS
