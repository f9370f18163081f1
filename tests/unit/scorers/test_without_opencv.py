"""A thin client has no OpenCV: pixels are not compared, and one line says what to install."""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image as Pil

from editjudge.base import signature
from editjudge.base.errors import ImageError, MissingExtra
from editjudge.base.images import load_image
from editjudge.base.signature import name_implementation
from editjudge.benchmarks.core.dimensions import DIMENSIONS
from editjudge.engine.judge import explain_unserved
from editjudge.pixels import opencv
from editjudge.pixels.alignment import align
from editjudge.pixels.metrics import mse

ROOT = Path(__file__).parents[3]
FIX = MissingExtra("", "pixels").fix
NOBODY: Any = SimpleNamespace(service_names=frozenset(), why_not=lambda role: "away")


@pytest.fixture
def thin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cv2", None)
    monkeypatch.setattr(opencv, "PathFinder", SimpleNamespace(find_spec=lambda _: None))


@pytest.mark.usefixtures("thin")
def test_dimensions_of_pixels_say_what_to_install() -> None:
    told = explain_unserved(DIMENSIONS, NOBODY)
    here = {name for name, why in told.items() if FIX in why}
    assert {"core.mse.source.whole", "core.ssim.source.outside", "core.aligned_psnr.target.inside"} <= here
    assert all("away" in told[name] for name in told.keys() - here)
    assert "core.mse.source.whole" not in explain_unserved(DIMENSIONS, NOBODY, is_local=False)


def test_with_opencv_they_are_computed() -> None:
    assert "core.mse.source.whole" not in explain_unserved(DIMENSIONS, NOBODY)


def test_it_is_there_while_another_thread_imports_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cv2", ModuleType("cv2"))  # as it is halfway
    assert opencv.missing_opencv() == ""


@pytest.mark.usefixtures("thin")
def test_functions_of_pixels_say_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("editjudge.pixels.metrics.cv2", opencv._OnUse())
    grey = np.zeros((9, 9, 3), np.uint8)
    with pytest.raises(MissingExtra, match=re.escape(FIX)):
        mse(grey, grey)


@pytest.mark.usefixtures("thin")
def test_a_picture_of_16_bits_in_colour_is_refused_by_name(tmp_path: Path) -> None:
    levels = np.zeros((4, 5, 3), ">u2")
    data = b"P6\n5 4\n65535\n" + levels.tobytes()
    with pytest.raises(ImageError, match=r"^deep\.ppm: 16 bits per channel of colour") as told:
        load_image(data, "deep.ppm")
    assert FIX in str(told.value)
    grey = io.BytesIO()
    Pil.fromarray(np.full((4, 5), 65535, np.uint16)).save(grey, "PNG")
    assert load_image(grey.getvalue()).rgb.min() == 255


def test_signatures_are_those_of_who_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    (pinned,) = re.findall(r"^opencv-python-headless==(\d+)", CONSTRAINTS, re.MULTILINE)
    (served,) = re.findall(r"^opencv-python-headless==(\d+)", LOCK, re.MULTILINE)
    assert pinned == served
    monkeypatch.setattr(signature, "package_version", lambda _: signature.ABSENT)
    assert name_implementation(align) == f"align.1(opencv-python-headless {served})"
    monkeypatch.setattr(signature, "package_version", lambda _: "5.1.0")
    assert name_implementation(align) == "align.1(opencv-python-headless 5)"


CONSTRAINTS = (ROOT / "constraints.txt").read_text()
LOCK = (ROOT / "k8s" / "images" / "locks" / "judge.txt").read_text()
