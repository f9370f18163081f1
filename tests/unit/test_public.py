"""What the package shows: names, declarations, and how light it is to load."""

from __future__ import annotations

import ast
import inspect
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from generate import stale

import editjudge
from editjudge.base.errors import ConfigError
from editjudge.base.identity import FINGERPRINT
from editjudge.base.images import decode
from editjudge.base.probes import TOLERANCE, fingerprint, probe_inputs
from editjudge.base.signature import Signature
from editjudge.benchmarks.registry import load_dimensions, select_dimensions
from editjudge.panel import SPECIALISTS
from editjudge.scorers.judge_scorer import JUDGE
from editjudge_services.runtime.repository import find_model_repository, find_specialists
from editjudge_services.runtime.specialist import Request, Specialist

ROOT = Path(editjudge.__file__).parents[2]


def test_every_public_name_loads() -> None:
    assert dir(editjudge) == editjudge.__all__
    for name in editjudge.__all__:
        assert getattr(editjudge, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = editjudge.nonsense


def test_type_checkers_see_the_names_that_the_interpreter_finds() -> None:
    tree = ast.parse(Path(editjudge.__file__).with_suffix(".pyi").read_text("utf-8"))
    static = {
        (alias.name, alias.asname, f"editjudge.{node.module}")
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.level
        for alias in node.names
    }
    found = editjudge._MODULES.items()
    assert static == {(name, name, f"editjudge{module}") for name, module in found}
    assert len(static) <= 25


INNER = """
Cell FinishEvent Item JudgeRounds ModelIdentity PictureFinder Pictures ResolvedSpec Row
Rules RunHeader RunInputs RunOptions RunStore ServiceName StoredEdit StoredPrompt StoredVerdict"""
"""Types that are only passed on, or read by their fields."""


@pytest.mark.parametrize("name", ["RunResult", "RunSpec", "RunView", "run", "run_async"])
def test_what_runs_take_and_give_has_a_public_name(name: str) -> None:
    public = getattr(editjudge, name)
    members = [public] if callable(public) and not isinstance(public, type) else []
    if isinstance(public, type):
        shown = (of for key, of in vars(public).items() if not key.startswith(("_", "model_")))
        members = [public, *filter(inspect.isfunction, map(unwrap, shown))]
    hints = [hint for member in members for hint in typing.get_type_hints(member).values()]
    named = {t.__name__ for hint in hints for t in ours(hint)}
    assert named <= {*editjudge.__all__, *INNER.split()}


def unwrap(member: Any) -> Any:
    """The function of a class method, a property or a cached property."""
    for inside in ("__func__", "fget", "func"):
        member = getattr(member, inside, member)
    return member


def ours(hint: Any) -> Iterator[type]:
    if isinstance(hint, type) and hint.__module__.startswith("editjudge."):
        yield hint
    for part in typing.get_args(hint):
        yield from ours(part)


@pytest.mark.parametrize("name", load_dimensions())
def test_dimensions_are_fully_declared(name: str) -> None:
    dimension = load_dimensions()[name]
    low, high = dimension.range
    assert low < high
    assert dimension.asks.endswith((")", "?"))
    assert all((dimension.source, dimension.variant))
    assert {role for role in dimension.roles if role != JUDGE} <= set(SPECIALISTS)


def test_every_service_has_a_specialist_and_a_probe() -> None:
    served = {kind.name.replace("_", ".", 1) for kind in find_specialists()}
    unknown = sorted(served - set(SPECIALISTS))
    assert not unknown, f"name {unknown} in SPECIALISTS, client/editjudge/panel/specialists.toml"
    without = sorted(set(SPECIALISTS) - served)
    assert not without, f"no class in services/editjudge_services/*/*_service.py is {without}"
    for name, contract in SPECIALISTS.items():
        needed = {t.name for t in contract.inputs if not t.optional}
        given = set(probe_inputs(name.role))
        assert given == needed, f"{name.role}: probe_inputs of client/editjudge/base/probes.py"


def test_the_model_repository_is_what_the_classes_declare() -> None:
    repository = find_model_repository()
    ours = [path for path in stale() if path.is_relative_to(repository)]
    differing = [path.relative_to(repository).as_posix() for path in ours]
    assert not differing, f"run make config: {differing} of model_repo/ are not as declared"
    known = {kind.name for kind in find_specialists()}
    left = sorted({folder.name for folder in find_model_repository().iterdir()} - known)
    assert not left, f"take {left} out of model_repo/: no specialist has that name"


WEIGHTLESS = [kind for kind in find_specialists() if kind.identity.get("weights") == "none"]


@pytest.mark.parametrize("specialist", WEIGHTLESS, ids=lambda kind: kind.name)
def test_without_weights_the_class_declares_its_known_answer(specialist: type[Specialist]) -> None:
    """Where none is known, `doctor` cannot tell that a service is wrong."""
    role = specialist.contract.role
    tensors = {name: decode(image)[0] for name, image in probe_inputs(role).items()}
    made = specialist()
    made.load(specialist.identity)
    (reply,) = made.infer([Request(tensors)])
    said = fingerprint(role, reply)  # type: ignore[arg-type]
    declared = [float(one) for one in specialist.identity.get(FINGERPRINT, "").split(",") if one]
    assert declared == pytest.approx(said, abs=TOLERANCE), (
        f"{specialist.__name__}: its identity needs fingerprint={','.join(map(str, said))!r}, what"
        " it says to the probe of its role (client/editjudge/base/probes.py)"
    )


def test_globs_select_and_misses_are_explained() -> None:
    assert len(select_dimensions(["core.psnr.*"])) == 4
    assert select_dimensions([]) == tuple(load_dimensions().values())
    with pytest.raises(ConfigError, match=r"did you mean .*core\.psnr\.source\.whole"):
        select_dimensions(["core.psnr.source.hole"])


def test_signatures_are_text_and_stay_one_line() -> None:
    signature = Signature.of({"a": "x|y", "b": "", "c": "1\n2"})
    assert str(signature) == "a:x/y|c:1 2"
    assert signature | {"a": "z"} == Signature.of({"a": "z", "c": "1 2"})
    assert len(signature.digest) == 12
