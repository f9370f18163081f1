"""Names say what they hold: the four that hold anything are for comprehensions alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SAY_NOTHING = frozenset({"one", "found", "given", "wanted"})
SERIALISED = frozenset(
    {
        ("app/catalogue.py", "found"),
        ("prompts/__init__.py", "given"),
        ("scorers/region_similarity.py", "found"),
    }
)
"""Fields that JSON, digests and signatures hold under a name that says nothing."""
CLIENT, SERVICES = ROOT / "client" / "editjudge", ROOT / "services" / "editjudge_services"


def packages() -> Iterator[Path]:
    yield from (path for path in sorted(CLIENT.iterdir()) if (path / "__init__.py").is_file())
    yield SERVICES


class Bindings(ast.NodeVisitor):
    """The names that say nothing and are bound outside comprehensions, with their lines."""

    def __init__(self) -> None:
        self.bound: list[tuple[int, str]] = []

    def visit_comprehension(self, node: ast.comprehension) -> None:
        """What it binds is seen at a glance."""
        for part in (node.iter, *node.ifs):
            self.visit(part)

    def visit_arg(self, node: ast.arg) -> None:
        self._bound(node.lineno, node.arg)

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Store):
            self._bound(node.lineno, node.id)

    def _bound(self, line: int, name: str) -> None:
        if name in SAY_NOTHING:
            self.bound.append((line, name))


def bound(text: str) -> list[tuple[int, str]]:
    bindings = Bindings()
    bindings.visit(ast.parse(text))
    return sorted(bindings.bound)


@pytest.mark.parametrize("package", list(packages()), ids=lambda path: path.name)
def test_names_say_what_they_hold(package: Path) -> None:
    left = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in sorted(package.rglob("*.py"))
        for line, name in bound(path.read_text())
        if (str(path.relative_to(package.parent)), name) not in SERIALISED
    ]
    assert not left, "for comprehensions alone, say here what it is:\n" + "\n".join(left)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("one = 1", ["one"]),
        ("def f(given): pass", ["given"]),
        ("lambda wanted: 0", ["wanted"]),
        ("for one, other in x: pass", ["one"]),
        ("if found := f(): pass", ["found"]),
        ("[one for one in x if one]", []),
        ("[other for other in x if (found := f(other))]", ["found"]),
        ("one.found = given(wanted=1)", []),
    ],
)
def test_what_is_counted(text: str, names: list[str]) -> None:
    assert [name for _, name in bound(text)] == names
