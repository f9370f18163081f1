"""The workflow of a release, by its schema and by zizmor, and the script that it runs."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from ..images.dockerfile import FOLDER, ROOT
from .chart import TOOLS, run_tool

FILE = ROOT / ".github" / "workflows" / "release.yaml"
SCRIPT = ROOT / ".ci" / "release"


def find_faults(file: Path) -> list[str]:
    """What the schema and zizmor say against a workflow."""
    (schema,) = TOOLS.glob("lib/python3*/site-packages/check_jsonschema/**/github-workflows.json")
    known = jsonschema.Draft7Validator(json.loads(schema.read_text()))
    told = [error.message for error in known.iter_errors(yaml.safe_load(file.read_text()))]
    found = run_tool("zizmor", "--offline", "--quiet", "--format=json", file)
    return [*told, *(finding["ident"] for finding in json.loads(found.stdout))]


def test_the_workflow_is_right() -> None:
    assert find_faults(FILE) == []


@pytest.mark.parametrize(
    ("right", "wrong", "told"),
    [
        (r"@[0-9a-f]{40} # v4.2.2", "@v4", "unpinned-uses"),
        ("timeout-minutes", "timeout-hours", "timeout-hours"),
        (r"\.ci/release notes >", ".ci/release ${{ github.head_ref }} >", "template-injection"),
        (r"\{persist-credentials: false\}", "{fetch-depth: 0}", "artipacked"),
    ],
)
def test_mistakes_in_it_are_found(right: str, wrong: str, told: str, tmp_path: Path) -> None:
    file = tmp_path / "release.yaml"
    text = re.sub(right, wrong, FILE.read_text())
    assert text != FILE.read_text()
    file.write_text(text)
    assert any(told in one for one in find_faults(file))


def test_it_makes_every_image_that_has_a_lock() -> None:
    workflow: Any = yaml.safe_load(FILE.read_text())
    locked = set(tomllib.loads((FOLDER / "images.toml").read_text())) - {"build", "vllm"}
    assert set(workflow["jobs"]["image"]["strategy"]["matrix"]["name"]) == locked
    loops = re.findall(r"for (?:name|variant) in ([\w -]+);", SCRIPT.read_text())
    images, variants = (each.split() for each in loops)
    assert {*images, *(f"triton-{each}" for each in variants)} == locked


@pytest.mark.parametrize(("tag", "told"), [("v9.9.9", "pyproject.toml says"), ("", "CHANGELOG.md has no section")])
def test_a_release_without_its_version_or_its_notes_ends(tag: str, told: str, tmp_path: Path) -> None:
    """In a copy without the section of any version."""
    for name in ("pyproject.toml", ".ci/release"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    (tmp_path / "CHANGELOG.md").write_text("## [Unreleased]\n\nmore\n")
    env = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "GITHUB_REF_NAME": tag}
    command = ["bash", tmp_path / ".ci" / "release", "notes"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert told in done.stderr
