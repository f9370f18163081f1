"""How much of the pictures of a data set masks cover."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from ..base.images import MAX_PIXELS
from ..benchmarks.dataset import Dataset, ItemRef


def mask_shares(dataset: Dataset) -> list[float]:
    """Of each item with a mask that can be read, the share of the picture that may change, 0..1."""
    masked = [ref for ref in dataset.items() if dataset.outline(ref).mask is not None]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        shares = pool.map(partial(_share, dataset), masked)
        return [share for share in shares if share is not None]


def _share(dataset: Dataset, ref: ItemRef) -> float | None:
    mask = dataset.load(ref, left_encoded=MAX_PIXELS).mask
    return None if mask is None else float(mask.selected.mean())
