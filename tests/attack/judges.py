"""Evil judges: a run ends, what they say of an edit costs that edit alone, and no key leaves."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import numpy as np

from editjudge.app.export import long_rows
from editjudge.app.run import RunResult, run_async
from editjudge.app.spec import RunSpec
from editjudge.app.view import RunView
from editjudge.base.config import JudgeEndpoint, Secret, Settings
from editjudge.base.errors import ConfigError
from editjudge.base.verdict import Score

from ..small_data import PSNR, make_spec, save_picture, write_items
from .evil_http import MODES, EvilJudge
from .trials import Attack, Violation

KEY, SECRET = "ATTACK_JUDGEKEY", "sk-5ecretKeyOfAnEvilJudge"
ASKED = ("core.instruction_following", "core.physical_plausibility")
ITEMS = 3
Values = dict[tuple[str, str], float]


def modes() -> list[tuple[str, bool]]:
    """By name, and whether it is the list of models that is evil."""
    return [(name, False) for name in MODES] + [(name, True) for name in MODES]


def trial(_: int, number: int) -> str:
    every = modes()
    name, models = every[number % len(every)]
    return besiege(f"{name}{' of the models' * models}", lambda folder: _try_judge(name, models, folder))


def besiege(name: str, judge: Callable[[Path], Coroutine[Any, Any, str]]) -> str:
    """What comes of a siege in a folder of its own, with the key at hand."""
    os.environ[KEY] = SECRET
    with tempfile.TemporaryDirectory() as folder:
        try:
            return asyncio.run(judge(Path(folder)))
        except Violation as error:
            raise Violation(f"{name}: {error}") from None


async def run_with_notes(spec: RunSpec, folder: Path, settings: Settings) -> tuple[RunResult, list[str]]:
    """Run by evil servers; what came of it, and all that was told meanwhile."""
    told: list[str] = []
    asked = run_async(spec, out=folder / "run", settings=settings, progress=lambda it: told.append(str(it)))
    result = await asked
    return result, [*told, str(result.last_event)]


async def _try_judge(name: str, models: bool, folder: Path) -> str:
    spec = make_data(folder, ASKED)
    evil, elsewhere = EvilJudge(MODES[name], models=models), EvilJudge(None)
    async with elsewhere.serving() as other, evil.serving(other) as url, asyncio.timeout(60):
        try:
            result, told = await run_with_notes(spec, folder, make_settings(url))
        except ConfigError as error:
            return check_refusal(error, due=models)
    if any(SECRET in key for key in elsewhere.keys):
        raise Violation("the key went to another host")
    if evil.lied == 0:
        raise Violation("nobody was asked")
    first = values(folder / "run")
    async with EvilJudge(None).serving() as url:
        whole = await again(spec, folder / "whole", make_settings(url))
        _check_first(first, whole, result, models=models)
        check_said(folder / "run", told)
        later = await again(spec, folder / "run", make_settings(url))
        if later != whole:
            raise Violation(f"with an honest judge {_differing(later, whole)}")
    return f"{result.status}, {len(first)} of {len(whole)} scored"


def check_refusal(error: ConfigError, *, due: bool) -> str:
    """One that cannot be used from the start is told in one line, and costs nothing."""
    if not due or SECRET in str(error) or "\n" in str(error) or len(str(error)) > 700:
        raise Violation(f"{str(error)[:300]!r}") from None
    return "refused"


async def again(spec: RunSpec, out: Path, settings: Settings) -> Values:
    await run_async(spec, out=out, settings=settings, retry="unscored")
    return values(out)


def make_settings(url: str) -> Settings:
    return hasty(judges={"judge": JudgeEndpoint(url=url, model="judge", api_key=Secret(env=KEY))})


def hasty(**servers: Any) -> Settings:
    """Settings that wait for nothing long."""
    waits = {"deadline": 1.5, "retry_wait": 0.01, "patience": 0.5, "probe_timeout": 2}
    return Settings(**servers, attempts=2, **waits)


def make_data(folder: Path, dimensions: tuple[str, ...]) -> RunSpec:
    """Items that one model edited."""
    rng, lines = np.random.default_rng(4), []
    for index in range(ITEMS):
        for part in ("sources", "ours"):
            pixels = rng.integers(0, 256, (24, 32, 3), dtype=np.uint8)
            save_picture(folder / part / f"{index}.png", pixels)
        line = {"instruction": f"edit {index}", "target_text": "SALE"}
        lines.append({**line, "source": f"sources/{index}.png"})
    write_items(folder, lines)
    return make_spec(folder, dimensions=(PSNR, *dimensions))


def values(out: Path) -> Values:
    """The numbers of a run, by item and dimension."""
    with RunView(out) as view:
        return {
            (each.item, each.dimension): each.verdict.value
            for each in view.verdicts()
            if isinstance(each.verdict, Score)
        }


def _check_first(first: Values, whole: Values, result: RunResult, *, models: bool) -> None:
    if len(whole) != ITEMS * 3:
        raise Violation(f"an honest judge gives {len(whole)} numbers")
    if wrong := {key: value for key, value in first.items() if whole.get(key) != value}:
        raise Violation(f"invented: {wrong}")
    # What needs no judge, and what no other was asked about. One that is not the judge that was
    # asked for ends the run.
    due = {key for key in whole if key[1] == PSNR or (key[0] != "1" and not models)}
    if result.status == "done" and (lost := due - first.keys()):
        raise Violation(f"neighbours have no number: {sorted(lost)}")


def check_said(out: Path, told: list[str]) -> None:
    with RunView(out) as view:
        texts = [*told, *(each.model_dump_json() for each in long_rows(view))]
        reasons = [getattr(each.verdict, "error", "") for each in view.verdicts()]
    for text in texts:
        if SECRET in text:
            raise Violation(f"the key is shown: {text[:200]!r}")
    if any(len(reason) > 700 or "\n" in reason for reason in reasons):
        raise Violation(f"no short line: {max(reasons, key=len)[:200]!r}")


def _differing(values_: Values, others: Values) -> str:
    keys = [key for key in values_.keys() | others.keys() if values_.get(key) != others.get(key)]
    return str({key: (values_.get(key), others.get(key)) for key in keys[:4]})


JUDGES = Attack("judges", trial, full=len(modes()), small=8, seconds=60, mib=768)
