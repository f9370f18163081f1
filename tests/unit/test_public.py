"""What the package shows: names, declarations, and how light it is to load."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import editjudge
from editjudge.benchmarks.registry import dimensions, select
from editjudge.errors import ConfigError
from editjudge.panel import SERVICES
from editjudge.panel.probes import probe_inputs
from editjudge.scorers.generalist import JUDGE
from editjudge.signature import Signature
from editjudge_services.runtime.repository import config_text, model_repository, specialists

ROOT = Path(editjudge.__file__).parents[2]


def test_every_public_name_loads() -> None:
    assert sorted(editjudge._MODULES) == editjudge.__all__ == sorted(editjudge.__all__)
    for name in editjudge.__all__:
        assert getattr(editjudge, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = editjudge.nonsense


@pytest.mark.parametrize("name", dimensions())
def test_dimensions_are_fully_declared(name: str) -> None:
    dimension = dimensions()[name]
    low, high = dimension.range
    assert low < high
    assert dimension.asks.endswith((")", "?"))
    assert dimension.source
    assert dimension.variant
    assert {role for role in dimension.roles if role != JUDGE} <= set(SERVICES)


def test_every_service_has_a_specialist_a_probe_and_a_model() -> None:
    models = {specialist.name for specialist in specialists()}
    assert models == {name.replace(".", "_") for name in SERVICES}
    assert {folder.name for folder in model_repository().iterdir()} == models
    for name, contract in SERVICES.items():
        given = set(probe_inputs(name.partition(".")[0]))
        assert given == {t.name for t in contract.inputs if not t.optional}


@pytest.mark.parametrize("specialist", specialists(), ids=lambda s: s.name)
def test_config_pbtxt_is_what_the_class_declares(specialist: type) -> None:
    path = model_repository() / specialist.name / "config.pbtxt"  # type: ignore[attr-defined]
    assert path.read_text() == config_text(specialist), "run: make config"


@pytest.mark.parametrize("specialist", specialists(), ids=lambda s: s.name)
def test_model_py_is_three_lines(specialist: type) -> None:
    text = (model_repository() / specialist.name / "1" / "model.py").read_text()  # type: ignore[attr-defined]
    assert len([line for line in text.splitlines() if line]) == 3


def test_globs_select_and_misses_are_explained() -> None:
    assert len(select(["core.psnr.*"])) == 4
    assert select([]) == tuple(dimensions().values())
    with pytest.raises(ConfigError, match=r"did you mean .*core\.psnr\.source\.whole"):
        select(["core.psnr.source.hole"])


def test_signatures_are_text_and_stay_one_line() -> None:
    signature = Signature.of({"a": "x|y", "b": "", "c": "1\n2"})
    assert str(signature) == "a:x/y|c:1 2"
    assert signature | {"a": "z"} == Signature.of({"a": "z", "c": "1 2"})
    assert len(signature.digest) == 12


HEAVY = ("cv2", "grpc", "jinja2", "matplotlib", "numpy", "onnxruntime", "pydantic", "rich", "torch")


def loaded_after(statement: str) -> set[str]:
    code = f"import sys; {statement}; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return {name.partition(".")[0] for name in run.stdout.split()}


def test_help_loads_nothing_heavy() -> None:
    assert loaded_after("import editjudge.cli").isdisjoint(HEAVY)


def test_the_client_needs_no_server_side_package() -> None:
    loaded = loaded_after("from editjudge import Client, score; import editjudge.cli.score")
    assert loaded.isdisjoint({"torch", "onnxruntime", "pytriton", "rapidocr", "editjudge_services"})
    assert loaded.isdisjoint({"matplotlib", "skimage", "scipy"})
