"""Makes the pictures of the README anew: `python docs/pictures.py out/demo`, after `make demo`.

The terminal is what two commands print, and the page is the one of the demo in Chromium.
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright
from rich.console import Console
from rich.text import Text

IMAGES = Path(__file__).parent / "images"
WIDTH = 142
"""Columns of the terminal."""
DIMENSIONS = ("core.psnr.source.outside", "core.aligned_psnr.target.inside")
COMMANDS = (
    ("summary", "{run}", *(word for name in DIMENSIONS for word in ("-d", name))),
    ("compare", "{run}", "exact", "no_edit", "-d", DIMENSIONS[1]),
)


def draw_terminal(demo: Path) -> str:
    """What the commands print, as SVG."""
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    variables = {**os.environ, "COLUMNS": str(WIDTH), "FORCE_COLOR": "1", "TERM": "xterm-256color"}
    for command in COMMANDS:
        words = [word.format(run=demo / "run") for word in command]
        ran = subprocess.run(  # noqa: S603 - our own commands
            [sys.executable, "-m", "editjudge", *words], capture_output=True, text=True, check=True, env=variables
        )
        console.print(Text(f"$ editjudge {' '.join(words)}", style="bold"))
        console.print(Text.from_ansi(ran.stdout))
    # The site and the README load nothing from elsewhere.
    fonts = re.compile(r"@font-face \{.*?\}\s*|<!--.*?-->\s*", re.DOTALL)
    return fonts.sub("", console.export_svg(title="editjudge")).replace("Fira Code, ", "")


def shoot_page(demo: Path, file: Path) -> None:
    """The first edit of the demo's page."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page(viewport={"width": 1280, "height": 860})
        page.goto((demo / "report.html").resolve().as_uri())
        page.get_by_role("link", name="Edits").or_(page.get_by_role("button", name="Edits")).click()
        page.get_by_text("bricks-sale-sign").first.click()
        page.screenshot(path=file)
        browser.close()


if __name__ == "__main__":
    (IMAGES / "terminal.svg").write_text(draw_terminal(Path(sys.argv[1])), encoding="utf-8")
    shoot_page(Path(sys.argv[1]), IMAGES / "demo.png")
