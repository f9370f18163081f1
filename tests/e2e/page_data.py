"""The page of a run, as `editjudge report` makes it, to be changed and written anew."""

from __future__ import annotations

import base64
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from editjudge.report import site

from ..report_runs import READ, make_run

MODELS = ("aurora-edit", "brushwork-2", "chisel")
FOLLOWS, ARTIFACTS = "core.instruction_following", "core.editing_artifacts"
DIMENSIONS = ("core.psnr.source.whole", FOLLOWS, "core.mse.source.whole", ARTIFACTS, READ)
"""One of levels, one in dB, one of which less is better, one with probabilities, one of texts."""
HOSTILE = (
    "<script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>"
    "</script><script>window.hacked = 1</script> \u202eright to left\u202c "
    "javascript:alert(1) {{ 7 * 7 }} \u0007\u200b\u2028end"
)


@dataclass
class Example:
    """A page's contents, as plain data."""

    report: dict[str, Any]
    edits: dict[str, Any]
    details: dict[str, dict[str, Any]]
    pictures: dict[str, str]

    def dimension(self, name: str) -> int:
        """The place of a dimension on the page."""
        return [each["id"] for each in self.report["dimensions"]].index(name)

    def values(self, name: str) -> list[float | None]:
        """The values of a dimension, by edit."""
        values: list[float | None] = self.edits["values"][self.dimension(name)]
        return values

    def link(self, edit: int, more: str = "") -> str:
        """What leads to an edit, behind the page's address."""
        item = self.edits["items"]["id"][self.edits["item"][edit]]
        model = self.report["models"][self.edits["model"][edit]]["name"]
        return f"#edit={item.replace(' ', '%20')}&model={model}{more}"


def example(folder: Path, items: int = 12, **run: Any) -> Example:
    """The page of a run; `run` is for `make_run`."""
    folder.mkdir(exist_ok=True)
    wanted = {"models": MODELS, "dimensions": DIMENSIONS} | run
    page = site.write_report([make_run(folder, items, **wanted)], folder / "page.html").page
    block = re.compile(r'<script id="(\S+)" type="\S+">(.*?)</script>', re.DOTALL)
    blocks = block.findall(page.read_text(encoding="utf-8"))
    pictures = {name[8:]: text for name, text in blocks if name.startswith("picture-")}
    data = {name[5:]: json.loads(text) for name, text in blocks if name.startswith("data-")}
    return Example(data.pop("report"), data.pop("edits"), data, pictures)


def write_page(made: Example, out: Path) -> Path:
    """The page as one file, or as a folder where the name says no HTML."""
    target = site._FilePage(out) if out.suffix == ".html" else site._FolderPage(out)
    for name, chunk in made.details.items():
        target.save_chunk(name, chunk)
    for name, uri in made.pictures.items():
        target.save_picture(name, base64.b64decode(uri.partition(",")[2]))
    target.finish(made.report | {"mode": target.mode, "data": target.data}, made.edits)
    return target.page
