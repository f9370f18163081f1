"""A benchmark of one file, of somebody else's package; and that none is loaded unasked."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image as Pil

from editjudge.base.errors import ConfigError
from editjudge.benchmarks import registry

from ...golden.run_lines import run_verb

ROOT = Path(__file__).parents[3]
PAGES = {"docs/howto/own.md": "## A benchmark of your own", "CONTRIBUTING.md": "## Adding a benchmark"}
"""Where a benchmark of one file is shown, and below which heading."""
POINTS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["entry-points"]


def forget() -> None:
    for cached in (
        registry._list_points,
        registry._points,
        registry.load_benchmark,
        registry._dimensions_of,
        registry._load_plugin_dimensions,
    ):
        cached.cache_clear()


@pytest.fixture(params=PAGES)
def package(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The file that a page shows, installed as its `pyproject.toml` says."""
    page = (ROOT / request.param).read_text("utf-8").partition(PAGES[request.param])[2]
    code, said = (re.search(rf"```{kind}\n(.*?)```", page, re.DOTALL) for kind in ("python", "toml"))
    assert code is not None
    assert said is not None
    assert len([line for line in code[1].splitlines() if line.strip()]) <= 30
    # One of ours imports its neighbours.
    text = re.sub(r"from \.\.(\w)", r"from editjudge.\1", code[1])
    text = re.sub(r"from \.(\w)", r"from editjudge.benchmarks.\1", text)
    (tmp_path / "retouching.py").write_text(text)
    info = tmp_path / "retouching-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: retouching\nVersion: 1\n")
    ((group, points),) = tomllib.loads(said[1])["project"]["entry-points"].items()
    lines = (f"{n} = {at.removeprefix('editjudge.benchmarks.')}" for n, at in points.items())
    (info / "entry_points.txt").write_text("\n".join((f"[{group}]", *lines)))
    monkeypatch.syspath_prepend(tmp_path)
    forget()
    yield tmp_path
    forget()
    sys.modules.pop("retouching", None)


def test_a_benchmark_of_one_file_has_its_table(package: Path) -> None:
    lines = [
        {"id": f"{i}", "instruction": "x", "source": "s.png", "mask": "m.png", "task": task}
        for i, task in enumerate(("skin", "skin", "hair"))
    ]
    (package / "items.jsonl").write_text("\n".join(map(json.dumps, lines)))
    (package / "ours").mkdir()
    picture = np.full((20, 20, 3), 90, np.uint8)
    Pil.fromarray(picture).save(package / "s.png")
    Pil.fromarray(np.eye(20, dtype=np.uint8) * 255).save(package / "m.png")
    for number in range(3):
        Pil.fromarray(picture + 10 * number).save(package / "ours" / f"{number}.png")
    given = ["--data", package, "--outputs", f"ours={package / 'ours'}", "--out", package / "run"]
    assert run_verb("run", "retouching", *given, "--json")[0] == 0
    code, said = run_verb("summary", package / "run", "--json")
    assert code == 0
    cells = said["models"]["ours"]
    assert {name: round(cell["value"], 2) for name, cell in cells.items()} == {
        "retouching.skin": 64.07,
        "retouching.hair": 22.11,
    }
    assert "retouching" in registry.load_benchmarks()


def test_what_is_no_benchmark_is_told(package: Path) -> None:
    (package / "retouching.py").write_text("BENCHMARK = 3")
    with pytest.raises(ConfigError, match="benchmark retouching .* is 3; name a Benchmark"):
        registry.load_benchmark("retouching")
    (package / "retouching.py").write_text("1 / 0")
    sys.modules.pop("retouching")
    with pytest.raises(ConfigError, match="cannot be loaded: division by zero"):
        registry.load_benchmark("retouching")
    assert registry.load_benchmark("core").name == "core"


def test_ours_are_entry_points() -> None:
    ours = POINTS[registry.BENCHMARKS]
    assert {name: registry.load_benchmark(name).name for name in ours} == {name: name for name in ours}
    folders = (Path(registry.__file__).parent).glob("*/__init__.py")
    assert {file.parent.name for file in folders} <= ours.keys(), "others are a single file"


def test_a_run_loads_its_own_benchmark_and_the_generic_dimensions() -> None:
    code = (
        "import sys; from editjudge.app.spec import ResolvedSpec, RunSpec\n"
        "for given in (None, ('core.psnr.*',)):\n"
        "    spec = RunSpec(benchmark='core', data='.', outputs={'m': '.'}, dimensions=given)\n"
        "    resolved = ResolvedSpec(spec); resolved.dimensions; resolved.dimensions_by_id\n"
        "loaded = [m for m in sys.modules if m.startswith('editjudge.benchmarks.')]\n"
        "print([n for n in ('gie', 'kris', 'i2i', 'co_edit', 'omni_iie')\n"
        "       if f'editjudge.benchmarks.{n}' in loaded])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]", done.stdout
