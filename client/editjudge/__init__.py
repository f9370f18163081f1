"""Judges image-editing models.

Each public name is imported when it is first used, so that `editjudge --help` stays instant and
one PSNR loads little. What a service of your own needs besides is in `editjudge.service`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .app.client import Client as Client
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
    from .benchmarks.column import Column as Column
    from .benchmarks.column import Mean as Mean
    from .benchmarks.dimension import Dimension as Dimension
    from .benchmarks.dimension import Reading as Reading
    from .benchmarks.dimension import make_formula as make_formula
    from .benchmarks.items import ItemsFile as ItemsFile
    from .engine.judge import Judgement as Judgement
    from .panel import Panel as Panel
    from .scorers.scorer import Scorer as Scorer
else:
    # The same names for the interpreter; tests/unit/test_public.py compares both.
    _NAMES = {
        "app.client": ("Client", "score", "score_many"),
        "app.results": ("Results",),
        "app.run": ("RunResult", "run", "run_async"),
        "app.spec": ("RunSpec",),
        "app.view": ("RunView",),
        "base.config": ("Settings",),
        "base.errors": ("EditjudgeError",),
        "base.item": ("Edit",),
        "base.verdict": ("NoScore", "Score", "Verdict"),
        "benchmarks.benchmark": ("Benchmark",),
        "benchmarks.column": ("Column", "Mean"),
        "benchmarks.dimension": ("Dimension", "Reading", "make_formula"),
        "benchmarks.items": ("ItemsFile",),
        "engine.judge": ("Judgement",),
        "panel": ("Panel",),
        "scorers.scorer": ("Scorer",),
    }
    _MODULES = {name: f".{module}" for module, names in _NAMES.items() for name in names}

    def __getattr__(name: str) -> Any:
        if name == "__all__":
            return sorted(_MODULES)
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_MODULES[name], __name__), name)

    def __dir__() -> list[str]:
        return sorted(_MODULES)
