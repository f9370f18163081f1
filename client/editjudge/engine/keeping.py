"""What judging asks of the place where a run's verdicts are kept."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol

from ..base.files import Seen
from ..base.item import Missing
from ..base.verdict import Verdict
from ..panel.calls import CallStore
from .header import RunHeader
from .items import ItemChanges, ItemState, KnownItems
from .outdated import Stale
from .runplan import Standing


class JudgedEdit(NamedTuple):
    """An edit that verdicts are about.

    Attributes:
        item: Its id.
        model: Under test.
        digest: Of the output; None where it is missing.
        missing: Why it is.
        seen: The file of the output; None where there is none.
        state: What its item was; None where nobody knows.
    """

    item: str
    model: str
    digest: str | None
    missing: Missing | None = None
    seen: Seen | None = None
    state: ItemState | None = None


class VerdictSink(Protocol):
    """Where verdicts go."""

    async def keep(
        self,
        edit: JudgedEdit,
        verdicts: Mapping[str, Verdict],
        signatures: Mapping[str, str],
        versions: str | None = None,
    ) -> None:
        """Keep an edit's verdicts, all or none; what this has returned from is kept.

        Args:
            verdicts: By dimension id; they take the place of earlier ones. Where the output or the
                item is not the one judged before, the others that rest on it stand no more.
            signatures: At least of these dimensions.
            versions: Of the packages that they were made with; None for those of this process.

        Raises:
            StoreError: the disk is full or fails.
        """


class VerdictStore(VerdictSink, KnownItems, Protocol):
    """A run's header, its edits and their verdicts, beside the store of its calls."""

    @property
    def ledger(self) -> CallStore:
        """Its calls."""

    @property
    def costs(self) -> tuple[float, float]:
        """What all its calls have cost, and the dearest of them."""

    def amend(self, header: RunHeader) -> RunHeader:
        """Go on with another header, joined with the one there is; returns the whole."""

    def standing(self, model: str, signatures: Mapping[str, str]) -> Iterable[Standing]:
        """Every edit of a model, with the dimensions on which a verdict stands."""

    def stale(self, signatures: Mapping[str, str]) -> Iterable[Stale]:
        """The verdicts on these dimensions, other than failed ones, by other signatures."""

    def counts(
        self, signatures: Mapping[str, str] | None = None
    ) -> Mapping[str, Mapping[str, Mapping[str, int]]]:
        """How many verdicts there are, by model, dimension and status."""

    def keep_changes(
        self,
        edits: Iterable[JudgedEdit],
        seen: Iterable[tuple[str, str, Seen]],
        changes: ItemChanges,
        places: Mapping[str, str],
    ) -> None:
        """Keep what became of outputs and items; no verdict stands on what changed.

        All of it or nothing: from then on the header names the data that items were compared with.

        Args:
            seen: Item, model and file of outputs that are what was judged.
            places: The folder of outputs by model under test.
        """
