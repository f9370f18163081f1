"""Shared by all tests: pictures, and the option that lets the browser tests run."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from PIL import Image as Pil

from editjudge_services.demo import draw_demo_set
from editjudge_services.demo.edits import DemoEdit

from .patience import IDLE_LIMIT, patience

# How long an example takes says how busy the machine is, and nothing else.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--browser", action="store_true", help="run the tests that need chromium")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--browser"):
        if shutil.which("chromium") is None:
            raise pytest.UsageError("--browser needs chromium: apt-get install chromium")
        return
    in_browser = [item for item in items if item.get_closest_marker("browser")]
    config.hook.pytest_deselected(items=in_browser)
    items[:] = [item for item in items if item.get_closest_marker("browser") is None]


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """A limit for each test, longer where the machine is busy."""
    own = item.get_closest_marker("timeout")
    limit = patience(own.args[0] if own else IDLE_LIMIT)
    item.add_marker(pytest.mark.timeout(limit), append=False)
    return (yield)


@pytest.fixture(scope="session", autouse=True)
def _no_models(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No test sees the user's models."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EDITJUDGE_MODELS_DIR", str(tmp_path_factory.mktemp("no-models")))
        yield


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No test sees the user's settings or local stack."""
    monkeypatch.setenv("EDITJUDGE_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("EDITJUDGE_PROMPTS_DIR", str(tmp_path / "prompts"))
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")


@pytest.fixture
def photo() -> np.ndarray:
    """A textured picture, uint8 (96, 128, 3)."""
    rng = np.random.default_rng(7)
    small = Pil.fromarray(rng.integers(0, 256, (12, 16, 3), dtype=np.uint8))
    return np.asarray(small.resize((128, 96), Pil.Resampling.BICUBIC))


@pytest.fixture
def photo_file(photo: np.ndarray, tmp_path: Path) -> Path:
    path = tmp_path / "photo.png"
    Pil.fromarray(photo).save(path)
    return path


@pytest.fixture(scope="session")
def edits() -> dict[str, DemoEdit]:
    """The demo set by id."""
    return {edit.id: edit for edit in draw_demo_set()}


@pytest.fixture
def bf16_processor() -> None:
    """Leaves a test out, by name, where the processor does not multiply in bf16."""
    import openvino

    if "BF16" not in openvino.Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES"):
        pytest.skip("this processor has no bf16 arithmetic")
