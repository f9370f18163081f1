"""A run alone, in another place and without its data, says to the last digit what it said."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from .cases import Case
from .run_lines import run_verb

PIXELS = "it rests on pixels or was imported, and data and outputs are not at their places"


def check_alone(case: Case, folder: Path) -> None:
    """Move the run of a case away, remove everything beside it, and compare what is said.

    Args:
        folder: The folder of the case's run.
    """
    before = _read_outputs(case, folder / "run")
    away = folder.with_name(f"{folder.name} elsewhere")
    away.mkdir()
    shutil.move(folder / "run", away / "run")
    for one in folder.iterdir():
        if one.name != "prompts":
            shutil.rmtree(one) if one.is_dir() else one.unlink()
    after = _read_outputs(case, away / "run")
    for there, alone in zip(before.pop("rescore"), after.pop("rescore"), strict=True):
        assert alone == there or alone["why_kept"] == PIXELS, alone["dimension"]
    for name, said in before.items():
        assert after[name] == said, name


def _read_outputs(case: Case, run: Path) -> dict[str, Any]:
    commands: dict[str, tuple[str, ...]] = {
        "summary": ("summary",),
        "counted": ("summary", "--count-missing", "--common"),
        "ranking": ("compare",),
        "two models": ("compare", "ours", "theirs"),
        "rescore": ("rescore",),
        **{name: ("summary", *flags) for name, flags in dict(case.summaries).items()},
        **{item: ("show", item) for item in case.shown},
    }
    found = {name: run_verb(verb, run, *more, "--json")[1] for name, (verb, *more) in commands.items()}
    for item in case.shown:
        del found[item]["files"]  # no picture is there
    for form in ("csv", "jsonl"):
        file = run.parent / f"all.{form}"
        run_verb("export", run, "--format", form, "--out", file)
        found[form] = file.read_text()
        file.unlink()
    return found
