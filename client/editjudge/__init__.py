"""Judges for image editing, served.

The public names load on first use, so that `editjudge --help` stays instant.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .app.client import Client, make_edit, make_edit_async, score, score_many
    from .app.dimensions import DimensionSet
    from .app.events import RunEvent
    from .app.lists import ListedDimension
    from .app.results import Results
    from .app.run import RunResult, run, run_async
    from .app.spec import RunSpec
    from .app.verdicts import Score
    from .app.view import Pictures, RunView
    from .base.config import Settings, load_settings
    from .base.errors import EditjudgeError
    from .base.images import Image, Mask, load_image, load_mask
    from .base.item import Edit, Item
    from .base.signature import Signature
    from .base.verdict import (
        Failed,
        MissingOutput,
        NotApplicable,
        NotServed,
        Outcome,
        Scored,
        Unscored,
        Verdict,
    )
    from .benchmarks.benchmark import Benchmark, Rules
    from .benchmarks.cell import Cell
    from .benchmarks.column import (
        Column,
        Mean,
        Row,
    )
    from .benchmarks.dimension import Derived, Dimension, Reading, derived
    from .benchmarks.items import ItemsFile, Line
    from .benchmarks.tabulation import tabulate
    from .engine.header import RunHeader
    from .engine.judge import Judgement
    from .panel import Panel
    from .panel.budget import Budget
    from .panel.calls import Call, RememberedReplies, Reply, Said, SpecialistCall, Usage
    from .panel.context import CallContext, CallNotes, Terms
    from .scorers.scorer import Scorer
    from .storage.ledger import Ledger
    from .storage.store import StoredEdit, StoredPrompt, StoredVerdict

_WHERE = {
    "app.dimensions": ("DimensionSet",),
    "app.lists": ("ListedDimension",),
    "storage.ledger": ("Ledger",),
    "app.client": ("Client", "make_edit", "make_edit_async", "score", "score_many"),
    "app.results": ("Results",),
    "app.run": ("RunResult", "run", "run_async"),
    "app.spec": ("RunSpec",),
    "app.view": ("Pictures", "RunView"),
    "app.verdicts": ("Score",),
    "app.events": ("RunEvent",),
    "benchmarks.benchmark": ("Benchmark", "Rules"),
    "benchmarks.cell": ("Cell",),
    "benchmarks.column": (
        "Column",
        "Mean",
        "Row",
    ),
    "benchmarks.items": ("ItemsFile", "Line"),
    "benchmarks.tabulation": ("tabulate",),
    "base.config": ("Settings", "load_settings"),
    "benchmarks.dimension": ("Derived", "Dimension", "Reading", "derived"),
    "scorers.scorer": ("Scorer",),
    "base.errors": ("EditjudgeError",),
    "base.images": ("Image", "Mask", "load_image", "load_mask"),
    "base.item": ("Edit", "Item"),
    "panel": ("Panel",),
    "panel.budget": ("Budget",),
    "panel.calls": (
        "Call",
        "RememberedReplies",
        "Reply",
        "Said",
        "SpecialistCall",
        "Usage",
    ),
    "panel.context": ("CallContext", "CallNotes", "Terms"),
    "engine.header": ("RunHeader",),
    "engine.judge": ("Judgement",),
    "storage.store": ("StoredEdit", "StoredPrompt", "StoredVerdict"),
    "base.signature": ("Signature",),
    "base.verdict": (
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
    "Benchmark",
    "Budget",
    "Call",
    "CallContext",
    "CallNotes",
    "Cell",
    "Client",
    "Column",
    "Derived",
    "Dimension",
    "DimensionSet",
    "Edit",
    "EditjudgeError",
    "Failed",
    "Image",
    "Item",
    "ItemsFile",
    "Judgement",
    "Ledger",
    "Line",
    "ListedDimension",
    "Mask",
    "Mean",
    "MissingOutput",
    "NotApplicable",
    "NotServed",
    "Outcome",
    "Panel",
    "Pictures",
    "Reading",
    "RememberedReplies",
    "Reply",
    "Results",
    "Row",
    "Rules",
    "RunEvent",
    "RunHeader",
    "RunResult",
    "RunSpec",
    "RunView",
    "Said",
    "Score",
    "Scored",
    "Scorer",
    "Settings",
    "Signature",
    "SpecialistCall",
    "StoredEdit",
    "StoredPrompt",
    "StoredVerdict",
    "Terms",
    "Unscored",
    "Usage",
    "Verdict",
    "derived",
    "load_image",
    "load_mask",
    "load_settings",
    "make_edit",
    "make_edit_async",
    "run",
    "run_async",
    "score",
    "score_many",
    "tabulate",
]


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{module}", __name__), name)


def __dir__() -> list[str]:
    return sorted(__all__)
