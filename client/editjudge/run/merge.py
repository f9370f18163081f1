"""Several runs of one benchmark become one: shards of it, or models judged elsewhere."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from ..dimension import Dimension
from ..errors import ConfigError
from ..verdict import Failed, Scored, Verdict
from .codec import digest_to_bytes
from .database import Database
from .header import RunHeader
from .opened import known_of
from .packing import Packed, unpacked
from .store import RunStore, StoredEdit

Prefer: TypeAlias = Literal["first", "last"]
_ALIKE = (
    "leave {} out: only runs of one benchmark, protocol, data, judges and number of repeats can be"
    " merged, each model's outputs from one folder"
)
_CONFLICT = "merge runs that agree, or say which one counts with --prefer first or last"


@dataclass
class Merged:
    """What a merge did.

    Attributes:
        edits: Edits in the new run.
        verdicts: Verdicts in it.
        same: Verdicts that were in several runs.
        preferred: Of these, how many differed and were decided by `prefer`.
    """

    edits: int = 0
    verdicts: int = 0
    same: int = 0
    preferred: int = 0


def merge(
    folders: Sequence[Path],
    out: Path,
    prefer: Prefer | None = None,
    known: Callable[[RunHeader], Mapping[str, Dimension]] = known_of,
) -> Merged:
    """Write a new run with the edits, verdicts and calls of several.

    A verdict that is in several runs with one signature is in it once; a failed one gives way
    to any other.

    Args:
        folders: Of the runs, in the order that `prefer` speaks of.
        out: Folder of the new run; it is there whole or not at all.
        prefer: Which run counts where outputs or signatures differ, or one has a number and
            the other none; None refuses that.
        known: Dimensions by id, for their tolerances.

    Raises:
        ConfigError: the runs are about different things; values of one signature differ
            beyond the dimension's tolerance; something differs and nothing is preferred; the
            new folder is there already.
        StoreError: a run is damaged, or the disk is full.
    """
    if out.exists():
        raise ConfigError(f"{out} is there already", "give another folder with --out")
    partial = out.with_name(f".{out.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        with ExitStack() as open_runs:
            runs = [
                open_runs.enter_context(RunStore.open(folder, read_only=True)) for folder in folders
            ]
            header = _header(runs)
            target = open_runs.enter_context(RunStore.open(partial, header))
            merger = _Merger(target, known(header), prefer)
            with target.database.transaction():
                for run in runs:
                    merger.add(run)
        partial.replace(out)
    except OSError as error:
        raise ConfigError(f"{out}: {error}", "give another folder with --out") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return merger.merged


def _header(runs: Sequence[RunStore]) -> RunHeader:
    header = runs[0].header
    for run in runs[1:]:
        header = header.joined(run.header, str(runs[0].folder), _ALIKE.format(run.folder))
    return header


class _Merger:
    """Adds runs to one, in order."""

    def __init__(
        self, target: RunStore, known: Mapping[str, Dimension], prefer: Prefer | None
    ) -> None:
        self.merged = Merged()
        self._target = target
        self._known = known
        self._prefer = prefer

    def add(self, run: RunStore) -> None:
        """Add one run's calls, facts, edits and verdicts."""
        copy_calls(run.database, self._target.database)
        for edit in run.edits():
            number = self._edit(run, edit)
            if number is not None:
                self._verdicts(run, edit, number)

    def _edit(self, run: RunStore, edit: StoredEdit) -> int | None:
        """Its number in the target; None where another run's output is preferred."""
        row = self._target.database.one(
            "SELECT id, digest FROM edits WHERE model = ? AND item = ?",
            self._target.database.intern(edit.model),
            self._target.database.intern(edit.item),
        )
        if row is None:
            self.merged.edits += 1
        elif row[1] != (None if edit.digest is None else digest_to_bytes(edit.digest)):
            if self._prefer is None:
                raise ConfigError(
                    f"{run.folder} has another output of {edit.model} for {edit.item} than a run"
                    " before it",
                    _CONFLICT,
                )
            if self._prefer == "first":
                return None
            self.merged.verdicts -= self._count(row[0])
        return self._target.edit_id(edit.item, edit.model, edit.digest, edit.missing)

    def _count(self, edit: int) -> int:
        row = self._target.database.one("SELECT count(*) FROM verdicts WHERE edit = ?", edit)
        return int(row[0]) if row else 0

    def _verdicts(self, run: RunStore, edit: StoredEdit, number: int) -> None:
        theirs = _verdicts(run.database, edit.id)
        ours = _verdicts(self._target.database, number)
        chosen = {}
        for name, (verdict, signature) in theirs.items():
            if name not in ours:
                self.merged.verdicts += 1
                chosen[name] = verdict
                continue
            self.merged.same += 1
            where = f"{name} of {edit.model} for {edit.item} in {run.folder}"
            if self._takes((verdict, signature), ours[name], name, where):
                chosen[name] = verdict
        signatures = {name: signature for name, (_, signature) in theirs.items()}
        self._target.put_verdicts(number, chosen, signatures)

    def _takes(
        self, theirs: tuple[Verdict, str], ours: tuple[Verdict, str], name: str, where: str
    ) -> bool:
        """Whether the later of two verdicts is taken."""
        (later, signature), (earlier, before) = theirs, ours
        if isinstance(later, Failed) or isinstance(earlier, Failed):
            return not isinstance(later, Failed)
        if signature == before and later.status == earlier.status:
            if isinstance(later, Scored) and isinstance(earlier, Scored):
                tolerance = self._known[name].tolerance if name in self._known else 0.0
                if abs(later.value - earlier.value) > tolerance:
                    raise ConfigError(
                        f"{where} is {later.value:.9g}, and {earlier.value:.9g} in a run before"
                        f" it with the same signature (tolerance {tolerance:g})",
                        "find out which of the runs is wrong, and merge without it",
                    )
            return False
        if self._prefer is None:
            what = "another signature" if signature != before else f"status {later.status}"
            raise ConfigError(f"{where} has {what} than in a run before it", _CONFLICT)
        self.merged.preferred += 1
        return self._prefer == "last"


def copy_calls(source: Database, target: Database) -> None:
    """Copy prompts, calls and facts; what the target has stays."""
    prompts: dict[int, int] = {}
    for number, digest, system, parts in source.each(
        "SELECT id, digest, system, parts FROM prompts"
    ):
        target.run(
            "INSERT OR IGNORE INTO prompts (digest, system, parts) VALUES (?, ?, ?)",
            digest,
            target.intern(source.text(system)),
            parts,
        )
        row = target.one("SELECT id FROM prompts WHERE digest = ?", digest)
        prompts[number] = row[0] if row else 0
    for service, form, prompt, model, *rest in source.each(
        "SELECT service, form, prompt, model, key, inputs, repeat, reply, abstained,"
        " prompt_tokens, cached_tokens, completion_tokens, attempts, cost, seconds, made"
        " FROM calls WHERE dropped = 0"
    ):
        target.run(
            "INSERT OR IGNORE INTO calls (service, form, prompt, model, key, inputs, repeat,"
            " reply, abstained, prompt_tokens, cached_tokens, completion_tokens, attempts, cost,"
            " seconds, made) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            target.intern(source.text(service)),
            target.intern(source.text(form)),
            None if prompt is None else prompts[prompt],
            None if model is None else target.intern(source.text(model)),
            *rest,
        )
    for fact in source.each("SELECT name, value FROM facts"):
        target.run("INSERT OR IGNORE INTO facts VALUES (?, ?)", *fact)


def _verdicts(database: Database, edit: int) -> dict[str, tuple[Verdict, str]]:
    """An edit's verdicts with their signatures, by dimension."""
    rows = database.each(
        "SELECT dimension, signature, status, value, kind, detail, calls FROM verdicts"
        " WHERE edit = ? ORDER BY dimension",
        edit,
    )
    return {
        database.text(dimension): (unpacked(database, Packed(*rest)), database.text(signature))
        for dimension, signature, *rest in rows
    }
