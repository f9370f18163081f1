"""Writes the Python samples of the documentation as files: `python -m tests.doc_samples FOLDER`.

`make types` has them checked by mypy and pyright. A page is one file: its samples stand one below
the other, as a reader runs them.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
_SAMPLE = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def read_samples(page: Path) -> str:
    """The samples of a page, each line where it stands on the page; empty where there are none."""
    text = page.read_text(encoding="utf-8")
    lines = [""] * text.count("\n")
    for sample in _SAMPLE.finditer(text):
        first = text.count("\n", 0, sample.start(1))
        code = sample[1].splitlines()
        lines[first : first + len(code)] = code
    return "\n".join(lines).strip() and "\n".join(lines) + "\n"


def write_samples(folder: Path) -> list[Path]:
    """Write a file for each page with samples, and return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for page in PAGES:
        if samples := read_samples(page):
            name = "_".join(page.relative_to(ROOT).with_suffix("").parts).lower()
            files.append(folder / f"{name}_samples.py")
            files[-1].write_text(samples, encoding="utf-8")
    return files


if __name__ == "__main__":
    write_samples(Path(sys.argv[1]))
