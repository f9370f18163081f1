"""Judges image-editing models.

Each public name is imported when it is first used, so that `editjudge --help` stays instant and
one PSNR loads little. What a service of your own needs besides is in `editjudge.service`.
"""

from importlib import import_module
from typing import Any

# Type checkers read them in `__init__.pyi`; tests/unit/test_public.py compares both.
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
