"""Judges for image editing, served.

The imports below are the public names. Each is imported at its first use, so that
`editjudge --help` stays instant and one PSNR loads little.
"""

from __future__ import annotations

import ast
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .app.client import Client as Client
    from .app.client import make_edit as make_edit
    from .app.client import make_edit_async as make_edit_async
    from .app.client import score as score
    from .app.client import score_many as score_many
    from .app.results import Results as Results
    from .app.run import RunResult as RunResult
    from .app.run import run as run
    from .app.run import run_async as run_async
    from .app.spec import RunSpec as RunSpec
    from .app.view import RunView as RunView
    from .base.config import Settings as Settings
    from .base.errors import EditjudgeError as EditjudgeError
    from .base.item import Edit as Edit
    from .base.verdict import NoScore as NoScore
    from .base.verdict import Score as Score
    from .base.verdict import Verdict as Verdict
    from .benchmarks.benchmark import Benchmark as Benchmark
    from .benchmarks.benchmark import Rules as Rules
    from .benchmarks.column import Column as Column
    from .benchmarks.column import Mean as Mean
    from .benchmarks.dimension import Dimension as Dimension
    from .benchmarks.dimension import Reading as Reading
    from .benchmarks.dimension import make_formula as make_formula
    from .benchmarks.items import ItemsFile as ItemsFile
    from .benchmarks.tabulation import tabulate as tabulate
    from .engine.events import RunEvent as RunEvent
    from .engine.judge import Judgement as Judgement
    from .panel import Panel as Panel
    from .scorers.scorer import Scorer as Scorer
else:

    def __getattr__(name: str) -> Any:
        if name == "__all__":
            return sorted(_modules())
        if name not in _modules():
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_modules()[name], __name__), name)


@cache
def _modules() -> dict[str, str]:
    """The module of each public name, read from the imports above."""
    return {
        alias.name: f".{node.module}"
        for node in ast.walk(ast.parse(Path(__file__).read_text("utf-8")))
        if isinstance(node, ast.ImportFrom) and node.level
        for alias in node.names
    }


def __dir__() -> list[str]:
    return sorted(_modules())
