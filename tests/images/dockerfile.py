"""The Dockerfiles and locks of ours: what is run here is what stands there."""

from __future__ import annotations

import re
import shutil
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "k8s" / "images"
LOCKS = FOLDER / "locks"
TABLE: dict[str, Any] = tomllib.loads((FOLDER / "images.toml").read_text())


@dataclass(frozen=True)
class Stage:
    """One stage: what it begins with, and its instructions in order.

    Attributes:
        base: The words after FROM.
        lines: Instruction and the rest, line continuations joined.
    """

    base: str
    lines: Sequence[tuple[str, str]]

    def of(self, instruction: str) -> list[str]:
        """What stands after each of these instructions."""
        return [rest for name, rest in self.lines if name == instruction]


def read(file: Path) -> tuple[list[tuple[str, str]], list[Stage]]:
    """What stands before the first FROM, and the stages."""
    text = re.sub(r"^#.*\n", "", file.read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    before: list[tuple[str, str]] = []
    stages: list[Stage] = []
    lines = before
    for line in filter(None, map(str.strip, text.splitlines())):
        name, _, rest = line.partition(" ")
        if name == "FROM":
            lines = []
            stages.append(Stage(rest, lines))
        else:
            lines.append((name, rest.strip()))
    return before, stages


def dockerfiles() -> list[Path]:
    """All there are."""
    return sorted(FOLDER.glob("*.Dockerfile"))


def context(folder: Path) -> None:
    """Copy what `.dockerignore` lets into a build."""
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    made = str(ROOT / "client" / "editjudge")

    def left_out(of: str, names: list[str]) -> set[str]:
        return {"__pycache__", *({"v1"} if of == made else ())} & set(names)

    for kept in (line[1:] for line in lines if line.startswith("!")):
        if (ROOT / kept).is_dir():
            shutil.copytree(ROOT / kept, folder / kept, ignore=left_out, dirs_exist_ok=True)
        else:
            shutil.copy(ROOT / kept, folder / kept)


def read_locks(*files: str) -> dict[str, str]:
    """Versions by package, of locks by name; a lock has at least one digest for each."""
    versions: dict[str, str] = {}
    for file in files:
        text = re.sub(r"^--find-links .*\n", "", (LOCKS / file).read_text(), flags=re.MULTILINE)
        for part in re.split(r"\n(?=\w)", text)[1:]:
            line, *digests = part.split(" \\\n")
            assert digests, line
            assert all(re.fullmatch(r"    --hash=sha256:[0-9a-f]{64}\n?", d) for d in digests), line
            name, _, version = line.partition(" ;")[0].partition("==")
            versions[canonicalize_name(name)] = version.strip()
    return versions


def read_whole_lock(name: str) -> dict[str, str]:
    """Versions by package of a lock and its layers."""
    return read_locks(*sorted(file.name for file in LOCKS.glob(f"{name}*.txt") if lock_of(file) == name))


def lock_of(file: Path) -> str:
    """The lock that a file is a part of."""
    return file.name.split(".", maxsplit=1)[0]
