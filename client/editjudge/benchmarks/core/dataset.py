"""Data of one's own."""

from __future__ import annotations

from ..items import ItemsFile


class CoreData(ItemsFile):
    """Items of one's own, judged by the generic dimensions."""

    name = "core"
