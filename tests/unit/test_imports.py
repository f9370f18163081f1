"""Imports go one way: every package of the house may import those below it and no other."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CLIENT, SERVICES = "editjudge", "editjudge_services"
GATEWAY, COMMANDS, DEMO = (f"{SERVICES}.{each}" for each in ("gateway", "cli", "demo"))

_BASE = frozenset({"base"})
_ANSWERS = _BASE | {"answers"}
_PANEL = _ANSWERS | {"panel"}
_SCORERS = _PANEL | {"prompts", "pixels"}
_BENCHMARKS = _SCORERS | {"scorers"}
_ENGINE = _BENCHMARKS | {"benchmarks"}
_APP = _ENGINE | {"canary", "engine", "gateway", "stats", "storage"}
_REPORT = _APP | {"app"}

MAY_IMPORT: Mapping[str, frozenset[str]] = {
    "base": frozenset(),
    "answers": _BASE,
    "panel": _ANSWERS,
    "prompts": _PANEL,
    "pixels": _BASE,
    "stats": _BASE,
    "scorers": _SCORERS,
    "benchmarks": _BENCHMARKS,
    "engine": _ENGINE,
    "canary": _BASE | {"panel", "prompts", "scorers"},
    # It implements what panel and engine ask for, and knows nothing of what is in between.
    "storage": frozenset({"base", "panel", "engine"}),
    "gateway": _ENGINE | {"engine", "v1"},
    "app": _APP | {"v1"},
    # Only `app` opens what is stored.
    "report": _REPORT - {"storage"},
    "rewards": _REPORT - {"storage"},
    "prepare": (_REPORT | {"report"}) - {"storage"},
    # It runs nothing and stores nothing itself: it asks `app`.
    "cli": (_REPORT | {"report", "prepare", "rewards"}) - {"engine", "storage"},
    "v1": frozenset(),  # generated
    # The modules that lie in no package: the public names, and `python -m editjudge`.
    "__init__": _REPORT,
    "__main__": frozenset({"cli"}),
    # Specialists that are language models are asked over the judges' connection.
    SERVICES: _PANEL | {GATEWAY},
    # Verbs of the one command line: they take its options and write its tables.
    COMMANDS: _BASE | {SERVICES, GATEWAY, DEMO, "app", "cli", "panel", "report", "rewards"},
    DEMO: (_REPORT | {"report"}) - {"storage"},
    # A client as others write them: the public names, and the messages of the proto.
    GATEWAY: _BASE | {SERVICES, "__init__", "gateway", "rewards", "v1"},
}
"""The packages of the client that a package may import beside itself."""

ONE_BENCHMARK = frozenset({("cli.prepare", "gie"), ("prepare.gie", "gie")})
"""The modules above `benchmarks` that name one of them: `prepare gie` converts its data, and has
it decided which of its questions compare."""


SHOWN_BY: Mapping[str, str] = {
    "editjudge.engine.judge": "editjudge.report.numbers.build_verdict_table",
    "editjudge.app.results": "editjudge.report.summary",
}
"""Results that a notebook shows: their methods load the writer of tables when they are called."""


def modules(folder: str, package: str) -> Iterator[tuple[str, Path]]:
    root = ROOT / folder
    for path in sorted((root / package).rglob("*.py")):
        yield ".".join(path.relative_to(root).with_suffix("").parts), path


@cache
def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


def list_imports(module: str, tree: ast.Module) -> Iterator[str]:
    """The modules that a module names, wherever in it, with the name that it takes of each."""
    package = module.split(".")[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *filter(None, [node.module])])
            yield from (f"{base}.{alias.name}" for alias in node.names)


def house_of(module: str) -> str | None:
    """The row of the table that a module belongs to; None for one that is not ours."""
    root, _, rest = module.partition(".")
    if root == SERVICES:
        return next((each for each in (GATEWAY, COMMANDS, DEMO) if module.startswith(each)), SERVICES)
    if root != CLIENT:
        return None
    first = rest.partition(".")[0]
    return first if first in MAY_IMPORT else "__init__"


def against(module: str, tree: ast.Module) -> Iterator[str]:
    """The imports against the table, each a line that names the two modules."""
    own = house_of(module)
    assert own is not None
    for other in list_imports(module, tree):
        there = house_of(other)
        if other.startswith(SHOWN_BY.get(module, "-")):
            continue
        if there not in {None, own} | MAY_IMPORT[own]:
            yield f"{module} imports {other}"


def test_every_package_is_in_the_table() -> None:
    here = {path.name for path in (ROOT / "client" / CLIENT).iterdir() if path.is_dir()}
    beside = {"__init__", "__main__", SERVICES, GATEWAY, COMMANDS, DEMO}
    assert here - {"__pycache__"} == MAY_IMPORT.keys() - beside


def test_nothing_imports_against_the_table() -> None:
    every = [*modules("client", CLIENT), *modules("services", SERVICES)]
    lines = [line for module, path in every for line in against(module, parse(path))]
    assert not lines, "\n".join(lines)


def test_nothing_above_the_benchmarks_knows_one_of_them() -> None:
    packages = {path.parent.name for path in (ROOT / "client").rglob("benchmarks/*/__init__.py")}
    assert len(packages) > 5
    named = {
        (module.partition(".")[2], name)
        for module, path in modules("client", CLIENT)
        if house_of(module) != "benchmarks"
        for other in list_imports(module, parse(path))
        for name in packages & set(other.split(".")[2:3])
        if other.startswith(f"{CLIENT}.benchmarks.")
    }
    assert named == ONE_BENCHMARK


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("editjudge.panel.triton", "from ..app.client import Client"),
        ("editjudge.panel.triton", "def f():\n    from .. import app"),
        ("editjudge.base.images", "if TYPE_CHECKING:\n    from ..panel import Panel"),
        ("editjudge.cli.runs", "import editjudge_services.runtime.triton_server as server"),
        ("editjudge.app.client", "import editjudge.cli"),
        ("editjudge.base.images", "from editjudge import Panel"),
        ("editjudge.storage.store", "from ..scorers.scorer import Scorer"),
        ("editjudge_services.zoo.pull", "from editjudge.report.table import console"),
    ],
)
def test_lazy_and_typing_imports_count(module: str, source: str) -> None:
    (line,) = against(module, ast.parse(source))
    assert line.startswith(f"{module} imports editjudge")


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("editjudge.panel.triton", "from ..base.errors import ServiceError"),
        ("editjudge.benchmarks.kris.dataset", "from ..items import Text"),
        ("editjudge.benchmarks.kris.dataset", "from ...base.images import Image"),
        ("editjudge.benchmarks.kris", "import numpy"),
        ("editjudge_services.zoo.pull", "from ..runtime.onnx import Session"),
    ],
)
def test_what_lies_below_may_be_imported(module: str, source: str) -> None:
    assert not list(against(module, ast.parse(source)))
