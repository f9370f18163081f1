"""Runs tutorials as notebooks when the site is built, and shows what each step printed and drew.

A page stays plain Markdown, as a code host shows it and tests run it. Its samples become the cells of a
notebook, which is run beside a scripted judge where the page needs one. All run in one folder, so the demo
is judged once. The site shows results below the samples, and offers the notebook with its results.
"""

from __future__ import annotations

import html
import os
import re
import site
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

ROOT = Path(__file__).parents[1]
BIN = ROOT / ".venv" / "bin"
JUDGE = "http://127.0.0.1:8000/v1"
"""The address of the judge on the pages."""
BLOCK = re.compile(r"^```(toml|python|console)\n(.*?)^```\n", re.DOTALL | re.MULTILINE)
SECONDS = 1200
"""How long a cell may take on a busy machine."""
COLUMNS = "110"
PLAIN = "import os\nfor name in ('FORCE_COLOR', 'CLICOLOR', 'CLICOLOR_FORCE'):\n    os.environ.pop(name, None)"
"""The kernel asks programs for colours, which neither the page nor every notebook shows."""
SCRIPT_NOTE = " Its judge is scripted: it sees how much was changed, and is no model."


@contextmanager
def scripted_judge() -> Iterator[str]:
    """The address of a judge in a process of its own."""
    command = [BIN / "python", "-m", "tests.tutorials"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603 - ours
        try:
            yield process.stdout.readline().strip() if process.stdout else ""
        finally:
            process.terminate()


def make_cell(language: str, code: str) -> str:
    """A sample as the source of a cell."""
    if language == "console":
        return "%%sh -e\n" + "".join(re.findall(r"^\$ (.+\n)", code, re.MULTILINE))
    return f"%%writefile {code.split()[1]}\n{code}" if language == "toml" else code


def make_notebook(page: str) -> nbformat.NotebookNode:
    """A page as a notebook without results."""
    cells, start = [], 0
    for block in BLOCK.finditer(page):
        cells += [nbformat.v4.new_markdown_cell(page[start : block.start()])]
        cells += [nbformat.v4.new_code_cell(make_cell(block[1], block[2]))]
        start = block.end()
    return nbformat.v4.new_notebook(cells=[*cells, nbformat.v4.new_markdown_cell(page[start:])])


def run_notebook(notebook: nbformat.NotebookNode, folder: str) -> None:
    """Run all cells in a folder, which is the reader's home too; a cell that fails raises.

    The kernel is that of the docs' environment. It finds what `.venv` has, behind its own packages.
    """
    with ExitStack() as stack:
        address = JUDGE
        if JUDGE in nbformat.writes(notebook):
            address = stack.enter_context(scripted_judge())
        packages = Path(site.getsitepackages()[0].replace(str(site.PREFIXES[0]), str(BIN.parent)))
        # Commands draw into files: they do not know the notebook's way of drawing.
        find = f"import site\nsite.addsitedir({str(packages)!r})\n%matplotlib inline\n%env MPLBACKEND=agg\n{PLAIN}"
        first = nbformat.v4.new_code_cell(find)
        run = nbformat.from_dict(notebook)
        run.cells = [first, *run.cells]
        for cell in run.cells:
            cell.source = cell.source.replace(JUDGE, address)
        keep = {name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "EDITJUDGE_"))}
        env = keep | {"PATH": f"{BIN}:{os.environ['PATH']}", "HOME": folder, "COLUMNS": COLUMNS}
        place, patient = {"metadata": {"path": folder}}, {"timeout": SECONDS, "startup_timeout": SECONDS}
        NotebookClient(run, resources=place, kernel_name="python3", **patient).execute(env=env)
        for cell in run.cells:
            cell.source = cell.source.replace(address, JUDGE)
            for output in cell.get("outputs", []):
                if "text" in output:
                    output.text = output.text.replace(address, JUDGE).replace(f"{folder}/", "")
        notebook.cells = run.cells[1:]


def show_outputs(cell: nbformat.NotebookNode) -> str:
    """What a cell printed and drew, as Markdown; its progress is in the notebook alone."""
    stdout = "".join(one.text for one in cell.outputs if one.get("name") == "stdout").rstrip()
    blocks = []
    if stdout and not cell.source.startswith("%%writefile"):
        blocks = [f'<div class="highlight result"><pre tabindex="0">{html.escape(stdout)}</pre></div>']
    for output in cell.outputs:
        if picture := output.get("data", {}).get("image/png"):
            data = picture.replace("\n", "")
            blocks.append(f'<img class="result" alt="What this sample draws" src="data:image/png;base64,{data}">')
    return "".join(f"\n`````{{raw}} html\n{one}\n`````\n" for one in blocks)


def show_results(app: Any, page: str, source: list[str]) -> None:
    """Puts results into the source of a page that is a notebook too."""
    if page not in app.config.notebook_pages:
        return
    text = source[0]
    notebook = make_notebook(text)
    run_notebook(notebook, app.notebook_folder.name)
    file = Path(app.outdir) / "notebooks" / f"{Path(page).name}.ipynb"
    file.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, file)
    cells = iter(cell for cell in notebook.cells if cell.cell_type == "code")
    text = BLOCK.sub(lambda block: block[0] + show_outputs(next(cells)), text)
    link = f'<a href="../notebooks/{file.name}" download>'
    judge = SCRIPT_NOTE if JUDGE in text else ""
    note = f"<p>{link}This page as a notebook</a>, with its results. They were made when the site was built.{judge}</p>"
    head, line, rest = text.partition("\n")
    source[0] = f"{head}{line}\n```{{raw}} html\n{note}\n```\n{rest}"


def setup(app: Any) -> dict[str, bool]:
    """Connects the extension; `-D notebook_pages=` builds without running anything."""
    app.add_config_value("notebook_pages", [], "env", [list])
    app.notebook_folder = tempfile.TemporaryDirectory()
    app.connect("source-read", show_results)
    app.connect("build-finished", lambda *_: app.notebook_folder.cleanup())
    return {"parallel_read_safe": False}
