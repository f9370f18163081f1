"""What judging asks of the place where a run's verdicts are kept."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol

from ..base.item import Missing
from ..base.verdict import Verdict
from ..panel.calls import CallStore
from .header import RunHeader
from .runplan import Standing


class JudgedEdit(NamedTuple):
    """An edit that verdicts are about.

    Attributes:
        item: Its id.
        model: Under test.
        digest: Of the output; None where it is missing.
        missing: Why it is.
    """

    item: str
    model: str
    digest: str | None
    missing: Missing | None = None


class VerdictSink(Protocol):
    """Where verdicts go."""

    async def keep(
        self, edit: JudgedEdit, verdicts: Mapping[str, Verdict], signatures: Mapping[str, str]
    ) -> None:
        """Keep an edit's verdicts, all or none; what this has returned from is kept.

        Args:
            verdicts: By dimension id; they take the place of earlier ones. Where the output is
                not the one judged before, the others of this edit are gone.
            signatures: At least of these dimensions.

        Raises:
            StoreError: the disk is full or fails.
        """


class VerdictStore(VerdictSink, Protocol):
    """A run's header, its edits and their verdicts, beside the store of its calls."""

    @property
    def ledger(self) -> CallStore:
        """Its calls."""

    @property
    def header(self) -> RunHeader:
        """What it is about."""

    @property
    def costs(self) -> tuple[float, float]:
        """What all its calls have cost, and the dearest of them."""

    @property
    def looked(self) -> Mapping[str, float]:
        """When each model's outputs were last known to be what was judged, since the epoch."""

    def amend(self, header: RunHeader) -> RunHeader:
        """Go on with another header, joined with the one there is; returns the whole."""

    def standing(self, model: str, signatures: Mapping[str, str]) -> Iterable[Standing]:
        """Every edit of a model, with the dimensions on which a verdict stands."""

    def counts(
        self, signatures: Mapping[str, str] | None = None
    ) -> Mapping[str, Mapping[str, Mapping[str, int]]]:
        """How many verdicts there are, by model, dimension and status."""

    def keep_outputs(self, edits: Iterable[JudgedEdit], looked: Mapping[str, float]) -> None:
        """Keep what became of outputs, and when they were looked at, by model."""
