"""A run's verdicts as a table in one file, written row by row.

One row for a verdict, one for each missing output (no dimension, status `missing_output`), and
one for each dimension that waits for a service (no edit, status `not_served`), so that coverage
can be told from the file alone.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any, Literal, TypeAlias

from ..errors import ConfigError, MissingExtra, StoreError
from ..verdict import Scored, Unscored
from .codec import dumps
from .opened import waiting
from .store import RunStore, StoredVerdict

Format: TypeAlias = Literal["parquet", "csv", "jsonl"]
Row: TypeAlias = dict[str, Any]

FIELDS = (
    "item",
    "model",
    "dimension",
    "status",
    "value",
    "kind",
    "reason",
    "imputed",
    "signature",
    "evidence",
)
"""The columns: `value` is a number or nothing, `kind` and `reason` say why it is nothing."""
_ROWS_AT_ONCE = 10_000
_REPEATING = ("model", "dimension", "status", "kind", "signature")


def export(store: RunStore, file: Path, form: Format) -> int:
    """Write all verdicts of a run to a file, which is there whole or not at all.

    Args:
        form: `jsonl` has evidence as objects; `csv` and `parquet` as JSON text, and `csv` has
            nothing where there is no value.

    Returns:
        How many rows it has.

    Raises:
        ConfigError: the file cannot be written.
        MissingExtra: parquet without pyarrow.
        StoreError: the run cannot be read, or the disk is full.
    """
    write = _WRITERS[form]
    partial = file.with_name(f".{file.name}.partial")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        try:
            count = write(partial, rows(store), store.header.model_dump_json())
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


def rows(store: RunStore) -> Iterator[Row]:
    """The rows, one by one: dimensions not served, missing outputs, verdicts edit by edit."""
    header = store.header
    for name, reason in waiting(header).items():
        yield dict.fromkeys(FIELDS) | {"dimension": name, "status": "not_served", "reason": reason}
    for edit in store.edits():
        if edit.digest is None:
            yield dict.fromkeys(FIELDS) | {
                "item": edit.item,
                "model": edit.model,
                "status": "missing_output",
                "reason": edit.missing,
            }
    yield from map(_row, store.verdicts())


def _row(stored: StoredVerdict) -> Row:
    verdict = stored.verdict
    return {
        "item": stored.item,
        "model": stored.model,
        "dimension": stored.dimension,
        "status": verdict.status,
        "value": verdict.value if isinstance(verdict, Scored) else None,
        "kind": verdict.kind if isinstance(verdict, Unscored) else None,
        "reason": None if isinstance(verdict, Scored) else verdict.reason,
        "imputed": verdict.imputed if isinstance(verdict, Scored) else None,
        "signature": stored.signature,
        "evidence": dict(getattr(verdict, "evidence", {})),
    }


def _write_jsonl(file: Path, found: Iterable[Row], _: str) -> int:
    count = 0
    # Lone surrogates of a reply are no UTF-8: their escapes are valid JSON.
    with file.open("w", encoding="utf-8", errors="backslashreplace", newline="\n") as out:
        for row in found:
            out.write(dumps(row) + "\n")
            count += 1
    return count


def _write_csv(file: Path, found: Iterable[Row], _: str) -> int:
    count = 0
    with file.open("w", encoding="utf-8", errors="backslashreplace", newline="") as out:
        writer = csv.DictWriter(out, FIELDS)
        writer.writeheader()
        for row in map(_with_text, found):
            writer.writerow(row)
            count += 1
    return count


def _write_parquet(file: Path, found: Iterable[Row], header: str) -> int:
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
    schema = pa.schema(
        [pa.field(name, kinds.get(name, pa.string())) for name in FIELDS],
        metadata={"editjudge.run": header},
    )
    count = 0
    remaining = map(_with_text, found)
    with parquet.ParquetWriter(file, schema, use_dictionary=list(_REPEATING)) as writer:
        while batch := list(islice(remaining, _ROWS_AT_ONCE)):
            writer.write_table(pa.Table.from_pylist([_utf8(row) for row in batch], schema))
            count += len(batch)
    return count


def _with_text(row: Row) -> Row:
    return row | {"evidence": dumps(row["evidence"]) if row["evidence"] else None}


def _utf8(row: Row) -> Row:
    """Lone surrogates, which Arrow refuses, as their escapes."""
    return {
        name: value.encode("utf-8", "backslashreplace").decode()
        if isinstance(value, str)
        else value
        for name, value in row.items()
    }


_WRITERS: Mapping[Format, Callable[[Path, Iterable[Row], str], int]] = {
    "parquet": _write_parquet,
    "csv": _write_csv,
    "jsonl": _write_jsonl,
}
