"""`python -m tests.parity`: whether our numbers are as kept, by the versions that are installed.

`--write` adds the numbers of implementations that have none; what is kept it never changes.
"""

from __future__ import annotations

import json
import sys

from editjudge.base.signature import versions

from .numbers import TABLE, compute_numbers, differences, load_numbers


def main() -> int:
    there, due = compute_numbers(), load_numbers()
    if "--write" in sys.argv[1:]:
        due = dict(sorted(({**there, **due}).items()))
        TABLE.write_text(json.dumps(due, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    moved = [*differences(due, there)]
    said = moved or [f"{len(there)} implementations give the numbers that are kept"]
    sys.stdout.write("\n".join((*said, versions(), "")))
    return int(bool(moved))


if __name__ == "__main__":
    sys.exit(main())
