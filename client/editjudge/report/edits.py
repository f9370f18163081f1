"""Builds the JSON of a page's edits: an index of all edits, and the details of each.

Strings hold text from data sets, judges and servers, so that readers must not trust them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from json import dumps
from pathlib import Path
from typing import Any, TypeAlias
from zlib import crc32

from ..app.results import PublishedNumbers, Results, read_published
from ..app.verdicts import make_row
from ..app.view import Pictures, RunView, StoredPrompt, StoredVerdict
from ..base.item import Item
from ..base.strict import pick_fields
from ..base.verdict import MissingOutput, NoScore, Outcome, Score
from ..benchmarks.column import Row
from ..engine.score_report import Row as VerdictRow
from .pictures import PictureNames

JsonObject: TypeAlias = dict[str, Any]
OpenRun: TypeAlias = Callable[[Path], RunView]
CHUNK = 50
"""Number of edits whose details are loaded together."""
_DIGITS = 6
STATUS_LETTERS: Mapping[str, str] = {
    "scored": "S", "unscored": "U", "failed": "F", "not_applicable": "N", "not_served": "-", "missing_output": "M",
    "pending": "P",
}  # fmt: skip
_IMPUTED_LETTER = "I"
_KIND_LETTERS = {"abstained": "a", "unparsable": "u", "refused": "r", "degenerate": "d"}
_WITH_REASON = frozenset({"unscored", "failed", "not_applicable"})
"""Statuses whose reason is shown even where no verdict is stored."""
_ITEM_FIELDS = ("id", "run", "task", "instruction", "target_text", "sources", "mask", "target")
_EDIT_FIELDS = ("item", "model", "picture", "missing")


class PageRun:
    """A run on a page.

    Args:
        number: Index of the run on the page.
        models: Indices of its models on the page, by name; others are not shown.
        checks: Whether pictures are left out that are not what was judged.

    Attributes:
        name: The folder of the run.
        data: Identity of its data set: two runs with equal values share their items.
        finder: Finds the picture files of an item.
        results: Its table; set by `read`.
        published_beside: What the paper prints; None unless asked for; set by `read`.

    Raises:
        InputError: its data set no longer exists.
    """

    results: Results
    published_beside: PublishedNumbers | None

    def __init__(self, view: RunView, number: int, models: Mapping[str, int], *, checks: bool = False) -> None:
        self.header = header = view.header
        self.view, self.number, self.models, self.name = view, number, models, str(view.folder)
        self.finder = view.make_picture_finder(checks=checks)
        # The digest covers the records; pictures beside the same records may differ elsewhere.
        self.data = f"{header.benchmark} {header.data_digest} {header.data}"

    def read(self, edits: Edits, *, with_published: bool) -> None:
        """Read the run once: fill its table and add its edits.

        Args:
            with_published: Also read what the paper prints.

        Raises:
            ConfigError: the run has dimensions that this version does not know, or its data set
                has none of its items.
        """
        self.finder.needs = edits.is_listed
        self.results = self.view.results(each=partial(edits.add, self), evidence=edits.is_listed)
        self.published_beside = read_published(self.results) if with_published else None


@dataclass(slots=True)
class _DimensionColumn:
    """The outcomes of one dimension for all edits so far, and its index on the page."""

    number: int
    values: list[float | None] = field(default_factory=list)
    status: list[str] = field(default_factory=list)
    kind: list[str] = field(default_factory=list)

    def fill(self, count: int) -> None:
        """Fill up to `count` edits with the status `not_applicable`."""
        missing = count - len(self.values)
        self.values += [None] * missing
        self.status += [STATUS_LETTERS["not_applicable"]] * missing
        self.kind += [" "] * missing

    def add(self, outcome: Outcome) -> None:
        """Append the outcome of one more edit."""
        letter, value = STATUS_LETTERS[outcome.status], None
        if isinstance(outcome, Score):
            letter = _IMPUTED_LETTER if outcome.imputed else letter
            value = float(f"{outcome.value:.{_DIGITS}g}")
        self.values.append(value)
        self.status.append(letter)
        self.kind.append(_KIND_LETTERS[outcome.kind] if isinstance(outcome, NoScore) else " ")

    def to_json(self) -> tuple[list[float | None] | None, str, str | None]:
        """Return values, statuses and kinds; a list of equal entries is shortened."""
        values = self.values if any(value is not None for value in self.values) else None
        status = "".join(self.status) if len({*self.status}) > 1 else "".join(self.status[:1])
        kind = "".join(self.kind)
        return values, status, kind if kind.strip() else None


class Edits:
    """Collects the edits of all runs: their index and their details.

    Args:
        names: Gives pictures their names on the page.
        save_chunk: Receives the name and the content of each chunk of details.
        step: One item of so many is listed, with all of its edits; which, its id decides.
        items: Only edits of these items are listed, in this order.

    Attributes:
        pending_count: How many edits have a pending verdict, listed or not.
        dimensions: What is said of each dimension, by id.
    """

    def __init__(
        self,
        names: PictureNames,
        save_chunk: Callable[[str, JsonObject], None],
        step: int = 1,
        items: Sequence[str] | None = None,
    ) -> None:
        self.names = names
        self.step = step
        self.pending_count = 0
        self._items_shown = None if items is None else {item: place for place, item in enumerate(items)}
        self._queue: list[tuple[int, PageRun, Row, Sequence[StoredVerdict]]] = []
        self._save_chunk = save_chunk
        self._chunk = DetailChunk()
        self.dimensions: dict[str, _DimensionColumn] = {}
        self._numbers: dict[tuple[str, str], int] = {}
        self._items: list[JsonObject] = []
        self._edits: list[JsonObject] = []

    @property
    def count(self) -> int:
        """Number of edits so far."""
        return len(self._edits)

    @property
    def chunks(self) -> int:
        """Number of chunks that hold the details of all edits so far."""
        return -(-self.count // CHUNK)

    @property
    def is_part(self) -> bool:
        """Whether the page lists some edits only, while its tables are of all."""
        return self.step > 1 or self._items_shown is not None

    def is_listed(self, item: str) -> bool:
        """Whether the page lists the edits of an item, by its id."""
        is_shown = self._items_shown is None or item in self._items_shown
        return is_shown and crc32(item.encode("utf-8", "surrogatepass")) % self.step == 0

    def add(self, run: PageRun, row: Row, verdicts: Sequence[StoredVerdict]) -> None:
        """Add an edit of a run with its stored verdicts, including those that no column counts.

        Of an item that is not listed they need no evidence.
        """
        self.pending_count += any(o.status == "pending" for o in row.outcomes.values())
        if not self.is_listed(row.item.id) or row.model not in run.models:
            return
        if self._items_shown is None:
            self._list(run, row, verdicts)
        else:
            self._queue.append((self._items_shown[row.item.id], run, row, verdicts))

    def _list(self, run: PageRun, row: Row, verdicts: Sequence[StoredVerdict]) -> None:
        pictures = run.finder.find(row.item.id)
        item = self._numbers.setdefault((run.data, row.item.id), len(self._items))
        if item == len(self._items):
            self._items.append(self._item_json(run, row.item, pictures))
        missing = (o.reason for o in row.outcomes.values() if isinstance(o, MissingOutput))
        number = self.count
        self._edits.append(
            {
                "item": item,
                "model": run.models[row.model],
                "picture": self.names.name(pictures.outputs.get(row.model)),
                "missing": next(missing, None),
            }
        )
        for name, outcome in row.outcomes.items():
            column = self.dimensions.setdefault(name, _DimensionColumn(len(self.dimensions)))
            column.fill(number)
            column.add(outcome)
        self._chunk.add(number, item, self, run, row, verdicts)
        if self.count % CHUNK == 0:
            self.flush()

    def flush(self) -> None:
        """Save the details that do not fill a chunk."""
        queue, self._queue = self._queue, []
        for _, run, row, verdicts in sorted(queue, key=lambda edit: edit[0]):
            self._list(run, row, verdicts)
        chunk = self._chunk.to_json()
        if chunk["edits"]:
            self._save_chunk(f"detail-{self.chunks - 1}", chunk)
            self._chunk = DetailChunk()

    def build_index(self) -> JsonObject:
        """Return all edits as JSON, column by column."""
        for column in self.dimensions.values():
            column.fill(self.count)
        columns = [column.to_json() for column in self.dimensions.values()]
        return {
            "items": {name: [item[name] for item in self._items] for name in _ITEM_FIELDS},
            **{name: [edit[name] for edit in self._edits] for name in _EDIT_FIELDS},
            "values": [values for values, _, _ in columns],
            "status": [status for _, status, _ in columns],
            "kind": [kind for _, _, kind in columns],
        }

    def _item_json(self, run: PageRun, item: Item, pictures: Pictures) -> JsonObject:
        name = self.names.name
        return {
            **pick_fields(item, "id", "task", "instruction", "target_text"),
            "run": run.number,
            "sources": [name(file) for file in pictures.sources],
            "mask": name(pictures.mask),
            "target": name(pictures.target),
        }


class DetailChunk:
    """The details of some edits; texts, prompts and calls that they share are stored once."""

    def __init__(self) -> None:
        self._texts: dict[str, int] = {}
        self._prompts: dict[str, JsonObject | None] = {}
        self._calls: dict[str, int] = {}
        self._replies: list[JsonObject] = []
        self._items: dict[int, JsonObject] = {}
        self._edits: dict[int, JsonObject] = {}

    def to_json(self) -> JsonObject:
        """Return the chunk as JSON."""
        return {
            "texts": list(self._texts),
            "prompts": {digest: prompt for digest, prompt in self._prompts.items() if prompt},
            "calls": self._replies,
            "items": self._items,
            "edits": self._edits,
        }

    def add(
        self, number: int, item: int, edits: Edits, run: PageRun, row: Row, verdicts: Sequence[StoredVerdict]
    ) -> None:
        """Add the details of the edit with this index, of the item with its index."""
        pictures = run.finder.find(row.item.id)
        if item not in self._items:
            files = {
                "sources": [str(file) for file in pictures.sources],
                "mask": _path_text(pictures.mask),
                "target": _path_text(pictures.target),
            }
            extra = dict(row.item.extra) or None
            self._items[item] = {"files": files, "hint": row.item.hint, "extra": extra}
        outcomes = row.outcomes
        valid = {v.dimension: v for v in verdicts if outcomes.get(v.dimension) is v.verdict}
        rows = {
            name: make_row(valid[name]) if name in valid else VerdictRow.of(row.item.id, row.model, name, outcome)
            for name, outcome in outcomes.items()
            if name in valid or outcome.status in _WITH_REASON
        }
        self._edits[number] = {
            "file": _path_text(pictures.outputs.get(row.model)),
            "verdicts": [
                {**self._verdict_json(line, run.view), "dimension": edits.dimensions[name].number}
                for name, line in rows.items()
            ],
        }

    def _verdict_json(self, row: VerdictRow, view: RunView) -> JsonObject:
        """Return a verdict as in `show --json`, with indices in place of its long texts."""
        calls = row.calls or ()
        for call in calls:
            if self._calls.setdefault(call.call, len(self._replies)) == len(self._replies):
                form = self._intern_text(dumps(dict(view.form(call.call)), indent=1))
                self._replies.append(call.model_dump(mode="json", exclude={"call"}) | {"form": form})
            if call.prompt is not None and call.prompt not in self._prompts:
                self._prompts[call.prompt] = self._prompt_json(view.prompt(call.prompt))
        return {
            **row.model_dump(mode="json", exclude={"item", "model", "calls"}),
            "calls": [self._calls[call.call] for call in calls],
            "signature": self._intern_text(row.signature),
            "versions": self._intern_text(row.versions),
        }

    def _prompt_json(self, prompt: StoredPrompt | None) -> JsonObject | None:
        if prompt is None or not prompt.parts:
            return None
        parts = [
            {"text": self._intern_text(str(part["text"])), "data": bool(part.get("data"))}
            if "text" in part
            else dict(part)
            for part in prompt.parts
        ]
        return {"system": self._intern_text(prompt.system or None), "parts": parts}

    def _intern_text(self, text: str | None) -> int | None:
        """Return the index of a text in this chunk."""
        return None if text is None else self._texts.setdefault(text, len(self._texts))


def _path_text(file: object) -> str | None:
    # Bytes of a path that are no text become lone surrogates, which JSON can hold.
    return None if file is None else str(file)
