"""Which source pictures the items of a run have, and which items share one."""

from __future__ import annotations

from ..benchmarks.dataset import Dataset, ItemRef
from ..engine.contents import SHORT
from ..storage.store import RunStore


class SourcesOf:
    """The source pictures of a run's items: equal texts where pictures are equal.

    By what they held when they were judged; of a run that did not keep that, by their files.
    """

    def __init__(self, store: RunStore, dataset: Dataset) -> None:
        self._dataset = dataset
        self._kept = {name: one.files for name, one, is_current in store.contents() if is_current}

    def item(self, ref: ItemRef, count: int) -> tuple[str, ...]:
        """Those of an item.

        Args:
            count: How many it has.
        """
        digests = self._kept.get(ref.id, b"")[: SHORT * count]
        if digests:
            return tuple(digests.hex(" ", SHORT).split())
        return tuple(self._dataset.files(ref)[:count])
