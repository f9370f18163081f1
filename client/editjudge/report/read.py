"""Runs, read for a page."""

from __future__ import annotations

from collections.abc import Sequence

from ..app.published import published_beside
from ..app.results import Row
from ..app.view import RunView, StoredVerdict
from .contents import ShownRun
from .gathered import Gathered, ShownEdit


def shown_run(
    view: RunView, gathered: Gathered, number: int, models_before: int, *, published: bool
) -> ShownRun:
    """Read a run once: its edits are gathered on the way to its table.

    Args:
        number: Of the run on the page.
        models_before: How many models the runs before it have.
        published: Also what the paper prints.

    Raises:
        ConfigError: it has dimensions that this editjudge does not know, or its data has none of
            its items.
        InputError: its data is not there any more.
    """
    header = view.header
    models = {name: models_before + place for place, name in enumerate(header.outputs)}
    pictures, became = view.all_pictures(), view.became()
    digests = {(e.model, e.item): e for e in view.edits()}
    data = f"{header.benchmark} {header.data_digest}"

    def each(row: Row, stored: Sequence[StoredVerdict]) -> None:
        kept = digests.get((row.model, row.item.id))
        gathered.add(
            ShownEdit(
                row,
                stored,
                pictures(row.item.id),
                None if kept is None else kept.digest,
                None if kept is None or kept.missing is None else str(kept.missing),
                became(row.item.id, row.model),
            ),
            number,
            models[row.model],
            data,
            view.prompt,
        )

    results = view.results(each=each, evidence=gathered.with_details)
    return ShownRun(
        name=str(view.folder),
        results=results,
        header=header,
        dimensions=view.resolved.known,
        models=dict.fromkeys(models, ""),
        waiting=view.waiting(),
        drift=view.drift(),
        published=published_beside(results) if published else None,
    )


def edits_asked(view: RunView) -> int:
    """How many edits a page of a run would have."""
    return sum(1 for _ in view.resolved.dataset.items()) * len(view.header.outputs)
