"""`python -m tests.attack [NAME ...]`: attacks, and a table of what came of them.

`--seed N` tries others, `--only N` one trial of one attack, in this process and with its
traceback, `--small` as few as the tests do, `--count N` as many of each.
"""

from __future__ import annotations

import argparse
import sys

from . import ATTACKS
from .farm import AttackReport, run_attack
from .trials import SEED, Attack

_SHOWN = 12


def main() -> int:
    asked = _arguments()
    if asked.only is not None:
        (name,) = asked.attacks
        _say(ATTACKS[name].trial(asked.seed, asked.only))
        return 0
    reports = []
    for name in asked.attacks or ATTACKS:
        attack = ATTACKS[name]
        count = asked.count or (attack.small if asked.small else attack.full)
        reports.append(run_attack(attack, asked.seed, range(count), lambda it: _say(_progress(it))))
        _say(_progress(reports[-1]))
    _say("\n" + table(reports))
    lines = [row for report in reports for row in found_in(report, asked.seed)]
    _say("\n".join(lines or ("nothing uncaught, nothing invented, nothing stale",)))
    return int(bool(lines))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.attack")
    parser.add_argument("attacks", nargs="*", choices=[*ATTACKS, []], metavar="NAME")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--only", type=int, metavar="NUMBER")
    parser.add_argument("--count", type=int)
    parser.add_argument("--small", action="store_true")
    return parser.parse_args()


def _progress(report: AttackReport) -> str:
    attack: Attack = report.attack
    return f"{attack.name}: {report.count:,} tried in {report.seconds:,.0f} s, {len(report.findings)} findings"


def table(reports: list[AttackReport]) -> str:
    """A row for each attack."""
    head = ("attack", "tried", "findings", "seconds", "worst s", "MiB", "outcomes")
    rows = [head, *map(_row, reports)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(head) - 1)]
    return "\n".join("  ".join((*(c.ljust(w) for c, w in zip(row, widths, strict=False)), row[-1])) for row in rows)


def _row(report: AttackReport) -> tuple[str, ...]:
    seconds, mib = report.worst
    outcomes = ", ".join(f"{what} {count:,}" for what, count in report.outcomes.most_common())
    numbers = (f"{report.count:,}", f"{len(report.findings):,}", f"{report.seconds:,.0f}")
    return (report.attack.name, *numbers, f"{seconds:.2f}", f"{mib:,.0f}", outcomes)


def found_in(report: AttackReport, seed: int) -> list[str]:
    """A line for each finding, with what tries it again; of many the first."""
    rows = [
        f"{report.attack.name} --seed {seed} --only {number}: {what}"
        for number, what in sorted(report.findings.items())
    ]
    more = len(rows) - _SHOWN
    return rows[:_SHOWN] + ([f"… and {more:,} more of {report.attack.name}"] if more > 0 else [])


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
