"""How Sphinx builds the site: `make docs`."""

from __future__ import annotations

import os
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
ROOT = DOCS.parent

project = "editjudge"
version = release = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
sys.path.insert(0, str(DOCS))
extensions = ["myst_parser", "sphinx_copybutton", "notebooks"]
# These are run when the site is built.
notebook_pages = ["tutorials/first", "tutorials/table", "tutorials/criterion"]
html_static_path = ["static"]
html_css_files = ["results.css"]
html_theme = "furo"
# The address of the repository, for "edit this page"; the files do not know where they are hosted.
html_theme_options = (
    {"source_repository": os.environ["EDITJUDGE_REPOSITORY"], "source_branch": "main", "source_directory": "docs/"}
    if "EDITJUDGE_REPOSITORY" in os.environ
    else {}
)
html_show_copyright = False  # nobody in particular is named
html_title = f"editjudge {version}"
# Pages refer to headings as code hosts do.
myst_heading_anchors = 6
myst_enable_extensions = ["colon_fence"]
copybutton_prompt_text = "$ "
copybutton_line_continuation_character = "\\"
# JSON of the pages is shortened by dots.
suppress_warnings = ["misc.highlighting_failure"]


def leave_site(app: Any, page: str, source: list[str]) -> None:
    """Names files of the repository that are no pages, where a page links to them."""
    folder = DOCS / Path(page).parent

    def name_link(link: re.Match[str]) -> str:
        file = Path(os.path.normpath(folder / link[2]))
        if file.is_relative_to(DOCS):
            return link[0]
        return f"{link[1]} (`{file.relative_to(ROOT).as_posix()}` of the repository)"

    source[0] = re.sub(r"\[([^\]]+)\]\((\.\./[^)#\s]+)(?:#[^)\s]*)?\)", name_link, source[0])


def setup(app: Any) -> None:
    """Connects what is ours."""
    app.connect("source-read", leave_site)
