"""Which dimensions need models that nobody serves."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping
from pathlib import Path

from ..base.words import counted
from ..benchmarks.registry import dimensions
from ..engine.judge import roles_of


def unserved(services: Collection[str]) -> dict[str, tuple[str, ...]]:
    """By service that is not among these, the dimensions that need it; any generalist may judge."""
    known = dimensions()
    judged = any(name.startswith("generalist.") for name in services)
    lacking: dict[str, list[str]] = {}
    for name, dimension in known.items():
        for role in sorted(roles_of(dimension, known)):
            if role not in services and not (judged and role.is_generalist):
                lacking.setdefault(role, []).append(name)
    return {role: tuple(names) for role, names in sorted(lacking.items())}


def unserved_line(lacking: Mapping[str, Collection[str]]) -> str:
    """How many dimensions that is, and which models; empty where each is served."""
    names = set().union(*lacking.values())
    if not names:
        return ""
    return f"{need_models(len(names), 'dimension')}: {', '.join(lacking)}"


def need_models(count: int, what: str) -> str:
    """How many wait for models, in words: `2 dimensions need models that nobody serves`.

    Args:
        what: One of them, as a noun: `dimension`.
    """
    return f"{counted(count, f'{what} needs', f'{what}s need')} models that nobody serves"


def naming(run: Path) -> str:
    """The command that names what waits in a run, and for which models."""
    return f"editjudge summary {shlex.quote(str(run))} --unserved"
