"""What `editjudge rescore` shows to people, and what it refuses."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from pathlib import Path

import pytest
from rich.console import Console

import editjudge
from editjudge.app.rescoring import RescoreEntry, rescore_run
from editjudge.base.config import JudgeEndpoint, Settings
from editjudge.base.errors import StoreError
from editjudge.base.verdict import NoScore, Score, Verdict
from editjudge.benchmarks.cell import Tally
from editjudge.cli.runs import changes_table, kept_reasons
from editjudge.storage.store import FILE

from ...fakes.openai import ScriptedOpenAi
from .changing import LEVELS, spec

LONG = "co_edit.non_edited_semantic_preservation@second.2"
WHY = "judge: no such reply in the ledger; it was made by another model or with another prompt"


def side(*values: float | None) -> Tally:
    tally = Tally()
    for value in values:
        given: Verdict = NoScore(kind="unparsable", reason="?")
        tally.add(given if value is None else Score(value=value))
    return tally


CHANGES = [
    RescoreEntry("ours", "core.a", side(1.0, 0.5, None), side(1.0, 0.5, 0.25), changed=1),
    RescoreEntry("ours", LONG, side(7.0, 8.0), side(7.0, 8.0), kept=2, why_kept=WHY),
    RescoreEntry("theirs", LONG, side(7.0), side(7.0), kept=1, why_kept=WHY),
]


@pytest.mark.parametrize("width", [200, 100, 80])
def test_numbers_stay_whole_on_a_narrow_terminal(width: int) -> None:
    console = Console(width=width, color_system=None)
    with console.capture() as capture:
        console.print(changes_table(CHANGES).to_terminal())
    text = capture.get()
    assert max(map(len, text.splitlines())) <= width
    for number in ("0.75 of 2", "0.5833 of 3", "7.5 of 2", "mean before", "verdicts", "│"):
        assert number in text
    assert (LONG in text) is (width == 200)
    # Missing outputs are not among these verdicts: `2/3` would say that they are.
    assert "/" not in text
    assert "missing outputs have none" in text
    assert WHY not in text, "each reason stands once below the table"
    reasons = f"- not rescored: {LONG} of ours (2), {LONG} of theirs (1): {WHY}"
    assert list(kept_reasons(CHANGES)) == [reasons]


@pytest.mark.parametrize(
    ("statement", "table"),
    [("UPDATE calls SET cost = 1", "calls"), ("UPDATE edits SET outcomes = x'5b305d' WHERE id = 3", "edits")],
)
async def test_a_damaged_run_is_refused_in_a_line(folder: Path, statement: str, table: str) -> None:
    """Many replies are read side by side, and what fails is one error."""
    server = ScriptedOpenAi(probabilities={"good": 0.7, "bad": 0.3})
    async with server.serving() as url:
        settings = Settings(judges={"judge": JudgeEndpoint(url=url)})
        asked = spec(folder, dimensions=(LEVELS,))
        await editjudge.run_async(asked, out=folder / "run", settings=settings)
    rescored = await asyncio.to_thread(rescore_run, folder / "run")
    assert rescored, "it is whole"
    with contextlib.closing(sqlite3.connect(folder / "run" / FILE)) as db, db:
        db.execute(statement)
        assert db.total_changes
    for write in (False, True):
        with pytest.raises(StoreError, match=rf"is damaged: row \d+ \(table {table}\)") as refusal:
            await asyncio.to_thread(rescore_run, folder / "run", write=write)
        assert "\n" not in str(refusal.value)
        assert refusal.value.exit_code == 1
