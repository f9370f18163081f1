"""An edit judged by the rules of a benchmark, for what these make of set replies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from editjudge.base.item import Edit
from editjudge.base.verdict import Outcome
from editjudge.benchmarks.benchmark import Rules
from editjudge.engine.judge import judge


async def judge_edit(edit: Edit, by: Rules, panel: Any, *only: str) -> Mapping[str, Outcome]:
    """Outcomes by dimension.

    Args:
        only: Ids of the dimensions that are asked for; all without.
    """
    known = {one.id: one for one in by.dimensions}
    asked = [known[name] for name in only or known]
    return (await judge(edit, asked, known, panel)).outcomes
