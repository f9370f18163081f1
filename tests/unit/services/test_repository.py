"""The repository that a server loads: what cannot be served costs itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from editjudge.base.errors import ConfigError
from editjudge_services.runtime.repository import materialise
from editjudge_services.zoo.artefact import RECORD


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("EDITJUDGE_MODELS_DIR", str(tmp_path / "models"))
    return tmp_path / "models"


def served(folder: Path) -> list[str]:
    return sorted(one.name for one in folder.iterdir())


def test_a_damaged_record_costs_its_own_model(tmp_path: Path, models: Path) -> None:
    record = models / "lpips-alex" / "fp32" / RECORD
    record.parent.mkdir(parents=True)
    record.write_text("no JSON")
    unusable = materialise(tmp_path / "repo")
    assert served(tmp_path / "repo") == ["ocr_ppocr", "quality_piqe"]
    assert list(unusable) == ["lpips_alex"]
    assert str(record.parent) in unusable["lpips_alex"]


def test_what_is_asked_for_and_not_installed_is_named(tmp_path: Path, models: Path) -> None:
    unusable = materialise(tmp_path / "repo", models=("quality_piqe", "features_dinov2"))
    assert served(tmp_path / "repo") == ["quality_piqe"]
    assert "no weights for fp32" in unusable["features_dinov2"]
    with pytest.raises(ConfigError, match="no model is named quality_pique"):
        materialise(tmp_path / "repo", models=("quality_pique",))
