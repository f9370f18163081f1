"""Names say what they hold: no name is a bare participle (`told`, `asked`, `known`)."""

from __future__ import annotations

import ast
import re
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
NOUNS = frozenset({"bed", "embed", "exceed", "feed", "hundred", "need", "red", "seed", "speed"})
"""Words that end as participles do."""
SERIALISED = {
    # Fields of what commands print as JSON and clients write to stored runs: docs/python.md,
    # docs/runs.md, tests/unit/app/schema.json.
    "editjudge/app/canary.py": "allowed asked changed",
    "editjudge/app/comparison.py": "untrained",
    "editjudge/app/estimate.py": "known",
    "editjudge/app/rescoring.py": "changed kept",
    "editjudge/app/results.py": "published unserved untrained",
    "editjudge/base/verdict.py": "imputed",
    "editjudge/benchmarks/cell.py": "asked capped imputed scored",
    "editjudge/canary/comparison.py": "allowed changed",
    "editjudge/cli/services.py": "unserved",
    "editjudge/engine/events.py": "done ended judged unscored waiting",
    "editjudge/engine/progress.py": "failed scored unscored",
    "editjudge/engine/run_header.py": "created",
    "editjudge/engine/score_report.py": "edited imputed untrained",
    "editjudge/prepare/preparation.py": "failed scored",
    "editjudge/prepare/review.py": "accepted rejected seen undecided untouched",
    "editjudge_services/gateway/schemas.py": "edited priced served untrained",
    # Fields of files and databases that outlive a process: the stack's state, a preparation's
    # record, the Judge service's usage, records of weights.
    "editjudge/base/local_stack.py": "started unloaded",
    "editjudge/prepare/folder.py": "named",
    "editjudge_services/gateway/usage.py": "cached failed refused",
    "editjudge_services/zoo/artefact.py": "untrained",
    "editjudge_services/zoo/checkpoint.py": "accepted untrained",
    # Keys of TOML and YAML that people write: settings, templates, the manifest, the chart.
    "editjudge/base/config.py": "cached",
    "editjudge/prompts/__init__.py": "edited given made",
    "editjudge_services/front/values.py": "uncounted",
    "editjudge_services/zoo/manifest.py": "gated restricted",
    # Switches, fields of scorers and of answers, formulas and implementations in signatures.
    "editjudge/answers/segmentation.py": "indexed",
    "editjudge/benchmarks/co_edit/dimensions.py": "clipped inverted shifted",
    "editjudge/benchmarks/co_edit/specialists.py": "framed pooled",
    "editjudge/benchmarks/fusion.py": "Capped Gated",
    "editjudge/benchmarks/gie/switches.py": "uncalibrated",
    "editjudge/benchmarks/i2i/switches.py": "unnormalised",
    "editjudge/scorers/pixels.py": "aligned",
    "editjudge/scorers/region_similarity.py": "found inverted",
    "editjudge/scorers/regions.py": "fitted squashed",
    "editjudge/scorers/square_images.py": "squared",
    # Options of commands and arguments of the public functions.
    "editjudge/base/item.py": "edited",
    "editjudge/cli/plot.py": "published",
    "editjudge/cli/report.py": "published",
    "editjudge/cli/results.py": "published unserved",
    "editjudge_services/cli/models.py": "untrained",
}
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


def test_names_say_what_they_hold() -> None:
    left = [
        f"{module}:{line}: {name}"
        for path in modules()
        for module in [path.relative_to(ROOT).as_posix().split("/", 1)[1]]
        for line, name in [(1, path.stem), *bindings(path.read_text("utf-8"))]
        if is_participle(name) and name not in SERIALISED.get(module, "").split()
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
