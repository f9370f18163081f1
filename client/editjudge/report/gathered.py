"""The edits that a page shows: an index of all of them, and what there is to say of each.

Everything is plain JSON. What strings hold comes from data, judges and servers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ..app.view import Known, Pictures, StoredPrompt, StoredVerdict
from ..base.verdict import Evidence, Outcome, Scored, Unscored
from ..benchmarks.column import Row
from ..panel.calls import Said
from .pictures import PictureNames

Plain: TypeAlias = dict[str, Any]
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
_TOLD = frozenset({"unscored", "failed", "not_applicable"})
"""Statuses whose reason is said also where nobody was asked."""


@dataclass(frozen=True, slots=True)
class ShownEdit:
    """An edit as a page shows it.

    Attributes:
        row: The item, the model and what became of each dimension.
        stored: Its verdicts, also those that nothing counts.
        pictures: Where its pictures lie.
        digest: Of the output that was judged; None where it is missing.
        missing: Why it is; None where it is not.
        became: Whether item and output are those that were judged.
    """

    row: Row
    stored: Sequence[StoredVerdict]
    pictures: Pictures
    digest: str | None
    missing: str | None
    became: Known


@dataclass(slots=True)
class _Column:
    """A dimension over the edits so far."""

    values: list[float | None] = field(default_factory=list)
    status: list[str] = field(default_factory=list)
    kind: list[str] = field(default_factory=list)

    def upto(self, count: int) -> None:
        """Fill up with edits that it asks nothing about."""
        missing = count - len(self.values)
        self.values += [None] * missing
        self.status += [STATUS_LETTERS["not_applicable"]] * missing
        self.kind += [" "] * missing

    def add(self, outcome: Outcome) -> None:
        letter = STATUS_LETTERS[outcome.status]
        value = None
        if isinstance(outcome, Scored):
            value = float(f"{outcome.value:.{_DIGITS}g}")
            letter = _IMPUTED if outcome.imputed else letter
        self.values.append(value)
        self.status.append(letter)
        self.kind.append(_KIND_LETTERS[outcome.kind] if isinstance(outcome, Unscored) else " ")


class Gathered:
    """Gathers edits as they come, run after run.

    Args:
        names: What the page calls pictures.
        keep: Gets each chunk of details as soon as it is whole: its number, and it. Without it
            no details are made.

    Attributes:
        dimensions: By id their number on the page.
        keys: Of each edit the number of its run, its item and its model.
    """

    def __init__(
        self, names: PictureNames, keep: Callable[[int, Plain], None] | None = None
    ) -> None:
        self.names = names
        self.dimensions: dict[str, int] = {}
        self.keys: list[tuple[int, str, str]] = []
        self._keep = keep
        self._columns: list[_Column] = []
        self._items: dict[tuple[str, str], int] = {}
        self._of_items: dict[str, list[Any]] = {
            name: []
            for name in (
                *("id", "run", "task", "instruction", "target_text"),
                *("sources", "mask", "target"),
            )
        }
        self._of_edits: dict[str, list[Any]] = {
            name: [] for name in ("item", "model", "picture", "missing", "became")
        }
        self._chunk = Chunk()
        self._number = 0

    @property
    def with_details(self) -> bool:
        """Whether details are made, for which evidence and replies are needed."""
        return self._keep is not None

    @property
    def count(self) -> int:
        """Edits so far."""
        return len(self.keys)

    @property
    def chunks(self) -> int:
        """Chunks of all edits so far."""
        return -(-self.count // CHUNK)

    def item_of(self, edit: int) -> int:
        """The number of the item of an edit."""
        return int(self._of_edits["item"][edit])

    def judged(self) -> int:
        """Edits of which nothing is still to be judged."""
        waits = STATUS_LETTERS["pending"]
        columns = [column.status for column in self._columns]
        return sum(waits not in letters for letters in zip(*columns, strict=True))

    def unserved(self) -> list[str]:
        """The dimensions of which nothing has a number for want of a service."""
        unserved = STATUS_LETTERS["not_served"]
        nothing = {unserved, STATUS_LETTERS["not_applicable"], STATUS_LETTERS["missing_output"]}
        letters = {name: set(self._columns[n].status) for name, n in self.dimensions.items()}
        return [name for name, some in letters.items() if unserved in some and some <= nothing]

    def add(
        self,
        edit: ShownEdit,
        run: int,
        model: int,
        data: str,
        prompt: Callable[[str], StoredPrompt | None],
    ) -> None:
        """Add an edit.

        Args:
            run: Number of its run.
            model: Number of the model on the page.
            data: What tells its data from others: items of the same data are the same.
            prompt: The prompt of a digest; None where it is not kept.
        """
        item = self._item(edit, run, data)
        places = self._of_edits
        places["item"].append(item)
        places["model"].append(model)
        places["picture"].append(self.names.name(edit.pictures.outputs.get(edit.row.model)))
        places["missing"].append(edit.missing)
        places["became"].append(edit.became[0])
        for name, outcome in edit.row.outcomes.items():
            column = self._column(name)
            column.upto(self.count)
            column.add(outcome)
        for verdict in edit.stored:  # of a dimension that the table does not ask for any more
            self._column(verdict.dimension)
        if self._keep is not None:
            self._chunk.add(self.count, item, edit, self.dimensions, prompt)
        self.keys.append((run, edit.row.item.id, edit.row.model))
        if self._keep is not None and self.count % CHUNK == 0:
            self._end_chunk()

    def index(self) -> Plain:
        """All edits, column by column; ends the last chunk."""
        if self._keep is not None and self.count % CHUNK:
            self._end_chunk()
        for column in self._columns:
            column.upto(self.count)
        return {
            "items": self._of_items,
            **{name: values for name, values in self._of_edits.items() if name != "became"},
            "became": "".join(self._of_edits["became"]),
            "values": [
                column.values if any(v is not None for v in column.values) else None
                for column in self._columns
            ],
            "status": [_letters(column.status) for column in self._columns],
            "kind": [
                "".join(column.kind) if any(k != " " for k in column.kind) else None
                for column in self._columns
            ],
        }

    def _end_chunk(self) -> None:
        if self._keep is not None:
            self._keep(self._number, self._chunk.plain())
        self._chunk, self._number = Chunk(), self._number + 1

    def _column(self, dimension: str) -> _Column:
        number = self.dimensions.setdefault(dimension, len(self.dimensions))
        if number == len(self._columns):
            self._columns.append(_Column())
        return self._columns[number]

    def _item(self, edit: ShownEdit, run: int, data: str) -> int:
        item, pictures = edit.row.item, edit.pictures
        number = self._items.setdefault((data, item.id), len(self._items))
        if number < len(self._of_items["id"]):
            return number
        told: Plain = {
            "id": item.id,
            "run": run,
            "task": item.task,
            "instruction": item.instruction,
            "target_text": item.target_text,
            "sources": [self.names.name(file) for file in pictures.sources],
            "mask": self.names.name(pictures.mask),
            "target": self.names.name(pictures.target),
        }
        for name, value in told.items():
            self._of_items[name].append(value)
        return number


def _letters(status: Collection[str]) -> str:
    """One letter for each, or for all where they are the same."""
    return "".join(status) if len(set(status)) > 1 else next(iter(status), "")


class Chunk:
    """What there is to say of some edits; what they share is held once."""

    def __init__(self) -> None:
        self._texts: dict[str, int] = {}
        self._prompts: dict[str, Plain | None] = {}
        self._items: dict[int, Plain] = {}
        self._edits: dict[int, Plain] = {}

    def plain(self) -> Plain:
        """As JSON."""
        return {
            "texts": list(self._texts),
            "prompts": {digest: told for digest, told in self._prompts.items() if told},
            "items": self._items,
            "edits": self._edits,
        }

    def add(
        self,
        number: int,
        item: int,
        edit: ShownEdit,
        dimensions: Mapping[str, int],
        prompt: Callable[[str], StoredPrompt | None],
    ) -> None:
        """Add an edit by its number."""
        if item not in self._items:
            self._items[item] = self._item(edit)
        output = edit.pictures.outputs.get(edit.row.model)
        verdicts = [*self._stored(edit, dimensions, prompt), *self._told(edit, dimensions)]
        self._edits[number] = {
            "file": None if output is None else _path(output),
            "digest": edit.digest,
            "verdicts": verdicts,
        }

    def _item(self, edit: ShownEdit) -> Plain:
        item, pictures = edit.row.item, edit.pictures
        files: Plain = {
            "sources": [_path(file) for file in pictures.sources],
            "mask": None if pictures.mask is None else _path(pictures.mask),
            "target": None if pictures.target is None else _path(pictures.target),
        }
        return {
            "files": files,
            "hint": self._text(item.hint),
            "extra": dict(item.extra) or None,
        }

    def _stored(
        self,
        edit: ShownEdit,
        dimensions: Mapping[str, int],
        prompt: Callable[[str], StoredPrompt | None],
    ) -> Iterator[Plain]:
        for stored in edit.stored:
            verdict = stored.verdict
            evidence = getattr(verdict, "evidence", {})
            replies = [self._reply(said, prompt) for said in stored.said]
            choices = _probabilities(evidence, stored.said)
            yield {
                **self._outcome(dimensions[stored.dimension], verdict),
                "counts": edit.row.outcomes.get(stored.dimension) is verdict,
                "question": self._text(_asked(evidence)),
                "probabilities": choices,
                "outside": _outside(stored.said) if choices else None,
                "ocr": _read(evidence, edit),
                "evidence": evidence,
                "replies": replies,
                "signature": self._text(stored.signature),
                "versions": self._text(stored.versions),
            }

    def _told(self, edit: ShownEdit, dimensions: Mapping[str, int]) -> Iterator[Plain]:
        """What nobody was asked, with the reason."""
        judged = {stored.dimension for stored in edit.stored}
        for name, outcome in edit.row.outcomes.items():
            if name not in judged and outcome.status in _TOLD:
                yield {
                    **self._outcome(dimensions[name], outcome),
                    "counts": True,
                    **dict.fromkeys(("question", "probabilities", "outside", "ocr")),
                    "evidence": {},
                    "replies": [],
                    "signature": None,
                    "versions": None,
                }

    def _outcome(self, dimension: int, outcome: Outcome) -> Plain:
        return {
            "dimension": dimension,
            "status": outcome.status,
            "kind": outcome.kind if isinstance(outcome, Unscored) else None,
            "value": outcome.value if isinstance(outcome, Scored) else None,
            "reason": None if isinstance(outcome, Scored) else self._text(outcome.reason),
            "imputed": isinstance(outcome, Scored) and outcome.imputed,
        }

    def _reply(self, said: Said, prompt: Callable[[str], StoredPrompt | None]) -> Plain:
        told = said.reply
        text = told.get("text") if isinstance(told, dict) else None
        alone = isinstance(text, str) and set(told) <= {"text", "finish"}  # type: ignore[arg-type]
        finish = told.get("finish") if isinstance(told, dict) else None
        self._ask(said.prompt, prompt)
        return {
            "judge": said.judge,
            "model": said.model,
            "text": self._text(text if isinstance(text, str) else None),
            "raw": None if alone and finish in {None, "stop"} else told,
            "prompt": said.prompt,
            "prompt_tokens": said.prompt_tokens,
            "cached_tokens": said.cached_tokens,
            "completion_tokens": said.completion_tokens,
            "cost": said.cost,
        }

    def _ask(self, digest: str | None, prompt: Callable[[str], StoredPrompt | None]) -> None:
        if digest is None or digest in self._prompts:
            return
        stored = prompt(digest)
        if stored is None or not stored.parts:
            self._prompts[digest] = None
            return
        parts = [
            {"text": self._text(str(part["text"])), "data": bool(part.get("data"))}
            if "text" in part
            else dict(part)
            for part in stored.parts
        ]
        self._prompts[digest] = {"system": self._text(stored.system or None), "parts": parts}

    def _text(self, text: str | None) -> int | None:
        """The number of a text here."""
        return None if text is None else self._texts.setdefault(text, len(self._texts))


def _path(file: Any) -> str:
    # What is no text in a path comes as lone surrogates, which JSON can hold.
    return str(file)


def _asked(evidence: Evidence) -> str | None:
    """The question as it was put, where it was made for this edit."""
    question = evidence.get("question")
    return question if isinstance(question, str) else None


def _probabilities(evidence: Evidence, said: Sequence[Said]) -> dict[str, float] | None:
    """By choice: of the verdict, or of the one reply that it rests on."""
    told = evidence.get("probabilities")
    if told is None and len(said) == 1 and isinstance(said[0].reply, dict):
        told = said[0].reply.get("probabilities")
    if not isinstance(told, dict) or not told:
        return None
    shares = {str(name): share for name, share in told.items() if isinstance(share, int | float)}
    return shares if len(shares) == len(told) else None


def _outside(said: Sequence[Said]) -> float | None:
    """The probability that fell on no choice."""
    if len(said) != 1 or not isinstance(said[0].reply, dict):
        return None
    outside = said[0].reply.get("outside")
    return float(outside) if isinstance(outside, int | float) else None


def _read(evidence: Evidence, edit: ShownEdit) -> dict[str, str] | None:
    """What was read in the picture, and what was to be read."""
    read, target = evidence.get("read"), edit.row.item.target_text
    return {"read": read, "target": target or ""} if isinstance(read, str) else None
