"""What `editjudge rescore` shows to people."""

from __future__ import annotations

from collections import Counter

from rich.console import Console

from editjudge.app.rescore import Change
from editjudge.base.verdict import Scored, Unscored, Verdict
from editjudge.benchmarks.cell import Tally
from editjudge.cli.rescore import changes_table, reasons

LONG = "co_edit.non_edited_semantic_preservation@second.2"
WHY = "judge: no such reply in the ledger; it was made by another model or with another prompt"


def side(*values: float | None) -> Tally:
    tally = Tally()
    for value in values:
        given: Verdict = Unscored(kind="unparsable", reason="?")
        tally.add(given if value is None else Scored(value=value))
    return tally


CHANGES = {
    ("ours", "core.a"): Change(side(1.0, 0.5, None), side(1.0, 0.5, 0.25), changed=1),
    ("ours", LONG): Change(side(7.0, 8.0), side(7.0, 8.0), kept=2, why=WHY),
    ("theirs", LONG): Change(side(7.0), side(7.0), kept=1, why=WHY),
}


def shown(width: int) -> str:
    console = Console(width=width, color_system=None)
    with console.capture() as capture:
        console.print(changes_table(CHANGES).terminal())
    return capture.get()


def test_numbers_stay_whole_on_a_narrow_terminal() -> None:
    for width in (200, 100, 80):
        text = shown(width)
        assert max(map(len, text.splitlines())) <= width
        for number in ("0.75 of 2", "0.5833 of 3", "7.5 of 2", "mean before", "verdicts"):
            assert number in text
    assert LONG in shown(200)


def test_what_was_judged_is_not_told_as_coverage() -> None:
    # Missing outputs are not among these verdicts: `2/3` would say that they are.
    assert "/" not in shown(100)
    assert "missing outputs are not judged" in shown(100)


def test_each_reason_stands_once_below_the_table() -> None:
    assert list(reasons(CHANGES)) == [
        f"- kept, not judged again: {LONG} of ours (2), {LONG} of theirs (1): {WHY}"
    ]
    assert Counter(shown(100))["│"] > 0
    assert WHY not in shown(200)
