"""Whether the tests would notice: plants faults in the client, one at a time, and runs its tests.

`python -m tests.mutants stats engine/outcomes --count 30 --seed 15`: 30 faults in each, drawn at
random. A fault is one that people make: a comparison turned, a sign, a `not` that is not there, one
too many, two arguments exchanged, a mark that is not passed on. It is planted in a copy of the
client, which the tests find first; the tree is left alone. First the tests of the module run, then
those of its package, up to the first that fails. Survivors are printed. Some change nothing that
can be told; the others want a test.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from itertools import accumulate
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[1]
CLIENT = ROOT / "client" / "editjudge"
TESTS = ROOT / "tests" / "unit"
SECONDS = 600
"""A run of tests that takes longer hangs: its fault is found."""
ALIVE, CAUGHT, NO_TESTS = 0, 1, 5  # exit codes of pytest
LIBRARIES = "numpy", "scipy.stats", "pydantic", "rich.console", "PIL.Image", "click.testing"

COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
COMPUTED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Div,
    ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip
NAMES = {"min": "max", "max": "min", "any": "all", "all": "any", "first": "second", "low": "high"}


class Fault(NamedTuple):
    """A fault in one place: the new text for the bytes from `begin` to `end` of a file."""

    path: Path
    begin: int
    end: int
    text: str

    @property
    def description(self) -> str:
        source = self.path.read_bytes()
        line = source[: self.begin].count(b"\n") + 1
        place = f"{self.path.relative_to(CLIENT)}:{line}"
        before = " ".join(source[self.begin : self.end].decode().split())
        return f"{place}: {before} -> {self.text}"

    def plant(self, copied_client: Path) -> None:
        source = self.path.read_bytes()
        new_source = source[: self.begin] + self.text.encode() + source[self.end :]
        (copied_client / self.path.relative_to(CLIENT)).write_bytes(new_source)


def mutate(node: ast.AST) -> Iterator[ast.AST]:  # noqa: C901 - a line for each kind
    """Yield what a person might have written by mistake in the place of a node."""
    match node:
        case ast.Compare(ops=[op]) if type(op) in COMPARED:
            yield ast.Compare(node.left, [COMPARED[type(op)]()], node.comparators)
        case ast.BinOp(op=op) if type(op) in COMPUTED:
            yield ast.BinOp(node.left, COMPUTED[type(op)](), node.right)
        case ast.BoolOp(op=op, values=values):
            yield ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values)
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
            yield operand
        case ast.IfExp(test=test, body=body, orelse=other):
            yield ast.IfExp(test, other, body)
        case ast.Constant(value=bool() as value):
            yield ast.Constant(not value)
        case ast.Constant(value=int() | float() as value):
            yield ast.Constant(value + 1)
        case ast.Name(id=name) if name in NAMES:
            yield ast.Name(NAMES[name])
        case ast.Return(value=ast.expr()):
            yield ast.Return(ast.Constant(None))
        case ast.Call(args=args, keywords=keywords):
            if len(args) > 1 and not any(isinstance(arg, ast.Starred) for arg in args[:2]):
                yield ast.Call(node.func, [args[1], args[0], *args[2:]], keywords)
            for place in range(len(keywords)):
                yield ast.Call(node.func, args, keywords[:place] + keywords[place + 1 :])
        case ast.If(test=test) if not isinstance(test, ast.Compare | ast.BoolOp | ast.UnaryOp):
            yield ast.UnaryOp(ast.Not(), test)


def walk(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes that a test can notice: no annotations and no messages."""
    yield node
    for name, value in ast.iter_fields(node):
        if name in {"annotation", "returns", "decorator_list", "bases"}:
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not isinstance(child, ast.JoinedStr | ast.Raise):
                yield from walk(child)


def find_faults(path: Path) -> Iterator[Fault]:
    """Yield every fault that can be planted in a file."""
    source = path.read_bytes()
    lines = [0, *accumulate(map(len, source.splitlines(keepends=True)))]
    for node in walk(ast.parse(source)):
        for changed in mutate(node):
            whole = node.test if isinstance(node, ast.If) else node
            text = ast.unparse(changed)
            begin = lines[whole.lineno - 1] + whole.col_offset
            end = lines[whole.end_lineno - 1] + whole.end_col_offset
            simple = isinstance(changed, ast.Return | ast.Constant | ast.Name | ast.Call)
            yield Fault(path, begin, end, text if simple else f"({text})")


def run_tests(client: Path, target: Path) -> int:
    """Run tests with this copy of the client up to the first failure; return pytest's exit code."""
    # A fork has the libraries already, and of editjudge nothing.
    process = get_context("fork").Process(target=_run_pytest, args=(client, target))
    process.start()
    process.join(SECONDS)
    process.kill()
    process.join()
    return CAUGHT if process.exitcode is None else process.exitcode


def _run_pytest(client: Path, target: Path) -> None:
    quiet = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(quiet, stream)
    sys.dont_write_bytecode = True
    sys.path.insert(0, str(client.parent))
    os.environ |= {"PYTHONPATH": str(client.parent), "PYTHONDONTWRITEBYTECODE": "1"}
    os._exit(pytest.main(["-x", "-q", "-p", "no:cacheprovider", str(target)]))


def is_caught(fault: Fault, client: Path, *, near: bool) -> bool:
    """Plant a fault, run its tests, and take it out again."""
    package = TESTS / fault.path.parent.relative_to(CLIENT)
    targets = [package / f"test_{fault.path.stem}.py", package]
    targets = [target for target in targets if target.exists()]
    for target in targets[:1] if near else targets:
        check_sound(client, target)
        fault.plant(client)
        try:
            if run_tests(client, target) not in {ALIVE, NO_TESTS}:
                return True
        finally:
            shutil.copy2(fault.path, client / fault.path.relative_to(CLIENT))
    return False


@cache
def check_sound(client: Path, target: Path) -> None:
    """Refuse tests that fail without a fault."""
    if run_tests(client, target) not in {ALIVE, NO_TESTS}:
        raise SystemExit(f"{target} fails as it is")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="+", help="packages or modules: stats, engine/outcomes")
    parser.add_argument("--count", type=int, default=20, help="faults for each name")
    parser.add_argument("--seed", type=int, default=15)
    parser.add_argument("--near", action="store_true", help="the module's own tests, if it has any")
    given = parser.parse_args()
    for library in LIBRARIES:
        import_module(library)
    os.chdir(ROOT)
    with tempfile.TemporaryDirectory() as folder:
        client = Path(shutil.copytree(CLIENT, Path(folder) / "editjudge"))
        for name in given.names:
            paths = sorted([*CLIENT.glob(f"{name}.py"), *CLIENT.glob(f"{name}/*.py")])
            faults = [fault for path in paths for fault in find_faults(path)]
            chosen = random.Random(given.seed).sample(faults, min(given.count, len(faults)))
            alive = [one.description for one in chosen if not is_caught(one, client, near=given.near)]
            share = f"{len(chosen) - len(alive)} of {len(chosen)} caught"
            lines = [f"{name}: {share}", *alive]
            sys.stdout.write("\n  ".join(lines) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
