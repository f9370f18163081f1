"""The images' Dockerfiles and locks: by hadolint, and by rules of ours."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from ..images.dockerfile import (
    FOLDER,
    LOCKS,
    ROOT,
    TABLE,
    Stage,
    dockerfiles,
    lock_of,
    read,
    read_locks,
    read_whole_lock,
)
from .chart import run_tool

PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
TRITON = [name for name in TABLE if name.startswith("triton-")]


def list_requirements(extras: list[str]) -> Iterator[Requirement]:
    """What the package asks for with these extras, and with those that they name."""
    lines = [*PROJECT["dependencies"]]
    for extra in extras:
        lines += PROJECT["optional-dependencies"][extra]
    for line in lines:
        requirement = Requirement(line)
        if requirement.name == "editjudge":
            yield from list_requirements(sorted(requirement.extras))
        elif requirement.marker is None or requirement.marker.evaluate({"sys_platform": "linux"}):
            yield requirement


def list_packages(name: str) -> list[Requirement]:
    about = TABLE[name]
    own = list(list_requirements(about["extras"])) if "extras" in about else []
    return own + [Requirement(r) for r in (*about.get("packages", ()), *about.get("alone", ()))]


@pytest.mark.parametrize("name", TABLE)
def test_a_lock_holds_what_the_package_asks_for(name: str) -> None:
    versions = read_whole_lock(name)
    for requirement in list_packages(name):
        there = versions.get(canonicalize_name(requirement.name), "")
        assert there, f"{name}: no {requirement.name}: make locks NAMES={name}"
        assert requirement.specifier.contains(there), f"{name}: {requirement} and {there}"


@pytest.mark.parametrize("name", sorted(TABLE.keys() - {"build", "vllm"}))
def test_images_have_the_versions_that_the_suite_passed_with(name: str) -> None:
    passed = dict(
        line.split("==")
        for file in ("constraints.txt", "tests/parity/newest.txt")
        for line in (ROOT / file).read_text().splitlines()
        if "==" in line and (file == "constraints.txt" or line.startswith("numpy=="))
    )
    passed = {canonicalize_name(package): version for package, version in passed.items()}
    versions = read_whole_lock(name)
    of_cpu = {p: v.removesuffix("+cpu") for p, v in versions.items()}
    assert {p: v for p, v in of_cpu.items() if passed.get(p, v) != v} == {}
    assert versions["numpy"].startswith("2.")


def test_every_lock_is_somebodys() -> None:
    assert {lock_of(file) for file in LOCKS.iterdir()} == TABLE.keys()


def test_an_image_has_only_what_it_needs() -> None:
    for name in TRITON:
        versions = read_whole_lock(name)
        assert versions.keys().isdisjoint({"nvidia-pytriton", "scikit-image", "matplotlib", "onnx"})
        assert len({"onnxruntime", "onnxruntime-gpu"} & versions.keys()) == 1
        assert ("torch" in versions) == ("torch" in name)
        assert ("onnxruntime-gpu" in versions) == TABLE[name].get("cuda", True)
    assert read_whole_lock("judge").keys().isdisjoint({"torch", "onnxruntime", "rapidocr", "huggingface-hub"})
    assert {"torch", "lpips", "huggingface-hub"} <= read_whole_lock("fetch").keys()
    assert "torchvision" not in read_whole_lock("fetch")


def test_what_brings_cuda_is_a_layer_of_its_own() -> None:
    for file in LOCKS.glob("*.txt"):
        names = read_locks(file.name)
        of_cuda = {n for n in names if re.match(r"nvidia|cuda|torch$|triton$|onnxruntime-gpu", n)}
        if ".cpu." in file.name:
            assert of_cuda == {"torch"}
            assert "+cpu" in names["torch"]
        else:
            assert bool(of_cuda) is (".cuda." in file.name)


@pytest.mark.parametrize("name", [n for n in TABLE if not TABLE[n].get("cuda", True)])
def test_what_computes_on_a_cpu_brings_no_cuda(name: str) -> None:
    assert not list(LOCKS.glob(f"{name}.cuda.txt"))


@pytest.mark.parametrize("file", dockerfiles(), ids=lambda file: file.stem)
def test_hadolint_has_nothing_to_say(file: Path) -> None:
    done = run_tool("hadolint", "--config", FOLDER / "hadolint.yaml", file)
    assert (done.returncode, done.stdout) == (0, ""), done.stdout


def find_faults(before: list[tuple[str, str]], stages: list[Stage]) -> list[str]:
    """What our rules say against a Dockerfile."""
    last = stages[-1]
    told = [f"{base} is not by digest" for s in stages if (base := s.base.split(" AS ")[0]) != BASE]
    told += [f"{rest} has a default" for name, rest in before if name == "ARG" and "=" in rest]
    told += [] if last.of("USER") == ["10001:10001"] else ["another user than 10001"]
    installs = [rest for stage in stages for rest in stage.of("RUN") if "pip" in rest]
    for each in (part for rest in installs for part in re.split(r"&&|;", rest) if "install" in part):
        if not ("--no-index" in each or ("--require-hashes" in each and "--no-deps" in each)):
            told.append(f"not from a lock: {each.strip()}")
    told += ["the last stage runs something"] if last.of("RUN") else []
    copies = last.of("COPY") + last.of("ADD")
    told += [f"copied: {rest}" for rest in copies if not rest.startswith("--from=build /opt/edit")]
    labels = " ".join(last.of("LABEL"))
    version = f'image.version="{PROJECT["version"]}"'
    needed = ("image.revision=", "image.licenses=", "image.base.digest=", "editjudge.sbom=")
    told += [f"no label {label}" for label in (version, *needed) if label not in labels]
    sbom = "-o /opt/editjudge/sbom.json"
    told += [] if any(sbom in rest for rest in stages[0].of("RUN")) else ["no list of its parts"]
    return told


BASE = "${BASE}@${DIGEST}"


@pytest.mark.parametrize("file", dockerfiles(), ids=lambda file: file.stem)
def test_dockerfiles_keep_our_rules(file: Path) -> None:
    assert find_faults(*read(file)) == []


@pytest.mark.parametrize(
    ("right", "wrong", "told"),
    [
        ("FROM ${BASE}@${DIGEST}\n", "FROM ${BASE}\n", "not by digest"),
        ("ARG DIGEST\n", "ARG DIGEST=sha256:0\n", "has a default"),
        ("USER 10001:10001", "USER root", "another user"),
        (" --require-hashes -r locks/judge", " -r locks/judge", "not from a lock"),
        ("COPY --from=build /opt/editjudge", "COPY weights", "copied: weights"),
        ("0.2.0", "0.1.0", "no label"),
        ("-o /opt/editjudge/sbom.json", "", "no list of its parts"),
    ],
)
def test_each_rule_finds_its_mistake(tmp_path: Path, right: str, wrong: str, told: str) -> None:
    text = (FOLDER / "judge.Dockerfile").read_text()
    assert right in text
    (tmp_path / "Dockerfile").write_text(text.replace(right, wrong))
    assert told in "; ".join(find_faults(*read(tmp_path / "Dockerfile")))


def test_nothing_of_a_checkout_but_the_package_goes_into_a_build() -> None:
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    assert lines[1] == "*"
    kept = {line[1:] for line in lines if line.startswith("!")}
    assert all((ROOT / name).exists() for name in kept)
    assert kept.isdisjoint({"tests", "out", ".git", "k8s", "editjudge.toml"})
