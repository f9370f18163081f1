"""Checks the words of the pages by hand: proselint, the length of sentences and readability.

`make docs` runs it. It prints a line for each fault, and fails if there is one. With `--figures` it
prints the readability and the words of each page.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import textstat
from proselint.checks import __register__
from proselint.config import DEFAULT
from proselint.registry import CheckRegistry
from proselint.tools import LintFile

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    {ROOT / "README.md", ROOT / "CONTRIBUTING.md"}
    | {page for page in (ROOT / "docs").rglob("*.md") if page.parent.name != "reference"}
)
CHECKS = DEFAULT["checks"] | {
    # Code and settings have straight quotes and three dots.
    "typography": False
}
MAX_GRADE = 8.0
"""The highest automated readability index: years of school that a page needs."""
MAX_SENTENCE = 40
"""Most words of a sentence."""
MIN_WORDS = 100
"""Pages with fewer words of prose have no readability."""


def read_prose(page: Path) -> str:
    """The sentences of a page, without samples, tables, headings, links' addresses and code.

    Each paragraph and each point of a list stays apart, and lines keep their numbers.
    """

    def blank(match: re.Match[str]) -> str:
        return "\n" * match[0].count("\n")

    text = re.sub(r"^ *(```|:::).*?^ *\1$", blank, page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"^(\||#|<!--).*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"!?\[([^\]]+)\]\([^)]*\)", r"\1", text)
    return re.sub(r"`[^`]*`", lambda code: "code" + "\n" * code[0].count("\n"), text)


def split_sentences(prose: str) -> list[str]:
    """The sentences of all paragraphs and points."""
    parts = re.split(r"\n\s*\n|^ *(?:[-*]|\d+\.) ", prose, flags=re.MULTILINE)
    return [one for part in parts for one in re.split(r"(?<=[.?!:])\s+", part.strip()) if one]


def find_faults(page: Path) -> list[str]:
    """What is wrong on a page, a line each."""
    name, prose = page.relative_to(ROOT), read_prose(page)
    faults = [
        f"{name}:{finding.pos[0]}: {finding.check_result.message}"
        for finding in LintFile(page, prose).lint({**DEFAULT, "checks": CHECKS})
    ]
    sentences = split_sentences(prose)
    faults += [
        f"{name}: a sentence of {length} words: {one[:60]}…"
        for one in sentences
        if (length := len(one.split())) > MAX_SENTENCE
    ]
    if (grade := get_grade(sentences)) > MAX_GRADE:
        faults.append(f"{name}: readability {grade:.1f} > {MAX_GRADE}: write shorter sentences")
    return faults


def get_grade(sentences: list[str]) -> float:
    """The automated readability index; 0 for a page with few words."""
    text = "\n".join(one.rstrip(".:?!") + "." for one in sentences)
    if len(text.split()) < MIN_WORDS:
        return 0.0
    return float(textstat.automated_readability_index(text))


def main() -> None:
    """Check all pages."""
    CheckRegistry().register_many(__register__)
    faults = lines = [fault for page in PAGES for fault in find_faults(page)]
    if "--figures" in sys.argv:
        prose = {page: split_sentences(read_prose(page)) for page in PAGES}
        lines = faults + [
            f"{get_grade(of):5.1f} {sum(len(one.split()) for one in of):6} {page.relative_to(ROOT)}"
            for page, of in prose.items()
        ]
    sys.stdout.writelines(f"{line}\n" for line in lines)
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
