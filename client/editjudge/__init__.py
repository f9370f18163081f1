"""Judges for image editing, served.

The public names load on first use, so that `editjudge --help` stays instant.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .client import Client, make_edit, score
    from .column import Cell, Column, Composite, InstanceWeighted, Mean, Pooled, Row, tabulate
    from .config import Settings, load_settings
    from .dimension import Derived, Dimension, Reading, Scorer, derived
    from .errors import EditjudgeError
    from .images import Image, Mask, load_image, load_mask
    from .item import Edit, Item
    from .panel import Panel
    from .run.judge import Judgement
    from .signature import Signature
    from .verdict import (
        Failed,
        MissingOutput,
        NotApplicable,
        NotServed,
        Outcome,
        Scored,
        Unscored,
        Verdict,
    )

_WHERE = {
    "client": ("Client", "make_edit", "score"),
    "column": (
        "Cell",
        "Column",
        "Composite",
        "InstanceWeighted",
        "Mean",
        "Pooled",
        "Row",
        "tabulate",
    ),
    "config": ("Settings", "load_settings"),
    "dimension": ("Derived", "Dimension", "Reading", "Scorer", "derived"),
    "errors": ("EditjudgeError",),
    "images": ("Image", "Mask", "load_image", "load_mask"),
    "item": ("Edit", "Item"),
    "panel": ("Panel",),
    "run.judge": ("Judgement",),
    "signature": ("Signature",),
    "verdict": (
        "Failed",
        "MissingOutput",
        "NotApplicable",
        "NotServed",
        "Outcome",
        "Scored",
        "Unscored",
        "Verdict",
    ),
}
_MODULES = {name: module for module, names in _WHERE.items() for name in names}

__all__ = [
    "Cell",
    "Client",
    "Column",
    "Composite",
    "Derived",
    "Dimension",
    "Edit",
    "EditjudgeError",
    "Failed",
    "Image",
    "InstanceWeighted",
    "Item",
    "Judgement",
    "Mask",
    "Mean",
    "MissingOutput",
    "NotApplicable",
    "NotServed",
    "Outcome",
    "Panel",
    "Pooled",
    "Reading",
    "Row",
    "Scored",
    "Scorer",
    "Settings",
    "Signature",
    "Unscored",
    "Verdict",
    "derived",
    "load_image",
    "load_mask",
    "load_settings",
    "make_edit",
    "score",
    "tabulate",
]


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{module}", __name__), name)


def __dir__() -> list[str]:
    return sorted(__all__)
