"""Our implementations give the numbers that are kept; `make parity` asks other versions too."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib.metadata import requires
from pathlib import Path

import pytest

from editjudge.base.signature import implementation, name_implementation
from editjudge.benchmarks.registry import load_benchmarks
from editjudge.pixels.ssim import ssim

from ..parity.numbers import COMPUTED, compute_numbers, differences, load_numbers

ROOT = Path(__file__).parents[2]
MEASURED = ("numpy", "opencv-python-headless", "pillow", "rapidfuzz")


def pins(file: str) -> dict[str, tuple[int, ...]]:
    """Versions by package."""
    text = (ROOT / file).read_text(encoding="utf-8").lower()
    pairs = re.findall(r"^([\w-]+)==([\d.]+)$", text, re.MULTILINE)
    return {name: _version(of) for name, of in pairs}


def _version(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(".")))


def test_what_other_versions_are_asked_with_is_all_that_is_imported() -> None:
    """`make parity` installs nothing else."""
    code = (
        "import sys, tests.parity.numbers\n"
        "from importlib.metadata import packages_distributions as of\n"
        "of = of()\n"
        "loaded = {name.partition('.')[0] for name in sys.modules}\n"
        "print(*{where.lower() for name in loaded for where in of.get(name, ())})"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    there, waiting = set[str](), {"pip", "setuptools"}
    for file in ("oldest", "newest"):
        text = (ROOT / "tests" / "parity" / f"{file}.txt").read_text(encoding="utf-8")
        waiting |= set(re.findall(r"^[\w-]+", text, re.MULTILINE))
    while waiting:
        there.add(name := waiting.pop().lower().replace("_", "-"))
        needs = (requires(name) if name not in {"pip", "setuptools"} else None) or ()
        plain = {re.split(r"[^\w-]", each)[0] for each in needs if "extra ==" not in each}
        waiting |= {each.lower().replace("_", "-") for each in plain} - there
    ours = {"editjudge"}
    assert {name.replace("_", "-") for name in ran.stdout.split()} - there - ours == set()


def test_numbers_are_as_kept() -> None:
    moved = [*differences(load_numbers(), compute_numbers())]
    assert not moved, "\n".join(moved)


def test_every_implementation_that_a_signature_names_is_measured() -> None:
    protocols = ((b, switches) for b in load_benchmarks().values() for switches in b.protocols.values())
    dimensions = [d for b, switches in protocols for d in b.make_dimensions(switches)]
    readings = {reading for d in dimensions for reading in d.readings}
    named = {of for one in readings for of in one.scorer.dependencies(one.field)}
    without = sorted(of.__name__ for of in named - COMPUTED.keys())
    assert not without, f"add to COMPUTED of tests/parity/numbers.py: {without}"


def test_a_number_that_moves_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    there = {name_implementation(ssim): {"edited": 0.5, "equal": 1.0}}
    due = {name_implementation(ssim): {"edited": 0.5 + 1e-10, "equal": 1.0}}
    assert not [*differences(due, there)]
    there[name_implementation(ssim)]["edited"] = 0.6
    moved = "edited is 0.6, due is 0.5000000001; raise its number if that is meant"
    assert [*differences(due, there)] == [f"{name_implementation(ssim)}: {moved}"]
    monkeypatch.setattr(ssim, "implementation", 99)
    there = {name_implementation(ssim): {"edited": 0.6}}
    assert next(differences(due, there)).startswith("ssim.99: has no numbers yet")


def test_a_version_is_named_where_it_moves_numbers() -> None:
    @implementation(3, moved_by="numpy")
    def measure() -> None: ...

    assert re.fullmatch(r"measure\.3\(numpy \d+\)", name_implementation(measure))


def test_the_oldest_versions_are_those_that_are_allowed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    ours = [*project["dependencies"], *project["optional-dependencies"]["pixels"]]
    bounds = dict(one.split(">=") for one in ours if ">=" in one)
    oldest, newest = pins("tests/parity/oldest.txt"), pins("tests/parity/newest.txt")
    used = pins("constraints.txt")
    for name in MEASURED:
        bound = _version(bounds[name])
        assert oldest[name][: len(bound)] == bound, f"{name} in oldest.txt"
        assert oldest[name] <= used[name] <= newest[name], f"{name} in newest.txt"
