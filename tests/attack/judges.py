"""Evil judges: a run ends, what they say of an edit costs that edit alone, and no key leaves."""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image as Pil

from editjudge.app.run import RunResult, run_async
from editjudge.app.spec import RunSpec
from editjudge.app.view import RunView
from editjudge.base.config import JudgeEndpoint, Secret, Settings
from editjudge.base.errors import ConfigError
from editjudge.base.verdict import Score

from .evil_http import MODES, EvilJudge
from .trials import Attack, Broken

_KEY, _SECRET = "ATTACK_JUDGE_KEY", "sk-5ecretKeyOfAnEvilJudge"
PSNR = "core.psnr.source.whole"
_ASKED = ("core.instruction_following", "core.physical_plausibility")
ITEMS = 3
Values = dict[tuple[str, str], float]


def modes() -> list[tuple[str, bool]]:
    """By name, and whether it is the list of models that is evil."""
    return [(name, False) for name in MODES] + [(name, True) for name in MODES]


def trial(_: int, number: int) -> str:
    every = modes()
    name, models = every[number % len(every)]
    os.environ[_KEY] = _SECRET
    with tempfile.TemporaryDirectory() as folder:
        try:
            return asyncio.run(_judged(name, models, Path(folder)))
        except Broken as error:
            raise Broken(f"{name}{' of the models' * models}: {error}") from None


async def _judged(name: str, models: bool, folder: Path) -> str:
    spec = made(folder, _ASKED)
    evil, elsewhere = EvilJudge(MODES[name], models=models), EvilJudge(None)
    events: list[str] = []
    async with elsewhere.serving() as other, evil.serving(other) as url:
        async with asyncio.timeout(60):
            try:
                result = await run_async(
                    spec,
                    out=folder / "run",
                    settings=_by(url),
                    progress=lambda it: events.append(str(it)),
                )
            except ConfigError as error:
                return _refused(error, models=models)
    if any(_SECRET in key for key in elsewhere.keys):
        raise Broken("the key went to another host")
    if evil.lied == 0:
        raise Broken("nobody was asked")
    first = values(folder / "run")
    async with EvilJudge(None).serving() as url:
        whole = await _again(spec, folder / "whole", url)
        _check_first(first, whole, result, models=models)
        _check_said(folder / "run", [*events, str(result.last_event)])
        again = await _again(spec, folder / "run", url)
        if again != whole:
            raise Broken(f"with an honest judge {_differing(again, whole)}")
    return f"{result.status}, {len(first)} of {len(whole)} scored"


def _refused(error: ConfigError, *, models: bool) -> str:
    """One that cannot be used from the start is told in one line, and costs nothing."""
    if not models or _SECRET in str(error) or "\n" in str(error) or len(str(error)) > 700:
        raise Broken(f"{str(error)[:300]!r}")
    return "refused"


async def _again(spec: RunSpec, out: Path, url: str) -> Values:
    await run_async(spec, out=out, settings=_by(url), retry="unscored")
    return values(out)


def _by(url: str) -> Settings:
    endpoint = JudgeEndpoint(url=url, model="judge", api_key=Secret(env=_KEY))
    return Settings(
        judges={"judge": endpoint},
        attempts=2,
        deadline=1.5,
        retry_wait=0.01,
        patience=0.5,
        probe_timeout=2,
    )


def made(folder: Path, dimensions: tuple[str, ...]) -> RunSpec:
    """Items that one model edited."""
    rng = np.random.default_rng(4)
    lines = []
    for index in range(ITEMS):
        for part in ("data", "ours"):
            (folder / part).mkdir(exist_ok=True)
            pixels = rng.integers(0, 256, (24, 32, 3), dtype=np.uint8)
            Pil.fromarray(pixels).save(folder / part / f"{index}.png")
        lines.append(
            {
                "id": str(index),
                "instruction": f"edit {index}",
                "source": f"{index}.png",
                "target_text": "SALE",
            }
        )
    (folder / "data" / "items.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return RunSpec(
        benchmark="core",
        data=folder / "data",
        outputs={"ours": folder / "ours"},
        dimensions=(PSNR, *dimensions),
    )


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
        raise Broken(f"an honest judge gives {len(whole)} numbers")
    if wrong := {key: value for key, value in first.items() if whole.get(key) != value}:
        raise Broken(f"invented: {wrong}")
    # One that is not the judge that was asked for ends the run.
    if result.status == "done" and not models:
        due = {key for key in whole if key[0] != "1" or key[1] == PSNR}
        if lost := due - first.keys():
            raise Broken(f"neighbours have no number: {sorted(lost)}")
    if (
        models
        and {key for key in whole if key[1] == PSNR} - first.keys()
        and result.status == "done"
    ):
        raise Broken("what needs no judge has no number")


def _check_said(out: Path, told: list[str]) -> None:
    texts = list(told)
    with RunView(out) as view:
        texts += [each.model_dump_json() for each in _rows(view)]
    for text in texts:
        if _SECRET in text:
            raise Broken(f"the key is shown: {text[:200]!r}")
    reasons = [getattr(each.verdict, "error", "") for each in _verdicts(out)]
    if any(len(reason) > 700 or "\n" in reason for reason in reasons):
        raise Broken(f"no short line: {max(reasons, key=len)[:200]!r}")


def _rows(view: RunView) -> list[Any]:
    from editjudge.app.export import long_rows

    return list(long_rows(view))


def _verdicts(out: Path) -> list[Any]:
    with RunView(out) as view:
        return list(view.verdicts())


def _differing(values_: Values, others: Values) -> str:
    keys = [key for key in values_.keys() | others.keys() if values_.get(key) != others.get(key)]
    return str({key: (values_.get(key), others.get(key)) for key in keys[:4]})


JUDGES = Attack("judges", trial, full=len(modes()), small=8, seconds=60, mib=768)
