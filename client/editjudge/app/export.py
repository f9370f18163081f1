"""A run's verdicts as a table in one file, written row by row.

One row for a verdict, one for each missing output (no dimension, status `missing_output`), one for
each dimension of an edit that the data spoilt (status `unscored`, no signature), and one for each
dimension that waits for a service (no edit, status `not_served`), so that coverage
can be told from the file alone. The wide form has a row for each edit instead.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any, Literal, TypeAlias

from ..base.errors import ConfigError, MissingExtra, StoreError
from ..base.verdict import Scored
from ..storage.codec import dumps
from .view import RunView
from .wire.verdict import EarlierRow, Row

Format: TypeAlias = Literal["parquet", "csv", "jsonl"]
Plain: TypeAlias = dict[str, Any]
Fields: TypeAlias = tuple[str, ...]

FIELDS = tuple(Row.model_fields)
"""The columns; see `Row`."""
_EDIT = ("item", "model", "missing")
_EARLIER = tuple(EarlierRow.model_fields)
_ROWS_AT_ONCE = 10_000
_REPEATING = ("model", "dimension", "status", "kind", "signature", "versions")


def export(
    view: RunView, file: Path, form: Format, *, earlier: bool = False, wide: bool = False
) -> int:
    """Write all verdicts of a run to a file, which is there whole or not at all.

    Args:
        earlier: Instead of them those in whose place they came, which count in nothing.
        wide: A row for each edit, with a column for each dimension; see `edits_of`.
        form: `jsonl` has evidence and calls as objects; `csv` and `parquet` as JSON text, and
            `csv` has nothing where there is no value.

    Returns:
        How many rows it has.

    Raises:
        ConfigError: the file cannot be written, or earlier verdicts are asked for edit by edit.
        MissingExtra: parquet without pyarrow.
        StoreError: the run cannot be read, or the disk is full.
    """
    write = _WRITERS[form]
    partial = file.with_name(f".{file.name}.partial")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        try:
            rows, fields = _table(view, earlier=earlier, wide=wide)
            count = write(partial, rows, fields, view.header.model_dump_json())
            partial.replace(file)
        finally:
            partial.unlink(missing_ok=True)
    except (
        FileExistsError,
        FileNotFoundError,
        IsADirectoryError,
        NotADirectoryError,
        PermissionError,
    ) as error:
        raise ConfigError(f"{file}: {error.strerror}", "give another file with --out") from error
    except OSError as error:
        raise StoreError(f"{file}: {error}", "make room, or give another file") from error
    return count


def _table(view: RunView, *, earlier: bool, wide: bool) -> tuple[Iterator[Plain], Fields]:
    if earlier and wide:
        raise ConfigError("an edit may have several earlier verdicts on a dimension", "leave one")
    if wide:
        return edits_of(view), (*_EDIT, *view.header.dimensions)
    if earlier:
        return (_plain(EarlierRow.by(each)) for each in view.earlier()), _EARLIER
    return map(_plain, rows_of(view)), FIELDS


def edits_of(view: RunView) -> Iterator[Plain]:
    """A row for each edit that was asked for: item, model, and the value of each dimension.

    The values are those that `summary` counts: what was judged by other prompts or services than
    the run's last, or of an item that changed since, has none. Why a value is not there, the long
    form says; `missing` is why there is no output.

    Raises:
        ConfigError: it has dimensions that this editjudge does not know.
        InputError: the data is not there any more.
    """
    missing = {(e.model, e.item): str(e.missing) for e in view.edits() if e.digest is None}
    for row in view.rows():
        place = row.model, row.item.id
        why = missing[place] or "the model gave no image" if place in missing else None
        outcomes = ((name, row.outcomes.get(name)) for name in view.header.dimensions)
        values = {name: o.value if isinstance(o, Scored) else None for name, o in outcomes}
        yield {"item": row.item.id, "model": row.model, "missing": why, **values}


def rows_of(view: RunView) -> Iterator[Row]:
    """The rows, one by one.

    Dimensions not served, missing outputs, verdicts edit by edit; then what the data spoilt, of
    which there is no verdict.
    """
    for name, reason in view.waiting().items():
        yield Row(dimension=name, status="not_served", reason=reason)
    for edit in view.edits():
        if edit.digest is None:
            yield Row(
                item=edit.item,
                model=edit.model,
                status="missing_output",
                reason=str(edit.missing),
            )
    spoilt, drift = view.spoilt(), view.drift()
    became = view.became()
    judged: set[tuple[str, str, str]] = set()
    for stored in view.verdicts():
        if stored.item in spoilt:
            judged.add((stored.item, stored.model, stored.dimension))
        yield Row.of(stored, drift.get(stored.dimension), became(stored.item, stored.model))
    for item, outcomes in spoilt.items():
        for model in view.header.outputs:
            for name, outcome in outcomes.items():
                if (item, model, name) not in judged:
                    yield Row(
                        item=item,
                        model=model,
                        dimension=name,
                        status="unscored",
                        kind=outcome.kind,
                        reason=outcome.reason,
                    )


def _write_jsonl(file: Path, rows: Iterable[Plain], _: Fields, __: str) -> int:
    count = 0
    # Lone surrogates of a reply are no UTF-8: their escapes are valid JSON.
    with file.open("w", encoding="utf-8", errors="backslashreplace", newline="\n") as out:
        for row in rows:
            out.write(dumps(row) + "\n")
            count += 1
    return count


def _write_csv(file: Path, rows: Iterable[Plain], fields: Fields, _: str) -> int:
    count = 0
    with file.open("w", encoding="utf-8", errors="backslashreplace", newline="") as out:
        writer = csv.DictWriter(out, fields)
        writer.writeheader()
        for row in map(_with_text, rows):
            writer.writerow({name: inert(value) for name, value in row.items()})
            count += 1
    return count


def _write_parquet(file: Path, rows: Iterable[Plain], fields: Fields, header: str) -> int:
    try:
        pa: Any = import_module("pyarrow")
        parquet: Any = import_module("pyarrow.parquet")
    except ModuleNotFoundError as error:
        raise MissingExtra("parquet export", "report") from error
    except ImportError as error:  # for example one that wants another NumPy
        raise ConfigError(
            f"pyarrow cannot be loaded: {error}", 'run: pip install "pyarrow<26"'
        ) from error
    kinds = {"value": pa.float64(), "imputed": pa.bool_()}
    texts = {*FIELDS, *_EARLIER, *_EDIT}
    schema = pa.schema(
        [
            pa.field(name, kinds.get(name, pa.string() if name in texts else pa.float64()))
            for name in fields
        ],
        metadata={"editjudge.run": header},
    )
    count = 0
    remaining = map(_with_text, rows)
    with parquet.ParquetWriter(file, schema, use_dictionary=list(_REPEATING)) as writer:
        while batch := list(islice(remaining, _ROWS_AT_ONCE)):
            writer.write_table(pa.Table.from_pylist([_utf8(row) for row in batch], schema))
            count += len(batch)
    return count


def _plain(row: Row) -> Plain:
    return row.model_dump(mode="json")


def _with_text(row: Plain) -> Plain:
    nested = [name for name in ("evidence", "calls") if name in row]
    return row | {name: dumps(row[name]) if row[name] else None for name in nested}


def inert(value: object) -> object:
    """Text that a spreadsheet would compute, behind the apostrophe that marks it as text."""
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value


def _utf8(row: Plain) -> Plain:
    """Lone surrogates, which Arrow refuses, as their escapes."""
    return {
        name: value.encode("utf-8", "backslashreplace").decode()
        if isinstance(value, str)
        else value
        for name, value in row.items()
    }


_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_WRITERS: Mapping[Format, Callable[[Path, Iterable[Plain], Fields, str], int]] = {
    "parquet": _write_parquet,
    "csv": _write_csv,
    "jsonl": _write_jsonl,
}
