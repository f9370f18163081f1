"""Changes what is kept of tables: a cell has the numbers of its rounds, and judges have cells.

`ensemble` said a second time what `models` says; its rounds and deviations stand in the cells now.
It reads the documents of a commit, makes the change, and checks that those in the working tree say
the same.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
NEW = {"counts", "imputed", "signature", "interval", "capped", "other_items"}
"""What the cells of judges have besides, which nothing before could tell."""
ROUNDS = {"rounds", "sd"}
"""What every cell has besides; where rounds were told before, it is compared."""


def reshaped(document: Any) -> Any:
    """A document of before as it is now, but for `NEW`."""
    if isinstance(document, list):
        return [reshaped(one) for one in document]
    if not isinstance(document, dict):
        return document
    now = {name: reshaped(one) for name, one in document.items()}
    if "ensemble" in now:
        for model, row in now.pop("ensemble").items():
            for name, spread in row.items():
                cell = now["models"][model][name]
                assert {k: cell[k] for k in ("value", "scored", "asked", "reason")} == {
                    k: spread[k] for k in ("value", "scored", "asked", "reason")
                }
                cell |= {"rounds": spread["rounds"], "sd": spread["sd"]}
    return now


def compared(old: Any, new: Any, where: str = "$") -> None:
    """Checks that nothing but `NEW` differs."""
    if isinstance(old, dict) and isinstance(new, dict):
        further = new.keys() - old.keys()
        allowed = NEW | ROUNDS if ".judges" in where else ROUNDS
        assert old.keys() <= new.keys(), (where, old.keys() - new.keys())
        assert further <= allowed, (where, further)
        for name in old:
            compared(old[name], new[name], f"{where}.{name}")
    elif isinstance(old, list) and isinstance(new, list):
        assert len(old) == len(new), where
        for place, pair in enumerate(zip(old, new, strict=True)):
            compared(*pair, f"{where}[{place}]")
    else:
        assert old == new, (where, old, new)


def main() -> None:
    """Compare every document that changed."""
    names = subprocess.check_output(
        ["git", "diff", "--name-only", "--diff-filter=M", sys.argv[1], "--", "tests/golden"],
        cwd=ROOT,
        text=True,
    ).split()
    for name in (name for name in names if name.endswith(".json")):
        shown = ["git", "show", f"{sys.argv[1]}:{name}"]
        before = subprocess.check_output(shown, cwd=ROOT, text=True)
        compared(reshaped(json.loads(before)), json.loads((ROOT / name).read_text("utf-8")), name)
    sys.exit(not names)


main()
