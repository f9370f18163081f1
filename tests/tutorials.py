"""Runs the steps of a tutorial as a reader does: writes files, runs samples and commands."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from .doc_samples import ROOT
from .patience import patience

FOLDER = ROOT / "docs" / "tutorials"
_BLOCK = re.compile(r"^```(toml|python|console)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def run_tutorial(name: str, folder: Path, replacing: Mapping[str, str]) -> str:
    """Run all steps in a folder, which is the reader's home too.

    Args:
        name: The page, without suffix.
        folder: An empty folder.
        replacing: What stands elsewhere during the test, such as addresses.

    Returns:
        What `compare`, `gate` and `agreement` printed.

    Raises:
        AssertionError: a step failed.
    """
    page = (FOLDER / f"{name}.md").read_text(encoding="utf-8")
    for words, ours in replacing.items():
        assert words in page, f"{name} has no {words}"
        page = page.replace(words, ours)
    keep = {key: of for key, of in os.environ.items() if not key.startswith(("XDG_", "EDITJUDGE_"))}
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    reader = keep | {"HOME": str(folder), "PATH": path, "COLUMNS": "120"}
    place, compared = folder, ""
    for language, text in _BLOCK.findall(page):
        if language == "toml":
            file = place / text.split()[1]
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        commands = [sys.executable + " -"] if language == "python" else re.findall(r"^\$ (.+)$", text, re.MULTILINE)
        for command in commands:
            if command.startswith("cd "):
                place = (place / command[3:]).resolve()
                continue
            ran = subprocess.run(  # noqa: S602 - our own pages
                command,
                check=False,
                shell=True,
                input=text if language == "python" else "",
                capture_output=True,
                text=True,
                cwd=place,
                env=reader,
                timeout=patience(300),
            )
            assert ran.returncode == 0, f"{name}: {command}\n{ran.stdout}\n{ran.stderr}"
            if command.startswith(("editjudge compare", "editjudge gate", "editjudge agreement")):
                compared += ran.stdout
    return compared
