"""Names say what they hold: no name is a bare participle (`told`, `asked`, `known`)."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CLIENT, SERVICES = ROOT / "client" / "editjudge", ROOT / "services" / "editjudge_services"
GENERATED = CLIENT / "v1"
IRREGULAR = re.compile(
    "asking|become|begun|being|borne|bound|broken|brought|built|caught|chosen|done|drawn|driven|fed|felt|"
    "forgotten|found|frozen|given|going|gone|got|gotten|grown|heard|held|hidden|hit|judging|keeping|"
    "kept|known|laid|learned|led|lost|made|making|meant|met|paid|said|saying|seen|sent|shown|sold|spent|"
    "spoken|standing|stood|taken|taking|taught|telling|thought|told|torn|understood|waiting|wanted|"
    "won|worn|wound|written"
)
NOUNS = frozenset({"bed", "deed", "embed", "exceed", "feed", "hundred", "need", "red", "seed", "speed"})
"""Words that end as participles do."""
SERIALISED = tomllib.loads(Path(__file__).with_name("serialised_names.toml").read_text("utf-8"))
"""By module, the names that something else than Python holds."""


def is_participle(name: str) -> bool:
    name = name.strip("_")
    name = name.capitalize() if name.isupper() else name
    if not re.fullmatch("[A-Za-z][a-z]+", name) or (name := name.lower()) in NOUNS:
        return False  # several words, in either case, say more
    return bool(IRREGULAR.fullmatch(name) or re.fullmatch("[a-z]{2,}ed", name))


parse = cache(ast.parse)


@cache
def bindings(text: str) -> tuple[tuple[int, str], ...]:
    """Every name that a module binds, with its line."""
    found = []
    for node in ast.walk(parse(text)):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                found.append((node.lineno, name))
            case ast.ClassDef(name=name) | ast.arg(arg=name):
                found.append((node.lineno, name))
            case ast.Name(ctx=ast.Store(), id=name) | ast.Attribute(ctx=ast.Store(), attr=name):
                found.append((node.lineno, name))
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)):
                found.append((node.lineno, name))
            case ast.alias(asname=str(name)):
                found.append((node.lineno, name))
    return tuple(found)


def participles(text: str) -> list[tuple[int, str]]:
    return sorted((line, name) for line, name in bindings(text) if is_participle(name))


def modules() -> Iterator[Path]:
    for package in (CLIENT, SERVICES):
        yield from (p for p in sorted(package.rglob("*.py")) if GENERATED not in p.parents)


def scripts() -> Iterator[Path]:
    """What is run from the tree alone."""
    for files in (ROOT.glob("*.py"), (ROOT / "docs").glob("*.py"), (ROOT / "perf").rglob("*.py")):
        yield from sorted(files)


def test_names_say_what_they_hold() -> None:
    left = [
        f"{module}:{line}: {name}"
        for path in (*modules(), *scripts())
        for module in [re.sub("^(client|services)/", "", path.relative_to(ROOT).as_posix())]
        for line, name in [(1, path.stem), *bindings(path.read_text("utf-8"))]
        if is_participle(name) and name not in SERIALISED.get(module, "").split()
    ]
    assert not left, "a participle alone does not say what it is:\n" + "\n".join(left)


def definitions(text: str) -> list[tuple[int, str]]:
    """Every function, fixture and class that a module defines, with its line."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return [(node.lineno, node.name) for node in ast.walk(parse(text)) if isinstance(node, kinds)]


def test_what_tests_define_says_what_it_does() -> None:
    left = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in sorted((ROOT / "tests").rglob("*.py"))
        for line, name in [(1, path.stem), *definitions(path.read_text("utf-8"))]
        if is_participle(name)
    ]
    assert not left, "a participle alone does not say what it is:\n" + "\n".join(left)


def attributes(node: ast.ClassDef) -> set[str]:
    """The attributes that a class documents."""
    _, _, section = (ast.get_docstring(node) or "").partition("Attributes:\n")
    return set(re.findall(r"^    (\w+):", re.split(r"\n\S", section)[0], re.MULTILINE))


def test_documented_attributes_are_there() -> None:
    """In the class or, where it may inherit them, anywhere."""
    texts = {path: path.read_text("utf-8") for path in modules()}
    every = {name for text in texts.values() for _, name in bindings(text)}
    for path, text in texts.items():
        for node in ast.walk(parse(text)):
            if isinstance(node, ast.ClassDef) and (names := attributes(node)):
                bound = every if node.bases else {name for _, name in bindings(ast.unparse(node))}
                assert names <= bound, f"{path.relative_to(ROOT)}: {node.name}: {names - bound}"


def test_exceptions_are_needed() -> None:
    for module, names in SERIALISED.items():
        (path,) = (p for p in (CLIENT.parent / module, SERVICES.parent / module) if p.is_file())
        found = {name for _, name in participles(path.read_text("utf-8"))}
        assert set(names.split()) == found, module


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("known = 1", "known"),
        ("def f(asked): pass", "asked"),
        ("def told(): pass", "told"),
        ("class Judged: pass", "Judged"),
        ("self._kept = 1", "_kept"),
        ("_SHOWN = 1", "_SHOWN"),
        ("import seen_ids as seen", "seen"),
        ("[each for said in x]", "said"),
        ("class DeadlineExceeded: seed = known_ids = is_known = print(known)", ""),
    ],
)
def test_what_is_counted(text: str, name: str) -> None:
    assert [name for _, name in participles(text)] == ([name] if name else [])
