"""`editjudge front` where something is not there: one line, never a traceback."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import yaml

from editjudge.base.errors import MissingExtra
from editjudge.cli import main

from .test_front_values import WHOLE


@pytest.fixture
def values(tmp_path: Path) -> str:
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump(dict(WHOLE)))
    return str(file)


def line(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[object, str]:
    with pytest.raises(SystemExit) as ended:
        main(["front", *arguments])
    (said,) = capsys.readouterr().err.splitlines()
    return ended.value.code, said


@pytest.mark.parametrize("package", ["yaml", "envoy"])
def test_a_package_that_is_not_installed_is_named_by_its_extra(
    values: str, package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if package == "envoy":  # it is looked for, and not imported
        path = "editjudge_services.front.render.find_spec"
        monkeypatch.setattr(path, lambda _: None)
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.setattr("editjudge_services.front.values.FrontValues.required_files", lambda _: {})
    code, said = line(capsys, "render", values, "--out", str(tmp_path / "out"), "--check")
    assert code == 2
    assert MissingExtra("", "front").fix in said


@pytest.mark.parametrize("where", ["/proc/nowhere", "file/below", "taken"])
def test_a_folder_that_cannot_be_written_is_named(
    values: str, where: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "taken" / "envoy.yaml").mkdir(parents=True)
    out = tmp_path / where
    code, said = line(capsys, "render", values, "--out", str(out))
    assert code == 2
    assert str(out) in said
