"""The edits of runs as a page shows them: an index of all, and what there is to say of each.

Everything is plain JSON. What strings hold comes from data, judges and servers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

from ..app.canary import last_checks_line
from ..app.results import PublishedNumbers, Results, read_published
from ..app.verdicts import make_row
from ..app.view import Pictures, RunView, StoredPrompt, StoredVerdict
from ..base.item import Item
from ..base.verdict import MissingOutput, NoScore, Outcome, Score
from ..benchmarks.column import Row
from ..engine.score_report import Row as VerdictRow
from .pictures import PictureNames

JsonObject: TypeAlias = dict[str, Any]
FindPrompt: TypeAlias = Callable[[str], StoredPrompt | None]
"""The prompt of a digest; None where it is not kept."""
CHUNK = 50
"""Edits whose details come together."""
_DIGITS = 6
STATUS_LETTERS: Mapping[str, str] = {
    "scored": "S",
    "unscored": "U",
    "failed": "F",
    "not_applicable": "N",
    "not_served": "-",
    "missing_output": "M",
    "pending": "P",
}
_IMPUTED = "I"
_KIND_LETTERS = {"abstained": "a", "unparsable": "u", "refused": "r", "degenerate": "d"}
_WITH_REASON = frozenset({"unscored", "failed", "not_applicable"})
"""Statuses whose reason is shown although nothing is stored."""
_ITEM_FIELDS = ("id", "run", "task", "instruction", "target_text", "sources", "mask", "target")
_EDIT_FIELDS = ("item", "model", "picture", "missing")


class PageRun:
    """A run on a page.

    Args:
        number: Of the run on the page.
        models_before: How many models the runs before it have.

    Attributes:
        name: What it is called.
        models: Numbers of its models on the page, by name.
        data: What tells its data from others: items of the same data are the same.
        pictures: Where the pictures of an item lie.
        results: Its table; there once it is read.
        checks: How its judges were when they were last checked, in one line; empty without judges.
        published: What the paper prints; None where nobody wants it.

    Raises:
        InputError: its data is not there any more.
    """

    results: Results
    checks: str
    published_beside: PublishedNumbers | None

    def __init__(self, view: RunView, number: int = 0, models_before: int = 0) -> None:
        self.header = header = view.header
        self.view, self.number, self.name = view, number, str(view.folder)
        self.models = {name: models_before + place for place, name in enumerate(header.outputs)}
        self.pictures = view.all_pictures()
        # Its digest is of what the data says; the pictures beside it may be others elsewhere.
        self.data = f"{header.benchmark} {header.data_digest} {header.data}"

    @classmethod
    def from_views(cls, views: Sequence[RunView]) -> list[PageRun]:
        """Several runs for one page."""
        runs: list[PageRun] = []
        for number, view in enumerate(views):
            runs.append(cls(view, number, sum(len(run.models) for run in runs)))
        return runs

    def read(self, edits: Edits, *, with_published: bool) -> None:
        """Read all of it once: its edits are added on the way to its table.

        Args:
            published: Also what the paper prints.

        Raises:
            ConfigError: it has dimensions that this editjudge does not know, or its data has none
                of its items.
        """
        evidence = edits.save_chunk is not None
        self.results = self.view.results(each=partial(edits.add, self), evidence=evidence)
        self.published_beside = read_published(self.results) if with_published else None
        self.checks = last_checks_line(self.results.services)

    def add_details(self, edits: Edits, numbers: Collection[int], chunk: DetailChunk) -> None:
        """Add to a chunk those of some edits that are of this run."""
        numbers_here = {edits.keys[n][1:]: n for n in numbers if edits.keys[n][0] == self.number}

        def add_row(row: Row, verdicts: Sequence[StoredVerdict]) -> None:
            if (number := numbers_here.get((row.item.id, row.model))) is not None:
                chunk.add(number, edits, self, row, verdicts)

        items = {item for item, _ in numbers_here}
        for _ in self.view.rows(items, each=add_row, evidence=True) if items else ():
            pass


@dataclass(slots=True)
class _Dimension:
    """A dimension over the edits so far."""

    values: list[float | None] = field(default_factory=list)
    status: list[str] = field(default_factory=list)
    kind: list[str] = field(default_factory=list)

    def fill(self, count: int) -> None:
        """Fill up with edits that it asks nothing about."""
        missing = count - len(self.values)
        self.values += [None] * missing
        self.status += [STATUS_LETTERS["not_applicable"]] * missing
        self.kind += [" "] * missing

    def add(self, outcome: Outcome) -> None:
        """Add the outcome of a further edit."""
        letter, value = STATUS_LETTERS[outcome.status], None
        if isinstance(outcome, Score):
            letter = _IMPUTED if outcome.imputed else letter
            value = float(f"{outcome.value:.{_DIGITS}g}")
        self.values.append(value)
        self.status.append(letter)
        self.kind.append(_KIND_LETTERS[outcome.kind] if isinstance(outcome, NoScore) else " ")

    def to_json(self) -> tuple[list[float | None] | None, str, str | None]:
        """Values, status and kind, each short where all edits are alike."""
        values = self.values if any(value is not None for value in self.values) else None
        status = "".join(self.status) if len({*self.status}) > 1 else "".join(self.status[:1])
        kind = "".join(self.kind)
        return values, status, kind if kind.strip() else None


class Edits:
    """The index of the edits, which are added run after run, and their details.

    Args:
        names: What the page calls pictures.
        keep: Gets each chunk of details as soon as it is whole: its name, and it. Without, there
            are none.

    Attributes:
        dimensions: By id their number on the page.
        keys: Of each edit the number of its run, its item and its model.
    """

    def __init__(
        self, names: PictureNames, keep: Callable[[str, JsonObject], None] | None = None
    ) -> None:
        self.names = names
        self.save_chunk = keep
        self._chunk = DetailChunk()
        self.dimensions: dict[str, int] = {}
        self.keys: list[tuple[int, str, str]] = []
        self._columns: list[_Dimension] = []
        self._numbers: dict[tuple[str, str], int] = {}
        self._items: list[JsonObject] = []
        self._edits: list[JsonObject] = []

    @property
    def count(self) -> int:
        """Edits so far."""
        return len(self.keys)

    @property
    def chunks(self) -> int:
        """Chunks of details of all edits so far."""
        return -(-self.count // CHUNK)

    def item_of(self, edit: int) -> int:
        """The number of the item of an edit."""
        return int(self._edits[edit]["item"])

    def count_finished(self) -> int:
        """Edits of which nothing is still to be judged."""
        pending = STATUS_LETTERS["pending"]
        columns = [column.status for column in self._columns]
        return sum(pending not in letters for letters in zip(*columns, strict=True))

    def add(self, run: PageRun, row: Row, verdicts: Sequence[StoredVerdict]) -> None:
        """Add an edit of a run, with its verdicts, also those that nothing counts."""
        pictures = run.pictures(row.item.id)
        item = self._numbers.setdefault((run.data, row.item.id), len(self._items))
        if item == len(self._items):
            self._items.append(self._item(run, row.item, pictures))
        missing = (o.reason for o in row.outcomes.values() if isinstance(o, MissingOutput))
        self._edits.append(
            {
                "item": item,
                "model": run.models[row.model],
                "picture": self.names.name(pictures.outputs.get(row.model)),
                "missing": next(missing, None),
            }
        )
        for name, outcome in row.outcomes.items():
            column = self._column(name)
            column.fill(self.count)
            column.add(outcome)
        self.keys.append((run.number, row.item.id, row.model))
        if self.save_chunk is not None:
            self._chunk.add(self.count - 1, self, run, row, verdicts)
            if self.count % CHUNK == 0:
                self.flush()

    def flush(self) -> None:
        """Hand over the details that are left."""
        chunk = self._chunk.to_json()
        if self.save_chunk is not None and chunk["edits"]:
            self.save_chunk(f"detail-{self.chunks - 1}", chunk)
            self._chunk = DetailChunk()

    def build_index(self) -> JsonObject:
        """All edits, column by column."""
        for column in self._columns:
            column.fill(self.count)
        columns = [column.to_json() for column in self._columns]
        return {
            "items": {name: [item[name] for item in self._items] for name in _ITEM_FIELDS},
            **{name: [edit[name] for edit in self._edits] for name in _EDIT_FIELDS},
            "values": [values for values, _, _ in columns],
            "status": [status for _, status, _ in columns],
            "kind": [kind for _, _, kind in columns],
        }

    def _column(self, dimension: str) -> _Dimension:
        number = self.dimensions.setdefault(dimension, len(self.dimensions))
        if number == len(self._columns):
            self._columns.append(_Dimension())
        return self._columns[number]

    def _item(self, run: PageRun, item: Item, pictures: Pictures) -> JsonObject:
        name = self.names.name
        return {
            "id": item.id,
            "run": run.number,
            "task": item.task,
            "instruction": item.instruction,
            "target_text": item.target_text,
            "sources": [name(file) for file in pictures.sources],
            "mask": name(pictures.mask),
            "target": name(pictures.target),
        }


class DetailChunk:
    """What there is to say of some edits; what they share is held once."""

    def __init__(self) -> None:
        self._texts: dict[str, int] = {}
        self._prompts: dict[str, JsonObject | None] = {}
        self._calls: dict[str, int] = {}
        self._replies: list[JsonObject] = []
        self._items: dict[int, JsonObject] = {}
        self._edits: dict[int, JsonObject] = {}

    def to_json(self) -> JsonObject:
        """As JSON."""
        return {
            "texts": list(self._texts),
            "prompts": {digest: prompt for digest, prompt in self._prompts.items() if prompt},
            "calls": self._replies,
            "items": self._items,
            "edits": self._edits,
        }

    def add(
        self, number: int, edits: Edits, run: PageRun, row: Row, verdicts: Sequence[StoredVerdict]
    ) -> None:
        """Add an edit by its number."""
        pictures, item = run.pictures(row.item.id), edits.item_of(number)
        if item not in self._items:
            files = {
                "sources": [str(file) for file in pictures.sources],
                "mask": _path(pictures.mask),
                "target": _path(pictures.target),
            }
            extra = dict(row.item.extra) or None
            self._items[item] = {"files": files, "hint": row.item.hint, "extra": extra}
        counted_verdicts = {
            one.dimension: one for one in verdicts if row.outcomes.get(one.dimension) is one.verdict
        }
        rows = {
            name: make_row(counted_verdicts[name])
            if name in counted_verdicts
            else VerdictRow.of(row.item.id, row.model, name, outcome)
            for name, outcome in row.outcomes.items()
            if name in counted_verdicts or outcome.status in _WITH_REASON
        }
        self._edits[number] = {
            "file": _path(pictures.outputs.get(row.model)),
            "verdicts": [
                {**self._verdict(verdict, run.view.prompt), "dimension": edits.dimensions[name]}
                for name, verdict in rows.items()
            ],
        }

    def _verdict(self, row: VerdictRow, prompt: FindPrompt) -> JsonObject:
        """A verdict as `show --json` has it, with its long parts by number."""
        calls = row.calls or ()
        for call in calls:
            if self._calls.setdefault(call.call, len(self._replies)) == len(self._replies):
                self._replies.append(call.model_dump(mode="json", exclude={"call"}))
            if call.prompt is not None and call.prompt not in self._prompts:
                self._prompts[call.prompt] = self._prompt(prompt(call.prompt))
        return {
            **row.model_dump(mode="json", exclude={"item", "model", "calls"}),
            "calls": [self._calls[call.call] for call in calls],
            "signature": self._text(row.signature),
            "versions": self._text(row.versions),
        }

    def _prompt(self, prompt: StoredPrompt | None) -> JsonObject | None:
        if prompt is None or not prompt.parts:
            return None
        parts = [
            {"text": self._text(str(part["text"])), "data": bool(part.get("data"))}
            if "text" in part
            else dict(part)
            for part in prompt.parts
        ]
        return {"system": self._text(prompt.system or None), "parts": parts}

    def _text(self, text: str | None) -> int | None:
        """The number of a text here."""
        return None if text is None else self._texts.setdefault(text, len(self._texts))


def _path(file: object) -> str | None:
    # What is no text in a path comes as lone surrogates, which JSON can hold.
    return None if file is None else str(file)
