"""Runs, read for a page."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from ..app.canary import last_checks
from ..app.published import published_beside
from ..app.view import RunView, StoredPrompt, StoredVerdict
from ..benchmarks.column import Row
from ..engine.items import ItemChanges
from .contents import ShownRun
from .gathered import Gathered, ShownEdit


class Reading:
    """A run as far as a page needs it for every edit.

    Args:
        number: Of the run on the page.
        models_before: How many models the runs before it have.

    Raises:
        InputError: its data is not there any more.
    """

    def __init__(self, view: RunView, number: int = 0, models_before: int = 0) -> None:
        header = view.header
        self._view, self.number = view, number
        self.models = {name: models_before + place for place, name in enumerate(header.outputs)}
        self._pictures, self._became = view.all_pictures(), view.became()
        self._edits = {(edit.model, edit.item): edit for edit in view.edits()}
        # Its digest is of what the data says; the pictures beside it may be others elsewhere.
        self._data = f"{header.benchmark} {header.data_digest} {header.data}"

    def gather(self, gathered: Gathered, *, published: bool) -> ShownRun:
        """Read all of the run once: its edits are gathered on the way to its table.

        Args:
            published: Also what the paper prints.

        Raises:
            ConfigError: it has dimensions that this editjudge does not know, or its data has none
                of its items.
        """
        view = self._view

        def each(row: Row, stored: Sequence[StoredVerdict]) -> None:
            edit = self._shown(row, stored)
            gathered.add(edit, self.number, self.models[row.model], self._data, self.prompt)

        results = view.results(each=each, evidence=gathered.with_details)
        return ShownRun(
            name=str(view.folder),
            results=results,
            header=view.header,
            dimensions=view.resolved.known,
            models=dict.fromkeys(self.models, ""),
            waiting=view.waiting(),
            checks=last_checks(results.identities),
            published=published_beside(results) if published else None,
        )

    def edits(self, items: Collection[str], became: ItemChanges) -> Iterator[ShownEdit]:
        """The edits of some items, with evidence and replies."""
        shown: list[ShownEdit] = []

        def each(row: Row, stored: Sequence[StoredVerdict]) -> None:
            shown.append(self._shown(row, stored))

        for _ in self._view.rows(items, became=became, each=each, evidence=True):
            yield from shown
            shown.clear()

    def prompt(self, digest: str) -> StoredPrompt | None:
        """A prompt as it was sent; None where it is not kept."""
        return self._view.prompt(digest)

    def _shown(self, row: Row, stored: Sequence[StoredVerdict]) -> ShownEdit:
        kept = self._edits.get((row.model, row.item.id))
        return ShownEdit(
            row,
            stored,
            self._pictures(row.item.id),
            None if kept is None else kept.digest,
            None if kept is None or kept.missing is None else str(kept.missing),
            self._became(row.item.id, row.model),
        )


def readings(views: Sequence[RunView]) -> list[Reading]:
    """Several runs for one page."""
    each: list[Reading] = []
    for number, view in enumerate(views):
        before = sum(len(reading.models) for reading in each)
        each.append(Reading(view, number, before))
    return each


def edits_asked(view: RunView) -> int:
    """How many edits a page of a run would have."""
    return sum(1 for _ in view.resolved.dataset.items()) * len(view.header.outputs)
